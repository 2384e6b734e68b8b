//! The CustomResourceDefinitions and webhooks of well-known projects, against our apiserver and
//! against Kubernetes' own: what is installed, and what becomes of objects made from each schema.
//!
//! The files come from the projects' Go modules. `projects/*.txt` holds what Kubernetes does;
//! `STELE_PROJECTS=go` plays the tests on Kubernetes, and `STELE_PROJECTS=go UPDATE=1` also writes
//! the files. If ours differs from it, the differences are in `projects/*.ours.txt`, which `UPDATE=1`
//! alone writes, so that a review shows each that appears or disappears. Each run leaves all responses in `projects/` of cargo's folder for tests
//! (`target/tmp`), so that two runs can be compared with `diff`.

mod account;
mod fit;
mod pattern;
mod sample;
mod source;
mod trip;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use account::Account;
use serde_json::{Value, json};
use source::{Module, files_with};
use trip::{Resource, Trip, bare};

use crate::foreign::swap::world::World;
use crate::harness::cluster::{Cluster, WITHIN, kubectl_or_skip, told};
use crate::requests::http::Call;

const POLL: Duration = Duration::from_millis(50);
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Where a project keeps what it installs, in its module.
struct Project {
    name: &'static str,
    module: Module,
    /// Folders with files of CustomResourceDefinitions.
    plain: &'static [&'static str],
    /// Folders to build with kustomize, which adds conversion webhooks.
    kustomized: &'static [&'static str],
    /// Files with configurations of webhooks or with policies.
    admission: &'static [&'static str],
}

/// cert-manager's webhooks are templates of its Helm chart, so they cannot be applied as they are.
#[test]
fn cert_manager_installs_and_its_objects_make_the_round_trip() {
    play(&Project {
        name: "cert-manager",
        module: Module {
            path: "github.com/cert-manager/cert-manager",
            version: "v1.21.2",
            sum: "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
        },
        plain: &["deploy/crds"],
        kustomized: &[],
        admission: &[],
    });
}

#[test]
fn argo_cd_installs_and_its_objects_make_the_round_trip() {
    play(&Project {
        name: "argo-cd",
        module: Module {
            path: "github.com/argoproj/argo-cd/v3",
            version: "v3.3.0",
            sum: "h1:9UlruTd5cC/MyvorTXgAIblfZTy63MF5FYvvoAaUvwU=",
        },
        plain: &["manifests/crds"],
        kustomized: &[],
        admission: &[],
    });
}

#[test]
fn crossplane_installs_and_its_objects_make_the_round_trip() {
    play(&Project {
        name: "crossplane",
        module: Module {
            path: "github.com/crossplane/crossplane/v2",
            version: "v2.0.2",
            sum: "h1:OKA26pnm3/uFHN1zF9d2CGkkvod9H/6PrK4xmL81BgU=",
        },
        plain: &["cluster/crds", "cluster/meta"],
        kustomized: &[],
        admission: &["cluster/webhookconfigurations/usage.yaml"],
    });
}

#[test]
fn prometheus_operator_installs_and_its_objects_make_the_round_trip() {
    play(&Project {
        name: "prometheus-operator",
        module: Module {
            path: "github.com/prometheus-operator/prometheus-operator",
            version: "v0.85.0",
            sum: "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
        },
        // With the older and the newer version of AlertmanagerConfig and its conversion webhook.
        plain: &["example/prometheus-operator-crd-full"],
        kustomized: &[],
        admission: &[
            "test/framework/resources/alertmanager-config-validating-webhook.yaml",
            "test/framework/resources/prometheus-operator-mutatingwebhook.yaml",
            "test/framework/resources/prometheus-operator-validatingwebhook.yaml",
        ],
    });
}

#[test]
fn cluster_api_installs_and_its_objects_make_the_round_trip() {
    play(&Project {
        name: "cluster-api",
        module: Module {
            path: "sigs.k8s.io/cluster-api",
            version: "v1.14.2",
            sum: "h1:o3GFNaeNFAOEEMpDPfhCK+2CjmV6gtQ8yLEcUwCg7bA=",
        },
        plain: &["cmd/clusterctl/config/crd/bases"],
        kustomized: &[
            "core/config/crd",
            "bootstrap/kubeadm/config/crd",
            "controlplane/kubeadm/config/crd",
        ],
        admission: &[
            "core/config/webhook/manifests.yaml",
            "bootstrap/kubeadm/config/webhook/manifests.yaml",
            "controlplane/kubeadm/config/webhook/manifests.yaml",
        ],
    });
}

#[test]
fn gateway_api_installs_and_its_objects_make_the_round_trip() {
    play(&Project {
        name: "gateway-api",
        module: Module {
            path: "sigs.k8s.io/gateway-api",
            version: "v1.6.0",
            sum: "h1:735YBRj5NXFrOGX0GoSjwzUIzbz8kiEOfADsqHFmHgE=",
        },
        // The experimental channel has all kinds.
        plain: &["config/crd/experimental"],
        kustomized: &[],
        admission: &["config/crd/experimental/gateway.networking.k8s.io_vap_safeupgrades.yaml"],
    });
}

/// The apiserver under test.
enum Server {
    Ours(Cluster),
    Kubernetes { _world: World, address: String },
}

impl Server {
    fn start(go: bool) -> Server {
        if go {
            let (world, address) = World::apiserver_alone(true);
            Server::Kubernetes {
                _world: world,
                address,
            }
        } else {
            Server::Ours(Cluster::start())
        }
    }

    fn address(&self) -> &str {
        match self {
            Server::Ours(cluster) => &cluster.address,
            Server::Kubernetes { address, .. } => address,
        }
    }

    fn get(&self, path: &str) -> Value {
        Call::new(self.address(), "GET", path).send().object()
    }

    /// Applies files or a folder; returns the objects as the apiserver gave them back.
    fn apply(&self, args: &[&str]) -> Vec<Value> {
        let home = tempfile::tempdir().unwrap();
        let output = Command::new("kubectl")
            .arg(format!("--server=http://{}", self.address()))
            .args(["apply", "--server-side", "-o", "json"])
            .args(args)
            .env("KUBECONFIG", "/dev/null")
            .env("HOME", home.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {}", told(&output));
        let objects = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
        let objects = objects.map(|object: Result<Value, _>| object.unwrap());
        let items = objects.flat_map(|mut object| match object["items"].take() {
            Value::Array(items) => items,
            _ => vec![object],
        });
        items.collect()
    }
}

fn play(project: &Project) {
    if !kubectl_or_skip(project.name) {
        return;
    }
    let Some(folder) = project.module.or_skip(project.name) else {
        return;
    };
    let go = std::env::var("STELE_PROJECTS").is_ok_and(|asked| asked == "go");
    let server = Server::start(go);
    let mut account = Account::default();
    let crds = install(project, &folder, &server, &mut account);
    for crd in &crds {
        for resource in &Resource::of(crd) {
            let trip = Trip {
                address: server.address(),
                resource,
                account: &mut account,
            };
            trip.run();
        }
    }
    // The last, because nobody runs the webhooks.
    for file in project.admission {
        account.begin((*file).to_owned());
        let path = folder.join(file);
        for object in server.apply(&["-f", path.to_str().unwrap()]) {
            account.line(&format!("{}", object["kind"]));
            account.value("applied", &bare(&object));
        }
    }
    compare(project.name, go, &account);
}

fn compare(name: &str, go: bool, account: &Account) {
    let whole = Path::new(env!("CARGO_TARGET_TMPDIR")).join("projects");
    let whole = whole.join(if go { "kubernetes" } else { "ours" });
    std::fs::create_dir_all(&whole).unwrap();
    std::fs::write(whole.join(format!("{name}.txt")), account.whole_text()).unwrap();
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/foreign/projects");
    let path = directory.join(format!("{name}.txt"));
    let update = std::env::var_os("UPDATE").is_some();
    if go && update {
        std::fs::write(&path, account.text()).unwrap();
    }
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let differences = account.differences(&read(&path));
    let path = directory.join(format!("{name}.ours.txt"));
    if !go && update {
        // Fails only if there was none.
        let _ = std::fs::remove_file(&path);
        if !differences.is_empty() {
            std::fs::write(&path, &differences).unwrap();
        }
    }
    let known = if go { String::new() } else { read(&path) };
    let whole = account.shown(&differences);
    assert!(
        differences == known,
        "the differences should be\n{known}\nand are\n{differences}\n{whole}"
    );
}

/// Installs the CustomResourceDefinitions; returns them as stored, when all are served.
fn install(project: &Project, folder: &Path, server: &Server, account: &mut Account) -> Vec<Value> {
    let mut args = Vec::new();
    for plain in project.plain {
        for file in files_with(&folder.join(plain), "CustomResourceDefinition") {
            args.extend(["-f".to_owned(), file.to_str().unwrap().to_owned()]);
        }
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut objects = server.apply(&args);
    for kustomized in project.kustomized {
        objects.extend(server.apply(&["-k", folder.join(kustomized).to_str().unwrap()]));
    }
    let mut names: Vec<&str> = { objects.iter() }
        .filter_map(|object| object["metadata"]["name"].as_str())
        .collect();
    names.sort_unstable();
    let crds = names.into_iter();
    crds.map(|name| established(name, server, account))
        .collect()
}

/// Waits until a CustomResourceDefinition is served; records it.
fn established(name: &str, server: &Server, account: &mut Account) -> Value {
    let path = format!("{CRDS}/{name}");
    let crd = until(name, || {
        let crd = server.get(&path);
        let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
        let held = conditions.filter(|condition| condition["status"] == "True");
        let held: Vec<&Value> = held.map(|condition| &condition["type"]).collect();
        let has = |name: &str| held.iter().any(|held| *held == name);
        assert!(!has("NonStructuralSchema"), "{}", crd["status"]);
        (has("Established") && has("NamesAccepted")).then_some(crd)
    });
    account.begin(name.to_owned());
    account.value("spec", &crd["spec"]);
    account.value("names", &crd["status"]["acceptedNames"]);
    account.value("stored versions", &crd["status"]["storedVersions"]);
    let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    let conditions = conditions.map(|condition| {
        let mut condition = condition.clone();
        condition
            .as_object_mut()
            .unwrap()
            .remove("lastTransitionTime");
        condition.to_string()
    });
    // Several controllers write them, in any order.
    let conditions: BTreeSet<String> = conditions.collect();
    conditions
        .iter()
        .for_each(|condition| account.line(condition));
    if crd["spec"]["conversion"]["strategy"] == "Webhook" {
        // Nobody runs the webhook. Without conversion each version keeps the fields that its schema
        // has.
        let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
        let patch = Call::new(server.address(), "PATCH", &path);
        let patch = patch.body("application/merge-patch+json", none.to_string());
        let patched = patch.send().expect(200);
        account.line(&format!("conversion: {}", patched["spec"]["conversion"]));
    }
    for resource in Resource::of(&crd) {
        let all = resource.path(&resource.version);
        until(&all, || {
            let list = server.get(&all);
            list["items"].is_array().then_some(())
        });
    }
    crd
}

fn until<T>(what: &str, found: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < WITHIN, "waited in vain for {what}");
        sleep(POLL);
    }
}

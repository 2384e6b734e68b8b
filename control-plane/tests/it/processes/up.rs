//! `stele-kube up`, from an empty directory to a deployment that survives a kill.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use etcd_api::etcdserverpb::RangeRequest;

use crate::harness::cluster::{BINARY, WITHIN, kubectl_or_skip, told};

const NAME: &str = "nginx-deployment";
const POLL: Duration = Duration::from_millis(100);

/// A whole cluster in one process; stopped when dropped.
pub(crate) struct Up {
    child: Child,
    /// The address of the store.
    store: String,
    /// The first line that it prints about the next steps.
    greeting: String,
    directory: std::path::PathBuf,
}

impl Up {
    pub(crate) fn start(directory: &Path) -> Up {
        Up::with(directory, &[])
    }

    /// Starts it with additional flags.
    pub(crate) fn with(directory: &Path, flags: &[&str]) -> Up {
        let mut child = Command::new(BINARY)
            .args(["up", "--bind=127.0.0.1:0", "--store-bind=127.0.0.1:0"])
            .arg("--data-dir")
            .arg(directory)
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (found, store) = mpsc::channel();
        let log = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in log.map_while(Result::ok) {
                let address = line.split_once("the store serves addresses=[");
                if let Some((_, address)) = address {
                    let _ = found.send(address.trim_end_matches(']').to_owned());
                }
                eprintln!("up: {line}");
            }
        });
        let (say, greeted) = mpsc::channel();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut line = String::new();
            if out.read_line(&mut line).is_ok_and(|read| read > 0) {
                let _ = say.send(line);
            }
            let _ = out.read_to_string(&mut String::new());
        });
        let store = store.recv_timeout(WITHIN).expect("the store serves");
        let greeting = greeted.recv_timeout(WITHIN).expect("the cluster is up");
        Up {
            child,
            store,
            greeting,
            directory: directory.to_owned(),
        }
    }

    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        let output = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(self.directory.join("admin.kubeconfig"))
            .args(args)
            .env("HOME", &self.directory)
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The path of a file in its directory.
    pub(crate) fn path(&self, file: &str) -> String {
        let path = self.directory.join(file);
        path.to_str().unwrap().to_owned()
    }

    /// Writes a file; returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs a line of shell script with the cluster's kubeconfig.
    fn shell(&self, line: &str) -> String {
        let output = Command::new("sh")
            .args(["-c", line])
            .env("KUBECONFIG", self.directory.join("admin.kubeconfig"))
            .env("HOME", &self.directory)
            .output()
            .unwrap();
        assert!(output.status.success(), "{line}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Sends a signal, and waits for the end.
    pub(crate) fn signal(mut self, name: &str) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &id])
                .status()
                .unwrap()
                .success()
        );
        self.child.wait().unwrap()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bytes of the deployment in the store.
fn stored(address: &str) -> Option<Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = etcd_api::Client::connect(format!("http://{address}"))
            .await
            .unwrap();
        let request = RangeRequest {
            key: format!("/registry/deployments/default/{NAME}").into(),
            ..RangeRequest::default()
        };
        let answer = client.kv().range(request).await.unwrap().into_inner();
        answer.kvs.into_iter().next().map(|kv| kv.value.to_vec())
    })
}

#[test]
fn a_cluster_comes_up_runs_a_deployment_survives_a_kill_and_stops_in_order() {
    if !kubectl_or_skip("a whole cluster") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let up = Up::start(directory.path());
    let greeting = "The cluster is up at https://127.0.0.1:";
    assert!(up.greeting.starts_with(greeting), "{}", up.greeting);
    for file in ["ca.crt", "sa.key", "sa.pub"] {
        assert!(directory.path().join("pki").join(file).exists(), "{file}");
    }
    up.kubectl(&[
        "create",
        "deployment",
        NAME,
        "--image=nginx",
        "--replicas=3",
    ]);
    let rollout = format!("deployment/{NAME}");
    up.kubectl(&["rollout", "status", &rollout, "--timeout=120s"]);
    let running = |up: &Up| {
        let pods = up.kubectl(&["get", "pods", "-o", "wide", "--no-headers"]);
        pods.lines().filter(|line| line.contains("Running")).count()
    };
    assert_eq!(running(&up), 3);
    assert_eq!(
        up.kubectl(&["get", "nodes", "--no-headers"])
            .lines()
            .filter(|line| line.contains(" Ready "))
            .count(),
        3
    );
    let value = stored(&up.store).expect("the store holds the deployment");
    assert!(value.starts_with(b"k8s\0"), "in Kubernetes' own form");
    up.signal("-KILL");
    let up = Up::start(directory.path());
    assert_eq!(running(&up), 3);
    up.kubectl(&["scale", &rollout, "--replicas=5"]);
    up.kubectl(&["rollout", "status", &rollout, "--timeout=120s"]);
    assert_eq!(running(&up), 5);
    up.kubectl(&["delete", &rollout, "--timeout=120s"]);
    up.kubectl(&[
        "wait",
        "--for=delete",
        "pod",
        "-l",
        "app=nginx-deployment",
        "--timeout=120s",
    ]);
    assert!(up.signal("-INT").success());
}

#[test]
fn the_store_alone_comes_up_and_says_where_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let up = Up::with(directory.path(), &["--components=store"]);
    let expected = format!("The store is up at http://{}. Next:\n", up.store);
    assert_eq!(up.greeting, expected);
    assert_eq!(stored(&up.store), None);
    assert!(up.signal("-INT").success());
}

#[test]
fn every_command_of_the_walk_through_works() {
    if !kubectl_or_skip("the walk through") {
        return;
    }
    let commands = commands(include_str!("../../../../docs/kubernetes.md"));
    assert!(commands.len() > 25, "{commands:?}");
    let directory = tempfile::tempdir().unwrap();
    let up = Up::start(directory.path());
    for command in commands {
        let said = up.shell(&command);
        if command.starts_with("kubectl auth can-i") {
            assert_eq!(said.trim(), "yes");
        }
    }
}

/// The commands of a page: one a line, and one that brings a file goes on to the end of that.
fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("```sh\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap_or_default());
    let mut all: Vec<String> = Vec::new();
    let mut in_file = false;
    for line in blocks.flat_map(str::lines) {
        match all.last_mut().filter(|_| in_file) {
            Some(command) => {
                command.push('\n');
                command.push_str(line);
            }
            None => all.push(line.to_owned()),
        }
        in_file = line.ends_with("<<'EOF'") || in_file && line != "EOF";
    }
    all
}

#[test]
fn a_command_goes_on_to_the_end_of_its_file() {
    let page = "# A\n```sh\na\nb <<'EOF'\nc\n  d\nEOF\ne\n```\n```\nf\n```\n```sh\ng\n```\n";
    assert_eq!(commands(page), ["a", "b <<'EOF'\nc\n  d\nEOF", "e", "g"]);
}

/// Pods get addresses of the families that services have.
#[test]
fn pods_are_endpoints_in_each_family_of_a_service() {
    const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: both}
spec:
  selector: {app: both}
  ipFamilyPolicy: PreferDualStack
  ports: [{port: 80}]
";
    if !kubectl_or_skip("pods_are_endpoints_in_each_family_of_a_service") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let ranges = "--service-cidr=10.96.0.0/16,fd00:10::/112";
    let up = Up::with(home.path(), &[ranges]);
    up.kubectl(&["create", "-f", &up.file("service.yaml", SERVICE)]);
    let create = [
        "create",
        "deployment",
        "both",
        "--image=nginx",
        "--replicas=2",
    ];
    up.kubectl(&create);
    up.kubectl(&["rollout", "status", "deployment/both", "--timeout=60s"]);
    let of_slices = |family: &str| -> Vec<String> {
        let shown = format!(
            "jsonpath={{.items[?(@.addressType==\"{family}\")].endpoints[*].addresses[*]}}"
        );
        let select = "--selector=kubernetes.io/service-name=both";
        let told = up.kubectl(&["get", "endpointslices", select, "-o", &shown]);
        let mut all: Vec<String> = told.split_whitespace().map(str::to_owned).collect();
        all.sort();
        all
    };
    let of_pods = |begin: &str| -> Vec<String> {
        let shown = "jsonpath={.items[*].status.podIPs[*].ip}";
        let told = up.kubectl(&["get", "pods", "--selector=app=both", "-o", shown]);
        let all = told.split_whitespace().filter(|ip| ip.starts_with(begin));
        let mut all: Vec<String> = all.map(str::to_owned).collect();
        all.sort();
        all
    };
    for (family, begin) in [("IPv4", "10.244."), ("IPv6", "fd00:10:244:")] {
        let pods = of_pods(begin);
        assert_eq!(pods.len(), 2, "{family}: {pods:?}");
        let begun = Instant::now();
        while of_slices(family) != pods {
            let slices = of_slices(family);
            assert!(begun.elapsed() < WITHIN, "{family}: {slices:?} {pods:?}");
            std::thread::sleep(POLL);
        }
    }
    let ranges = up.kubectl(&["get", "nodes", "-o", "jsonpath={.items[*].spec.podCIDRs}"]);
    assert!(
        ranges.contains(r#"["10.244.0.0/24","fd00:10:244::/64"]"#),
        "{ranges}"
    );
}

/// A service without a selector, and where it leads.
const BY_HAND: &str = "
apiVersion: v1
kind: Service
metadata: {name: far}
spec:
  ports: [{name: sql, port: 5432}]
---
apiVersion: v1
kind: Endpoints
metadata: {name: far}
subsets:
- addresses: [{ip: 192.0.2.1}]
  ports: [{name: sql, port: 5432}]
";

/// Endpoints are the pods of a service, or written by hand; slices follow these.
#[test]
fn a_service_has_endpoints_and_those_written_by_hand_have_a_slice() {
    if !kubectl_or_skip("a_service_has_endpoints_and_those_written_by_hand_have_a_slice") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(home.path());
    up.kubectl(&[
        "create",
        "deployment",
        "web",
        "--image=nginx",
        "--replicas=3",
    ]);
    up.kubectl(&["expose", "deployment", "web", "--port=80"]);
    up.kubectl(&["create", "-f", &up.file("by-hand.yaml", BY_HAND)]);
    up.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let listed = |kind: &str, select: &str, shown: &str| -> Vec<String> {
        let shown = format!("jsonpath={{.items[*]{shown}}}");
        let told = up.kubectl(&["get", kind, select, "-o", &shown]);
        let mut all: Vec<String> = told.split_whitespace().map(str::to_owned).collect();
        all.sort();
        all
    };
    let until = |kind: &str, select: &str, shown: &str, wanted: &[String]| {
        let begun = Instant::now();
        loop {
            let is = listed(kind, select, shown);
            if is == wanted {
                return;
            }
            assert!(
                begun.elapsed() < WITHIN,
                "{kind} {select}: {is:?} {wanted:?}"
            );
            std::thread::sleep(POLL);
        }
    };
    let pods = listed("pods", "--selector=app=web", ".status.podIP");
    assert_eq!(pods.len(), 3);
    let of_web = "--field-selector=metadata.name=web";
    until("endpoints", of_web, ".subsets[*].addresses[*].ip", &pods);
    let table = up.kubectl(&["get", "endpoints", "web"]);
    for ip in pods {
        assert!(table.contains(&format!("{ip}:80")), "{table}");
    }
    let of_far = "--selector=kubernetes.io/service-name=far";
    let by_hand = ["192.0.2.1".to_owned()];
    until(
        "endpointslices",
        of_far,
        ".endpoints[*].addresses[*]",
        &by_hand,
    );
    // All of it goes with the services.
    up.kubectl(&["delete", "service", "web", "far"]);
    until("endpoints", of_web, ".metadata.name", &[]);
    let of_far_itself = "--field-selector=metadata.name=far";
    until("endpoints", of_far_itself, ".metadata.name", &[]);
    until("endpointslices", of_far, ".metadata.name", &[]);
}

//! Authentication and authorization over TLS, with the real `kubectl`.

use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::time::{SystemTime, UNIX_EPOCH};

use ::apiserver::auth::authenticate::jwt::Key;
use ::apiserver::auth::pki::Pki;
use machinery::time::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::Launch;

use crate::harness::cluster::{BINARY, apiserver_with, kubectl_or_skip, told};

const TOKENS: &str = "root-token,root,1,\"system:masters\"\njane-token,jane,2\n";

/// A store and an apiserver with certificates; stopped when dropped.
struct Guarded {
    store: testkit::Server,
    apiserver: Child,
    address: String,
    home: TempDir,
}

impl Guarded {
    fn start() -> Guarded {
        let launch = Launch::program(BINARY).subcommand("store");
        let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("tokens.csv"), TOKENS).unwrap();
        let (apiserver, address) = serve(&store, &home);
        Guarded {
            store,
            apiserver,
            address,
            home,
        }
    }

    /// Kills the apiserver and restarts it on the same directory.
    fn restart(&mut self) {
        self.apiserver.kill().unwrap();
        self.apiserver.wait().unwrap();
        (self.apiserver, self.address) = serve(&self.store, &self.home);
    }

    fn path(&self, name: &str) -> String {
        self.home.path().join(name).to_str().unwrap().to_owned()
    }

    /// kubectl with the owner's kubeconfig.
    fn admin(&self, args: &[&str]) -> Output {
        let mut command = Command::new("kubectl");
        command
            .args(args)
            .env("KUBECONFIG", self.path("pki/admin.kubeconfig"));
        self.finish(command)
    }

    /// kubectl with only these credentials.
    fn with(&self, credentials: &[&str], args: &[&str]) -> Output {
        let mut command = Command::new("kubectl");
        command
            .arg(format!("--server=https://{}", self.address))
            .arg(format!(
                "--certificate-authority={}",
                self.path("pki/ca.crt")
            ))
            .args(credentials)
            .args(args)
            .env("KUBECONFIG", "/dev/null");
        self.finish(command)
    }

    fn with_token(&self, token: &str, args: &[&str]) -> Output {
        self.with(&[&format!("--token={token}")], args)
    }

    fn finish(&self, mut command: Command) -> Output {
        command.env("HOME", self.home.path()).output().unwrap()
    }

    /// Runs kubectl as the owner; it must succeed.
    fn make(&self, args: &[&str]) -> String {
        good(&self.admin(args))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.apiserver.kill();
        let _ = self.apiserver.wait();
    }
}

fn serve(store: &testkit::Server, home: &TempDir) -> (Child, String) {
    let pki = home.path().join("pki");
    let directory = format!("--cert-dir={}", pki.display());
    let owner = format!(
        "--admin-kubeconfig={}",
        pki.join("admin.kubeconfig").display()
    );
    let tokens = format!(
        "--token-auth-file={}",
        home.path().join("tokens.csv").display()
    );
    apiserver_with(&store.url(), &[&directory, &owner, &tokens])
}

#[track_caller]
fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", told(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn refused(output: &Output, words: &str) {
    assert!(!output.status.success(), "{}", told(output));
    assert!(told(output).contains(words), "{}", told(output));
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp {
        seconds: since.as_secs() as i64,
        nanos: 0,
    }
}

#[test]
fn the_kubeconfig_of_the_owner_opens_everything() {
    if !kubectl_or_skip("kubectl over TLS") {
        return;
    }
    let mut cluster = Guarded::start();
    let me = cluster.make(&["auth", "whoami", "-o", "json"]);
    let me: Value = serde_json::from_str(&me).unwrap();
    assert_eq!(me["status"]["userInfo"]["username"], "kubernetes-admin");
    let groups = json!(["system:masters", "system:authenticated"]);
    assert_eq!(me["status"]["userInfo"]["groups"], groups);
    assert_eq!(cluster.make(&["auth", "can-i", "*", "*", "-A"]), "yes\n");
    let roles = cluster.make(&["get", "clusterroles", "-o", "name"]);
    assert!(roles.lines().count() > 60, "{roles}");
    let edit = cluster.make(&["describe", "clusterrole", "edit"]);
    assert!(edit.contains("deployments.apps"), "{edit}");

    cluster.make(&["create", "configmap", "kept"]);
    let authority = std::fs::read(cluster.path("pki/ca.crt")).unwrap();
    cluster.restart();
    assert_eq!(
        std::fs::read(cluster.path("pki/ca.crt")).unwrap(),
        authority
    );
    cluster.make(&["get", "configmap", "kept"]);
}

#[test]
fn the_token_of_an_account_opens_what_its_roles_allow() {
    if !kubectl_or_skip("kubectl and tokens of accounts") {
        return;
    }
    let mut cluster = Guarded::start();
    cluster.make(&["create", "serviceaccount", "bot"]);
    let token = cluster.make(&["create", "token", "bot"]);
    let token = token.trim().to_owned();
    let me = good(&cluster.with_token(&token, &["auth", "whoami"]));
    assert!(me.contains("system:serviceaccount:default:bot"), "{me}");
    assert!(me.contains("system:serviceaccounts:default"), "{me}");
    refused(
        &cluster.with_token(&token, &["get", "pods"]),
        "pods is forbidden: User \"system:serviceaccount:default:bot\" cannot list resource \
         \"pods\" in API group \"\" in the namespace \"default\"",
    );
    refused(
        &cluster.with_token(&token, &["auth", "can-i", "list", "pods"]),
        "no",
    );

    let binds = [
        "create",
        "rolebinding",
        "bot",
        "--clusterrole=view",
        "--serviceaccount=default:bot",
    ];
    cluster.make(&binds);
    good(&cluster.with_token(&token, &["get", "pods"]));
    good(&cluster.with_token(&token, &["auth", "can-i", "list", "pods"]));
    refused(
        &cluster.with_token(&token, &["get", "secrets"]),
        "forbidden",
    );
    refused(
        &cluster.with_token(&token, &["get", "pods", "-n", "kube-system"]),
        "in the namespace \"kube-system\"",
    );
    refused(&cluster.with_token(&token, &["get", "nodes"]), "forbidden");
    let list = good(&cluster.with_token(&token, &["auth", "can-i", "--list"]));
    assert!(list.contains("pods/log"), "{list}");
    assert!(list.contains("selfsubjectreviews"), "{list}");
    // A token survives a restart of the server, and ends with its account.
    cluster.restart();
    good(&cluster.with_token(&token, &["get", "pods"]));
    cluster.make(&["delete", "serviceaccount", "bot"]);
    refused(
        &cluster.with_token(&token, &["get", "pods"]),
        "You must be logged in",
    );
}

#[test]
fn whoever_is_not_to_be_believed_stays_outside() {
    if !kubectl_or_skip("kubectl without rights") {
        return;
    }
    let cluster = Guarded::start();
    let raw = ["get", "--raw", "/api/v1/namespaces"];
    let anonymous = "cannot list resource \"namespaces\"";
    // kubectl must send some credentials; a basic password that is no token counts as none.
    let nothing = ["--username=a", "--password=b"];
    refused(&cluster.with(&nothing, &raw), anonymous);
    let health = cluster.with(&nothing, &["get", "--raw", "/healthz"]);
    assert_eq!(good(&health), "ok");
    good(&cluster.with_token("root-token", &raw));
    let jane = cluster.with_token("jane-token", &raw);
    refused(&jane, "User \"jane\" cannot list resource \"namespaces\"");
    let wrong = cluster.with_token("wrong", &["get", "ns", "-v=8"]);
    refused(&wrong, "You must be logged in to the server");
    refused(&wrong, "Response Status: 401 Unauthorized");
    refused(
        &wrong,
        r#""status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#,
    );

    let other = tempfile::tempdir().unwrap();
    let pki = Pki::open(other.path(), &[], now()).unwrap();
    let theirs: PathBuf = other.path().join("ca.crt");
    let believes = format!("--certificate-authority={}", theirs.display());
    refused(
        &cluster.with(&[&believes, "--token=root-token"], &raw),
        "certificate signed by unknown authority",
    );
    drop(pki);
    let file = |name: &str| other.path().join(name).to_str().unwrap().to_owned();
    let shown = [
        format!("--client-certificate={}", file("admin.crt")),
        format!("--client-key={}", file("admin.key")),
    ];
    let shows = cluster.with(&[&shown[0], &shown[1]], &raw);
    refused(&shows, "You must be logged in to the server");

    let account = cluster.make(&["create", "serviceaccount", "bot", "-o", "json"]);
    let account: Value = serde_json::from_str(&account).unwrap();
    let key = std::fs::read_to_string(cluster.path("pki/sa.key")).unwrap();
    let key = Key::from_pem(&key).unwrap();
    let token = |issued: i64| {
        let issuer = "https://kubernetes.default.svc.cluster.local";
        key.sign(&json!({
            "iss": issuer, "aud": [issuer], "sub": "system:serviceaccount:default:bot",
            "iat": issued, "nbf": issued, "exp": issued + 600,
            "kubernetes.io": {
                "namespace": "default",
                "serviceaccount": {"name": "bot", "uid": account["metadata"]["uid"]},
            },
        }))
        .unwrap()
    };
    let whoami = ["auth", "whoami"];
    good(&cluster.with_token(&token(now().seconds), &whoami));
    let expired = cluster.with_token(&token(now().seconds - 7200), &raw);
    refused(&expired, "You must be logged in to the server");
}

#[test]
fn nobody_gives_away_more_than_they_hold() {
    if !kubectl_or_skip("kubectl and escalation") {
        return;
    }
    let cluster = Guarded::start();
    let jane = |args: &[&str]| cluster.with_token("jane-token", args);
    cluster.make(&[
        "create",
        "clusterrolebinding",
        "jane",
        "--clusterrole=admin",
        "--user=jane",
    ]);
    good(&jane(&["create", "serviceaccount", "bot"]));
    good(&jane(&[
        "create",
        "rolebinding",
        "bot",
        "--clusterrole=view",
        "--serviceaccount=default:bot",
    ]));
    refused(
        &jane(&[
            "create",
            "rolebinding",
            "root",
            "--clusterrole=cluster-admin",
            "--user=jane",
        ]),
        "is attempting to grant RBAC permissions not currently held",
    );
    let role = ["create", "role", "nodes", "--verb=get", "--resource=nodes"];
    refused(
        &jane(&role),
        "{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}",
    );

    let acting = ["get", "nodes", "--as=jane", "--as-group=devs"];
    refused(
        &cluster.admin(&acting),
        "User \"jane\" cannot list resource \"nodes\"",
    );
    let me = cluster.make(&["auth", "whoami", "--as=jane", "--as-group=devs"]);
    assert!(me.contains("[devs system:authenticated]"), "{me}");
    refused(
        &jane(&["get", "pods", "--as=root"]),
        "User \"jane\" cannot impersonate-on:user-info:list resource \"pods\"",
    );
}

#[test]
fn a_pod_gets_its_account_and_a_token() {
    if !kubectl_or_skip("kubectl and pods' accounts") {
        return;
    }
    let cluster = Guarded::start();
    cluster.make(&["create", "serviceaccount", "bot"]);
    let run = |name: &str, account: &str| {
        let overrides = json!({"spec": {"serviceAccountName": account}}).to_string();
        let overrides = format!("--overrides={overrides}");
        cluster.admin(&["run", name, "--image=nginx", &overrides, "-o", "json"])
    };
    let pod: Value = serde_json::from_str(&good(&run("web", "bot"))).unwrap();
    assert_eq!(pod["spec"]["serviceAccountName"], "bot");
    let volume = &pod["spec"]["volumes"][0];
    let name = volume["name"].as_str().unwrap();
    assert!(name.starts_with("kube-api-access-"), "{name}");
    let mount = &pod["spec"]["containers"][0]["volumeMounts"][0];
    assert_eq!(
        mount["mountPath"],
        "/var/run/secrets/kubernetes.io/serviceaccount"
    );
    assert_eq!(mount["name"], name);
    refused(
        &run("lost", "nobody"),
        "pods \"lost\" is forbidden: error looking up service account default/nobody: \
         serviceaccount \"nobody\" not found",
    );
    let bound = [
        "create",
        "token",
        "bot",
        "--bound-object-kind=Pod",
        "--bound-object-name=web",
    ];
    let token = cluster.make(&bound);
    let me = good(&cluster.with_token(token.trim(), &["auth", "whoami"]));
    assert!(me.contains("authentication.kubernetes.io/pod-name"), "{me}");
    cluster.make(&["delete", "pod", "web", "--now"]);
    refused(
        &cluster.with_token(token.trim(), &["auth", "whoami"]),
        "You must be logged in",
    );
}

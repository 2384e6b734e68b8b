//! The audit log: its events against those that Kubernetes 1.36.3 wrote about the same requests,
//! and what happens to the log itself.

mod annotations;
mod receiver;
mod script;

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::Launch;

use crate::harness::cluster::{BINARY, WITHIN, apiserver, kubectl_or_skip, told};
use crate::requests::http::Call;
use receiver::Receiver;
use script::{Block, normal};

const TOKENS: &str = "root-token,root,1,\"system:masters\"\njane-token,jane,2\n";

/// The policy under which Kubernetes wrote the events of the script.
const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  users: [\"system:apiserver\"]
- level: Metadata
  resources:
  - group: \"\"
    resources: [\"secrets\", \"serviceaccounts/token\"]
- level: Metadata
  nonResourceURLs: [\"/healthz*\", \"/version\"]
- level: Request
  omitManagedFields: true
  resources:
  - group: \"apps\"
- level: RequestResponse
";

/// A store and an apiserver with an audit log; stopped when dropped.
struct Audited {
    _store: testkit::Server,
    apiserver: Child,
    address: String,
    home: TempDir,
}

impl Audited {
    /// An apiserver with this policy and these further flags, to which users show tokens.
    fn start(policy: &str, flags: &[&str]) -> Audited {
        Audited::with(policy, flags, true)
    }

    /// The same; without tokens everybody is the owner.
    fn with(policy: &str, flags: &[&str], has_tokens: bool) -> Audited {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = home.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let policy = format!("--audit-policy-file={}", file("policy.yaml", policy));
        let tokens = format!("--token-auth-file={}", file("tokens.csv", TOKENS));
        let log = home.path().join("logs/audit.log");
        let log = format!("--audit-log-path={}", log.display());
        let launch = Launch::program(BINARY).subcommand("store");
        let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
        let own = [&*policy, &log, &tokens];
        let own = if has_tokens { &own[..] } else { &own[..2] };
        let (apiserver, address) = apiserver(&store.url(), &[own, flags].concat());
        Audited {
            _store: store,
            apiserver,
            address,
            home,
        }
    }

    fn log(&self) -> PathBuf {
        self.home.path().join("logs/audit.log")
    }

    /// A request of the owner with this audit id.
    fn call(&self, id: &str, method: &str, path: &str) -> Call {
        Call::new(&self.address, method, path)
            .header("Audit-Id", id)
            .header("Authorization", "Bearer root-token")
    }

    /// Waits until the log has so many events of a request, and returns them.
    fn events(&self, id: &str, count: usize) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let events = events(&self.log(), id);
            if events.len() >= count {
                assert_eq!(events.len(), count, "{id}: {events:#?}");
                return events;
            }
            assert!(begun.elapsed() < WITHIN, "{id} has only {events:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn kubectl(&self, args: &[&str]) -> String {
        let output = std::process::Command::new("kubectl")
            .arg(format!("--server=http://{}", self.address))
            .args(args)
            .env("KUBECONFIG", "/dev/null")
            .env("HOME", self.home.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        // Fails only if the process is gone already.
        let _ = self.apiserver.kill();
        let _ = self.apiserver.wait();
    }
}

/// The events of a request in a log.
fn events(log: &Path, id: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    // The last line may be on its way.
    let all = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    let all = all.map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|event| event["auditID"] == id).collect()
}

#[test]
fn events_are_those_of_kubernetes() {
    let server = Audited::start(POLICY, &["--allow-privileged"]);
    let mut wrong = Vec::new();
    for block in Block::read_all(include_str!("audit/script.txt")) {
        block.call(&server.address).send();
        let expected = block.expected();
        let events = server.events(&block.id, expected.len());
        for (event, expected) in events.iter().zip(expected) {
            let (ours, theirs) = (normal(event), normal(expected));
            if ours != theirs {
                wrong.push(format!("{}\n  is     {ours}\n  not    {theirs}", block.id));
            }
            for time in ["requestReceivedTimestamp", "stageTimestamp"] {
                assert!(event[time].as_str().is_some_and(|text| text.len() == 27));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_kubectl_does_is_in_the_log() {
    if !kubectl_or_skip("the audit log of kubectl") {
        return;
    }
    let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, omitStages: [RequestReceived],
        rules: [{level: RequestResponse, resources: [{resources: [configmaps]}]}]}";
    // kubectl shows no token over plain HTTP.
    let server = Audited::with(policy, &[], false);
    server.kubectl(&["create", "configmap", "a", "--from-literal=k=v"]);
    server.kubectl(&["get", "configmap", "a"]);
    let watch = "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1";
    server.kubectl(&["get", "--raw", watch]);
    server.kubectl(&["delete", "configmap", "a"]);
    let seen = || {
        let text = std::fs::read_to_string(server.log()).unwrap();
        let events = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let is_ours = |event: &Value| event["objectRef"]["resource"] == "configmaps";
        let events = events.filter(is_ours).map(|event| {
            let text = |key: &str| event[key].as_str().unwrap().to_owned();
            assert!(text("userAgent").starts_with("kubectl/"));
            let bodies = ["requestObject", "responseObject"];
            let kinds = bodies.map(|body| event[body]["kind"].as_str().unwrap_or("-").to_owned());
            let code = event["responseStatus"]["code"].as_u64().unwrap();
            format!(
                "{} {} {code} {}",
                text("verb"),
                text("stage"),
                kinds.join(" ")
            )
        });
        events.collect::<Vec<_>>()
    };
    let expected = [
        // kubectl sends protobuf.
        "create ResponseComplete 201 ConfigMap ConfigMap",
        "get ResponseComplete 200 - Table",
        "watch ResponseStarted 200 - -",
        "watch ResponseComplete 200 - -",
        "delete ResponseComplete 200 DeleteOptions Status",
    ];
    let begun = Instant::now();
    while seen().len() < expected.len() && begun.elapsed() < WITHIN {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(seen()[..expected.len()], expected);
}

#[test]
fn the_documents_of_discovery_are_recorded_as_objects() {
    let server = Audited::start(POLICY, &[]);
    for (path, kind) in [
        ("/api", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/apis/apps", "APIGroup"),
        ("/api/v1", "APIResourceList"),
    ] {
        server.call(path, "GET", path).send();
        let events = server.events(path, 2);
        assert_eq!(events[1]["responseObject"]["kind"], kind, "{path}");
    }
}

#[test]
fn a_request_fails_if_its_event_cannot_be_stored_and_must_be() {
    let launch = Launch::program(BINARY).subcommand("store");
    let store = launch.start().unwrap_or_else(|error| panic!("{error}"));
    let home = tempfile::tempdir().unwrap();
    let policy = home.path().join("policy.yaml");
    std::fs::write(&policy, POLICY).unwrap();
    let policy = format!("--audit-policy-file={}", policy.display());
    for (mode, code) in [("blocking-strict", 500), ("blocking", 200), ("batch", 200)] {
        let mode = format!("--audit-log-mode={mode}");
        let flags = [
            &*policy,
            "--audit-log-path=/dev/full",
            "--audit-log-maxsize=0",
            &mode,
        ];
        let (mut child, address) = apiserver(&store.url(), &flags);
        let answer = Call::new(&address, "GET", "/api/v1/namespaces").send();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(answer.code, code, "{mode}");
        if code == 500 {
            let text = String::from_utf8(answer.body).unwrap();
            let why =
                "Internal Server Error: \"/api/v1/namespaces\": failed to store audit event\n";
            assert_eq!(text, why);
        }
    }
}

#[test]
fn events_are_counted() {
    let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [
        {level: None, nonResourceURLs: ['*']}, {level: Request}]}";
    let server = Audited::start(policy, &[]);
    let object = json!({"metadata": {"name": "a"}});
    let path = "/api/v1/namespaces/default/configmaps";
    server.call("a", "POST", path).json(&object).send();
    server.events("a", 2);
    let metrics = server.call("b", "GET", "/metrics").send();
    let metrics = String::from_utf8(metrics.body).unwrap();
    for line in [
        "apiserver_audit_event_total 2",
        "apiserver_audit_level_total{level=\"Request\"} 1",
        "apiserver_audit_level_total{level=\"None\"} 1",
        "apiserver_audit_requests_rejected_total 0",
        "apiserver_audit_error_total{plugin=\"log\"} 0",
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line}\n{metrics}");
    }
}

#[test]
fn a_webhook_gets_lists_of_events_and_gets_them_again_after_a_failure() {
    let receiver = Receiver::start();
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = home.path().join("webhook.yaml");
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": receiver.url()}}],
        "users": [{"name": "u", "user": {"token": "secret"}}]});
    std::fs::write(&kubeconfig, text.to_string()).unwrap();
    let config = format!("--audit-webhook-config-file={}", kubeconfig.display());
    for mode in ["batch", "blocking"] {
        let flags = [
            &*config,
            &format!("--audit-webhook-mode={mode}"),
            "--audit-webhook-batch-max-wait=10ms",
            "--audit-webhook-initial-backoff=1ms",
        ];
        let server = Audited::start(POLICY, &flags);
        receiver.refuse(2);
        let answer = server
            .call(mode, "GET", "/api/v1/namespaces/default")
            .send();
        assert_eq!(answer.code, 200);
        let events = receiver.events(mode, 2);
        let log = server.events(mode, 2);
        for (sent, mut written) in events.into_iter().zip(log) {
            // The list has the kind of all its items.
            let written = written.as_object_mut().unwrap();
            assert_eq!(written.remove("kind").unwrap(), "Event");
            assert_eq!(written.remove("apiVersion").unwrap(), "audit.k8s.io/v1");
            assert_eq!(sent.as_object().unwrap(), written);
        }
    }
}

#[test]
fn what_is_queued_is_written_before_the_server_ends() {
    let policy = "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}";
    let flags = [
        "--audit-log-mode=batch",
        "--audit-log-batch-max-size=1000",
        "--audit-log-batch-max-wait=1h",
    ];
    let mut server = Audited::start(policy, &flags);
    for _ in 0..10 {
        server.call("x", "GET", "/version").send();
    }
    let pid = rustix::process::Pid::from_child(&server.apiserver);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    server.apiserver.wait().unwrap();
    assert_eq!(events(&server.log(), "x").len(), 20);
}

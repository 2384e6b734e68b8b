//! The configuration files of authentication and authorization, which are followed, and what
//! `/metrics` says of both.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::security::Guarded;
use crate::harness::cluster::WITHIN;
use crate::requests::http::Call;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A file that tests change.
struct File {
    path: PathBuf,
    _home: TempDir,
}

impl File {
    fn new(value: &Value) -> File {
        let home = tempfile::tempdir().unwrap();
        let file = File {
            path: home.path().join("config.yaml"),
            _home: home,
        };
        file.write(value);
        file
    }

    fn write(&self, value: &Value) {
        std::fs::write(&self.path, value.to_string()).unwrap();
    }
}

fn chain(authorizers: &Value) -> Value {
    json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
        "authorizers": authorizers})
}

fn metrics(cluster: &Guarded) -> String {
    let told = cluster.ask("root", "GET", "/metrics", None);
    assert_eq!(told.code, 200);
    String::from_utf8(told.body).unwrap()
}

/// Waits until a line of the metrics is there.
fn wait_for_line(cluster: &Guarded, line: &str) {
    let begun = std::time::Instant::now();
    while !metrics(cluster).lines().any(|one| one.starts_with(line)) {
        assert!(begun.elapsed() < WITHIN, "{line} is missing");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn the_chain_of_authorizers_follows_its_file() {
    let rbac = json!({"type": "RBAC", "name": "rbac"});
    let allow = json!({"type": "AlwaysAllow", "name": "alwaysallow"});
    let file = File::new(&chain(&json!([rbac])));
    let flag = format!("--authorization-config={}", file.path.display());
    let cluster = Guarded::start_with(&[&flag]);
    let jane = || cluster.ask("jane", "GET", PODS, None).code;
    assert_eq!(jane(), 403);
    // What cannot be used changes nothing: RBAC was there at the start.
    file.write(&chain(&json!([allow])));
    let family = "apiserver_authorization_config_controller_automatic_reloads_total";
    wait_for_line(&cluster, &format!("{family}{{status=\"failure\""));
    assert_eq!(jane(), 403);
    file.write(&chain(&json!([rbac, allow])));
    wait_for_line(&cluster, &format!("{family}{{status=\"success\""));
    assert_eq!(jane(), 200);
}

#[test]
fn nobody_is_let_in_where_the_file_says_so() {
    let config = json!({"apiVersion": "apiserver.config.k8s.io/v1beta1",
        "kind": "AuthenticationConfiguration",
        "anonymous": {"enabled": true, "conditions": [{"path": "/livez"}]}});
    let file = File::new(&config);
    let flag = format!("--authentication-config={}", file.path.display());
    let cluster = Guarded::start_with(&[&flag]);
    let ask = |path: &str| Call::new(&cluster.address, "GET", path).send().code;
    assert_eq!(ask("/livez"), 200);
    for path in ["/healthz", "/livez/", "/version", PODS] {
        assert_eq!(ask(path), 401, "{path}");
    }
}

#[test]
fn metrics_tell_what_was_done() {
    let cluster = Guarded::start();
    let user_info = json!([
        {"apiGroups": ["authentication.k8s.io"], "resources": ["users"],
            "verbs": ["impersonate:user-info"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["impersonate-on:user-info:list"]},
    ]);
    cluster.allow("acts", user_info);
    let act = |as_user: &str| {
        let call = Call::new(&cluster.address, "GET", PODS);
        let call = call.header("Authorization", "Bearer jane-token");
        call.header("Impersonate-User", as_user).send()
    };
    let told = act("joe");
    told.refuses(
        403,
        "Forbidden",
        "User \"joe\" cannot list resource \"pods\"",
    );
    let told = act("system:node:n");
    told.refuses(
        403,
        "Forbidden",
        "cannot impersonate-on:arbitrary-node:list resource \"pods\"",
    );
    cluster.ask("root", "GET", PODS, None).expect(200);
    let refused = Call::new(&cluster.address, "GET", PODS);
    let refused = refused.header("Authorization", "Bearer nonsense").send();
    assert_eq!(refused.code, 401);
    let text = metrics(&cluster);
    for line in [
        "authentication_attempts{result=\"error\"} ",
        "authentication_attempts{result=\"success\"} ",
        "authenticated_user_requests{username=\"other\"} ",
        "authentication_duration_seconds_bucket{result=\"success\",le=\"0.001\"} ",
        "authorization_attempts_total{result=\"no-opinion\"} ",
        "apiserver_authorization_decisions_total{type=\"RBAC\",name=\"rbac\",decision=\"allowed\"} ",
        "apiserver_impersonation_attempts_total{mode=\"user-info\",decision=\"allowed\"} 1",
        "apiserver_impersonation_attempts_total{mode=\"\",decision=\"denied\"} 1",
        "apiserver_request_total{verb=\"LIST\",dry_run=\"\",group=\"\",version=\"v1\",\
         resource=\"pods\",subresource=\"\",scope=\"namespace\",component=\"apiserver\",\
         code=\"200\"} 1",
        "apiserver_request_sli_duration_seconds_count{verb=\"LIST\",group=\"\",version=\"v1\",\
         resource=\"pods\",subresource=\"\",scope=\"namespace\",component=\"apiserver\"} 1",
    ] {
        assert!(
            text.lines().any(|one| one.starts_with(line)),
            "{line}\n{text}"
        );
    }
}

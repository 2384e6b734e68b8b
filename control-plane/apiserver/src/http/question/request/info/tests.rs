//! Every method on every shape of path and selector, compared with Kubernetes' own RequestInfo and
//! RBAC authorizer (`benches/peers/kubernetes/decisions`). Their answers are kept in
//! `decisions.txt`; where Go is installed, they run again.

#![expect(
    clippy::disallowed_methods,
    reason = "reads the kept answers, and runs a program"
)]

mod chain;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use http::Method;
use serde_json::Value;

use super::super::{Info, Query, decoded, segments};
use crate::auth::authorize::rbac::Policy;
use crate::auth::{Attributes, User};

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

const PATHS: [&str; 42] = [
    "/api/v1/secrets",
    "/api/v1/namespaces/a/secrets",
    "/api/v1/namespaces/a/secrets/mine",
    "/api/v1/namespaces/a/secrets/other",
    "/api/v1/namespaces/b/secrets",
    "/api/v1/namespaces/b/secrets/mine",
    "/api/v1/namespaces/a/pods",
    "/api/v1/namespaces/a/pods/mine",
    "/api/v1/namespaces/a/pods/mine/status",
    "/api/v1/namespaces/a/pods/mine/log",
    "/api/v1/namespaces/a/pods/mine/exec",
    "/api/v1/namespaces/a/pods/mine/eviction",
    "/api/v1/namespaces/a/pods/mine/binding",
    "/api/v1/namespaces/a/pods/mine/proxy/deep/path",
    "/api/v1/namespaces/a/bindings",
    "/api/v1/namespaces/a/serviceaccounts/mine/token",
    "/api/v1/namespaces",
    "/api/v1/namespaces/a",
    "/api/v1/namespaces/b",
    "/api/v1/namespaces/a/status",
    "/api/v1/namespaces/a/finalize",
    "/api/v1/namespaces/a/namespaces",
    "/api/v1/namespaces/a/namespaces/b",
    "/api/v1/nodes",
    "/api/v1/nodes/mine",
    "/api/v1/nodes/mine/status",
    "/api/v1/watch/namespaces/a/secrets",
    "/api/v1/watch/namespaces/a/secrets/mine",
    "/api/v1/proxy/namespaces/a/pods/mine/x",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/namespaces/a/deployments",
    "/apis/apps/v1/namespaces/a/deployments/mine",
    "/apis/apps/v1/namespaces/a/deployments/mine/scale",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests/mine/approval",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests/mine/status",
    "/apis/example.com/v1/namespaces/a/widgets/mine",
    "/api/v1/namespaces/a%2Fsecrets",
    "/api/v1",
    "/apis/apps/v1",
    "/healthz",
    "/",
];

const QUERIES: [&str; 20] = [
    "",
    "fieldSelector=metadata.name%3Dmine",
    "fieldSelector=metadata.name%3D%3Dmine",
    "fieldSelector=metadata.name!%3Dmine",
    "fieldSelector=metadata.name%3Dother",
    "fieldSelector=metadata.name%3Dmine,metadata.namespace%3Da",
    "fieldSelector=metadata.name%3Dother,metadata.name%3Dmine",
    "fieldSelector=spec.unknown%3D1,metadata.name%3Dmine",
    "fieldSelector=metadata.namespace%3Da",
    "fieldSelector=metadata.name%3D..",
    "fieldSelector=metadata.name%3Da/b",
    "fieldSelector=metadata.name%3Dmine,x",
    "fieldSelector=metadata.name%3D",
    "fieldSelector=metadata.name%3Dmine&limit=x",
    "fieldSelector=metadata.name%3Dmine&timeoutSeconds=",
    "fieldSelector=metadata.name%3Dmine&labelSelector=a%20in%20(",
    "fieldSelector=metadata.name%3Dmine&labelSelector=app%3Dweb",
    "watch=1",
    "watch=true&fieldSelector=metadata.name%3Dmine",
    "watch=false&fieldSelector=metadata.name%3Dmine&fieldSelector=metadata.name%3Dother",
];

fn read(method: &Method, path: &str, query: &str) -> Info {
    let path = decoded(path).unwrap();
    Info::read(method, &path, &segments(&path), &Query::parse(query))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http/question/request/info")
}

/// Kubernetes' own code.
struct Program;

impl Program {
    /// What it prints; the first argument is a file of this folder. `None` if it is not there.
    fn run(arguments: &[&str], input: String) -> Option<String> {
        let program = testkit::Kubernetes::Decisions.or_skip("Kubernetes' authorization")?;
        let mut child = std::process::Command::new(program)
            .arg(folder().join(arguments[0]))
            .args(&arguments[1..])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writing = std::thread::spawn(move || {
            std::io::Write::write_all(&mut stdin, input.as_bytes()).unwrap();
        });
        let output = child.wait_with_output().unwrap();
        writing.join().unwrap();
        assert!(output.status.success());
        Some(String::from_utf8(output.stdout).unwrap())
    }
}

/// Users, and the policy for them.
fn rules() -> (Vec<User>, Policy) {
    let text = std::fs::read(folder().join("rules.json")).unwrap();
    let rules: Value = serde_json::from_slice(&text).unwrap();
    let mut policy = Policy::default();
    for object in rules["objects"].as_array().unwrap() {
        policy.put(object["kind"].as_str().unwrap(), object);
    }
    let users = rules["users"].as_array().unwrap().iter();
    let users = users.map(|user| User {
        name: user["name"].as_str().unwrap().to_owned(),
        groups: serde_json::from_value(user["groups"].clone()).unwrap(),
        ..User::default()
    });
    (users.collect(), policy)
}

fn targets() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = METHODS.into_iter();
    all.flat_map(|method| PATHS.map(|path| (method, path)))
}

/// The attributes of a request and the decision for each user: a line as the Go program prints it.
fn decide(users: &[User], policy: &Policy, method: &str, path: &str, query: &str) -> String {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let info = read(&method, path, query);
    let asked = &info.attributes;
    let mut line = if info.is_resource() {
        format!(
            "{} {:?} {:?} {:?} {:?} {:?}",
            asked.verb,
            asked.api_group,
            asked.resource,
            asked.subresource,
            asked.namespace,
            asked.name,
        )
    } else {
        format!("{} path {:?}", asked.verb, asked.path)
    };
    line.push(' ');
    for user in users {
        let asked = Attributes {
            user: user.clone(),
            ..asked.clone()
        };
        line.push(if policy.decide(&asked).allowed {
            '1'
        } else {
            '0'
        });
    }
    line
}

/// The answers to all requests, as attributes and queries for each method and path.
fn table(answer: impl Fn(&str, &str, &str) -> String) -> String {
    let mut text = String::new();
    for (method, path) in targets() {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (at, query) in QUERIES.into_iter().enumerate() {
            let line = answer(method, path, query);
            found.entry(line).or_default().push(at.to_string());
        }
        writeln!(text, "{method} {path}").unwrap();
        for (line, queries) in found {
            writeln!(text, "    {line} [{}]", queries.join(" ")).unwrap();
        }
    }
    text
}

#[track_caller]
fn assert_same(ours: &str, theirs: &str) {
    let differs = ours.lines().zip(theirs.lines()).find(|(a, b)| a != b);
    assert_eq!(differs, None, "ours and theirs");
    assert_eq!(ours.lines().count(), theirs.lines().count());
}

#[test]
fn a_path_of_resources_is_none_of_the_plain_paths() {
    for path in [
        "/apis/g/v//nodes",
        "/apis/g/v/%2Fnodes",
        "/apis/g/v/namespaces/n//nodes",
        "/apis/g/v/watch",
        "/api/v1/proxy",
    ] {
        let info = read(&Method::GET, path, "");
        assert!(info.is_resource(), "{path}");
        assert_eq!(info.attributes.resource, "", "{path}");
    }
    for path in ["/api", "/apis/g/v", "/apis/g/v/", "/healthz"] {
        let info = read(&Method::GET, path, "");
        assert!(!info.is_resource(), "{path}");
    }
}

#[test]
fn every_request_is_decided_as_kubernetes_decides_it() {
    let (users, policy) = rules();
    let ours = table(|method, path, query| decide(&users, &policy, method, path, query));
    let kept = std::fs::read_to_string(folder().join("decisions.txt")).unwrap();
    assert_same(&ours, &kept);
}

/// Runs Kubernetes' own code; `STELE_BLESS` writes its answers to the file.
#[test]
fn what_is_kept_is_what_kubernetes_says() {
    let mut input = String::new();
    for (method, path) in targets() {
        for query in QUERIES {
            writeln!(input, "{method} {path}?{query}").unwrap();
        }
    }
    let Some(lines) = Program::run(&["rules.json"], input) else {
        return;
    };
    let lines = std::cell::RefCell::new(lines.lines());
    let theirs = table(|_, _, _| lines.borrow_mut().next().unwrap().to_owned());
    let path = folder().join("decisions.txt");
    if std::env::var_os("STELE_BLESS").is_some() {
        std::fs::write(&path, &theirs).unwrap();
    }
    assert_same(&std::fs::read_to_string(path).unwrap(), &theirs);
}

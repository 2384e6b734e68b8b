//! Discovery, compared with that of Kubernetes' own apiserver to the letter: the order of entries and
//! of fields counts, too. `discovery/golden.txt` has Kubernetes' answers, of those that are not JSON
//! the hashes.
//!
//! `STELE_DISCOVERY=go UPDATE=1` asks Kubernetes again and writes them.

use std::fmt::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::foreign::golden::{self, INDENT};
use crate::foreign::swap::world::World;
use crate::harness::cluster::{WITHIN, kubectl_or_skip};
use crate::requests::http::Call;

const VARIABLE: &str = "STELE_DISCOVERY";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/shop.example.com/v1beta1";
const JSON: &str = "application/json";
/// The forms of a document besides JSON.
const FORMS: [&str; 2] = ["application/vnd.kubernetes.protobuf", "application/yaml"];
/// What is added to a form to get all groups as one document.
const AS_ONE: &str = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The form of all groups as one document.
pub(super) const NEW_FORM: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// Forms that Kubernetes refuses, or understands as another.
const ODD: [&str; 5] = [
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    "application/json;g=meta.k8s.io;v=v1;as=Table",
    "application/json,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "*/*;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "*/*",
];
const HEADERS: [&str; 4] = ["content-type", "cache-control", "vary", "etag"];
const POLL: Duration = Duration::from_millis(100);

#[test]
fn discovery_says_what_that_of_kubernetes_says() {
    if !kubectl_or_skip("the comparison of discovery") {
        return;
    }
    let (_world, address) = World::apiserver_alone(golden::asks_go(VARIABLE));
    let create = Call::new(&address, "POST", DEFINITIONS);
    create.json(&definition()).send().expect(201);
    // Kubernetes takes seconds to serve a new kind, and to list it everywhere.
    let begun = Instant::now();
    let serves = |path, form: &str| ask(&address, path, form).contains("widgets");
    while !serves(WIDGETS, JSON) || !serves("/apis", NEW_FORM) {
        assert!(begun.elapsed() < WITHIN, "{WIDGETS} is not served");
        sleep(POLL);
    }
    let answers = everything(&address);
    golden::check("discovery/golden.txt", VARIABLE, &answers);
}

/// All documents in all forms.
fn everything(address: &str) -> String {
    let mut paths: Vec<String> = ["/api", "/apis", "/api/v1"].map(str::to_owned).into();
    let groups = Call::new(address, "GET", "/apis").send().object();
    for group in groups["groups"].as_array().unwrap() {
        paths.push(format!("/apis/{}", group["name"].as_str().unwrap()));
        for version in group["versions"].as_array().unwrap() {
            paths.push(format!(
                "/apis/{}",
                version["groupVersion"].as_str().unwrap()
            ));
        }
    }
    let mut answers = String::new();
    for path in &paths {
        answers += &ask(address, path, JSON);
        for form in FORMS {
            answers += &ask(address, path, form);
        }
    }
    for path in ["/api", "/apis"] {
        answers += &ask(address, path, NEW_FORM);
        for form in FORMS {
            answers += &ask(address, path, &format!("{form}{AS_ONE}"));
        }
        for form in ODD {
            answers += &ask(address, path, form);
        }
    }
    for path in ["/apis/none", "/apis/none/v1", "/apis/apps/v9", "/api/v2"] {
        answers += &ask(address, path, JSON);
    }
    answers
}

/// The question, and the answer with each entry in a line and without what depends on the machine.
fn ask(address: &str, path: &str, form: &str) -> String {
    let call = Call::new(address, "GET", path).header("Accept", form);
    let answer = call.send();
    let mut text = format!("{path} as {form}\n{INDENT}{}\n", answer.code);
    for line in answer.head.lines() {
        let (name, value) = line.split_once(": ").unwrap_or_default();
        if HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            let _ = writeln!(text, "{INDENT}{name}: {value}");
        }
    }
    let is_text = form.contains("json") || form.starts_with('*');
    // The address of the server has a length, so that no hash of a document with it is the same.
    let has_address = path == "/api" && !form.contains(AS_ONE);
    if is_text {
        let body = String::from_utf8(answer.body).unwrap();
        let body = body.replace("[{\"", "[\n{\"").replace(",{\"", ",\n{\"");
        for line in body.lines() {
            let _ = writeln!(text, "{INDENT}{}", without_address(line));
        }
    } else if !has_address {
        let _ = writeln!(text, "{INDENT}sha256 {}", golden::hash(&answer.body));
    }
    text
}

fn without_address(line: &str) -> String {
    const NAME: &str = "\"serverAddress\":\"";
    let Some((before, after)) = line.split_once(NAME) else {
        return line.to_owned();
    };
    let (_, after) = after.split_once('"').unwrap();
    format!("{before}{NAME}ADDRESS\"{after}")
}

/// A definition with everything that discovery shows of one.
fn definition() -> Value {
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object",
                "x-kubernetes-preserve-unknown-fields": true}},
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.example.com"},
        "spec": {
            "group": "shop.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget",
                "listKind": "WidgetList", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

//! What `kubectl explain` prints and what OpenAPI documents say, compared with Kubernetes' own
//! apiserver. The texts are Kubernetes', so the files in `openapi/` hold hashes alone: first that of
//! Kubernetes' answer, then, after `~`, that of ours where it differs. Where a field has a fixed set of
//! values, Kubernetes explains what each means, and no library has these texts: explanations are compared
//! without them.
//!
//! `STELE_OPENAPI=go UPDATE=1` runs Kubernetes again and writes its hashes; `UPDATE=1` alone writes where
//! ours differ, so that a review shows each difference that appears or disappears. Each run leaves the
//! answers themselves in `openapi/` of cargo's folder for tests (`target/tmp`), so that two runs can be
//! compared with `diff`.

mod explained;
mod golden;
mod parts;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use golden::Golden;
use serde_json::{Value, json};

use crate::foreign::golden::{asks_go, updates};
use crate::foreign::swap::world::World;
use crate::harness::cluster::{WITHIN, kubectl_or_skip};
use crate::requests::http::Call;

const VARIABLE: &str = "STELE_OPENAPI";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "apis/shop.example.com/v1";
const POLL: Duration = Duration::from_millis(100);

/// Answers by what was asked.
type Answers = BTreeMap<String, String>;

#[test]
fn kubectl_explains_every_kind_as_with_kubernetes() {
    if !kubectl_or_skip("the comparison of kubectl's explanations") {
        return;
    }
    let (_world, address) = World::apiserver_alone(asks_go(VARIABLE));
    let golden = Golden::read("explain");
    let asked = if asks_go(VARIABLE) && updates() {
        explained::everything(&address)
    } else {
        golden.asked()
    };
    assert!(asked.len() > 200, "{}", asked.len());
    compare(golden, &explained::all(&address, &asked));
}

#[test]
fn documents_say_what_those_of_kubernetes_say() {
    if !kubectl_or_skip("the comparison of OpenAPI documents") {
        return;
    }
    let (_world, address) = World::apiserver_alone(asks_go(VARIABLE));
    let get = |path: &str| Call::new(&address, "GET", path).send().object();
    let create = Call::new(&address, "POST", DEFINITIONS);
    create.json(&definition()).send().expect(201);
    // Kubernetes takes seconds to describe a new kind.
    let begun = Instant::now();
    while get("/openapi/v3")["paths"][WIDGETS].is_null()
        || get("/openapi/v2")["paths"][format!("/{WIDGETS}/widgets")].is_null()
    {
        assert!(begun.elapsed() < WITHIN, "{WIDGETS} is not described");
        sleep(POLL);
    }
    let mut parts = parts::Parts::default();
    let index = get("/openapi/v3");
    for (place, url) in index["paths"].as_object().unwrap() {
        let url = url["serverRelativeURL"].as_str().unwrap();
        parts.add_v3(place, get(url));
    }
    parts.add_v2(get("/openapi/v2"));
    compare(Golden::read("documents"), &parts.into_answers());
}

/// A definition with everything that documents show of one.
fn definition() -> Value {
    let schema = json!({"type": "object", "description": "A widget.", "properties": {
        "spec": {"type": "object", "properties": {
            "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
            "replicas": {"type": "integer", "description": "How many there are."}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.example.com"},
        "spec": {
            "group": "shop.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            }],
        },
    })
}

fn compare(mut golden: Golden, answers: &Answers) {
    leave(golden.name, answers);
    let wrong = golden.compare(answers, asks_go(VARIABLE));
    if updates() {
        golden.write();
    } else {
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// Leaves the answers for a look at them.
fn leave(name: &str, answers: &Answers) {
    let who = if asks_go(VARIABLE) { "go" } else { "ours" };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("openapi");
    std::fs::create_dir_all(&folder).unwrap();
    let whole: String = answers
        .iter()
        .map(|(asked, answer)| format!("== {asked}\n{answer}\n"))
        .collect();
    std::fs::write(folder.join(format!("{name}.{who}.txt")), whole).unwrap();
}

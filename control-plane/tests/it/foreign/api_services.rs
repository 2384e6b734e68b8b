//! The APIServices of what an apiserver serves itself, compared with those of Kubernetes' own.
//!
//! `STELE_API_SERVICES=go UPDATE=1` asks Kubernetes again and writes them.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::foreign::golden::{asks_go, check, write_block};
use crate::foreign::swap::world::World;
use crate::harness::cluster::{WITHIN, kubectl_or_skip};
use crate::requests::http::Call;

const VARIABLE: &str = "STELE_API_SERVICES";
const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "v1.shop.example.com";
const POLL: Duration = Duration::from_millis(50);

#[test]
fn what_is_served_here_has_the_api_services_of_kubernetes() {
    if !kubectl_or_skip("the comparison of APIServices") {
        return;
    }
    let (_world, address) = World::apiserver_alone(asks_go(VARIABLE));
    let call = |method: &str, path: &str| Call::new(&address, method, path);
    let get = |name: &str| call("GET", &format!("{SERVICES}/{name}")).send();
    let change = |name: &str, patch: Value| {
        let path = format!("{SERVICES}/{name}");
        let patch = call("PATCH", &path).body("application/merge-patch+json", patch.to_string());
        patch.send().expect(200);
    };
    call("POST", DEFINITIONS)
        .json(&definition())
        .send()
        .expect(201);
    call("POST", SERVICES).json(&other()).send().expect(201);
    until("a definition is listed", || get(WIDGETS).code == 200);
    until("its second version, too", || {
        get("v2.shop.example.com").code == 200
    });
    let mut answers = String::new();
    write_block(
        &mut answers,
        "at first",
        &listed(&call("GET", SERVICES).send().object()),
    );

    // What belongs to a definition is put right again; built-in ones are looked at once.
    let spec = json!({"spec": {"versionPriority": 7}});
    change(WIDGETS, spec.clone());
    change("v1.apps", spec);
    let path = format!("{SERVICES}/v1.batch");
    call("DELETE", &path).send().expect(200);
    let path = format!("{SERVICES}/v2.shop.example.com");
    call("DELETE", &path).send().expect(200);
    let priority = || get(WIDGETS).object()["spec"]["versionPriority"] == 100;
    until("the change is undone", priority);
    until("the deletion is undone", || {
        get("v2.shop.example.com").code == 200
    });
    write_block(
        &mut answers,
        "after changes",
        &listed(&call("GET", SERVICES).send().object()),
    );

    let path = format!("{DEFINITIONS}/widgets.shop.example.com");
    call("DELETE", &path).send().expect(200);
    until("they go with the definition", || {
        get(WIDGETS).code == 404 && get("v2.shop.example.com").code == 404
    });
    write_block(
        &mut answers,
        "without definitions",
        &listed(&call("GET", SERVICES).send().object()),
    );
    check("api_services.txt", VARIABLE, &answers);
}

/// A definition with two versions that are served, and one that is not.
fn definition() -> Value {
    let version = |name: &str, served: bool| {
        json!({"name": name, "served": served, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.example.com"},
        "spec": {
            "group": "shop.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true), version("v2", true), version("v3", false)],
        },
    })
}

/// An APIService that a user makes.
fn other() -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.other.example.com"},
        "spec": {"group": "other.example.com", "version": "v1",
            "groupPriorityMinimum": 5, "versionPriority": 5},
    })
}

/// Each with what is the same at each run.
fn listed(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap().iter();
    let line = |one: &Value| {
        let (metadata, condition) = (&one["metadata"], &one["status"]["conditions"][0]);
        let manager = &metadata["managedFields"][0];
        format!(
            "{} {} {} {} {} {} {}",
            metadata["name"],
            metadata["labels"],
            one["spec"],
            condition["status"],
            condition["reason"],
            condition["message"],
            manager["fieldsV1"],
        )
    };
    items.map(line).collect()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < WITHIN, "{what}");
        sleep(POLL);
    }
}

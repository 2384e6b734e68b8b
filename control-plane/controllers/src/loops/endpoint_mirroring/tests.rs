use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{ago, bodies, caches, decide, lines};

const KEY: (&str, &str) = ("n", "db");

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "n", "name": "db"},
        "spec": {"clusterIP": "10.1.0.1", "ports": [{"name": "sql", "port": 5432}]},
    })
}

fn endpoints() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "namespace": "n", "name": "db", "labels": {"team": "x"},
            "annotations": {TRIGGER: ago(1), APPLIED: "{}", "a": "b"},
        },
        "subsets": [{
            "addresses": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2", "hostname": "two"}],
            "notReadyAddresses": [{"ip": "192.0.2.3"}],
            "ports": [{"name": "sql", "port": 5432}],
        }],
    })
}

/// Endpoints with so many addresses of a family.
fn many(prefix: &str, count: usize) -> Value {
    let mut endpoints = endpoints();
    let addresses = (0..count).map(|number| match prefix {
        "fd00::" => json!({"ip": format!("fd00::{number:x}")}),
        _ => json!({"ip": format!("{prefix}{}.{}", number / 250, number % 250)}),
    });
    endpoints["subsets"][0]["addresses"] = addresses.collect::<Vec<Value>>().into();
    endpoints
}

fn decided(objects: &[Value]) -> Decision {
    decide(&EndpointMirroring, &caches(objects), KEY)
}

/// The slices that a decision creates, with names as the apiserver would generate them.
fn made(decision: &Decision) -> Vec<Value> {
    let created = bodies(decision).into_iter().zip(1..);
    created
        .map(|(mut slice, number)| {
            slice["metadata"]["name"] = format!("db-{number}").into();
            slice
        })
        .collect()
}

/// The objects, and the slices that they lead to.
fn settled(objects: &[Value]) -> Vec<Value> {
    let all = [objects, &made(&decided(objects))].concat();
    assert_eq!(lines(&decided(&all)), [""; 0]);
    all
}

fn read<T: serde::de::DeserializeOwned>(one: Option<&Value>) -> Option<Arc<T>> {
    one.map(|one| Arc::new(serde_json::from_value(one.clone()).unwrap()))
}

fn told(decision: &Decision) -> Vec<(&str, &str)> {
    let notes = decision.notes.iter();
    notes
        .map(|note| (note.reason, note.message.as_str()))
        .collect()
}

#[test]
fn endpoints_that_somebody_wrote_get_a_slice() {
    let decision = decided(&[service(), endpoints()]);
    assert_eq!(lines(&decision), ["create endpointslices n/"]);
    assert!(told(&decision).is_empty());
    assert_eq!(
        bodies(&decision)[0],
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "namespace": "n", "generateName": "db-",
                "labels": {OF_SERVICE: "db", MANAGED_BY: US, "team": "x"},
                "annotations": {"a": "b"},
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Endpoints", "name": "db", "uid": "endpoints/db",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["192.0.2.1"], "conditions": {"ready": true}},
                {"addresses": ["192.0.2.2"], "conditions": {"ready": true}, "hostname": "two"},
                {"addresses": ["192.0.2.3"], "conditions": {"ready": false}},
            ],
            "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}],
        })
    );
}

#[test]
fn each_family_and_each_list_of_ports_has_a_slice() {
    let mut endpoints = endpoints();
    endpoints["subsets"] = json!([
        {"addresses": [{"ip": "192.0.2.1"}, {"ip": "fd00::1"}], "ports": [{"port": 1}]},
        {"addresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 2}]},
        // In a form of old.
        {"addresses": [{"ip": "192.0.2.003"}, {"ip": "::ffff:192.0.2.4"}], "ports": [{"port": 2}]},
    ]);
    let slices = made(&decided(&[service(), endpoints]));
    let shown = slices.iter().map(|slice| {
        let endpoints = slice["endpoints"].as_array().unwrap().iter();
        let addresses: Vec<&str> = endpoints
            .map(|one| one["addresses"][0].as_str().unwrap())
            .collect();
        let family = slice["addressType"].as_str().unwrap();
        let port = &slice["ports"][0];
        assert_eq!(port["name"], "");
        format!("{family} {} {}", port["port"], addresses.join(" "))
    });
    let mut shown: Vec<String> = shown.collect();
    shown.sort();
    assert_eq!(
        shown,
        [
            "IPv4 1 192.0.2.1",
            "IPv4 2 192.0.2.2 192.0.2.3 192.0.2.4",
            "IPv6 1 fd00::1"
        ]
    );
}

#[test]
fn who_says_so_keeps_slices_otherwise() {
    let [labels, annotations] = ["labels", "annotations"].map(|of| {
        let mut endpoints = endpoints();
        endpoints["metadata"][of] = match of {
            "labels" => json!({SKIP: "true"}),
            _ => json!({LEADER: "{}"}),
        };
        endpoints
    });
    let mut selecting = service();
    selecting["spec"]["selector"] = json!({"app": "db"});
    let all = settled(&[service(), endpoints()]);
    let slice = all[2].clone();
    for (service, endpoints) in [
        (Some(service()), Some(labels)),
        (Some(service()), Some(annotations)),
        (Some(selecting), Some(endpoints())),
        (None, Some(endpoints())),
        (Some(service()), None),
    ] {
        let objects: Vec<Value> = service.into_iter().chain(endpoints).collect();
        assert_eq!(lines(&decided(&objects)), [""; 0]);
        // A slice of before goes.
        let objects = [&objects[..], std::slice::from_ref(&slice)].concat();
        assert_eq!(lines(&decided(&objects)), ["delete endpointslices n/db-1"]);
    }
}

#[test]
fn only_differences_are_written() {
    let mut all = settled(&[service(), endpoints()]);
    // Another order is no difference.
    all[2]["endpoints"].as_array_mut().unwrap().reverse();
    assert_eq!(lines(&decided(&all)), [""; 0]);
    let fewer = json!([{
        "addresses": [{"ip": "192.0.2.1"}], "ports": [{"name": "sql", "port": 5432}],
    }]);
    for (path, value) in [
        (&["metadata", "labels", "team"][..], json!("y")),
        (&["metadata", "annotations", "a"][..], json!("c")),
        // Others of the same name.
        (&["metadata", "uid"][..], json!("another")),
        (&["subsets"][..], fewer),
    ] {
        let mut changed = all.clone();
        machinery::object::set(&mut changed[1], path, value);
        let decision = decided(&changed);
        let written = lines(&decision);
        assert_eq!(written, ["update endpointslices n/db-1"], "{path:?}");
        let slice = &bodies(&decision)[0];
        assert_eq!(slice["metadata"]["resourceVersion"], "3");
    }
    // What changes at each write of Endpoints is no difference.
    all[1]["metadata"]["annotations"][TRIGGER] = ago(0).into();
    assert_eq!(lines(&decided(&all)), [""; 0]);
}

#[test]
fn a_slice_that_is_not_needed_becomes_the_one_that_is() {
    let mut all = settled(&[service(), endpoints()]);
    all[1]["subsets"][0]["ports"][0]["port"] = 5433.into();
    let moved = decided(&all);
    assert_eq!(lines(&moved), ["update endpointslices n/db-1"]);
    assert_eq!(bodies(&moved)[0]["ports"][0]["port"], 5433);
    // One of the other family cannot, and a second one of the same is too many.
    let mut all = settled(&[service(), endpoints()]);
    let mut second = all[2].clone();
    second["metadata"]["name"] = "db-2".into();
    all.push(second);
    assert_eq!(lines(&decided(&all)), ["delete endpointslices n/db-2"]);
    all[1]["subsets"] = json!([{"addresses": [{"ip": "fd00::1"}]}]);
    assert_eq!(
        lines(&decided(&all)),
        [
            "create endpointslices n/",
            "delete endpointslices n/db-1",
            "delete endpointslices n/db-2",
        ]
    );
    // Endpoints that go get nothing new.
    all[1]["metadata"]["deletionTimestamp"] = ago(1).into();
    assert_eq!(
        lines(&decided(&all)),
        [
            "delete endpointslices n/db-1",
            "delete endpointslices n/db-2"
        ]
    );
}

#[test]
fn a_namespace_that_goes_gets_no_slices() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "n", "deletionTimestamp": ago(1),
    }});
    let decision = decided(&[service(), endpoints(), namespace]);
    assert_eq!(lines(&decision), [""; 0]);
}

#[test]
fn what_is_left_out_is_told() {
    let mut wrong = endpoints();
    wrong["subsets"][0]["addresses"][0]["ip"] = "db.example".into();
    let decision = decided(&[service(), wrong]);
    assert_eq!(
        told(&decision),
        [(
            "InvalidIPAddress",
            "Skipped 1 invalid IP addresses when mirroring to EndpointSlices"
        )]
    );
    let count = |slice: &Value| slice["endpoints"].as_array().unwrap().len();
    assert_eq!(count(&bodies(&decision)[0]), 2);
    for prefix in ["10.7.", "fd00::"] {
        let decision = decided(&[service(), many(prefix, 1005)]);
        let slices = bodies(&decision);
        assert_eq!(slices.iter().map(count).sum::<usize>(), 1000);
        assert_eq!(
            told(&decision),
            [(
                "TooManyAddressesToMirror",
                "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. \
                 6 addresses were skipped"
            )]
        );
        assert!(decision.notes[0].warning);
    }
}

#[test]
fn changes_that_mean_nothing_wake_nobody() {
    let mut selecting = service();
    selecting["spec"]["selector"] = json!({"app": "db"});
    let woken = |known: &[Value], changed: Changed| {
        let mut woken = Vec::new();
        EndpointMirroring.wakes(&caches(known), &changed, &mut |key| woken.push(key.1));
        woken
    };
    let of_service = |old: Option<&Value>, new: Option<&Value>| {
        let (old, new) = (read(old), read(new));
        woken(&[], Changed::Service(Diff { old, new }))
    };
    let free = service();
    assert_eq!(of_service(None, Some(&free)), ["db"]);
    assert_eq!(of_service(Some(&free), None), ["db"]);
    assert_eq!(of_service(Some(&free), Some(&selecting)), ["db"]);
    assert_eq!(of_service(Some(&free), Some(&free)), [""; 0]);
    assert_eq!(of_service(None, Some(&selecting)), [""; 0]);
    let of_endpoints = |known: &Value, new: &Value| {
        let diff = Diff {
            old: None,
            new: read(Some(new)),
        };
        woken(std::slice::from_ref(known), Changed::Endpoints(diff))
    };
    let mut leader = endpoints();
    leader["metadata"]["annotations"] = json!({LEADER: "{}"});
    assert_eq!(of_endpoints(&free, &endpoints()), ["db"]);
    assert_eq!(of_endpoints(&free, &leader), [""; 0]);
    assert_eq!(of_endpoints(&selecting, &endpoints()), [""; 0]);
    let of_slice = |by: &str| {
        let mut slice = made(&decided(&[service(), endpoints()])).remove(0);
        slice["metadata"]["labels"][MANAGED_BY] = by.into();
        let diff = Diff {
            old: read(Some(&slice)),
            new: None,
        };
        woken(&[], Changed::EndpointSlice(diff))
    };
    assert_eq!(of_slice(US), ["db"]);
    assert_eq!(of_slice("somebody"), [""; 0]);
}

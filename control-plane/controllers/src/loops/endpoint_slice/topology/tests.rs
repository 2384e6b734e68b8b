use std::sync::Arc;

use serde_json::{Value, json};

use crate::cache::{Caches, Changed, Diff};
use crate::decision::Decision;
use crate::loops::Loop;
use crate::loops::endpoint_slice::EndpointSlices;
use crate::tests::fixtures::{bodies, caches, decide, lines, node, pod};

const KEY: (&str, &str) = ("n", "web");

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "n", "name": "web", "annotations": {
            "service.kubernetes.io/topology-mode": "Auto"}},
        "spec": {
            "clusterIP": "10.1.0.1", "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
        },
    })
}

/// A node of a zone that is called like it.
fn zoned(name: &str, cpu: &str) -> Value {
    let mut node = node(name, "True");
    node["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": format!("zone-{name}")});
    node["status"]["allocatable"] = json!({"cpu": cpu});
    node
}

/// The service, two equal nodes, and pods on these nodes.
fn world(pods: &str) -> Vec<Value> {
    let mut all = vec![service(), zoned("a", "4"), zoned("b", "4000m")];
    let pods = pods.chars().zip(1..);
    all.extend(pods.map(|(on, number)| pod(&format!("p{number}"), &on.to_string(), true)));
    all
}

/// For which node's zone each endpoint of a slice is.
fn zones(slice: &Value) -> String {
    let endpoints = slice["endpoints"].as_array().unwrap().iter();
    let zone = |one: &Value| match one["hints"]["forZones"][0]["name"].as_str() {
        Some(zone) => zone.trim_start_matches("zone-").to_owned(),
        None => "-".to_owned(),
    };
    endpoints.map(zone).collect()
}

fn told(decision: &Decision) -> Vec<(&str, bool, &str)> {
    let notes = decision.notes.iter();
    notes
        .map(|note| (note.reason, note.warning, note.message.as_str()))
        .collect()
}

fn decided(objects: &[Value]) -> Decision {
    decide(&EndpointSlices, &caches(objects), KEY)
}

const ENABLED: (&str, bool, &str) = (
    "TopologyAwareHintsEnabled",
    false,
    "Topology Aware Hints has been enabled, addressType: IPv4",
);

#[test]
fn each_zone_gets_its_share_of_the_endpoints() {
    for (pods, divided) in [
        ("ab", "ab"),
        // One zone has too many for its processors.
        ("aaab", "baab"),
        ("aaaaaa", "bbbaaa"),
        ("aaabbb", "aaabbb"),
    ] {
        let decision = decided(&world(pods));
        assert_eq!(zones(&bodies(&decision)[0]), divided, "{pods}");
        assert_eq!(told(&decision), [ENABLED]);
    }
    // Three quarters of the processors.
    let mut large = world("aabb");
    large[1] = zoned("a", "12");
    assert_eq!(zones(&bodies(&decided(&large))[0]), "aaab");
    // An endpoint that is not ready is for nobody.
    let mut some = world("aba");
    some[5] = pod("p3", "a", false);
    assert_eq!(zones(&bodies(&decided(&some))[0]), "ab-");
}

#[test]
fn without_fair_shares_there_are_no_hints_and_the_service_says_why() {
    let refused = |objects: &[Value], why: &str| {
        let decision = decided(objects);
        let hints = zones(&bodies(&decision)[0]);
        assert!(hints.chars().all(|zone| zone == '-'), "{hints}");
        let message = format!("{why}, addressType: IPv4");
        assert_eq!(
            told(&decision),
            [("TopologyAwareHintsDisabled", true, message.as_str())]
        );
    };
    refused(
        &world("a"),
        "Insufficient number of endpoints (1 endpoints, 2 zones)",
    );
    refused(
        &world("aab"),
        "Unable to allocate minimum required endpoints to each zone without exceeding overload \
         threshold (3 endpoints, 2 zones)",
    );
    let no_nodes = "Insufficient Node information: allocatable CPU or zone not specified on one or \
                    more nodes";
    let mut one_zone = world("ab");
    one_zone[2] = node("b", "False");
    refused(&one_zone, no_nodes);
    let mut unknown = world("ab");
    unknown.push(node("c", "True"));
    refused(&unknown, no_nodes);
    // A node of the control plane does not count, but its pods are nowhere.
    let mut nowhere = world("abc");
    nowhere.push(node("c", "True"));
    let label = json!({"node-role.kubernetes.io/control-plane": ""});
    nowhere[6]["metadata"]["labels"] = label;
    nowhere.push(pod("p4", "a", true));
    refused(
        &nowhere,
        "One or more endpoints do not have a zone specified",
    );
}

#[test]
fn another_port_is_no_news_about_the_division() {
    let mut objects = world("ab");
    let mut slice = bodies(&decided(&objects)).remove(0);
    slice["metadata"]["name"] = "web-1".into();
    objects.push(slice);
    objects[0]["spec"]["ports"][0]["targetPort"] = 9090.into();
    let decision = decided(&objects);
    let moved = &bodies(&decision)[0];
    assert_eq!(moved["ports"][0]["port"], 9090);
    assert_eq!(zones(moved), "ab");
    assert!(told(&decision).is_empty());
}

#[test]
fn hints_stay_until_the_shares_or_the_annotation_change() {
    let mut objects = world("aaab");
    let mut slice = bodies(&decided(&objects)).remove(0);
    slice["metadata"]["name"] = "web-1".into();
    // Others may be as good.
    for (at, zone) in ["zone-a", "zone-b", "zone-a", "zone-b"].iter().enumerate() {
        slice["endpoints"][at]["hints"]["forZones"] = json!([{"name": zone}]);
    }
    objects.push(slice);
    let settled = decided(&objects);
    assert!(lines(&settled).is_empty() && told(&settled).is_empty());
    let woken = |caches: &Caches, new: Value| {
        let mut woken = Vec::new();
        let old = serde_json::from_value(zoned("b", "4")).unwrap();
        let new = serde_json::from_value(new).unwrap();
        let diff = Diff {
            old: Some(Arc::new(old)),
            new: Some(Arc::new(new)),
        };
        EndpointSlices.wakes(caches, &Changed::Node(diff), &mut |key| woken.push(key.1));
        woken
    };
    assert_eq!(woken(&caches(&objects), node("b", "False")), ["web"]);
    assert_eq!(woken(&caches(&objects), zoned("b", "4")), [""; 0]);
    objects[2] = node("b", "False");
    let gone = decided(&objects);
    assert_eq!(zones(&bodies(&gone)[0]), "----");
    assert_eq!(told(&gone)[0].0, "TopologyAwareHintsDisabled");
    // A service whose endpoints are not divided waits for a change of its own.
    objects.pop();
    assert_eq!(woken(&caches(&objects), zoned("c", "4")), [""; 0]);
    // Without the annotation nobody asks for hints.
    let mut plain = world("aaab");
    plain[0]["metadata"]["annotations"] = Value::Null;
    let decision = decided(&plain);
    assert_eq!(zones(&bodies(&decision)[0]), "----");
    assert!(told(&decision).is_empty());
}

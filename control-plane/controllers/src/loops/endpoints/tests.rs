use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{ago, bodies, caches, decide, lines, pod};

const KEY: (&str, &str) = ("n", "web");

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "namespace": "n", "name": "web", "labels": {"team": "x"}, "annotations": {"a": "b"},
            "creationTimestamp": ago(60),
        },
        "spec": {
            "clusterIP": "10.1.0.1", "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
        },
    })
}

/// The service with other fields.
fn service_with(spec: Value) -> Value {
    let mut service = service();
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    service
}

fn decided(objects: &[Value]) -> Decision {
    decide(&EndpointsOfServices, &caches(objects), KEY)
}

/// The Endpoints that are written.
fn written(objects: &[Value]) -> Value {
    let decision = decided(objects);
    assert_eq!(decision.steps.len(), 1, "{:?}", lines(&decision));
    bodies(&decision).remove(0)
}

/// The names of the pods in each list of the first subset.
fn listed(endpoints: &Value) -> [Vec<&str>; 2] {
    ["addresses", "notReadyAddresses"].map(|list| {
        let list = endpoints["subsets"][0][list].as_array();
        let names = list.into_iter().flatten();
        names
            .map(|one| one["targetRef"]["name"].as_str().unwrap())
            .collect()
    })
}

#[test]
fn a_service_gets_endpoints_with_its_pods() {
    let mut ends = pod("ppp", "a", true);
    ends["metadata"]["deletionTimestamp"] = ago(1).into();
    let mut ended = pod("pppp", "a", false);
    ended["status"]["phase"] = "Succeeded".into();
    let mut begins = pod("ppppp", "a", false);
    begins["status"]["podIP"] = Value::Null;
    let mut other = pod("pppppp", "a", true);
    other["metadata"]["labels"] = json!({"app": "other"});
    let pods = [pod("p", "a", true), pod("pp", "a", false)];
    let objects = [&[service(), ends, ended, begins, other][..], &pods].concat();
    assert_eq!(lines(&decided(&objects)), ["create endpoints n/web"]);
    let address = |name: &str, ip: &str| {
        let uid = format!("pods/{name}");
        json!({
            "ip": ip, "nodeName": "a",
            "targetRef": {"kind": "Pod", "namespace": "n", "name": name, "uid": uid},
        })
    };
    assert_eq!(
        written(&objects),
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {
                "namespace": "n", "name": "web",
                "labels": {MANAGED_BY: US, "team": "x"}, "annotations": {TRIGGER: ago(60)},
            },
            "subsets": [{
                "addresses": [address("p", "10.0.0.1")],
                "notReadyAddresses": [address("pp", "10.0.0.2")],
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            }],
        })
    );
    // A service without pods has Endpoints without subsets.
    assert_eq!(written(&[service()])["subsets"], Value::Null);
}

#[test]
fn a_service_that_publishes_pods_before_they_are_ready_lists_them_as_ready() {
    let early = service_with(json!({"publishNotReadyAddresses": true}));
    let mut ends = pod("ppp", "a", true);
    ends["metadata"]["deletionTimestamp"] = ago(1).into();
    let objects = [early, pod("p", "a", false), ends];
    assert_eq!(listed(&written(&objects)), [vec!["p", "ppp"], vec![]]);
}

#[test]
fn a_headless_service_needs_no_ports_and_names_pods() {
    let mut named = pod("p", "a", true);
    named["spec"]["hostname"] = "first".into();
    named["spec"]["subdomain"] = "web".into();
    let headless = service_with(json!({"clusterIP": "None", "ports": null}));
    let endpoints = written(&[headless, named.clone()]);
    assert_eq!(endpoints["metadata"]["labels"][HEADLESS], "");
    let subset = &endpoints["subsets"][0];
    assert_eq!(subset["addresses"][0]["hostname"], "first");
    assert_eq!(subset["ports"], Value::Null);
    // The name is one in the domain of the service alone.
    named["spec"]["subdomain"] = "other".into();
    let endpoints = written(&[service(), named.clone()]);
    let address = &endpoints["subsets"][0]["addresses"][0];
    assert_eq!(address["hostname"], Value::Null);
    // Others without ports lead nowhere.
    let portless = service_with(json!({"ports": null}));
    assert_eq!(written(&[portless, named])["subsets"], Value::Null);
}

#[test]
fn pods_that_call_a_port_differently_are_in_different_subsets() {
    let with_port = |name: &str, number: u32| {
        let mut pod = pod(name, "a", true);
        pod["spec"]["containers"][0]["ports"] = json!([{"name": "http", "containerPort": number}]);
        pod
    };
    let ports = json!([{"name": "http", "port": 80, "targetPort": "http"}]);
    let named = service_with(json!({"ports": ports}));
    let pods = [with_port("p", 81), with_port("pp", 82)];
    // The third has no such port.
    let objects = [&[named, pod("ppp", "a", true)][..], &pods].concat();
    let endpoints = written(&objects);
    let subsets = endpoints["subsets"].as_array().unwrap().iter();
    let mut ports: Vec<i64> = subsets
        .map(|one| one["ports"][0]["port"].as_i64().unwrap())
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, [81, 82]);
}

#[test]
fn addresses_are_of_the_first_family_alone() {
    let mut both = pod("p", "a", true);
    both["status"]["podIPs"] = json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]);
    let ip = |spec: Value| {
        let endpoints = written(&[service_with(spec), both.clone()]);
        endpoints["subsets"][0]["addresses"][0]["ip"].clone()
    };
    assert_eq!(ip(json!({"ipFamilies": ["IPv4", "IPv6"]})), "10.0.0.1");
    assert_eq!(ip(json!({"ipFamilies": ["IPv6", "IPv4"]})), "fd00::1");
    // Services of a time without families.
    assert_eq!(ip(json!({"clusterIP": "fd00:10::7"})), "fd00::1");
    assert_eq!(ip(json!({})), "10.0.0.1");
    let mut six = pod("p", "a", true);
    six["status"]["podIP"] = "fd00::1".into();
    let objects = [service_with(json!({"clusterIP": "None"})), six.clone()];
    let endpoints = written(&objects);
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["ip"], "fd00::1");
    // A pod without an address of the family.
    assert_eq!(written(&[service(), six])["subsets"], Value::Null);
}

#[test]
fn only_differences_are_written() {
    let mut objects = vec![service(), pod("p", "a", true), pod("pp", "a", true)];
    let ports = json!([
        {"name": "a", "port": 80, "targetPort": 8080}, {"name": "b", "port": 81, "targetPort": 8081},
    ]);
    objects[0]["spec"]["ports"] = ports;
    let mut endpoints = written(&objects);
    endpoints["metadata"]["annotations"]["of"] = "somebody".into();
    objects.push(endpoints);
    assert_eq!(lines(&decided(&objects)), [""; 0]);
    // Another order is no difference.
    let subset = &mut objects[3]["subsets"][0];
    for list in ["addresses", "ports"] {
        subset[list].as_array_mut().unwrap().reverse();
    }
    assert_eq!(lines(&decided(&objects)), [""; 0]);
    // What a loop before this one wrote has no label.
    let labels = objects[3]["metadata"]["labels"].take();
    assert_eq!(lines(&decided(&objects)), ["update endpoints n/web"]);
    let update = written(&objects);
    assert_eq!(update["metadata"]["labels"], labels);
    assert_eq!(update["metadata"]["annotations"], json!({"of": "somebody"}));
    assert_eq!(update["metadata"]["resourceVersion"], "4");
}

#[test]
fn the_trigger_is_the_first_change_that_was_not_written_yet() {
    let since = |name: &str, ready: bool, seconds: i64| {
        let mut pod = pod(name, "a", ready);
        pod["status"]["conditions"][0]["lastTransitionTime"] = ago(seconds).into();
        pod
    };
    let mut objects = vec![service(), since("p", true, 50), since("pp", false, 40)];
    let endpoints = written(&objects);
    objects.push(endpoints);
    let trigger = |objects: &[Value]| written(objects)["metadata"]["annotations"][TRIGGER].clone();
    objects[2] = since("pp", true, 20);
    objects.push(since("ppp", true, 10));
    assert_eq!(trigger(&objects), ago(20));
    // A pod that went says not when.
    objects.truncate(4);
    objects.remove(2);
    assert_eq!(trigger(&objects), Value::Null);
}

#[test]
fn more_addresses_than_there_is_room_for_are_left_out_and_it_is_said() {
    let pods = (0..1200).map(|number| pod(&format!("p{number:04}"), "a", true));
    let mut objects: Vec<Value> = pods.collect();
    objects.push(service());
    let endpoints = written(&objects);
    assert_eq!(listed(&endpoints)[0].len(), 1000);
    let said = |endpoints: &Value| endpoints["metadata"]["annotations"][OVER_CAPACITY].clone();
    assert_eq!(said(&endpoints), "truncated");
    objects.push(endpoints);
    assert_eq!(lines(&decided(&objects)), [""; 0]);
    objects.drain(..1000);
    let fewer = written(&objects);
    assert_eq!(listed(&fewer)[0].len(), 200);
    assert_eq!(said(&fewer), Value::Null);
}

#[test]
fn endpoints_of_others_are_left_alone() {
    let by_hand = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"namespace": "n", "name": "web"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
    });
    for spec in [json!({"selector": null}), json!({"type": "ExternalName"})] {
        let objects = [service_with(spec), by_hand.clone(), pod("p", "a", true)];
        assert_eq!(lines(&decided(&objects)), [""; 0]);
    }
    // They go with their service.
    assert_eq!(lines(&decided(&[by_hand])), ["delete endpoints n/web"]);
    assert_eq!(lines(&decided(&[])), [""; 0]);
}

#[test]
fn a_namespace_that_goes_gets_no_endpoints() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "n", "deletionTimestamp": ago(1),
    }});
    let mut objects = vec![service(), namespace, pod("p", "a", true)];
    assert_eq!(lines(&decided(&objects)), [""; 0]);
    // Those that are there follow their pods until they go.
    objects.push(written(&[service()]));
    assert_eq!(lines(&decided(&objects)), ["update endpoints n/web"]);
}

#[test]
fn a_failure_is_told_of_the_endpoints() {
    let mut objects = vec![service()];
    let note = |objects: &[Value]| {
        let note = decided(objects).steps.remove(0).failed.remove(0);
        assert!(note.warning && note.about["kind"] == "Endpoints");
        (note.reason, note.message)
    };
    let (reason, message) = note(&objects);
    assert_eq!(reason, "FailedToCreateEndpoint");
    assert_eq!(message, "Failed to create endpoint for service n/web: {}");
    objects.push(written(&objects));
    objects.push(pod("p", "a", true));
    let (reason, message) = note(&objects);
    assert_eq!(reason, "FailedToUpdateEndpoint");
    assert_eq!(message, "Failed to update endpoint n/web: {}");
}

#[test]
fn endpoints_that_went_or_that_a_service_left_behind_are_looked_at() {
    let woken = |objects: &[Value], old: Option<&Value>, new: Option<&Value>| {
        let read = |one: Option<&Value>| {
            one.map(|one| Arc::new(serde_json::from_value(one.clone()).unwrap()))
        };
        let diff = Diff {
            old: read(old),
            new: read(new),
        };
        let mut woken = Vec::new();
        let changed = Changed::Endpoints(diff);
        EndpointsOfServices.wakes(&caches(objects), &changed, &mut |key| woken.push(key.1));
        woken
    };
    let ours = written(&[service()]);
    let mut by_hand = ours.clone();
    by_hand["metadata"]["labels"] = Value::Null;
    assert_eq!(woken(&[service()], Some(&ours), None), ["web"]);
    assert_eq!(woken(&[], None, Some(&ours)), ["web"]);
    // Others that come next without a service must not be taken for those that went.
    assert_eq!(woken(&[], Some(&ours), None), [""; 0]);
    // Somebody may write the service next.
    assert_eq!(woken(&[], None, Some(&by_hand)), [""; 0]);
    assert_eq!(woken(&[service()], None, Some(&ours)), [""; 0]);
    assert_eq!(woken(&[], Some(&ours), Some(&ours)), [""; 0]);
}

#[test]
fn a_pod_wakes_the_services_that_select_it() {
    let mut other = service_with(json!({"selector": {"app": "other"}}));
    other["metadata"]["name"] = "other".into();
    let caches = caches(&[service(), other]);
    let woken = |old: &Value, new: &Value| {
        let read = |one: &Value| Some(Arc::new(serde_json::from_value(one.clone()).unwrap()));
        let changed = Changed::Pod(Diff {
            old: read(old),
            new: read(new),
        });
        let mut woken = Vec::new();
        EndpointsOfServices.wakes(&caches, &changed, &mut |key| woken.push(key.1));
        woken
    };
    let (old, new) = (pod("p", "a", false), pod("p", "a", true));
    assert_eq!(woken(&old, &new), ["web"]);
    assert_eq!(woken(&old, &old), [""; 0]);
    let mut moved = old.clone();
    moved["metadata"]["labels"] = json!({"app": "other"});
    assert_eq!(woken(&old, &moved), ["other", "web"]);
}

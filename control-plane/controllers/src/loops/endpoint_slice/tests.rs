use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{self, ago, bodies, decide, lines, node, pod};

const KEY: (&str, &str) = ("n", "web");

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "n", "name": "web", "labels": {"team": "x"}},
        "spec": {
            "clusterIP": "10.1.0.1", "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
        },
    })
}

/// The caches with these objects, and with the node of the pods, unless it is one of them.
fn caches(objects: &[Value]) -> Caches {
    let node = [node("a", "True")];
    fixtures::caches(&[&node[..], objects].concat())
}

/// The slices that a decision creates, with names as the apiserver would generate them.
fn made(decision: &Decision) -> Vec<Value> {
    let created = bodies(decision).into_iter();
    created
        .zip(1..)
        .map(|(mut slice, number)| {
            slice["metadata"]["name"] = format!("web-{number}").into();
            slice
        })
        .collect()
}

fn many(count: usize) -> Vec<Value> {
    (0..count)
        .map(|number| pod(&format!("p{number:03}"), "a", true))
        .collect()
}

#[test]
fn a_service_gets_a_slice_with_what_others_look_for() {
    let mut objects = vec![service(), pod("p", "a", true), pod("pp", "a", false)];
    let mut ends = pod("ppp", "a", true);
    ends["metadata"]["deletionTimestamp"] = ago(1).into();
    let mut ended = pod("pppp", "a", false);
    ended["status"]["phase"] = "Succeeded".into();
    objects.extend([ends, ended]);
    let decision = decide(&EndpointSlices, &caches(&objects), KEY);
    assert_eq!(lines(&decision), ["create endpointslices n/"]);
    let slice = &bodies(&decision)[0];
    assert_eq!(slice["metadata"]["generateName"], "web-");
    assert_eq!(
        slice["metadata"]["labels"],
        json!({
            OF_SERVICE: "web", MANAGED_BY: US, "team": "x",
        })
    );
    assert_eq!(
        slice["ports"],
        json!([{"name": "http", "port": 8080, "protocol": "TCP"}])
    );
    let states: Vec<Value> = slice["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let is = &one["conditions"];
            json!([
                one["targetRef"]["name"],
                is["ready"],
                is["serving"],
                is["terminating"]
            ])
        })
        .collect();
    assert_eq!(
        states,
        [
            json!(["p", true, true, false]),
            json!(["pp", false, false, false]),
            json!(["ppp", false, true, true]),
        ]
    );
}

#[test]
fn pods_on_a_node_that_is_gone_are_no_endpoints() {
    let mut service = service();
    let pods = [pod("p", "a", true), pod("pp", "gone", true)];
    let names = |service: &Value| {
        let objects = [std::slice::from_ref(service), &pods].concat();
        let decision = decide(&EndpointSlices, &caches(&objects), KEY);
        let slice = bodies(&decision).remove(0);
        let endpoints = slice["endpoints"].as_array().unwrap().iter();
        endpoints
            .map(|one| one["targetRef"]["name"].as_str().unwrap().to_owned())
            .collect::<Vec<String>>()
    };
    assert_eq!(names(&service), ["p"]);
    service["spec"]["publishNotReadyAddresses"] = true.into();
    assert_eq!(names(&service), ["p", "pp"]);
}

#[test]
fn a_node_that_comes_or_goes_wakes_the_services_of_its_pods() {
    let mut other = service();
    other["metadata"]["name"] = "other".into();
    other["spec"]["selector"] = json!({"app": "other"});
    let caches = caches(&[service(), other, pod("p", "a", true)]);
    let woken = |old: Option<&str>, new: Option<&str>| {
        let state = |ready: Option<&str>| {
            let node = ready.map(|ready| node("a", ready));
            node.map(|node| std::sync::Arc::new(serde_json::from_value(node).unwrap()))
        };
        let diff = Diff {
            old: state(old),
            new: state(new),
        };
        let mut woken = Vec::new();
        EndpointSlices.wakes(&caches, &Changed::Node(diff), &mut |key| woken.push(key.1));
        woken
    };
    assert_eq!(woken(None, Some("True")), ["web"]);
    assert_eq!(woken(Some("True"), None), ["web"]);
    assert_eq!(woken(Some("True"), Some("False")), [""; 0]);
}

#[test]
fn what_is_published_unready_does_not_serve() {
    let mut early = service();
    early["spec"]["publishNotReadyAddresses"] = true.into();
    let objects = [early, pod("p", "a", false)];
    let decision = decide(&EndpointSlices, &caches(&objects), KEY);
    let conditions = json!({"ready": true, "serving": false, "terminating": false});
    assert_eq!(
        bodies(&decision)[0]["endpoints"][0]["conditions"],
        conditions
    );
}

#[test]
fn a_service_that_prefers_what_is_near_says_where_each_endpoint_is() {
    let mut zoned = node("a", "True");
    zoned["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "z"});
    let hints = |distribution: &str, annotations: Value, ready: bool| {
        let mut near = service();
        near["spec"]["trafficDistribution"] = distribution.into();
        near["metadata"]["annotations"] = annotations;
        let objects = [near, zoned.clone(), pod("p", "a", ready)];
        let decision = decide(&EndpointSlices, &caches(&objects), KEY);
        bodies(&decision)[0]["endpoints"][0]["hints"].clone()
    };
    let zone = json!({"forZones": [{"name": "z"}]});
    assert_eq!(hints("PreferClose", json!({}), true), zone);
    assert_eq!(hints("PreferSameZone", json!({}), true), zone);
    assert_eq!(
        hints("PreferSameNode", json!({}), true),
        json!({"forZones": [{"name": "z"}], "forNodes": [{"name": "a"}]})
    );
    assert_eq!(hints("PreferClose", json!({}), false), Value::Null);
    let by_topology = json!({"service.kubernetes.io/topology-mode": "Auto"});
    assert_eq!(hints("PreferClose", by_topology, true), Value::Null);
}

#[test]
fn many_pods_fill_several_slices_and_a_change_touches_one() {
    let mut objects = many(250);
    objects.push(service());
    let decision = decide(&EndpointSlices, &caches(&objects), KEY);
    let mut slices = made(&decision);
    let counts: Vec<usize> = slices
        .iter()
        .map(|slice| slice["endpoints"].as_array().unwrap().len())
        .collect();
    assert_eq!(counts, [100, 100, 50]);
    objects.append(&mut slices);
    let settled = decide(&EndpointSlices, &caches(&objects), KEY);
    assert_eq!(lines(&settled), Vec::<String>::new());
    objects.remove(7);
    let decision = decide(&EndpointSlices, &caches(&objects), KEY);
    assert_eq!(lines(&decision), ["update endpointslices n/web-1"]);
    assert_eq!(
        bodies(&decision)[0]["endpoints"].as_array().unwrap().len(),
        99
    );
}

#[test]
fn a_slice_says_when_the_change_happened_that_it_shows() {
    let since = |name: &str, ready: bool, seconds: i64| {
        let mut pod = pod(name, "a", ready);
        pod["status"]["conditions"][0]["lastTransitionTime"] = ago(seconds).into();
        pod
    };
    let mut service = service();
    service["metadata"]["creationTimestamp"] = ago(600).into();
    let mut ended = since("pppp", false, 900);
    ended["status"]["phase"] = "Succeeded".into();
    let pods = [since("p", true, 500), since("pp", true, 400), ended];
    let mut objects = [&[service][..], &pods].concat();
    let told = |slice: &Value| slice["metadata"]["annotations"][TRIGGER].clone();
    let first = made(&decide(&EndpointSlices, &caches(&objects), KEY)).remove(0);
    assert_eq!(told(&first), ago(600));
    // One pod is no longer ready, and another came before that.
    objects[1] = since("p", false, 20);
    objects.extend([since("ppp", true, 30), first]);
    let second = bodies(&decide(&EndpointSlices, &caches(&objects), KEY)).remove(0);
    assert_eq!(told(&second), ago(30));
    // Nobody wrote down when a pod went.
    objects[5] = second;
    objects.remove(2);
    let third = bodies(&decide(&EndpointSlices, &caches(&objects), KEY)).remove(0);
    assert_eq!(third["endpoints"].as_array().map(Vec::len), Some(2));
    assert_eq!(told(&third), Value::Null);
}

#[test]
fn a_slice_that_is_not_needed_becomes_the_one_that_is() {
    let mut objects = vec![service()];
    let empty = made(&decide(&EndpointSlices, &caches(&objects), KEY));
    objects.extend(empty);
    objects.push(pod("p", "a", true));
    let first = decide(&EndpointSlices, &caches(&objects), KEY);
    assert_eq!(lines(&first), ["update endpointslices n/web-1"]);
    let slice = bodies(&first).remove(0);
    assert_eq!(slice["ports"][0]["port"], 8080);
    assert_eq!(slice["endpoints"].as_array().unwrap().len(), 1);
    // Another port takes the place of the first in one step: nobody sees the service without any.
    objects[1] = slice;
    objects[0]["spec"]["ports"][0]["targetPort"] = 8081.into();
    let moved = decide(&EndpointSlices, &caches(&objects), KEY);
    assert_eq!(lines(&moved), ["update endpointslices n/web-1"]);
    assert_eq!(bodies(&moved)[0]["ports"][0]["port"], 8081);
    // What cannot be used again goes last.
    objects[1]["addressType"] = "IPv6".into();
    let other = decide(&EndpointSlices, &caches(&objects), KEY);
    assert_eq!(
        lines(&other),
        ["create endpointslices n/", "delete endpointslices n/web-1"]
    );
}

#[test]
fn slices_of_an_earlier_service_of_the_name_are_not_used_again() {
    let mut objects = vec![service(), pod("p", "a", true)];
    let slices = made(&decide(&EndpointSlices, &caches(&objects), KEY));
    objects.extend(slices);
    let settled = decide(&EndpointSlices, &caches(&objects), KEY);
    assert_eq!(lines(&settled), [""; 0]);
    objects[0]["metadata"]["uid"] = "another".into();
    let decision = decide(&EndpointSlices, &caches(&objects), KEY);
    assert_eq!(
        lines(&decision),
        ["create endpointslices n/", "delete endpointslices n/web-1"]
    );
    let owners = &bodies(&decision)[0]["metadata"]["ownerReferences"];
    assert_eq!(owners[0]["uid"], "another");
}

#[test]
fn a_service_that_is_held_back_keeps_its_slices_up_to_date() {
    let mut objects = vec![service(), pod("p", "a", true)];
    let slices = made(&decide(&EndpointSlices, &caches(&objects), KEY));
    objects[0]["metadata"]["deletionTimestamp"] = ago(1).into();
    objects[0]["metadata"]["finalizers"] = json!(["a/b"]);
    let none = decide(&EndpointSlices, &caches(&objects), KEY);
    assert_eq!(lines(&none), [""; 0]);
    objects[1] = pod("p", "a", false);
    objects.extend(slices);
    let decision = decide(&EndpointSlices, &caches(&objects), KEY);
    assert_eq!(lines(&decision), ["update endpointslices n/web-1"]);
}

#[test]
fn a_namespace_that_goes_gets_no_slices() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "n", "deletionTimestamp": ago(1),
    }});
    let mut objects = vec![service(), pod("p", "a", true)];
    let slices = made(&decide(&EndpointSlices, &caches(&objects), KEY));
    objects.push(namespace);
    let none = decide(&EndpointSlices, &caches(&objects), KEY);
    assert_eq!(lines(&none), [""; 0]);
    // Those that are there follow their pods until they go.
    objects[1] = pod("p", "a", false);
    objects.extend(slices);
    let decision = decide(&EndpointSlices, &caches(&objects), KEY);
    assert_eq!(lines(&decision), ["update endpointslices n/web-1"]);
}

#[test]
fn pods_that_call_a_port_differently_have_slices_of_their_own() {
    let mut named = service();
    named["spec"]["ports"][0]["targetPort"] = "http".into();
    let with_port = |name: &str, number: u32| {
        let mut pod = pod(name, "a", true);
        pod["spec"]["containers"][0]["ports"] = json!([{"name": "http", "containerPort": number}]);
        pod
    };
    let objects = [named, with_port("p", 81), with_port("pp", 82)];
    let decision = decide(&EndpointSlices, &caches(&objects), KEY);
    let ports: Vec<Value> = bodies(&decision)
        .iter()
        .map(|slice| slice["ports"][0]["port"].clone())
        .collect();
    assert_eq!(ports, [json!(81), json!(82)]);
}

#[test]
fn a_port_may_be_that_of_a_sidecar() {
    let mut named = service();
    named["spec"]["ports"][0]["targetPort"] = "metrics".into();
    let init = |restarts: Value| {
        let mut pod = pod("p", "a", true);
        pod["spec"]["initContainers"] = json!([{
            "name": "proxy", "image": "i", "restartPolicy": restarts,
            "ports": [{"name": "metrics", "containerPort": 9090}],
        }]);
        let decision = decide(&EndpointSlices, &caches(&[named.clone(), pod]), KEY);
        bodies(&decision)[0]["ports"][0]["port"].clone()
    };
    assert_eq!(init("Always".into()), 9090);
    // One that has ended serves nobody.
    assert_eq!(init(Value::Null), Value::Null);
}

#[test]
fn a_service_without_pods_keeps_one_empty_slice() {
    let decision = decide(&EndpointSlices, &caches(&[service()]), KEY);
    assert_eq!(lines(&decision), ["create endpointslices n/"]);
    let mut headless = service();
    headless["spec"]["clusterIP"] = "None".into();
    let decision = decide(&EndpointSlices, &caches(&[headless]), KEY);
    assert_eq!(bodies(&decision)[0]["metadata"]["labels"][HEADLESS], "");
}

#[test]
fn each_family_of_a_service_has_slices_of_its_own() {
    let two = |name: &str, second: &str| {
        let mut pod = pod(name, "a", true);
        let first = pod["status"]["podIP"].clone();
        pod["status"]["podIPs"] = json!([{"ip": first}, {"ip": second}]);
        pod
    };
    let objects = |spec: Value| {
        let mut service = service();
        for (key, value) in spec.as_object().unwrap() {
            service["spec"][key] = value.clone();
        }
        vec![service, two("p", "fd00::7"), pod("pp", "a", true)]
    };
    let made_for = |spec: Value| {
        let decision = decide(&EndpointSlices, &caches(&objects(spec)), KEY);
        let mut made: Vec<(String, usize)> = made(&decision)
            .iter()
            .map(|slice| {
                let endpoints = slice["endpoints"].as_array().unwrap();
                (
                    slice["addressType"].as_str().unwrap().to_owned(),
                    endpoints.len(),
                )
            })
            .collect();
        made.sort();
        made
    };
    let (four, six) = (("IPv4".to_owned(), 2), ("IPv6".to_owned(), 1));
    let both = [four.clone(), six.clone()];
    assert_eq!(made_for(json!({"ipFamilies": ["IPv6", "IPv4"]})), both);
    assert_eq!(
        made_for(json!({"ipFamilies": ["IPv6"]})),
        std::slice::from_ref(&six)
    );
    // Those of a time without families.
    assert_eq!(made_for(json!({"clusterIP": "fd00:10::7"})), [six]);
    assert_eq!(made_for(json!({"clusterIP": "None"})), both);
    assert_eq!(made_for(json!({})), [four]);

    // A service that gives a family up loses the slices of it.
    let mut all = objects(json!({"ipFamilies": ["IPv4", "IPv6"]}));
    let first = decide(&EndpointSlices, &caches(&all), KEY);
    all.extend(made(&first));
    assert_eq!(lines(&decide(&EndpointSlices, &caches(&all), KEY)), [""; 0]);
    all[0]["spec"]["ipFamilies"] = json!(["IPv4"]);
    let after = decide(&EndpointSlices, &caches(&all), KEY);
    let [line] = &lines(&after)[..] else {
        panic!("{:?}", lines(&after))
    };
    assert!(line.starts_with("delete endpointslices n/web-"), "{line}");
}

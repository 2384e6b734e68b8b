mod counters;
mod shares;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::claims::tests::{LATER, NOW, decided, set};
use crate::core::{Core, Decision};
use crate::tests::{node, pod};

const NOT_ALL: &str = "cannot allocate all claims";

/// Two nodes, and a class of the devices of one driver.
fn core() -> Core {
    let mut core = Core::new("default-scheduler", 1);
    core.node(
        &node("a", json!({"metadata": {"labels": {"zone": "x"}}})),
        NOW,
    );
    core.node(
        &node("b", json!({"metadata": {"labels": {"zone": "y"}}})),
        NOW,
    );
    let selector = json!({"cel": {"expression": "device.driver == 'x.com'"}});
    let class = json!({
        "metadata": {"name": "chip"},
        "spec": {"selectors": [selector], "config": [
            {"opaque": {"driver": "x.com", "parameters": {"of": "class"}}},
        ]},
    });
    set(&mut core, "DeviceClass", class);
    core
}

/// A slice that is a whole pool on a node.
fn slice(node: &str, devices: Value) -> Value {
    json!({
        "metadata": {"name": node},
        "spec": {
            "driver": "x.com", "nodeName": node, "devices": devices,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        },
    })
}

fn chips(count: usize) -> Value {
    let chips = (0..count).map(|at| json!({"name": format!("chip-{at}")}));
    chips.collect()
}

/// A claim with these requests.
fn claim(name: &str, requests: Value) -> Value {
    json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": name, "resourceVersion": "5",
        },
        "spec": {"devices": {"requests": requests}},
    })
}

/// A claim of some devices of the class.
fn of_class(name: &str, count: usize) -> Value {
    claim(name, json!([exactly("chip", json!({"count": count}))]))
}

/// A request for devices of the class.
fn exactly(name: &str, change: Value) -> Value {
    let wanted = json!({"deviceClassName": "chip", "allocationMode": "ExactCount", "count": 1});
    json!({"name": name, "exactly": machinery::patch::merge(&wanted, &change)})
}

/// The claim as it is when a pod got it.
fn got(claim: Value, allocation: &Value, uid: &str) -> Value {
    let status = json!({"allocation": allocation, "reservedFor": [{"uid": uid}]});
    machinery::patch::merge(&claim, &json!({"status": status}))
}

/// A pod that names claims.
fn user(name: &str, claims: &[&str]) -> Arc<Pod> {
    let claim = |claim: &&str| json!({"name": claim, "resourceClaimName": claim});
    let claims: Vec<Value> = claims.iter().map(claim).collect();
    pod(name, json!({"spec": {"resourceClaims": claims}}))
}

/// The node of the next binding, and what the pod gets before it.
fn bound(core: &mut Core, now: Duration) -> (String, Vec<Grant>) {
    match core.next(now) {
        Some(Decision::Bind { node, grants, .. }) => (node, grants),
        Some(Decision::Refuse { why, .. }) => panic!("{why}"),
        other => panic!("{other:?}"),
    }
}

/// What is allocated by a grant.
fn allocation(grant: &Grant) -> &Value {
    &grant.allotment.as_ref().unwrap().allocation
}

/// The devices of an allocation.
fn devices(grant: &Grant) -> Vec<&str> {
    let results = object::items(allocation(grant), &["devices", "results"]).iter();
    results.map(|one| object::text(one, &["device"])).collect()
}

/// The message about a pod, with this reason on every node.
fn refusal(reason: &str) -> String {
    format!(
        "0/2 nodes are available: 2 {reason}. still not schedulable, preemption: 0/2 nodes are \
         available: 2 Preemption is not helpful for scheduling."
    )
}

/// The decision about a pod with this claim, on two nodes of which `a` has these devices.
fn tried(claim: Value, devices: Value) -> String {
    let mut core = core();
    set(&mut core, "ResourceSlice", slice("a", devices));
    let name = object::name(&claim).to_owned();
    set(&mut core, "ResourceClaim", claim);
    core.pod(user("p", &[&name]), NOW);
    decided(&mut core, NOW)
}

#[test]
fn a_pod_goes_where_a_device_is_free_and_gets_it() {
    let mut core = core();
    set(&mut core, "ResourceSlice", slice("b", chips(1)));
    set(&mut core, "ResourceClaim", of_class("c", 1));
    set(&mut core, "ResourceClaim", of_class("d", 1));
    core.pod(user("p", &["c"]), NOW);
    let (node, grants) = bound(&mut core, NOW);
    assert_eq!(node, "b");
    let [grant] = &grants[..] else {
        panic!("{grants:?}");
    };
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["b"]});
    assert_eq!(
        *allocation(grant),
        json!({
            "devices": {
                "results": [
                    {"request": "chip", "driver": "x.com", "pool": "b", "device": "chip-0"},
                ],
                "config": [{
                    "source": "FromClass", "requests": ["chip"],
                    "opaque": {"driver": "x.com", "parameters": {"of": "class"}},
                }],
            },
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        })
    );
    let allotment = grant.allotment.as_ref().unwrap();
    assert_eq!(allotment.version, "5");
    assert_eq!(
        allotment.finalizers.as_deref(),
        Some(&[FINALIZER.to_owned()][..])
    );
    // It is taken before the apiserver has stored it, and then as long as the claim has it.
    core.pod(user("q", &["d"]), NOW);
    assert_eq!(decided(&mut core, NOW), refusal(NOT_ALL));
    core.granted("default", &grants, &["6".to_owned()], NOW);
    assert_eq!(decided(&mut core, LATER), refusal(NOT_ALL));
    let taken = got(of_class("c", 1), allocation(grant), "p");
    set(&mut core, "ResourceClaim", taken);
    assert_eq!(decided(&mut core, LATER * 2), refusal(NOT_ALL));
    set(&mut core, "ResourceClaim", of_class("c", 1));
    assert_eq!(bound(&mut core, LATER * 3).0, "b");
}

#[test]
fn devices_that_the_apiserver_refused_are_free_again() {
    let mut core = core();
    set(&mut core, "ResourceSlice", slice("b", chips(1)));
    set(&mut core, "ResourceClaim", of_class("c", 1));
    core.pod(user("p", &["c"]), NOW);
    let (_, grants) = bound(&mut core, NOW);
    core.granted("default", &grants, &[], NOW);
    core.not_bound("p", NOW);
    let (_, again) = bound(&mut core, LATER);
    assert_eq!(again, grants);
}

#[test]
fn devices_stay_taken_while_a_list_is_older_than_their_allocation() {
    let list = |core: &mut Core, claims: &[Value]| {
        core.claims(NOW, |known| {
            known.clear("ResourceClaim");
            claims
                .iter()
                .for_each(|one| known.set("ResourceClaim", one));
        });
    };
    let changed = |change: Value| {
        let change = json!({"metadata": change});
        machinery::patch::merge(&of_class("c", 1), &change)
    };
    let protected = changed(json!({"resourceVersion": "6", "finalizers": [FINALIZER]}));
    for (given_back, is_late) in [
        // It was allocated and freed, another took its name, or it is gone.
        (Some(changed(json!({"resourceVersion": "8"}))), false),
        (Some(changed(json!({"resourceVersion": "8"}))), true),
        (Some(changed(json!({"uid": "another"}))), false),
        (None, false),
        (None, true),
    ] {
        let mut core = core();
        set(&mut core, "ResourceSlice", slice("b", chips(1)));
        list(&mut core, &[of_class("c", 1), of_class("d", 1)]);
        core.pod(user("p", &["c"]), NOW);
        let (_, grants) = bound(&mut core, NOW);
        let written = ["7".to_owned()];
        if !is_late {
            core.granted("default", &grants, &written, NOW);
        }
        list(&mut core, &[protected.clone(), of_class("d", 1)]);
        core.pod(user("q", &["d"]), NOW);
        assert_eq!(decided(&mut core, NOW), refusal(NOT_ALL));
        let now: Vec<Value> = given_back.into_iter().chain([of_class("d", 1)]).collect();
        list(&mut core, &now);
        if is_late {
            core.granted("default", &grants, &written, NOW);
        }
        assert_eq!(bound(&mut core, LATER).0, "b", "{now:?}");
    }
}

#[test]
fn a_pod_that_waits_for_a_volume_keeps_no_place_once_its_claim_for_devices_is_gone() {
    let mut core = core();
    let class = json!({
        "metadata": {"name": "late"}, "provisioner": "x.com/y",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    set(&mut core, "StorageClass", class);
    let data = json!({
        "metadata": {"namespace": "default", "name": "data"},
        "spec": {"storageClassName": "late"},
    });
    set(&mut core, "PersistentVolumeClaim", data);
    set(&mut core, "ResourceSlice", slice("a", chips(1)));
    set(&mut core, "ResourceClaim", of_class("c", 1));
    let spec = json!({
        "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    });
    core.pod(pod("p", json!({"spec": spec})), NOW);
    assert_eq!(decided(&mut core, NOW), r#"["data"] on a"#);
    core.claimed("p", &crate::claims::Failed::default(), NOW);
    assert_eq!(decided(&mut core, LATER), "nothing");
    assert_eq!(
        core.cache().place("p"),
        Some("a"),
        "its volume is made there"
    );
    core.claims(LATER, |claims| {
        claims.remove("ResourceClaim", &of_class("c", 1));
    });
    assert_eq!(decided(&mut core, LATER * 2), "nothing");
    assert_eq!(core.cache().place("p"), None);
    set(&mut core, "ResourceClaim", of_class("c", 1));
    assert_eq!(
        decided(&mut core, LATER * 3),
        "nothing",
        "its volume was asked for"
    );
}

#[test]
fn an_allocated_claim_keeps_its_pods_where_its_devices_are() {
    let mut core = core();
    set(&mut core, "ResourceSlice", slice("b", chips(1)));
    set(&mut core, "ResourceClaim", of_class("c", 1));
    core.pod(user("p", &["c"]), NOW);
    let (_, grants) = bound(&mut core, NOW);
    let taken = got(of_class("c", 1), allocation(&grants[0]), "p");
    set(&mut core, "ResourceClaim", taken);
    // Another pod shares it: it gets no devices of its own.
    core.pod(user("q", &["c"]), NOW);
    let (node, grants) = bound(&mut core, NOW);
    assert_eq!(node, "b");
    assert_eq!((grants.len(), grants[0].allotment.is_none()), (1, true));
    // One that cannot go there cannot have it, and it stays with the one that uses it.
    let affinity = json!({"spec": {"nodeSelector": {"zone": "x"}}});
    let elsewhere = serde_json::to_value(&*user("r", &["c"])).unwrap();
    let elsewhere = machinery::patch::merge(&elsewhere, &affinity);
    core.pod(
        serde_json::from_value::<Pod>(elsewhere).unwrap().into(),
        NOW,
    );
    let why = decided(&mut core, NOW);
    assert!(
        why.contains("1 resourceclaim not available on the node"),
        "{why}"
    );
    assert!(why.contains(" still not schedulable,"), "{why}");
}

#[test]
fn a_claim_with_as_many_users_as_it_may_have_gets_no_more() {
    let users = |count: usize| {
        let users = (0..count).map(|at| json!({"uid": format!("user-{at}")}));
        let users: Vec<Value> = users.collect();
        let status = json!({"allocation": {"devices": {"results": []}}, "reservedFor": users});
        machinery::patch::merge(&of_class("c", 1), &json!({"status": status}))
    };
    let mut core = core();
    set(&mut core, "ResourceClaim", users(USERS_MAX));
    core.pod(user("p", &["c"]), NOW);
    let why = decided(&mut core, NOW);
    assert!(why.contains(": resourceclaim in use."), "{why}");
    // It is tried again when one of them goes.
    assert_eq!(decided(&mut core, LATER), "nothing");
    set(&mut core, "ResourceClaim", users(USERS_MAX - 1));
    assert_eq!(bound(&mut core, LATER).1.len(), 1);
}

#[test]
fn a_claim_that_nobody_uses_is_freed_for_a_pod_that_cannot_go_there() {
    let mut core = core();
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["b"]});
    let allocated = json!({
        "devices": {"results": []},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    });
    set(
        &mut core,
        "ResourceClaim",
        got(of_class("c", 1), &allocated, "p"),
    );
    let elsewhere = json!({"spec": {
        "nodeSelector": {"zone": "x"},
        "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
    }});
    core.pod(pod("p", elsewhere), NOW);
    let Some(Decision::Refuse { why, .. }) = core.next(NOW) else {
        panic!("it goes nowhere");
    };
    let text = why.to_string();
    assert!(
        text.contains(" deallocation of ResourceClaim completed,"),
        "{text}"
    );
    let crate::refusal::Unfit::Refused { freed, .. } = why else {
        panic!("{text}");
    };
    let expected = Freed {
        claim: "c".to_owned(),
        uid: "c".to_owned(),
        version: "5".to_owned(),
    };
    assert_eq!(freed, Some(Box::new(expected)));
}

#[test]
fn selectors_choose_devices_and_errors_in_them_are_told() {
    let sized = json!([
        {"name": "small", "attributes": {"size": {"int": 1}}},
        {"name": "large", "attributes": {"size": {"int": 9}}},
    ]);
    let mut core = core();
    set(&mut core, "ResourceSlice", slice("a", sized.clone()));
    let selector = |source: &str| json!({"selectors": [{"cel": {"expression": source}}]});
    let large = selector("device.attributes['x.com'].size > 5");
    set(
        &mut core,
        "ResourceClaim",
        claim("c", json!([exactly("chip", large)])),
    );
    core.pod(user("p", &["c"]), NOW);
    let (node, grants) = bound(&mut core, NOW);
    assert_eq!((node.as_str(), devices(&grants[0])), ("a", vec!["large"]));
    let wrong = selector("device.attributes['x.com'].colour == 'red'");
    let why = tried(claim("c", json!([exactly("chip", wrong)])), sized);
    let expected = "1 claim default/c: selector #0: CEL runtime error: no such key: colour";
    assert!(why.contains(expected), "{why}");
}

#[test]
fn all_requests_of_all_claims_get_devices_together() {
    let of = |name: &str, bus: &str| json!({"name": name, "attributes": {"bus": {"string": bus}}});
    let all = json!([
        of("one", "1"),
        of("two", "2"),
        of("three", "2"),
        of("four", "3")
    ]);
    let mut core = core();
    set(&mut core, "ResourceSlice", slice("a", all));
    // Only devices two and three have the same bus, so the first fit of each request is not enough.
    let mut pair = of_class("pair", 2);
    pair["spec"]["devices"]["constraints"] = json!([{"matchAttribute": "x.com/bus"}]);
    let mut apart = of_class("apart", 2);
    apart["spec"]["devices"]["constraints"] = json!([{"distinctAttribute": "x.com/bus"}]);
    set(&mut core, "ResourceClaim", pair);
    set(&mut core, "ResourceClaim", apart);
    core.pod(user("p", &["apart", "pair"]), NOW);
    let (_, grants) = bound(&mut core, NOW);
    assert_eq!(devices(&grants[0]), ["one", "four"]);
    assert_eq!(devices(&grants[1]), ["two", "three"]);
}

#[test]
fn the_first_alternative_that_fits_is_taken() {
    let wanted = |name: &str, count: usize| {
        json!({
            "name": name, "deviceClassName": "chip", "allocationMode": "ExactCount",
            "count": count,
        })
    };
    let mut several = claim(
        "c",
        json!([{"name": "chip", "firstAvailable": [wanted("many", 3), wanted("few", 2)]}]),
    );
    several["spec"]["devices"]["config"] = json!([
        {"requests": ["chip/few"], "opaque": {"driver": "x.com", "parameters": {"n": 2}}},
        {"requests": ["chip/many"], "opaque": {"driver": "x.com", "parameters": {"n": 3}}},
    ]);
    let mut core = core();
    set(&mut core, "ResourceSlice", slice("a", chips(2)));
    set(&mut core, "ResourceClaim", several);
    core.pod(user("p", &["c"]), NOW);
    let (_, grants) = bound(&mut core, NOW);
    let devices = &allocation(&grants[0])["devices"];
    assert_eq!(devices["results"][1]["request"], "chip/few");
    let config = devices["config"].as_array().unwrap();
    assert_eq!(config.len(), 2);
    assert_eq!(config[0]["requests"], json!(["chip/few"]));
    assert_eq!(config[1]["source"], "FromClaim");
    assert_eq!(config[1]["opaque"]["parameters"]["n"], 2);
}

#[test]
fn all_devices_of_a_node_are_those_of_complete_pools() {
    let all = claim(
        "c",
        json!([exactly(
            "chip",
            json!({"allocationMode": "All", "count": null})
        )]),
    );
    let mut core = core();
    let mut half = slice("a", chips(2));
    half["spec"]["pool"]["resourceSliceCount"] = 2.into();
    set(&mut core, "ResourceSlice", half);
    set(&mut core, "ResourceClaim", all);
    core.pod(user("p", &["c"]), NOW);
    let why = decided(&mut core, NOW);
    let expected = "1 claim default/c, request chip: asks for all devices, but resource pool x.com/a is \
                    currently being updated";
    assert!(why.contains(expected), "{why}");
    let mut rest = slice("a", json!([{"name": "chip-9"}]));
    rest["metadata"]["name"] = "rest".into();
    rest["spec"]["pool"]["resourceSliceCount"] = 2.into();
    set(&mut core, "ResourceSlice", rest);
    let (_, grants) = bound(&mut core, LATER);
    assert_eq!(devices(&grants[0]), ["chip-0", "chip-1", "chip-9"]);
}

#[test]
fn old_and_incomplete_pools_give_no_devices() {
    let mut old = slice("a", chips(1));
    let mut core = core();
    set(&mut core, "ResourceSlice", old.clone());
    old["metadata"]["name"] = "new".into();
    old["spec"]["devices"] = json!([{"name": "chip-new"}]);
    old["spec"]["pool"] = json!({"name": "a", "generation": 2, "resourceSliceCount": 2});
    set(&mut core, "ResourceSlice", old.clone());
    set(&mut core, "ResourceClaim", of_class("c", 1));
    core.pod(user("p", &["c"]), NOW);
    assert_eq!(decided(&mut core, NOW), refusal(NOT_ALL));
    old["spec"]["pool"]["resourceSliceCount"] = 1.into();
    set(&mut core, "ResourceSlice", old);
    assert_eq!(devices(&bound(&mut core, LATER).1[0]), ["chip-new"]);
}

#[test]
fn devices_are_where_their_slice_or_they_themselves_say() {
    let zone = |zone: &str| {
        let term = json!({"key": "zone", "operator": "In", "values": [zone]});
        json!({"nodeSelectorTerms": [{"matchExpressions": [term]}]})
    };
    let mut shared = slice("shared", chips(1));
    shared["spec"].as_object_mut().unwrap().remove("nodeName");
    let mut everywhere = shared.clone();
    everywhere["spec"]["allNodes"] = true.into();
    let mut selected = shared.clone();
    selected["spec"]["nodeSelector"] = zone("y");
    let mut by_device = shared;
    by_device["spec"]["perDeviceNodeSelection"] = true.into();
    by_device["spec"]["devices"] = json!([
        {"name": "chip-a", "nodeName": "nowhere"},
        {"name": "chip-b", "nodeSelector": zone("y")},
    ]);
    for (slice, expected) in [
        (everywhere, Value::Null),
        (selected, zone("y")),
        (by_device, zone("y")),
    ] {
        let mut core = core();
        set(&mut core, "ResourceSlice", slice);
        set(&mut core, "ResourceClaim", of_class("c", 1));
        core.pod(user("p", &["c"]), NOW);
        let (node, grants) = bound(&mut core, NOW);
        assert_eq!(allocation(&grants[0])["nodeSelector"], expected);
        assert!(expected.is_null() || node == "b");
    }
}

#[test]
fn tainted_devices_go_to_those_who_tolerate_it() {
    let taint = json!({"key": "broken", "value": "yes", "effect": "NoSchedule"});
    let tainted = json!([{"name": "chip-0", "taints": [taint]}]);
    assert_eq!(tried(of_class("c", 1), tainted.clone()), refusal(NOT_ALL));
    for (toleration, is_enough) in [
        (json!({"operator": "Exists"}), true),
        (
            json!({"key": "broken", "operator": "Equal", "value": "yes"}),
            true,
        ),
        (
            json!({"key": "broken", "operator": "Equal", "value": "no"}),
            false,
        ),
        (json!({"key": "other", "operator": "Exists"}), false),
        (json!({"operator": "Exists", "effect": "NoExecute"}), false),
    ] {
        let request = exactly("chip", json!({"tolerations": [toleration]}));
        let decided = tried(claim("c", json!([request])), tainted.clone());
        assert_eq!(decided == "to a", is_enough, "{toleration}: {decided}");
    }
}

#[test]
fn administrators_get_devices_that_others_use_and_keep_them_from_nobody() {
    let mut core = core();
    set(&mut core, "ResourceSlice", slice("a", chips(1)));
    let admin = exactly("chip", json!({"adminAccess": true}));
    set(&mut core, "ResourceClaim", claim("admin", json!([admin])));
    set(&mut core, "ResourceClaim", of_class("c", 1));
    core.pod(user("p", &["admin"]), NOW);
    let (_, grants) = bound(&mut core, NOW);
    let result = &allocation(&grants[0])["devices"]["results"][0];
    assert_eq!(result["adminAccess"], true);
    core.pod(user("q", &["c"]), NOW);
    assert_eq!(bound(&mut core, NOW).0, "a");
}

#[test]
fn what_is_not_supported_is_refused_and_said() {
    let conditional = json!([{"name": "chip-0", "bindingConditions": ["ready"]}]);
    let why = tried(of_class("c", 1), conditional);
    let expected = "1 cannot allocate all claims: devices that have binding conditions are not \
                    supported";
    assert!(why.contains(expected), "{why}");
    let nowhere = |reason: &str| {
        format!(
            "0/2 nodes are available: {reason}. no new claims to deallocate, preemption: 0/2 nodes \
             are available: 2 Preemption is not helpful for scheduling."
        )
    };
    let other = exactly("chip", json!({"deviceClassName": "other"}));
    assert_eq!(
        tried(claim("c", json!([other])), chips(1)),
        nowhere("request chip: device class other does not exist")
    );
    assert_eq!(
        tried(of_class("c", 33), chips(40)),
        nowhere("claim default/c: number of requested devices 33 exceeds the claim limit of 32")
    );
}

#[test]
fn a_search_ends() {
    // Every dozen of devices is looked at for the first request before it is known that there are
    // not enough for the second.
    let why = tried(
        claim(
            "c",
            json!([
                exactly("one", json!({"count": 12})),
                exactly("two", json!({"count": 13})),
            ]),
        ),
        chips(24),
    );
    let expected = format!(
        "1 devices could not be allocated within {} steps",
        search::STEPS_MAX
    );
    assert!(why.contains(&expected), "{why}");
}

#[test]
fn what_selectors_cost_is_bounded_on_a_node_and_for_a_pod() {
    let core = core();
    let node = core.cache().node("a").unwrap();
    let class = Class::read(&json!({"metadata": {"name": "chip"}}));
    let classes = HashMap::from([("chip".to_owned(), Arc::new(class))]);
    let selector = json!({"selectors": [{"cel": {"expression": "device.driver == 'x.com'"}}]});
    let read = || {
        let claim = claim("c", json!([exactly("chip", selector.clone())]));
        Wanted::read(&claim, &classes, &Compiled::default()).unwrap()
    };
    let slices = [Arc::new(Slice::read(&slice("a", chips(1))))];
    let published = Arc::new(Published::of(slices.iter()));
    let pools = published.at(node);
    let (_, device) = pools[0].devices[0];
    let of_claim = read();
    let by = &of_claim.requests[0].alternatives[0];
    let mut cost = 0;
    assert_eq!(by.selects(device, &mut cost), Ok(true));
    let once = cost;
    assert!(once > 0);
    cost = wanted::COST_MAX + 1;
    let why = by.selects(device, &mut cost).unwrap_err();
    assert_eq!(why, "selectors of devices cost more than 10000000");
    for (spent, is_looked_at) in [(0, true), (COST_OF_POD_MAX + 1, false)] {
        let unallocated = Unallocated {
            wanted: vec![read()],
            published: Arc::clone(&published),
            taken: Arc::default(),
            left: Left::default(),
            cost: Cell::new(spent),
        };
        let needs = Needs {
            unallocated: Some(Box::new(unallocated)),
            ..Needs::default()
        };
        assert_eq!(needs.check(node).is_ok(), is_looked_at);
        let spent_now = needs.unallocated.as_ref().unwrap().cost.get();
        assert_eq!(spent_now - spent, if is_looked_at { once } else { 0 });
        // A node that was chosen before is not looked at in vain.
        assert!(needs.plan(node).is_some());
    }
}

#[test]
fn a_pod_waits_for_claims_that_are_not_made_or_not_its_own() {
    let of_template = json!({"spec": {
        "resourceClaims": [{"name": "x", "resourceClaimTemplateName": "chips"}],
    }});
    let mut core = core();
    set(&mut core, "ResourceSlice", slice("a", chips(1)));
    core.pod(pod("p", of_template.clone()), NOW);
    assert_eq!(decided(&mut core, NOW), "nothing", "nobody made it");
    let named = |status: Value| {
        let status = json!({"status": {"resourceClaimStatuses": [status]}});
        pod("p", machinery::patch::merge(&of_template, &status))
    };
    core.pod(named(json!({"name": "x", "resourceClaimName": "c"})), LATER);
    assert_eq!(decided(&mut core, LATER), "nothing", "it is not known yet");
    set(&mut core, "ResourceClaim", of_class("c", 1));
    assert_eq!(decided(&mut core, LATER * 2), "nothing", "it is another's");
    let mut own = of_class("c", 1);
    own["metadata"]["ownerReferences"] = json!([{"uid": "p", "controller": true}]);
    set(&mut core, "ResourceClaim", own);
    assert_eq!(decided(&mut core, LATER * 3), "to a");
    // A template may turn out to need no claim.
    let mut core = self::core();
    core.pod(named(json!({"name": "x"})), NOW);
    assert!(decided(&mut core, NOW).starts_with("to "));
}

//! Devices that share the counters of their pool.

use super::*;

/// The memory of the pool that [`slices`] makes, in Gi.
const WHOLE: i64 = 8;

/// A pool on node `a` with memory for one whole device or for two halves.
fn slices() -> [Value; 2] {
    let devices = json!([
        partition("whole", WHOLE),
        partition("half-0", WHOLE / 2),
        partition("half-1", WHOLE / 2),
    ]);
    let shared = json!({"name": "card", "counters": {"memory": {"value": format!("{WHOLE}Gi")}}});
    pool(json!([shared]), devices)
}

/// A device of so many Gi.
fn partition(name: &str, size: i64) -> Value {
    let memory = json!({"value": format!("{size}Gi")});
    json!({
        "name": name,
        "attributes": {"size": {"int": size}},
        "consumesCounters": [{"counterSet": "card", "counters": {"memory": memory}}],
    })
}

/// The slices of a pool on node `a`: that of the counters, and that of the devices.
fn pool(shared: Value, devices: Value) -> [Value; 2] {
    let mut with_devices = slice("a", devices);
    with_devices["spec"]["pool"]["resourceSliceCount"] = 2.into();
    let mut with_counters = with_devices.clone();
    with_counters["metadata"]["name"] = "counters".into();
    let spec = with_counters["spec"].as_object_mut().unwrap();
    spec.remove("devices");
    spec.insert("sharedCounters".to_owned(), shared);
    [with_counters, with_devices]
}

fn with(slices: [Value; 2]) -> Core {
    let mut core = core();
    for slice in slices {
        set(&mut core, "ResourceSlice", slice);
    }
    core
}

/// A request for a device of so many Gi.
fn sized(name: &str, size: i64, change: Value) -> Value {
    let source = format!("device.attributes['x.com'].size == {size}");
    let selected = json!({"selectors": [{"cel": {"expression": source}}]});
    exactly(name, machinery::patch::merge(&selected, &change))
}

/// A claim of devices of these sizes.
fn of_sizes(name: &str, sizes: &[i64]) -> Value {
    let sizes = sizes.iter().enumerate();
    let requests = sizes.map(|(at, size)| sized(&format!("r{at}"), *size, json!({})));
    claim(name, requests.collect())
}

/// The decision about a pod with these claims.
fn placed(slices: [Value; 2], claims: &[Value]) -> String {
    let mut core = with(slices);
    let names: Vec<&str> = claims.iter().map(object::name).collect();
    for claim in claims {
        set(&mut core, "ResourceClaim", claim.clone());
    }
    core.pod(user("p", &names), NOW);
    decided(&mut core, NOW)
}

#[test]
fn a_device_is_free_while_what_it_consumes_is_left() {
    let mut core = with(slices());
    set(&mut core, "ResourceClaim", of_sizes("c", &[WHOLE]));
    set(&mut core, "ResourceClaim", of_sizes("d", &[WHOLE / 2]));
    core.pod(user("p", &["c"]), NOW);
    let (_, grants) = bound(&mut core, NOW);
    assert_eq!(devices(&grants[0]), ["whole"]);
    // The halves are nobody's, but nothing is left for them: before the apiserver has stored the
    // allocation, and as long as the claim has it.
    core.pod(user("q", &["d"]), NOW);
    assert_eq!(decided(&mut core, NOW), refusal(NOT_ALL));
    core.granted("default", &grants, &["6".to_owned()], NOW);
    let taken = got(of_sizes("c", &[WHOLE]), allocation(&grants[0]), "p");
    set(&mut core, "ResourceClaim", taken);
    assert_eq!(decided(&mut core, LATER), refusal(NOT_ALL));
    set(&mut core, "ResourceClaim", of_sizes("c", &[WHOLE]));
    let (_, grants) = bound(&mut core, LATER * 2);
    assert_eq!(devices(&grants[0]), ["half-0"]);
}

#[test]
fn the_devices_of_one_pod_fit_together_exactly_or_not_at_all() {
    let half = WHOLE / 2;
    let halves = [of_sizes("c", &[half, half])];
    assert_eq!(placed(slices(), &halves), "to a");
    let apart = [of_sizes("c", &[half]), of_sizes("d", &[half])];
    assert_eq!(placed(slices(), &apart), "to a");
    let too_much = [of_sizes("c", &[WHOLE, half])];
    assert_eq!(placed(slices(), &too_much), refusal(NOT_ALL));
    let apart = [of_sizes("c", &[half]), of_sizes("d", &[WHOLE])];
    assert_eq!(placed(slices(), &apart), refusal(NOT_ALL));
}

#[test]
fn a_choice_that_is_taken_back_gives_back_its_counters() {
    // The whole device is tried first. It leaves nothing for the second request.
    let any = exactly("any", json!({}));
    let half = sized("half", WHOLE / 2, json!({}));
    let one_by_one = claim("c", json!([any, half]));
    // Not all of them fit, which is known after the whole device was taken.
    let wanted = |name: &str, change: Value| {
        let wanted = json!({"name": name, "deviceClassName": "chip"});
        machinery::patch::merge(&wanted, &change)
    };
    let all = wanted("all", json!({"allocationMode": "All"}));
    let two = wanted("two", json!({"allocationMode": "ExactCount", "count": 2}));
    let all_or_two = claim("c", json!([{"name": "r", "firstAvailable": [all, two]}]));
    for wanted in [one_by_one, all_or_two] {
        let mut core = with(slices());
        set(&mut core, "ResourceClaim", wanted);
        core.pod(user("p", &["c"]), NOW);
        let (_, grants) = bound(&mut core, NOW);
        assert_eq!(devices(&grants[0]), ["half-0", "half-1"]);
    }
}

#[test]
fn devices_of_other_nodes_consume_the_same_counters() {
    let one = |name: &str, node: &str| {
        let mut device = partition(name, WHOLE);
        device["nodeName"] = node.into();
        device
    };
    let [mut with_counters, mut with_devices] = slices();
    with_devices["spec"]["devices"] = json!([one("at-a", "a"), one("at-b", "b")]);
    for (slice, place) in [
        (&mut with_counters, "allNodes"),
        (&mut with_devices, "perDeviceNodeSelection"),
    ] {
        let spec = slice["spec"].as_object_mut().unwrap();
        spec.remove("nodeName");
        spec.insert(place.to_owned(), true.into());
    }
    let mut core = with([with_counters, with_devices]);
    set(&mut core, "ResourceClaim", of_class("c", 1));
    set(&mut core, "ResourceClaim", of_class("d", 1));
    core.pod(user("p", &["c"]), NOW);
    bound(&mut core, NOW);
    core.pod(user("q", &["d"]), NOW);
    assert_eq!(decided(&mut core, NOW), refusal(NOT_ALL));
}

#[test]
fn a_pool_with_contradictory_counters_gives_no_devices() {
    let set = |name: &str, counter: &str| {
        let mut counters = json!({});
        counters[counter] = json!({"value": "8Gi"});
        json!({"name": name, "counters": counters})
    };
    for shared in [
        json!([set("other", "memory")]),
        json!([set("card", "engines")]),
        json!([set("card", "memory"), set("card", "memory")]),
    ] {
        let slices = pool(shared.clone(), json!([partition("whole", WHOLE)]));
        let why = placed(slices, &[of_class("c", 1)]);
        let expected = "1 invalid resource pools were encountered";
        assert!(why.contains(expected), "{shared}: {why}");
    }
}

#[test]
fn administrators_need_no_counters_and_consume_none() {
    let mut core = with(slices());
    let of_admin = |name: &str| {
        let request = sized("chip", WHOLE, json!({"adminAccess": true}));
        claim(name, json!([request]))
    };
    set(&mut core, "ResourceClaim", of_admin("admin"));
    set(&mut core, "ResourceClaim", of_admin("again"));
    set(&mut core, "ResourceClaim", of_sizes("c", &[WHOLE / 2]));
    set(&mut core, "ResourceClaim", of_sizes("d", &[WHOLE / 2]));
    core.pod(user("p", &["admin"]), NOW);
    let (_, grants) = bound(&mut core, NOW);
    let taken = got(of_admin("admin"), allocation(&grants[0]), "p");
    set(&mut core, "ResourceClaim", taken);
    core.pod(user("q", &["c", "d"]), NOW);
    assert_eq!(decided(&mut core, NOW), "to a");
    core.pod(user("r", &["again"]), NOW);
    let (_, grants) = bound(&mut core, NOW);
    assert_eq!(devices(&grants[0]), ["whole"]);
}

#[test]
fn a_device_that_is_shared_consumes_its_counters_once() {
    let [with_counters, mut with_devices] = slices();
    with_devices["spec"]["devices"][0]["allowMultipleAllocations"] = true.into();
    let mut core = with([with_counters, with_devices]);
    let whole = |name: &str| of_sizes(name, &[WHOLE]);
    let both = of_sizes("both", &[WHOLE, WHOLE]);
    for claim in [both.clone(), whole("c"), of_sizes("half", &[WHOLE / 2])] {
        set(&mut core, "ResourceClaim", claim);
    }
    core.pod(user("p", &["both", "c"]), NOW);
    let (_, grants) = bound(&mut core, NOW);
    assert_eq!(devices(&grants[0]), ["whole", "whole"]);
    assert_eq!(devices(&grants[1]), ["whole"]);
    let versions = ["6".to_owned(), "6".to_owned()];
    core.granted("default", &grants, &versions, NOW);
    let taken = got(both.clone(), allocation(&grants[0]), "p");
    set(&mut core, "ResourceClaim", taken);
    let taken = got(whole("c"), allocation(&grants[1]), "p");
    set(&mut core, "ResourceClaim", taken);
    core.pod(user("q", &["half"]), NOW);
    assert_eq!(decided(&mut core, NOW), refusal(NOT_ALL));
    set(&mut core, "ResourceClaim", both);
    assert_eq!(decided(&mut core, LATER), refusal(NOT_ALL));
    set(&mut core, "ResourceClaim", whole("c"));
    assert_eq!(bound(&mut core, LATER * 2).0, "a");
}

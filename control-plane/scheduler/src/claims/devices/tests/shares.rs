//! Devices of which several claims have parts, and requests for capacity.

use std::collections::BTreeSet;

use super::*;

/// A device with 8 GiB of memory that is shared.
fn card(name: &str) -> Value {
    with_policy(name, Value::Null)
}

fn with_policy(name: &str, policy: Value) -> Value {
    let memory = json!({"value": "8Gi", "requestPolicy": policy});
    json!({"name": name, "allowMultipleAllocations": true, "capacity": {"memory": memory}})
}

/// A request for so much memory of a device.
fn asking(name: &str, memory: &str, change: Value) -> Value {
    let asked = json!({"capacity": {"requests": {"memory": memory}}});
    exactly(name, machinery::patch::merge(&asked, &change))
}

/// A claim of so much memory, for each request.
fn of_memory(name: &str, memory: &[&str]) -> Value {
    let memory = memory.iter().enumerate();
    let requests = memory.map(|(at, memory)| asking(&format!("r{at}"), memory, json!({})));
    claim(name, requests.collect())
}

fn with(devices: Value) -> Core {
    let mut core = core();
    set(&mut core, "ResourceSlice", slice("a", devices));
    core
}

/// What a pod with this claim gets.
fn given(devices: Value, claim: Value) -> Grant {
    let mut core = with(devices);
    set(&mut core, "ResourceClaim", claim);
    core.pod(user("p", &["c"]), NOW);
    bound(&mut core, NOW).1.remove(0)
}

/// The result of an allocation for its first device.
fn result(grant: &Grant) -> &Value {
    &allocation(grant)["devices"]["results"][0]
}

#[test]
fn claims_share_a_device_until_it_is_used_up() {
    let mut core = with(json!([card("card")]));
    for (name, memory) in [("c", "5Gi"), ("d", "3Gi"), ("e", "1Gi")] {
        set(&mut core, "ResourceClaim", of_memory(name, &[memory]));
    }
    let mut shares = BTreeSet::new();
    for (name, memory) in [("c", "5Gi"), ("d", "3Gi")] {
        core.pod(user(name, &[name]), NOW);
        let (_, grants) = bound(&mut core, NOW);
        let result = result(&grants[0]);
        assert_eq!(result["device"], "card");
        assert_eq!(result["consumedCapacity"], json!({"memory": memory}));
        shares.insert(result["shareID"].to_string());
        core.granted("default", &grants, &["6".to_owned()], NOW);
        let taken = got(of_memory(name, &[memory]), allocation(&grants[0]), name);
        set(&mut core, "ResourceClaim", taken);
    }
    assert_eq!(shares.len(), 2, "{shares:?}");
    core.pod(user("q", &["e"]), NOW);
    assert_eq!(decided(&mut core, NOW), refusal(NOT_ALL));
    set(&mut core, "ResourceClaim", of_memory("d", &["3Gi"]));
    let (_, grants) = bound(&mut core, LATER);
    assert_eq!(
        result(&grants[0])["consumedCapacity"],
        json!({"memory": "1Gi"})
    );
}

#[test]
fn what_a_decision_gave_is_used_up_before_the_apiserver_has_stored_it() {
    let mut core = with(json!([card("card")]));
    set(&mut core, "ResourceClaim", of_memory("c", &["5Gi"]));
    set(&mut core, "ResourceClaim", of_memory("d", &["4Gi"]));
    core.pod(user("p", &["c"]), NOW);
    let (_, grants) = bound(&mut core, NOW);
    core.pod(user("q", &["d"]), NOW);
    assert_eq!(decided(&mut core, NOW), refusal(NOT_ALL));
    core.granted("default", &grants, &[], NOW);
    core.not_bound("p", NOW);
    core.pod_gone("p", NOW);
    assert_eq!(bound(&mut core, LATER).0, "a");
}

#[test]
fn a_part_has_an_id_in_the_form_of_a_uuid() {
    let one = |version: &str| {
        let mut claim = of_memory("c", &["1Gi"]);
        claim["metadata"]["resourceVersion"] = version.into();
        let grant = given(json!([card("card")]), claim);
        result(&grant)["shareID"].as_str().unwrap().to_owned()
    };
    let id = one("5");
    let lengths: Vec<usize> = id.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    assert!(
        id.bytes().all(|byte| byte == b'-' || is_digit(byte)),
        "{id}"
    );
    assert_eq!(&id[14..15], "8", "{id}");
    assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
    assert_eq!(one("5"), id, "the same decision");
    assert_ne!(one("6"), id, "another allocation of the claim");
}

#[test]
fn parts_are_rounded_up_by_the_policy_of_the_device() {
    let values = json!({"default": "1Gi", "validValues": ["1Gi", "2Gi", "4Gi"]});
    let steps = json!({
        "default": "3Gi", "validRange": {"min": "2Gi", "max": "6Gi", "step": "1Gi"},
    });
    let range = json!({"default": "2Gi", "validRange": {"min": "1Gi"}});
    let no_step = json!({"default": "2Gi", "validRange": {"min": "1Gi", "step": "0"}});
    for (policy, asked, expected) in [
        (&Value::Null, None, Some("8Gi")),
        (&Value::Null, Some("3Gi"), Some("3Gi")),
        (&Value::Null, Some("0"), Some("0")),
        (&Value::Null, Some("8Gi"), Some("8Gi")),
        (&Value::Null, Some("9Gi"), None),
        (&Value::Null, Some("-1"), None),
        (&values, None, Some("1Gi")),
        (&values, Some("1500Mi"), Some("2Gi")),
        (&values, Some("4Gi"), Some("4Gi")),
        (&values, Some("5Gi"), None),
        (&steps, None, Some("3Gi")),
        (&steps, Some("1Gi"), Some("2Gi")),
        (&steps, Some("2500Mi"), Some("3Gi")),
        (&steps, Some("4Gi"), Some("4Gi")),
        (&steps, Some("6Gi"), Some("6Gi")),
        (&steps, Some("6500Mi"), None),
        (&range, Some("1"), Some("1Gi")),
        (&range, Some("1500Mi"), Some("1500Mi")),
        (&no_step, Some("1500Mi"), None),
    ] {
        let request = match asked {
            Some(memory) => asking("r", memory, json!({})),
            None => exactly("r", json!({})),
        };
        let mut core = with(json!([with_policy("card", policy.clone())]));
        set(&mut core, "ResourceClaim", claim("c", json!([request])));
        core.pod(user("p", &["c"]), NOW);
        let consumed = match core.next(NOW) {
            Some(Decision::Bind { grants, .. }) => {
                let consumed = &result(&grants[0])["consumedCapacity"]["memory"];
                Some(consumed.as_str().unwrap().to_owned())
            }
            _ => None,
        };
        assert_eq!(consumed.as_deref(), expected, "{asked:?} of {policy}");
    }
}

#[test]
fn a_device_that_is_not_shared_must_have_what_is_asked_for_and_is_given_whole() {
    let sized = |name: &str, memory: &str| {
        let capacity = json!({"memory": {"value": memory}});
        json!({"name": name, "capacity": capacity})
    };
    let all = json!([{"name": "none"}, sized("small", "2Gi"), sized("large", "8Gi")]);
    let grant = given(all.clone(), of_memory("c", &["4Gi"]));
    assert_eq!(
        *result(&grant),
        json!({"request": "r0", "driver": "x.com", "pool": "a", "device": "large"})
    );
    let twice = of_memory("c", &["4Gi", "4Gi"]);
    assert_eq!(tried(twice, all.clone()), refusal(NOT_ALL));
    let other = json!({"capacity": {"requests": {"disk": "1Gi"}}});
    let other = claim("c", json!([exactly("r", other)]));
    assert_eq!(tried(other, all), refusal(NOT_ALL));
}

#[test]
fn the_requests_of_one_pod_share_a_device() {
    let one = || json!([card("card")]);
    let grant = given(one(), of_memory("c", &["5Gi", "3Gi"]));
    assert_eq!(devices(&grant), ["card", "card"]);
    let results = &allocation(&grant)["devices"]["results"];
    assert_ne!(results[0]["shareID"], results[1]["shareID"]);
    assert_eq!(
        tried(of_memory("c", &["5Gi", "4Gi"]), one()),
        refusal(NOT_ALL)
    );
    // Two devices are two devices, however much each has left.
    let two = claim("c", json!([asking("r", "1Gi", json!({"count": 2}))]));
    assert_eq!(tried(two.clone(), one()), refusal(NOT_ALL));
    let grant = given(json!([card("card-0"), card("card-1")]), two);
    assert_eq!(devices(&grant), ["card-0", "card-1"]);
}

#[test]
fn a_constraint_keeps_requests_on_different_devices() {
    let in_slot = |name: &str, slot: i64| {
        let mut card = card(name);
        card["attributes"] = json!({"slot": {"int": slot}});
        card
    };
    let mut apart = of_memory("c", &["1Gi", "1Gi"]);
    apart["spec"]["devices"]["constraints"] = json!([{"distinctAttribute": "x.com/slot"}]);
    let grant = given(
        json!([in_slot("card-0", 0), in_slot("card-1", 1)]),
        apart.clone(),
    );
    assert_eq!(devices(&grant), ["card-0", "card-1"]);
    assert_eq!(tried(apart, json!([in_slot("card", 0)])), refusal(NOT_ALL));
}

#[test]
fn a_choice_that_is_taken_back_gives_back_its_part() {
    let mut small = card("small");
    small["capacity"]["memory"]["value"] = "4Gi".into();
    // The first request tries the large device first, which leaves too little for the second.
    let grant = given(
        json!([card("large"), small]),
        of_memory("c", &["4Gi", "8Gi"]),
    );
    assert_eq!(devices(&grant), ["small", "large"]);
}

#[test]
fn all_devices_are_those_that_others_have_not_used_up() {
    let mut core = with(json!([card("card-0"), card("card-1")]));
    let all = json!({"allocationMode": "All"});
    let all = claim("all", json!([asking("r", "4Gi", all)]));
    set(&mut core, "ResourceClaim", of_memory("c", &["5Gi"]));
    set(&mut core, "ResourceClaim", all.clone());
    core.pod(user("p", &["c"]), NOW);
    let (_, grants) = bound(&mut core, NOW);
    assert_eq!(devices(&grants[0]), ["card-0"]);
    core.pod(user("q", &["all"]), NOW);
    let (_, grants) = bound(&mut core, NOW);
    assert_eq!(devices(&grants[0]), ["card-1"]);
    // Not so if another claim of the same pod uses one up.
    let mut core = with(json!([card("card-0"), card("card-1")]));
    set(&mut core, "ResourceClaim", of_memory("c", &["5Gi"]));
    set(&mut core, "ResourceClaim", all);
    core.pod(user("p", &["c", "all"]), NOW);
    assert_eq!(decided(&mut core, NOW), refusal(NOT_ALL));
}

#[test]
fn a_device_is_in_use_if_its_driver_changes_whether_it_is_shared() {
    let result = |share: Value| {
        let result = json!({"request": "r0", "driver": "x.com", "pool": "a", "device": "one"});
        let result = machinery::patch::merge(&result, &share);
        json!({"devices": {"results": [result]}})
    };
    let share = json!({"shareID": "s", "consumedCapacity": {"memory": "1Gi"}});
    let shared = card("one");
    let mut alone = shared.clone();
    alone["allowMultipleAllocations"] = false.into();
    for (device, before) in [(shared, json!({})), (alone, share)] {
        let mut core = with(json!([device]));
        let old = got(of_memory("old", &["1Gi"]), &result(before), "p");
        set(&mut core, "ResourceClaim", old);
        set(&mut core, "ResourceClaim", of_memory("c", &["1Gi"]));
        core.pod(user("q", &["c"]), NOW);
        assert_eq!(decided(&mut core, NOW), refusal(NOT_ALL));
    }
}

#[test]
fn administrators_need_no_part_that_is_left_and_take_none() {
    let mut core = with(json!([card("card")]));
    let admin = asking("r", "8Gi", json!({"adminAccess": true}));
    let admin = claim("admin", json!([admin]));
    set(&mut core, "ResourceClaim", admin.clone());
    set(&mut core, "ResourceClaim", of_memory("c", &["8Gi"]));
    set(&mut core, "ResourceClaim", of_memory("d", &["1Gi"]));
    core.pod(user("p", &["admin", "c"]), NOW);
    let (_, grants) = bound(&mut core, NOW);
    assert_eq!(result(&grants[0])["adminAccess"], true);
    assert!(result(&grants[0])["shareID"].is_string());
    let mut again = admin;
    again["metadata"]["name"] = "again".into();
    set(&mut core, "ResourceClaim", again);
    core.pod(user("q", &["again"]), NOW);
    assert_eq!(bound(&mut core, NOW).0, "a");
    core.pod(user("r", &["d"]), NOW);
    assert_eq!(decided(&mut core, NOW), refusal(NOT_ALL));
}

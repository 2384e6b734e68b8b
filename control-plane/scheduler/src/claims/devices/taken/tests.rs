use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::claims::devices::{Allotment, Devices, Grant};

fn claim(name: &str, version: u64, devices: &[&str]) -> Value {
    let one = |device: &&str| json!({"driver": "x.com", "pool": "a", "device": device});
    let results: Vec<Value> = devices.iter().map(one).collect();
    let mut claim = json!({
        "metadata": {"namespace": "n", "name": name, "uid": name},
    });
    claim["metadata"]["resourceVersion"] = version.to_string().into();
    if !results.is_empty() {
        claim["status"] = json!({"allocation": {"devices": {"results": results}}});
    }
    claim
}

fn device(name: &str) -> DeviceId {
    DeviceId {
        driver: "x.com".to_owned(),
        pool: "a".to_owned(),
        device: name.to_owned(),
    }
}

fn whole(name: &str) -> Given {
    Given {
        device: device(name),
        share: None,
    }
}

fn grant(claim: &str, devices: &[&str]) -> Grant {
    Grant {
        claim: claim.to_owned(),
        uid: claim.to_owned(),
        allotment: Some(Allotment {
            version: "1".to_owned(),
            finalizers: None,
            allocation: Value::Null,
            devices: devices.iter().map(|name| whole(name)).collect(),
        }),
    }
}

fn taken(devices: &Devices) -> Vec<&str> {
    let names = ["1", "2", "3"].into_iter();
    names
        .filter(|name| devices.taken.contains(&device(name)))
        .collect()
}

#[test]
fn what_is_taken_is_known_after_each_change_and_counted_in_place() {
    let mut devices = Devices::default();
    let place = Arc::as_ptr(&devices.taken);
    devices.set_claim(&claim("c", 1, &[]));
    devices.set_claim(&claim("d", 1, &["3"]));
    assert_eq!(taken(&devices), ["3"]);
    devices.grant("n", &[grant("c", &["1", "2"])]);
    assert_eq!(taken(&devices), ["1", "2", "3"]);
    // An older state of the claim changes nothing.
    devices.set_claim(&claim("c", 1, &[]));
    assert_eq!(taken(&devices), ["1", "2", "3"]);
    devices.settle("n", &grant("c", &["1", "2"]), None);
    assert_eq!(taken(&devices), ["3"], "the apiserver refused it");
    devices.grant("n", &[grant("c", &["1", "2"])]);
    devices.settle("n", &grant("c", &["1", "2"]), Some("5"));
    assert_eq!(taken(&devices), ["1", "2", "3"]);
    devices.set_claim(&claim("c", 5, &["1"]));
    assert_eq!(taken(&devices), ["1", "3"], "a watch shows what it has");
    // Two have it: it is free when both have gone.
    devices.set_claim(&claim("d", 2, &["1"]));
    devices.remove_claim(&claim("c", 6, &[]));
    assert_eq!(taken(&devices), ["1"]);
    devices.remove_claim(&claim("d", 3, &[]));
    assert_eq!(taken(&devices), [""; 0]);
    assert_eq!(Arc::as_ptr(&devices.taken), place);
}

#[test]
fn what_was_given_is_taken_when_a_list_shows_its_claim_again() {
    let mut devices = Devices::default();
    devices.set_claim(&claim("c", 1, &[]));
    devices.grant("n", &[grant("c", &["1"])]);
    devices.clear_claims();
    assert_eq!(taken(&devices), [""; 0]);
    devices.set_claim(&claim("c", 1, &[]));
    assert_eq!(taken(&devices), ["1"]);
    devices.settle("n", &grant("c", &["1"]), None);
    assert_eq!(taken(&devices), [""; 0]);
}

#[test]
fn parts_of_a_device_are_summed_until_the_last_is_given_back() {
    let part = |memory: &str| {
        let result = json!({
            "driver": "x.com", "pool": "a", "device": "1",
            "shareID": "s", "consumedCapacity": {"memory": memory},
        });
        Given::read(&result)
    };
    let memory = |taken: &Taken| {
        let in_use = taken.of(&device("1"));
        in_use.map(|one| (one.is_whole(), one.consumed("memory").to_string()))
    };
    let mut taken = Taken::default();
    taken.take(&part("1Gi"));
    taken.take(&part("512Mi"));
    assert_eq!(memory(&taken), Some((false, "1536Mi".to_owned())));
    // Its driver does not let claims share it any more, but they still do.
    taken.take(&whole("1"));
    taken.give_back(&part("1Gi"));
    assert_eq!(memory(&taken), Some((true, "512Mi".to_owned())));
    taken.give_back(&whole("1"));
    assert_eq!(memory(&taken), Some((false, "512Mi".to_owned())));
    taken.give_back(&part("512Mi"));
    assert_eq!(memory(&taken), None);
}

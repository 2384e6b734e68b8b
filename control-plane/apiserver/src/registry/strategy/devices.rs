//! What is particular about the devices of nodes, and about claims of them.

use std::collections::BTreeSet;

use machinery::object;
use serde_json::Value;

use crate::basics::clock;
use crate::validate::devices::{device_id, devices_of};

/// Forms of attributes that are lists. Kubernetes drops them as long as their feature is off.
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];
/// What else of a device belongs to a feature that is off.
const MAPPINGS: &str = "nodeAllocatableResourceMappings";

/// Drops what belongs to features that are off, and gives the taints of new devices their time: from
/// it counts how long pods tolerate them.
pub(super) fn prepare(slice: &mut Value) {
    let Some(Value::Array(devices)) = slice.pointer_mut("/spec/devices") else {
        return;
    };
    for device in devices {
        object::remove(device, &[MAPPINGS]);
        let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
        for attribute in attributes.into_iter().flat_map(|all| all.values_mut()) {
            for key in LISTS {
                object::remove(attribute, &[key]);
            }
        }
        let taints = device.get_mut("taints").and_then(Value::as_array_mut);
        for taint in taints.into_iter().flatten() {
            if object::text(taint, &["timeAdded"]).is_empty() {
                object::set(taint, &["timeAdded"], clock::now().to_seconds().into());
            }
        }
    }
}

/// The same after an update.
pub(super) fn prepare_update(_old: &Value, slice: &mut Value) {
    prepare(slice);
}

/// Drops what drivers said of devices that are no longer allocated to a claim.
pub(super) fn drop_deallocated(old: &Value, claim: &mut Value) {
    let kept = devices_of(claim);
    let before = devices_of(old);
    let gone: BTreeSet<&String> = before.difference(&kept).collect();
    let path = ["status", "devices"];
    let Some(Value::Array(mut devices)) = object::remove(claim, &path) else {
        return;
    };
    devices.retain(|device| !gone.contains(&device_id(device)));
    if !devices.is_empty() {
        object::set(claim, &path, devices.into());
    }
}

#[cfg(test)]
mod tests {
    use machinery::time::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn taints_without_a_time_get_one() {
        let known = "2026-01-01T00:00:00Z";
        let mut slice = json!({"spec": {"devices": [
            {"name": "a"},
            {"name": "b", "taints": [{"key": "k"}, {"key": "l", "timeAdded": known}]},
        ]}});
        prepare_update(&slice.clone(), &mut slice);
        let taints = &slice["spec"]["devices"][1]["taints"];
        let added = taints[0]["timeAdded"].as_str().unwrap();
        assert!(Timestamp::parse(added).is_some(), "{added}");
        assert_eq!(taints[1]["timeAdded"], known);
        assert_eq!(slice["spec"]["devices"][0], json!({"name": "a"}));
    }

    #[test]
    fn attributes_have_one_value() {
        let mut slice = json!({"spec": {"devices": [{"name": "a", "nodeAllocatableResourceMappings": {},
            "attributes": {"cores": {"int": 1, "ints": [1], "strings": ["a"]}}}]}});
        prepare(&mut slice);
        let device = json!({"name": "a", "attributes": {"cores": {"int": 1}}});
        assert_eq!(slice["spec"]["devices"], json!([device]));
    }

    #[test]
    fn what_drivers_say_of_a_device_goes_with_its_allocation() {
        let device = |name: &str| json!({"driver": "d", "pool": "p", "device": name});
        let claim = |allocated: &[&str], said: &[&str]| {
            let all = |names: &[&str]| names.iter().map(|name| device(name)).collect::<Vec<_>>();
            json!({"status": {"devices": all(said),
                "allocation": {"devices": {"results": all(allocated)}}}})
        };
        let mut new = claim(&["a"], &["a", "b", "c"]);
        drop_deallocated(&claim(&["a", "b"], &["a", "b"]), &mut new);
        assert_eq!(new, claim(&["a"], &["a", "c"]));
    }
}

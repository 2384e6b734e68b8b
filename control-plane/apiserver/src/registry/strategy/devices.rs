//! What is particular about the devices of nodes.

use machinery::object;
use serde_json::Value;

use crate::basics::clock;

/// Gives the taints of new devices their time: from it counts how long pods tolerate them.
pub(super) fn date_taints(slice: &mut Value) {
    let Some(Value::Array(devices)) = slice.pointer_mut("/spec/devices") else {
        return;
    };
    for device in devices {
        let Some(Value::Array(taints)) = device.get_mut("taints") else {
            continue;
        };
        for taint in taints {
            if object::text(taint, &["timeAdded"]).is_empty() {
                object::set(taint, &["timeAdded"], clock::now().to_seconds().into());
            }
        }
    }
}

/// The same after an update.
pub(super) fn date_new_taints(_old: &Value, slice: &mut Value) {
    date_taints(slice);
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
        date_new_taints(&slice.clone(), &mut slice);
        let taints = &slice["spec"]["devices"][1]["taints"];
        let added = taints[0]["timeAdded"].as_str().unwrap();
        assert!(Timestamp::parse(added).is_some(), "{added}");
        assert_eq!(taints[1]["timeAdded"], known);
        assert_eq!(slice["spec"]["devices"][0], json!({"name": "a"}));
    }
}

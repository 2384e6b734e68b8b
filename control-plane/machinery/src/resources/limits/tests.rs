//! Compared with what Kubernetes' LimitRanger makes of random objects: `testdata/limits.jsonl`.

use serde_json::{Value, json};

use super::*;

fn resources(pod: &Value, list: &str) -> Value {
    let containers = object::items(pod, &["spec", list]).iter();
    containers.map(|one| one["resources"].clone()).collect()
}

#[test]
fn defaults_and_refusals_are_those_of_kubernetes() {
    let (mut lines, mut refused, mut defaulted) = (0, 0, 0);
    for line in include_str!("../../../testdata/limits.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (plural, mut object) = (line["plural"].as_str().unwrap(), line["object"].clone());
        if plural == "pods" {
            set_defaults(&line["range"], &mut object);
            let after = json!({
                "annotations": object["metadata"]["annotations"],
                "containers": resources(&object, "containers"),
                "initContainers": resources(&object, "initContainers"),
            });
            assert_eq!(after, line["after"], "{object}");
            defaulted += usize::from(after["annotations"].is_object());
        }
        let why = violation(&line["range"], plural, &object).unwrap_or_default();
        assert_eq!(why, line["why"], "{object}");
        refused += usize::from(!why.is_empty());
        lines += 1;
    }
    assert!(
        refused > 20 && refused < lines && defaulted > 20,
        "{refused} of {lines}"
    );
}

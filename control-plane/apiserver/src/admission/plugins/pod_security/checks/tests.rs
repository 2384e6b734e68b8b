//! Random pods over all levels and versions, compared with Kubernetes' evaluator. The file is made
//! by `control-plane/machinery/generate security`.

use serde_json::{Value, json};

use super::*;

const GOLDEN: &str = include_str!("../golden.jsonl");

fn evaluated(level: Level, version: Version, pod: &Value) -> Value {
    let found = evaluate(Standard { level, version }, &Pod::of(pod));
    if found.is_empty() {
        return json!({});
    }
    json!({"reason": found.reasons(), "detail": found.details()})
}

/// The answers by which a level's versions differ, as the file has them.
fn answers(level: Level, minors: std::ops::RangeInclusive<i64>, pod: &Value) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    let mut last = Value::Null;
    for minor in minors {
        let answer = evaluated(level, Version::Minor(minor), pod);
        if answer != last {
            last = answer.clone();
            let mut answer = answer;
            answer["since"] = minor.into();
            all.push(answer);
        }
    }
    assert_eq!(last, evaluated(level, Version::Latest, pod));
    all
}

#[test]
fn pods_violate_what_kubernetes_says() {
    let mut pods = 0;
    for line in GOLDEN.lines() {
        let golden: Value = serde_json::from_str(line).unwrap();
        let pod = &golden["pod"];
        for (level, key) in [
            (Level::Baseline, "baseline"),
            (Level::Restricted, "restricted"),
        ] {
            assert_eq!(
                Value::from(answers(level, 0..=40, pod)),
                golden[key],
                "{pod}"
            );
        }
        let privileged = evaluated(Level::Privileged, Version::Latest, pod);
        assert_eq!(privileged, json!({}));
        pods += 1;
    }
    assert!(pods >= 300, "{pods}");
}

#[test]
fn checks_are_reported_in_the_order_of_names() {
    let names = CHECKS.iter().map(|check| (check.level, check.name));
    assert!(names.is_sorted());
}

#[test]
fn a_field_that_is_null_is_not_there() {
    let pod = json!({"spec": {
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "v", "hostPath": null, "emptyDir": {}}],
        "containers": [{"name": "c", "lifecycle": null, "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": null},
            "procMount": null, "seccompProfile": null, "seLinuxOptions": null}}],
    }});
    assert_eq!(
        evaluated(Level::Restricted, Version::Latest, &pod),
        json!({})
    );
}

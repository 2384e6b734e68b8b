use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{ago, caches, decide, lines, node, now, pod};

fn patience_of(tolerations: Value) -> Patience {
    let mut pod = pod("p", "a", true);
    pod["spec"]["tolerations"] = tolerations;
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let taint = json!({"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": ago(10)});
    let taint: Taint = serde_json::from_value(taint).unwrap();
    patience(&pod, &[taint], now())
}

#[test]
fn a_pod_stays_as_long_as_it_tolerates_every_taint() {
    let until = |seconds: i64| {
        let mut end = now();
        end.seconds += seconds;
        Patience::Until(end)
    };
    let cases = [
        (json!([]), until(0)),
        (json!([{"key": "other", "operator": "Exists"}]), until(0)),
        (
            json!([{"key": "k", "operator": "Exists"}]),
            Patience::Endless,
        ),
        (json!([{"operator": "Exists"}]), Patience::Endless),
        (json!([{"key": "k", "value": "v"}]), Patience::Endless),
        (json!([{"key": "k", "value": "w"}]), until(0)),
        (
            json!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]),
            until(0),
        ),
        (
            json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 300}]),
            until(290),
        ),
        (
            json!([{"key": "k", "operator": "Exists", "tolerationSeconds": -1}]),
            until(-10),
        ),
        (
            json!([
                {"key": "k", "operator": "Exists", "tolerationSeconds": 300},
                {"operator": "Exists", "tolerationSeconds": 60},
            ]),
            until(290),
        ),
        (
            json!([
                {"key": "k", "operator": "Exists"},
                {"operator": "Exists", "tolerationSeconds": 60},
            ]),
            Patience::Endless,
        ),
    ];
    for (tolerations, expected) in cases {
        assert_eq!(patience_of(tolerations.clone()), expected, "{tolerations}");
    }
}

#[test]
fn a_pod_is_told_why_before_it_is_deleted() {
    let mut silent = node("a", "Unknown");
    silent["spec"]["taints"] = json!([{"key": "k", "effect": "NoExecute"}]);
    let known = caches(&[silent, pod("p", "a", true)]);
    let decision = decide(&TaintEviction, &known, ("n", "p"));
    assert_eq!(
        lines(&decision),
        ["patch status of pods n/p", "delete pods n/p"]
    );
}

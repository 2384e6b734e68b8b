use std::time::Duration;

use api_client::Notice;
use serde_json::{Value, json};

use super::*;
use crate::cache::Destination;
use crate::known::kind_of;
use crate::tests::fixtures::{ago, caches, caches_since, decide, lines, node, now, pod};

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

fn tainted(taint: Value, version: &str) -> Value {
    let mut tainted = node("a", "True");
    tainted["metadata"]["uid"] = "nodes/a".into();
    tainted["metadata"]["resourceVersion"] = version.into();
    tainted["spec"]["taints"] = json!([taint]);
    tainted
}

/// A pod that stays for a minute beside any taint.
fn tolerant() -> Value {
    let mut tolerant = pod("p", "a", true);
    tolerant["spec"]["tolerations"] = json!([{"operator": "Exists", "tolerationSeconds": 60}]);
    tolerant
}

#[test]
fn a_taint_without_a_time_counts_from_when_it_was_first_seen() {
    let taint = json!({"key": "k", "effect": "NoExecute"});
    let gone_after = |seconds: i64| {
        let mut then = now();
        then.seconds -= seconds;
        let mut known = caches_since(&[tainted(taint.clone(), "1"), tolerant()], then);
        // A heartbeat.
        let beat = Notice::Applied(tainted(taint.clone(), "2"));
        known.observe(kind_of::<Node>(), Destination::Both, beat, now());
        let decision = decide(&TaintEviction, &known, ("n", "p"));
        (lines(&decision).len(), decision.after)
    };
    assert_eq!(gone_after(20), (0, Some(Duration::from_secs(40))));
    assert_eq!(gone_after(60), (2, None));
}

#[test]
fn a_pod_that_comes_after_a_taint_stays_as_long_as_others() {
    let taint = json!({"key": "k", "effect": "NoExecute", "timeAdded": ago(1000)});
    let mut late = tolerant();
    let left = |pod: &Value| {
        let known = caches(&[tainted(taint.clone(), "1"), pod.clone()]);
        decide(&TaintEviction, &known, ("n", "p")).after
    };
    late["metadata"]["creationTimestamp"] = ago(50).into();
    assert_eq!(left(&late), Some(Duration::from_secs(10)));
    late["status"]["conditions"] = json!([
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(5)},
    ]);
    assert_eq!(left(&late), Some(Duration::from_secs(55)));
}

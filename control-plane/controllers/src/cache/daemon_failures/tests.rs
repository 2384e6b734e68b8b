use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{now, owner};

fn pod(node: &str, hash: &str, phase: &str) -> Value {
    json!({
        "metadata": {
            "namespace": "n", "name": "p", "labels": {REVISION_HASH: hash},
            "ownerReferences": [owner("apps/v1", "DaemonSet", "agent")],
        },
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": phase},
    })
}

fn read(pod: &Value) -> Arc<Pod> {
    Arc::new(serde_json::from_value(pod.clone()).unwrap())
}

fn after(seconds: u64) -> Timestamp {
    now().plus(Duration::from_secs(seconds))
}

#[test]
fn each_failure_doubles_the_delay_until_the_longest() {
    let mut failures = DaemonFailures::default();
    let failed = read(&pod("a", "one", "Failed"));
    let gone = || Diff {
        old: Some(failed.clone()),
        new: None,
    };
    assert_eq!(failures.left(&failed, now()), None);
    for delay in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
        failures.note(&gone(), now());
        let left = failures.left(&failed, now());
        assert_eq!(left, Some(Duration::from_secs(delay)));
    }
    let second = Some(Duration::from_secs(1));
    assert_eq!(failures.left(&failed, after(899)), second);
    assert_eq!(failures.left(&failed, after(900)), None);
    failures.note(&gone(), after(1801));
    assert_eq!(failures.left(&failed, after(1801)), second);
}

#[test]
fn templates_and_nodes_count_for_themselves() {
    let mut failures = DaemonFailures::default();
    let failed = read(&pod("a", "one", "Failed"));
    failures.note(
        &Diff {
            old: Some(failed.clone()),
            new: None,
        },
        now(),
    );
    for other in [pod("b", "one", "Failed"), pod("a", "two", "Failed")] {
        assert_eq!(failures.left(&read(&other), now()), None);
    }
    assert!(failures.left(&failed, now()).is_some());
}

#[test]
fn only_the_deletion_of_a_failed_pod_counts_and_only_once() {
    let running = pod("a", "one", "Running");
    let failed = pod("a", "one", "Failed");
    let mut deleting = failed.clone();
    deleting["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    let left = |steps: &[(&Value, Option<&Value>)]| {
        let mut failures = DaemonFailures::default();
        for (old, new) in steps {
            let (old, new) = (Some(read(old)), new.map(read));
            failures.note(&Diff { old, new }, now());
        }
        failures.left(&read(&failed), now())
    };
    assert_eq!(left(&[(&running, Some(&failed))]), None);
    assert_eq!(left(&[(&running, None)]), None);
    let second = Some(Duration::from_secs(1));
    let both = [(&failed, Some(&deleting)), (&deleting, None)];
    assert_eq!(left(&both), second);
}

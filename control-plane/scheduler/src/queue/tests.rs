use serde_json::json;

use super::*;
use crate::tests::{info, pod};

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn queue(names: &[&str]) -> Queue {
    let mut queue = Queue::default();
    for name in names {
        queue.set(Arc::new(info(&pod(name, json!({})))), at(0));
    }
    queue
}

#[test]
fn backoff_doubles_from_one_to_ten_seconds() {
    let waits: Vec<u64> = (0..7).map(|failures| backoff(failures).as_secs()).collect();
    assert_eq!(waits, [0, 1, 2, 4, 8, 10, 10]);
    assert_eq!(backoff(u32::MAX).as_secs(), 10);
}

#[test]
fn a_failed_pod_comes_back_when_its_backoff_is_over() {
    let mut queue = queue(&["p"]);
    assert!(queue.pop(at(0)).is_some());
    assert!(queue.pop(at(0)).is_none(), "it is out");
    queue.retry("p", at(500));
    assert_eq!(queue.lengths(), (0, 1, 0));
    assert_eq!(queue.wake_at(), Some(at(1500)));
    assert!(queue.pop(at(1499)).is_none());
    assert!(queue.pop(at(1500)).is_some());
}

#[test]
fn a_changed_pod_leaves_its_parking_place() {
    let mut queue = queue(&["p"]);
    queue.pop(at(0));
    queue.park("p", BTreeSet::from([Filter::NodeAffinity]), at(0));
    let conditions =
        json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}});
    queue.set(Arc::new(info(&pod("p", conditions))), at(100));
    assert_eq!(queue.lengths(), (0, 0, 1), "its status is nothing to go by");
    let tolerations = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
    queue.set(Arc::new(info(&pod("p", tolerations))), at(100));
    assert_eq!(queue.lengths(), (0, 1, 0), "its back-off is not over");
    assert!(queue.pop(at(1000)).is_some());
}

#[test]
fn a_removed_pod_is_nowhere() {
    let mut queue = queue(&["a", "b", "c", "d"]);
    let out = queue.pop(at(0)).unwrap().uid.clone();
    assert_eq!(out, "a", "equals go by name");
    queue.pop(at(0));
    queue.retry("b", at(0));
    queue.pop(at(0));
    queue.park("c", BTreeSet::new(), at(0));
    assert_eq!(queue.lengths(), (1, 1, 1));
    for uid in ["a", "b", "c", "d"] {
        queue.remove(uid);
    }
    assert_eq!((queue.lengths(), queue.wake_at()), ((0, 0, 0), None));
    queue.park("a", BTreeSet::new(), at(0));
    queue.retry("a", at(0));
    assert_eq!(queue.lengths(), (0, 0, 0), "who is gone is not put back");
}

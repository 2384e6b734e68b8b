use serde_json::json;

use super::*;
use crate::tests::{asking, cache, info, node, on, pod};

#[test]
fn what_pods_take_is_added_and_given_back() {
    let mut cache = cache(&[node("a", json!({}))], &[]);
    let port =
        json!({"containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]});
    for pod in [
        asking("p", "1", "1Gi"),
        asking("q", "2", "2Gi"),
        pod("r", json!({"spec": port})),
    ] {
        cache.set_pod(Arc::new(info(&on("a", &pod))));
    }
    let a = cache.node("a").unwrap();
    assert_eq!(
        (a.requested.cpu_milli, a.scored.cpu_milli, a.ports.len()),
        (3000, 3100, 1)
    );
    for uid in ["p", "q", "r"] {
        assert!(cache.remove_pod(uid).is_some());
    }
    let a = cache.node("a").unwrap();
    assert!(a.requested.is_nothing() && a.scored.is_nothing() && a.ports.is_empty());
    assert!(cache.remove_pod("p").is_none());
}

#[test]
fn an_assumed_pod_counts_and_is_confirmed_forgotten_or_moved_by_the_stores_word() {
    let mut cache = cache(&[node("a", json!({})), node("b", json!({}))], &[]);
    let p = Arc::new(info(&asking("p", "1", "1Gi")));
    cache.assume(&p, "a");
    assert!(cache.is_assumed("p"));
    cache.set_pod(Arc::new(info(&on("b", &asking("p", "1", "1Gi")))));
    assert_eq!(
        (cache.place("p"), cache.is_assumed("p")),
        (Some("b"), false)
    );
    assert!(cache.forget("p").is_none(), "the store said so");
    assert_eq!(cache.node("a").unwrap().requested.cpu_milli, 0);
    let q = Arc::new(info(&asking("q", "1", "1Gi")));
    cache.assume(&q, "a");
    assert!(cache.forget("q").is_some());
    assert_eq!(cache.node("a").unwrap().requested.cpu_milli, 0);
}

#[test]
fn a_node_that_only_pods_name_takes_nobody_and_goes_with_the_last_of_them() {
    let mut cache = cache(&[node("a", json!({})), node("b", json!({}))], &[]);
    cache.set_pod(Arc::new(info(&on("ghost", &asking("p", "1", "1Gi")))));
    assert_eq!((cache.node_count(), cache.slots()), (2, 3));
    assert!(cache.nodes().all(|node| node.name != "ghost"));
    // A node removed under its pod stays as an unknown node; the others keep their positions.
    cache.set_pod(Arc::new(info(&on("a", &asking("q", "1", "1Gi")))));
    cache.remove_node("a");
    cache.remove_pod("p");
    assert_eq!((cache.node_count(), cache.slots()), (1, 2));
    assert_eq!(cache.node("a").unwrap().pods.len(), 1);
    cache.remove_pod("q");
    assert_eq!(cache.slots(), 1);
    assert!(cache.node("b").unwrap().known);
}

#[test]
fn a_node_is_news_only_when_a_pod_could_tell() {
    let mut cache = Cache::default();
    assert!(cache.set_node(&node("a", json!({}))));
    let heartbeat = json!({"metadata": {"annotations": {"x": "y"}}});
    assert!(!cache.set_node(&node("a", heartbeat)));
    assert!(cache.set_node(&node("a", json!({"spec": {"unschedulable": true}}))));
}

use serde_json::json;

use super::*;
use crate::affinity::Selector;
use crate::pod::Who;
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

#[test]
fn an_image_has_the_size_that_the_first_of_its_nodes_reports() {
    let with = |name: &str, bytes: i64| {
        let images = json!([{"names": ["x:1"], "sizeBytes": bytes}]);
        node(name, json!({"status": {"images": images}}))
    };
    let mut cache = cache(&[with("a", 100)], &[]);
    cache.set_node(&with("a", 300));
    assert_eq!(cache.images().worth("x:1", 1), Some(300));
    cache.set_node(&with("b", 500));
    assert_eq!(cache.images().worth("x:1", 2), Some(300));
}

#[test]
fn pods_that_are_alike_are_one_entry_however_many_they_are() {
    let mut cache = cache(&[node("a", json!({})), node("b", json!({}))], &[]);
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r",
        "controller": true}]);
    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}});
    let apart = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    let metadata = json!({"labels": {"app": "web"}, "ownerReferences": owner});
    let web = json!({"metadata": metadata, "spec": {"affinity": {"podAntiAffinity": apart}}});
    for at in 0..100 {
        let place = if at < 70 { "a" } else { "b" };
        let one = on(place, &pod(&format!("p{at}"), web.clone()));
        cache.set_pod(Arc::new(info(&one)));
    }
    let sizes = |cache: &Cache| {
        let index = cache.index();
        (index.groups().count(), index.anti_affinity().count())
    };
    assert_eq!(sizes(&cache), (1, 1));
    let ending = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let ending = pod("p0", machinery::patch::merge(&web, &ending));
    cache.set_pod(Arc::new(info(&on("a", &ending))));
    let any = serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
    let selected = Who::Selected(Selector::read(Some(&any)));
    for who in [selected, Who::OwnedBy("r".to_owned())] {
        let counted = cache.index().counted("default", &who);
        // A pod that is being deleted does not count.
        assert_eq!(
            [counted.on("a"), counted.on("b"), counted.on("c")],
            [69, 30, 0]
        );
        assert_eq!(cache.index().counted("other", &who).on("a"), 0);
    }
    // Pods with different labels are selected together.
    let other = json!({"metadata": {"labels": {"app": "web", "x": "y"}}});
    cache.set_pod(Arc::new(info(&on("b", &pod("q", other)))));
    let who = Who::Selected(Selector::read(Some(&any)));
    assert_eq!(cache.index().counted("default", &who).on("b"), 31);
    let all = Who::Selected(Selector::read(Some(&Default::default())));
    assert_eq!(
        cache.index().counted("default", &all).on("b"),
        0,
        "as in Go"
    );
    for uid in cache.assigned() {
        cache.remove_pod(&uid);
    }
    assert_eq!(sizes(&cache), (0, 0));
}

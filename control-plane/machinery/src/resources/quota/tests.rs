//! Compared with what Kubernetes' evaluators say of random objects: `testdata/usage.jsonl`.

use serde_json::{Value, json};

use super::*;
use crate::resources::amounts;

fn golden() -> Vec<Value> {
    let lines = include_str!("../../../testdata/usage.jsonl").lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn counted(line: &Value) -> Counted {
    let text = |key: &str| line[key].as_str().unwrap();
    Counted::of(text("group"), text("plural")).unwrap()
}

fn texts(list: &Value) -> Vec<&str> {
    let texts = list.as_array().into_iter().flatten();
    texts.map(|one| one.as_str().unwrap()).collect()
}

#[test]
fn names_are_counted_as_in_kubernetes() {
    let lines = golden();
    let kinds: Vec<&Value> = lines
        .iter()
        .filter(|line| line["counts"].is_array())
        .collect();
    assert_eq!(kinds.len(), 4);
    for line in kinds {
        let counted = counted(line);
        let mut counts = texts(&lines[0]["names"]);
        counts.retain(|name| counted.counts(name));
        counts.sort_unstable();
        assert_eq!(counts, texts(&line["counts"]), "{}", line["plural"]);
    }
}

#[test]
fn usage_scopes_and_constraints_are_those_of_kubernetes() {
    let lines = golden();
    let scopes = lines[0]["scopes"].as_array().unwrap();
    let scopes: Vec<Scope> = scopes.iter().map(|one| Scope::read(one).unwrap()).collect();
    let now = Timestamp::parse("2026-01-02T03:04:05Z").unwrap();
    let objects: Vec<&Value> = lines
        .iter()
        .filter(|line| line["usage"].is_object())
        .collect();
    assert!(objects.len() >= 200, "{}", objects.len());
    for line in objects {
        let (counted, object) = (counted(line), &line["object"]);
        let usage = counted.usage(object, now);
        assert_eq!(amounts::write(&usage), line["usage"], "{object}");
        let matching = (0..scopes.len()).filter(|at| counted.is_in(&scopes[*at], object));
        let matching: Vec<usize> = matching.collect();
        assert_eq!(json!(matching), line["matching"], "{object}");
        let why = counted.unspecified(object, texts(&line["required"]));
        assert_eq!(why.unwrap_or_default(), line["unspecified"], "{object}");
    }
}

#[test]
fn any_other_kind_is_counted_by_its_name() {
    let now = Timestamp::default();
    let one = |group: &str, plural: &str| {
        let counted = Counted::of(group, plural).unwrap();
        assert!(counted.is_number());
        amounts::write(&counted.usage(&json!({}), now))
    };
    assert_eq!(
        one("apps", "deployments"),
        json!({"count/deployments.apps": "1"})
    );
    assert_eq!(one("shop.io", "carts"), json!({"count/carts.shop.io": "1"}));
    assert_eq!(
        one("", "secrets"),
        json!({"count/secrets": "1", "secrets": "1"})
    );
    assert_eq!(
        one("", "serviceaccounts"),
        json!({"count/serviceaccounts": "1"})
    );
    assert_eq!(Counted::of("", "events"), None);
    assert!(!Counted::of("shop.io", "secrets").unwrap().counts("secrets"));
}

#[test]
fn only_some_updates_change_what_is_counted() {
    let now = Timestamp::parse("2026-01-02T03:04:05Z").unwrap();
    let changed = |plural: &str, old: Value, new: Value| {
        Counted::of("", plural).unwrap().is_changed(&old, &new, now)
    };
    let running = json!({"status": {"phase": "Running"}});
    let ended = json!({"status": {"phase": "Succeeded"}});
    assert!(changed("pods", running.clone(), ended.clone()));
    assert!(!changed("pods", ended, running.clone()));
    assert!(!changed(
        "pods",
        json!({"status": {"phase": "Pending"}}),
        running.clone()
    ));
    let limited = json!({"spec": {"activeDeadlineSeconds": 1}, "status": {"phase": "Running"}});
    assert!(changed("pods", running, limited));
    let status = |cpu: &str| {
        let resources = json!({"requests": {"cpu": cpu}});
        json!({"status": {"containerStatuses": [{"name": "c", "resources": resources}]}})
    };
    assert!(changed("pods", status("1"), status("2")));
    let service = |of_type: &str| json!({"spec": {"type": of_type}});
    assert!(changed(
        "services",
        service("ClusterIP"),
        service("NodePort")
    ));
    assert!(!changed(
        "services",
        service("ClusterIP"),
        service("ExternalName")
    ));
    let claim = |storage: &str| json!({"status": {"allocatedResources": {"storage": storage}}});
    assert!(changed(
        "persistentvolumeclaims",
        claim("1Gi"),
        claim("2Gi")
    ));
    let same = changed("persistentvolumeclaims", claim("1Gi"), claim("1024Mi"));
    assert!(!same, "the same amount in another notation");
    assert!(!changed("secrets", json!({}), json!({"data": {}})));
}

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

fn volume(name: &str, size: &str, modes: &[&str]) -> PersistentVolume {
    read(json!({
        "metadata": {"name": name},
        "spec": {"capacity": {"storage": size}, "accessModes": modes, "storageClassName": "c"},
        "status": {"phase": "Available"},
    }))
}

fn claim(name: &str, size: &str, modes: &[&str]) -> PersistentVolumeClaim {
    read(json!({
        "metadata": {"namespace": "n", "name": name},
        "spec": {
            "resources": {"requests": {"storage": size}}, "accessModes": modes,
            "storageClassName": "c",
        },
    }))
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn new<T>(object: T) -> Diff<T> {
    let (old, new) = (None, Some(Arc::new(object)));
    Diff { old, new }
}

fn gone<T>(object: T) -> Diff<T> {
    let (old, new) = (Some(Arc::new(object)), None);
    Diff { old, new }
}

fn with_volumes(volumes: &[(&str, &str, &[&str])]) -> Unbound {
    let mut unbound = Unbound::default();
    for (name, size, modes) in volumes {
        unbound.note_volume(&new(volume(name, size, modes)));
    }
    unbound
}

fn names(keys: &[&Key]) -> Vec<String> {
    keys.iter().map(|(_, name)| name.clone()).collect()
}

#[test]
fn volumes_with_few_modes_come_first_and_then_the_smallest() {
    let unbound = with_volumes(&[
        ("large", "10Gi", &["ReadWriteOnce"]),
        ("tiny", "1Mi", &["ReadWriteOnce"]),
        ("shared", "2Gi", &["ReadWriteOnce", "ReadWriteMany"]),
        ("b", "3Gi", &["ReadWriteOnce"]),
        ("a", "3072Mi", &["ReadWriteOnce"]),
        ("read", "2Gi", &["ReadOnlyMany"]),
    ]);
    let asked = Shape::of_claim(&claim("c", "2Gi", &["ReadWriteOnce"]));
    let found: Vec<&str> = unbound.fitting(&asked).collect();
    assert_eq!(found, ["a", "b", "large", "shared"]);
    let asked = Shape::of_claim(&claim("c", "2Gi", &["ReadWriteMany"]));
    assert_eq!(unbound.fitting(&asked).collect::<Vec<_>>(), ["shared"]);
    for (field, value) in [
        ("storageClassName", "other"),
        ("volumeMode", "Block"),
        ("volumeAttributesClassName", "gold"),
    ] {
        let mut other = serde_json::to_value(claim("c", "2Gi", &["ReadWriteOnce"])).unwrap();
        other["spec"][field] = value.into();
        let asked = Shape::of_claim(&read(other));
        assert_eq!(unbound.fitting(&asked).next(), None, "{field}");
    }
}

#[test]
fn the_annotation_of_the_class_comes_before_the_field() {
    let mut old = serde_json::to_value(volume("v", "1Gi", &[])).unwrap();
    old["metadata"]["annotations"] = json!({STORAGE_CLASS: "older"});
    assert_eq!(Shape::of_volume(&read(old)).form.class, "older");
    let mut none = serde_json::to_value(claim("v", "1Gi", &[])).unwrap();
    none["spec"]["storageClassName"] = Value::Null;
    assert_eq!(Shape::of_claim(&read(none)).form.class, "");
}

/// Each takes its volume away from the others. Looking at all of them each time would take long.
#[test]
fn ten_thousand_claims_find_ten_thousand_volumes() {
    let size = |at: usize| format!("{}Mi", at + 1);
    let mut unbound = Unbound::default();
    for at in 0..10_000 {
        unbound.note_volume(&new(volume(&format!("v{at}"), &size(at), &["a"])));
        unbound.note_claim(&new(claim(&format!("c{at}"), "1Mi", &["a"])));
    }
    for at in 0..10_000 {
        let own = claim(&format!("c{at}"), "1Mi", &["a"]);
        let asked = Shape::of_claim(&own);
        let name = format!("v{at}");
        assert_eq!(unbound.fitting(&asked).next(), Some(&*name));
        let free = volume(&name, &size(at), &["a"]);
        let shape = Shape::of_volume(&free);
        assert!(unbound.waiting_for(&free, &shape).next().is_some());
        unbound.note_volume(&gone(free));
        unbound.note_claim(&gone(own.clone()));
        assert_eq!(unbound.rivals(&own).next().is_some(), at < 9_999);
    }
    assert!(unbound.free.0.is_empty() && unbound.waiting.0.is_empty());
}

#[test]
fn a_volume_is_for_claims_that_it_fits() {
    let mut unbound = Unbound::default();
    let mut choosy = serde_json::to_value(claim("choosy", "1Gi", &["a"])).unwrap();
    choosy["spec"]["selector"] = json!({"matchLabels": {"disk": "fast"}});
    let mut bound = serde_json::to_value(claim("bound", "1Gi", &["a"])).unwrap();
    bound["spec"]["volumeName"] = "w".into();
    let mut lost = serde_json::to_value(claim("lost", "1Gi", &["a"])).unwrap();
    lost["metadata"]["annotations"] = json!({BIND_COMPLETED: "yes"});
    for one in [
        claim("large", "5Gi", &["a"]),
        claim("small", "1Gi", &["a"]),
        claim("many", "1Gi", &["a", "b"]),
        read(choosy),
        read(bound),
        read(lost),
    ] {
        unbound.note_claim(&new(one));
    }
    let found = |volume: &PersistentVolume| {
        let shape = Shape::of_volume(volume);
        names(&unbound.waiting_for(volume, &shape).collect::<Vec<_>>())
    };
    assert_eq!(found(&volume("v", "2Gi", &["a"])), ["small"]);
    let mut fast = serde_json::to_value(volume("v", "2Gi", &["a"])).unwrap();
    fast["metadata"]["labels"] = json!({"disk": "fast"});
    assert_eq!(found(&read(fast)), ["choosy", "small"]);
    assert_eq!(
        found(&volume("v", "9Gi", &["a", "b"])),
        ["small", "large", "many"]
    );
    let class: Vec<&Key> = unbound.of_class("c").collect();
    assert_eq!(names(&class), ["choosy", "small", "large", "many"]);
    assert_eq!(unbound.of_class("").next(), None);
}

#[test]
fn rivals_want_the_same_and_can_have_it() {
    let mut unbound = with_volumes(&[("v", "2Gi", &["a"])]);
    let mut choosy = serde_json::to_value(claim("choosy", "1Gi", &["a"])).unwrap();
    choosy["spec"]["selector"] = json!({"matchLabels": {"disk": "fast"}});
    for one in [
        claim("large", "5Gi", &["a"]),
        claim("small", "1Gi", &["a"]),
        claim("many", "1Gi", &["a", "b"]),
        read(choosy),
    ] {
        unbound.note_claim(&new(one));
    }
    let left = claim("left", "3Gi", &["b"]);
    let rivals: Vec<&Key> = unbound.rivals(&left).collect();
    assert_eq!(names(&rivals), ["small"]);
}

#[test]
fn volumes_are_free_only_while_they_are_available() {
    let asked = Shape::of_claim(&claim("c", "1Gi", &["a"]));
    for (path, value) in [
        (vec!["status", "phase"], json!("Released")),
        (
            vec!["metadata", "deletionTimestamp"],
            json!("2026-01-02T03:04:05Z"),
        ),
        (
            vec!["spec", "claimRef"],
            json!({"namespace": "n", "name": "c"}),
        ),
    ] {
        let free = volume("v", "1Gi", &["a"]);
        let mut unbound = Unbound::default();
        unbound.note_volume(&new(free.clone()));
        assert_eq!(unbound.fitting(&asked).count(), 1);
        let mut other = serde_json::to_value(&free).unwrap();
        machinery::object::set(&mut other, &path, value);
        let diff = Diff {
            old: Some(Arc::new(free)),
            new: Some(Arc::new(read(other))),
        };
        unbound.note_volume(&diff);
        assert_eq!(unbound.fitting(&asked).count(), 0, "{path:?}");
        let key = ("n".to_owned(), "c".to_owned());
        let promised = unbound.promised(&key).count();
        assert_eq!(promised, usize::from(path[1] == "claimRef"));
    }
}

#[test]
fn pods_are_known_by_their_claims_until_they_end() {
    let pod = |node: &str, phase: &str| -> Pod {
        read(json!({
            "metadata": {"namespace": "n", "name": "p"},
            "spec": {"nodeName": node, "containers": [], "volumes": [
                {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "e", "ephemeral": {}},
            ]},
            "status": {"phase": phase},
        }))
    };
    let key = |name: &str| ("n".to_owned(), name.to_owned());
    let mut unbound = Unbound::default();
    let mut before = None;
    for (node, phase) in [("", "Pending"), ("a", "Pending"), ("a", "Running")] {
        let diff = Diff {
            old: before,
            new: Some(Arc::new(pod(node, phase))),
        };
        unbound.note_pod(&diff);
        for name in ["c", "p-e"] {
            assert_eq!(unbound.pods(&key(name)).collect::<Vec<_>>(), ["p"]);
        }
        before = diff.new;
    }
    for (new, all) in [(None, 0), (Some(Arc::new(pod("a", "Failed"))), 1)] {
        let mut unbound = Unbound::default();
        let running = before.clone();
        unbound.note_pod(&Diff {
            old: None,
            new: running.clone(),
        });
        unbound.note_pod(&Diff { old: running, new });
        for name in ["c", "p-e"] {
            assert_eq!(unbound.pods(&key(name)).count(), 0);
            assert_eq!(unbound.all_pods(&key(name)).count(), all);
        }
        assert_eq!(unbound.pods.is_empty(), all == 0);
    }
}

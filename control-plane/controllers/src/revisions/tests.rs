use k8s_openapi::api::apps::v1::StatefulSet;

use super::*;
use crate::cache::Caches;
use crate::tests::fixtures::{ago, caches, owner};

fn set(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"namespace": "n", "name": "db", "annotations": {"note": "hello"}},
        "spec": {
            "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "main", "image": image, "resources": {},
                        "ports": [{"name": "sql", "containerPort": 5432}],
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    }],
                },
            },
        },
    })
}

/// A revision of the set, created so many seconds ago.
fn revision(name: &str, number: i64, data: &Value, age: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number, "data": data,
        "metadata": {
            "namespace": "n", "name": name, "labels": {"app": "db"},
            "creationTimestamp": ago(age),
            "ownerReferences": [owner("apps/v1", "StatefulSet", "db")],
        },
    })
}

fn the_set(caches: &Caches) -> &StatefulSet {
    caches.stateful_sets.get("n", "db").unwrap()
}

fn data_of(set: &StatefulSet) -> Value {
    data(&set.spec.as_ref().unwrap().template)
}

fn app() -> LabelSelector {
    LabelSelector::parse("app=db").unwrap()
}

fn names<'a>(revisions: impl IntoIterator<Item = &'a Shared<ControllerRevision>>) -> Vec<String> {
    let names = revisions.into_iter().map(|one| meta::name(&one.metadata));
    names.map(str::to_owned).collect()
}

#[test]
fn the_hash_is_the_one_that_kubernetes_computes() {
    // Recorded from Kubernetes for the same set.
    for (image, expected) in [("db:1", "d9c98bf5c"), ("db:2", "7b78b7956d")] {
        let caches = caches(&[set(image)]);
        assert_eq!(hash(&data_of(the_set(&caches)), 0), expected);
    }
    let markup = json!({"a": "<b>&"});
    assert_eq!(go_json::encoded(&markup), r#"{"a":"\u003cb\u003e\u0026"}"#);
    assert_ne!(hash(&markup, 0), hash(&markup, 1));
}

#[test]
fn revisions_are_in_the_order_of_number_age_and_name() {
    let none = Value::Null;
    let caches = caches(&[
        set("db:1"),
        revision("b", 2, &none, 20),
        revision("d", 1, &none, 10),
        revision("c", 2, &none, 20),
        revision("a", 2, &none, 10),
    ]);
    let (revisions, calls) = claim(the_set(&caches), &caches.revisions, &app());
    assert_eq!(names(&revisions), ["d", "b", "c", "a"]);
    assert_eq!(calls.len(), 0);
    assert_eq!(next_number(&revisions), 3);
    assert_eq!(next_number(&[]), 1);
}

#[test]
fn orphans_are_adopted_and_only_a_claim_releases() {
    let none = Value::Null;
    let mut orphan = revision("orphan", 1, &none, 1);
    orphan["metadata"]["ownerReferences"] = json!([]);
    let mut stray = revision("stray", 2, &none, 1);
    stray["metadata"]["labels"] = json!({"app": "other"});
    let objects = [set("db:1"), orphan, stray];
    let caches_of = |objects: &[Value]| caches(objects);
    let both = caches_of(&objects);
    let lines = |calls: &[Call]| -> Vec<String> { calls.iter().map(Call::to_string).collect() };
    let (revisions, calls) = claim(the_set(&both), &both.revisions, &app());
    assert_eq!(names(&revisions), [""; 0]);
    assert_eq!(
        lines(&calls),
        [
            "patch controllerrevisions n/stray",
            "patch controllerrevisions n/orphan",
        ]
    );
    let (revisions, calls) = adopt(the_set(&both), &both.revisions, &app());
    assert_eq!(names(&revisions), [""; 0]);
    assert_eq!(lines(&calls), ["patch controllerrevisions n/orphan"]);
    let mut objects = objects;
    objects[0]["metadata"]["deletionTimestamp"] = ago(1).into();
    let deleting = caches_of(&objects);
    let (_, calls) = claim(the_set(&deleting), &deleting.revisions, &app());
    assert_eq!(calls.len(), 0);
}

#[test]
fn a_name_with_other_data_behind_it_is_a_collision() {
    let one = caches(&[set("db:1")]);
    let data = data_of(the_set(&one));
    let first = format!("db-{}", hash(&data, 0));
    let at = |objects: &[Value]| {
        let caches = caches(objects);
        let mut collisions = 0;
        let hash = |collisions| hash(&data, collisions);
        let set = the_set(&caches);
        let place = place(set, &caches.revisions, &data, &mut collisions, hash);
        (place, collisions)
    };
    let (place, collisions) = at(&[set("db:1")]);
    assert!(matches!(place, Place::Free(name) if name == first && collisions == 0));
    let (place, collisions) = at(&[set("db:1"), revision(&first, 1, &json!({}), 1)]);
    let second = format!("db-{}", hash(&data, 1));
    assert!(matches!(place, Place::Free(name) if name == second && collisions == 1));
    let (place, collisions) = at(&[set("db:1"), revision(&first, 1, &data, 1)]);
    let Place::Taken(has) = place else {
        panic!("{place:?}");
    };
    assert_eq!((meta::name(&has.metadata), collisions), (&*first, 0));
}

#[test]
fn a_revision_restores_the_whole_template() {
    let earlier = caches(&[set("db:1")]);
    let template = the_set(&earlier).spec.as_ref().unwrap().template.clone();
    let labels = Labels::from([("app".into(), "db".into())]);
    let made = new(the_set(&earlier), "db-x".into(), labels, data(&template), 7);
    assert_eq!(meta::annotation(&made.metadata, "note"), Some("hello"));
    assert_eq!(made.revision, 7);
    assert!(has_data(&made, &data_of(the_set(&earlier))));
    let mut later = set("db:2");
    later["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "fast"});
    let later = caches(&[later]);
    assert!(!has_data(&made, &data_of(the_set(&later))));
    let back = restored(the_set(&later), &made).unwrap();
    assert_eq!(back.spec.unwrap().template, template);
}

#[test]
fn data_without_a_default_restores_it() {
    let caches = caches(&[set("db:1")]);
    let set = the_set(&caches);
    let mut data = data_of(set);
    let removed = data["spec"]["template"]["spec"]
        .as_object_mut()
        .unwrap()
        .remove("schedulerName");
    assert!(removed.is_some());
    let older = new(set, "older".into(), Labels::new(), data, 1);
    assert_eq!(restored(set, &older).as_ref(), Some(set));
}

#[test]
fn the_oldest_beyond_the_limit_go_but_none_in_use() {
    let none = Value::Null;
    let mut objects = vec![set("db:1")];
    objects.extend((1..=5).map(|at| revision(&format!("r{at}"), at, &none, 1)));
    let caches = caches(&objects);
    let (revisions, _) = claim(the_set(&caches), &caches.revisions, &app());
    let gone = |limit| {
        names(surplus(
            &revisions,
            |name| ["r1", "r5"].contains(&name),
            limit,
        ))
    };
    assert_eq!(gone(1), ["r2", "r3"]);
    assert_eq!(gone(0), ["r2", "r3", "r4"]);
    assert_eq!(gone(3), [""; 0]);
    assert_eq!(gone(-1), [""; 0]);
}

#[test]
fn an_earlier_revision_becomes_the_newest_in_its_known_state_only() {
    let caches = caches(&[set("db:1"), revision("r", 1, &Value::Null, 1)]);
    let call = bump(caches.revisions.get("n", "r").unwrap(), 4);
    let Call::Patch { patch, .. } = call else {
        panic!("{call}");
    };
    assert_eq!(patch["revision"], 4);
    assert_eq!(patch["metadata"]["resourceVersion"], "2");
}

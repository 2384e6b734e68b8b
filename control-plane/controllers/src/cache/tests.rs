use machinery::time::Timestamp;
use serde_json::json;

use super::*;

fn config(uid: &str, revision: i64) -> Object {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "n", "name": "c", "uid": uid},
    });
    object::set_resource_version(&mut object, revision);
    object
}

fn known(caches: &Caches) -> Option<String> {
    let known = caches.config_maps.get("n", "c")?;
    known.metadata.resource_version.clone()
}

fn tell(caches: &mut Caches, notice: Notice) -> usize {
    let kind = kind_of::<ConfigMap>();
    let effects = caches.observe(kind, Destination::Both, notice, Timestamp::default());
    effects.changed.len()
}

fn wrote(caches: &mut Caches, object: Object) {
    caches.wrote(kind_of::<ConfigMap>(), object, Timestamp::default());
}

#[test]
fn a_late_watch_does_not_undo_an_own_write() {
    let mut caches = Caches::default();
    tell(&mut caches, Notice::Applied(config("u", 1)));
    wrote(&mut caches, config("u", 5));
    assert_eq!(tell(&mut caches, Notice::Applied(config("u", 3))), 0);
    assert_eq!(known(&caches).as_deref(), Some("5"));
    assert_eq!(tell(&mut caches, Notice::Applied(config("u", 5))), 0);
    assert_eq!(tell(&mut caches, Notice::Applied(config("u", 6))), 1);
}

#[test]
fn what_an_own_call_deleted_does_not_come_back_by_a_late_watch() {
    let mut caches = Caches::default();
    tell(&mut caches, Notice::Applied(config("u", 1)));
    let mut last = config("u", 4);
    last["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    wrote(&mut caches, last.clone());
    assert_eq!(known(&caches), None);
    assert_eq!(tell(&mut caches, Notice::Applied(config("u", 3))), 0);
    assert_eq!(tell(&mut caches, Notice::Deleted(last)), 0);
    // An object with the same name and another uid is another object.
    assert_eq!(tell(&mut caches, Notice::Applied(config("v", 7))), 1);
    assert_eq!(tell(&mut caches, Notice::Deleted(config("u", 4))), 0);
    assert_eq!(known(&caches).as_deref(), Some("7"));
}

#[test]
fn the_answer_to_an_own_write_does_not_bring_back_what_the_watch_saw_go() {
    let mut caches = Caches::default();
    tell(&mut caches, Notice::Applied(config("u", 1)));
    tell(&mut caches, Notice::Deleted(config("u", 4)));
    wrote(&mut caches, config("u", 3));
    assert_eq!(known(&caches), None);
    assert_eq!(caches.graph.get("u").map(|_| ()), None);
}

#[test]
fn what_still_waits_for_something_is_not_gone() {
    let mut object = config("u", 1);
    assert!(!is_gone(&object));
    object["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    assert!(is_gone(&object));
    object["metadata"]["finalizers"] = json!(["a/b"]);
    assert!(!is_gone(&object));
    object["metadata"]["finalizers"] = json!([]);
    object["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    assert!(!is_gone(&object));
}

#[test]
fn beginning_anew_forgets_what_is_no_longer_there() {
    let mut caches = Caches::default();
    tell(&mut caches, Notice::Applied(config("u", 1)));
    assert_eq!(tell(&mut caches, Notice::Replaced(Vec::new())), 1);
    assert_eq!(known(&caches), None);
    assert_eq!(caches.graph.get("u").map(|_| ()), None);
}

#[test]
fn the_answer_to_an_own_write_does_not_bring_back_what_a_list_lacked() {
    let mut caches = Caches::default();
    tell(&mut caches, Notice::Applied(config("u", 1)));
    tell(&mut caches, Notice::Replaced(Vec::new()));
    wrote(&mut caches, config("u", 3));
    assert_eq!(known(&caches), None);
    assert_eq!(caches.graph.get("u").map(|_| ()), None);
    // A list that is older than an own create lacks it, too: the watch tells of it.
    wrote(&mut caches, config("v", 6));
    tell(&mut caches, Notice::Replaced(Vec::new()));
    assert_eq!(tell(&mut caches, Notice::Applied(config("v", 6))), 1);
    wrote(&mut caches, config("v", 7));
    assert_eq!(known(&caches).as_deref(), Some("7"));
}

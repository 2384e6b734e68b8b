use serde_json::json;

use super::*;

fn entry(name: &str, revision: i64) -> Entry {
    let key: Arc<str> = format!("/registry/configmaps/a/{name}").into();
    Entry::new(key, revision, json!({"metadata": {"name": name}}))
}

fn put(cache: &Cache, name: &str, revision: i64) {
    let entry = entry(name, revision);
    cache.apply(vec![(Arc::clone(&entry.key), revision, Some(entry))]);
}

fn names(changes: &[Arc<Change>]) -> Vec<(i64, bool, bool)> {
    let all = changes.iter();
    all.map(|change| (change.revision, change.before.is_some(), change.deleted))
        .collect()
}

#[test]
fn a_cursor_sees_each_change_once_and_in_order() {
    let cache = Cache::new();
    cache.reset(BTreeMap::new(), 5);
    let mut cursor = cache.end();
    put(&cache, "x", 6);
    put(&cache, "x", 8);
    cache.apply(vec![("/registry/configmaps/a/x".into(), 9, None)]);
    // What was never there cannot go.
    cache.apply(vec![("/registry/configmaps/a/y".into(), 10, None)]);
    let first = cache.changes(&mut cursor, 2).ok().unwrap();
    let rest = cache.changes(&mut cursor, 10).ok().unwrap();
    assert_eq!(names(&first), [(6, false, false), (8, true, false)]);
    assert_eq!(names(&rest), [(9, true, true)]);
    assert_eq!(rest[0].entry.object["metadata"]["resourceVersion"], "9");
    assert!(cache.changes(&mut cursor, 10).ok().unwrap().is_empty());
}

#[test]
fn what_cannot_be_read_is_told_until_it_can_or_is_gone() {
    let cache = Cache::new();
    let why = Status::internal("no object");
    put(&cache, "x", 6);
    for mended in [Some(entry("x", 9)), None] {
        cache.set_unreadable("/registry/configmaps/a/x", &why);
        let told = cache.check("/registry/configmaps/").unwrap_err();
        assert!(told.message.contains("/registry/configmaps/a/x"), "{told}");
        assert!(cache.check("/registry/configmaps/a/").is_err());
        assert!(cache.check("/registry/configmaps/b/").is_ok());
        // Nobody was told that it is gone.
        assert!(cache.get("/registry/configmaps/a/x").is_some());
        cache.apply(vec![("/registry/configmaps/a/x".into(), 9, mended)]);
        assert!(cache.check("/registry/configmaps/").is_ok());
    }
}

#[test]
fn a_revision_is_found_while_it_is_remembered() {
    let cache = Cache::new();
    cache.reset(BTreeMap::new(), 5);
    for revision in 6..9 {
        put(&cache, "x", revision);
    }
    let after = |revision| {
        let mut cursor = cache.after(revision).ok()?;
        Some(cache.changes(&mut cursor, 10).ok()?.len())
    };
    assert_eq!(after(4), None);
    assert_eq!(
        (after(5), after(7), after(8), after(100)),
        (Some(3), Some(1), Some(0), Some(0))
    );
}

#[test]
fn a_watcher_that_falls_behind_the_ring_is_told_so() {
    let cache = Cache::new();
    cache.reset(BTreeMap::new(), 1);
    let mut slow = cache.end();
    for revision in 2..2 + CHANGES_MAX as i64 {
        put(&cache, "x", revision);
    }
    assert!(cache.after(1).is_ok());
    put(&cache, "x", 3 + CHANGES_MAX as i64);
    assert!(cache.changes(&mut slow, 1).is_err());
    assert!(cache.after(1).is_err());
}

#[test]
fn a_reset_is_seen_by_watchers_that_were_up_to_date() {
    let cache = Cache::new();
    cache.reset(BTreeMap::new(), 1);
    let mut cursor = cache.end();
    cache.reset(BTreeMap::new(), 9);
    assert!(cache.changes(&mut cursor, 1).is_err());
}

use serde_json::json;

use super::*;
use crate::registry::strategy;
use crate::resources::catalogue::Catalogue;

/// An object in JSON; some tests store it in other collections.
fn entry(name: &str, revision: i64) -> Stored {
    stored("a", name, "", revision)
}

fn stored(namespace: &str, name: &str, node: &str, revision: i64) -> Stored {
    let catalogue = Catalogue::new(strategy::builtin().iter().cloned());
    let storage = &catalogue.resource("", "v1", "pods").unwrap().storage;
    let key = format!("/registry/configmaps/{namespace}/{name}");
    let object = json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": node},
    });
    Stored::read(
        storage.as_ref().unwrap(),
        &key,
        object.to_string().as_bytes(),
        revision,
    )
    .unwrap()
}

/// A cache of nothing as of a revision.
fn cache(revision: i64) -> Cache {
    let cache = Cache::new("/registry/configmaps/".into());
    cache.reset(Content::default(), revision);
    cache
}

fn heard(key: &str, revision: i64, stored: Result<Option<Stored>, Status>) -> Vec<Heard> {
    vec![Heard {
        key: key.into(),
        revision,
        stored,
    }]
}

fn put(cache: &Cache, name: &str, revision: i64) {
    let stored = entry(name, revision);
    let key = Arc::clone(&stored.key);
    cache.apply(heard(&key, revision, Ok(Some(stored))));
}

fn names(changes: &[Arc<Change>]) -> Vec<(i64, bool, bool)> {
    let all = changes.iter();
    all.map(|change| (change.revision, change.before.is_some(), change.deleted))
        .collect()
}

#[test]
fn a_cursor_sees_each_change_once_and_in_order() {
    let cache = cache(5);
    let mut cursor = cache.end();
    put(&cache, "x", 6);
    put(&cache, "x", 8);
    cache.apply(heard("/registry/configmaps/a/x", 9, Ok(None)));
    // The deletion of a key that never existed is no change.
    cache.apply(heard("/registry/configmaps/a/y", 10, Ok(None)));
    let first = cache.changes(&mut cursor, 2).ok().unwrap();
    let rest = cache.changes(&mut cursor, 10).ok().unwrap();
    assert_eq!(names(&first), [(6, false, false), (8, true, false)]);
    assert_eq!(names(&rest), [(9, true, true)]);
    assert_eq!(
        rest[0].after.decode().unwrap()["metadata"]["resourceVersion"],
        "9"
    );
    assert!(cache.changes(&mut cursor, 10).ok().unwrap().is_empty());
}

#[test]
fn what_cannot_be_read_is_told_until_it_can_or_is_gone() {
    let cache = cache(1);
    let why = Status::internal("no object");
    put(&cache, "x", 6);
    for mended in [Some(entry("x", 9)), None] {
        cache.apply(heard("/registry/configmaps/a/x", 8, Err(why.clone())));
        let told = cache.check("/registry/configmaps/").unwrap_err();
        assert!(told.message.contains("/registry/configmaps/a/x"), "{told}");
        assert!(cache.check("/registry/configmaps/a/").is_err());
        assert!(cache.check("/registry/configmaps/b/").is_ok());
        assert!(cache.all("/registry/configmaps/a/").is_err());
        assert!(cache.readable("/registry/configmaps/a/x").is_err());
        assert!(cache.readable("/registry/configmaps/a/x2").is_ok());
        // The cache did not report a deletion.
        assert!(cache.get("/registry/configmaps/a/x").is_some());
        cache.apply(heard("/registry/configmaps/a/x", 9, Ok(mended)));
        assert!(cache.check("/registry/configmaps/").is_ok());
    }
}

#[test]
fn a_revision_is_found_while_it_is_remembered() {
    let cache = cache(5);
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
    let cache = cache(1);
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
    let cache = cache(1);
    let mut cursor = cache.end();
    cache.reset(Content::default(), 9);
    assert!(cache.changes(&mut cursor, 1).is_err());
}

fn part(namespace: &str, node: Option<&str>) -> Interest {
    Interest {
        folder: format!("/registry/configmaps/{namespace}"),
        field: node.map(|node| ("spec.nodeName".to_owned(), node.to_owned())),
    }
}

fn apply(cache: &Cache, revision: i64, (namespace, name): (&str, &str), node: Option<&str>) {
    let key = format!("/registry/configmaps/{namespace}/{name}");
    let state = node.map(|node| stored(namespace, name, node, revision));
    cache.apply(heard(&key, revision, Ok(state)));
}

#[test]
fn a_part_is_told_what_enters_changes_and_leaves_and_nothing_else() {
    let cache = cache(1);
    let parts = [
        part("", None),
        part("a/", None),
        part("", Some("n1")),
        part("a/", Some("n2")),
    ];
    let mut places = Vec::new();
    for part in &parts {
        let place = cache.end();
        let woken = cache.join(part, place).ok().unwrap();
        places.push((part, place, woken));
    }
    apply(&cache, 2, ("a", "x"), Some(""));
    apply(&cache, 3, ("a", "x"), Some("n1"));
    apply(&cache, 4, ("b", "y"), Some("n2"));
    apply(&cache, 5, ("a", "x"), Some("n2"));
    apply(&cache, 6, ("a", "x"), None);
    let told: Vec<Vec<i64>> = places
        .iter_mut()
        .map(|(part, place, woken)| {
            assert!(woken.has_changed().unwrap());
            let changes = cache.changes_of(part, place, 100).ok().unwrap();
            assert!(*place == cache.end());
            changes.iter().map(|change| change.revision).collect()
        })
        .collect();
    assert_eq!(told[0], [2, 3, 4, 5, 6]);
    assert_eq!(told[1], [2, 3, 5, 6]);
    assert_eq!(told[2], [3, 5]);
    assert_eq!(told[3], [5, 6]);
    // No other watcher wakes.
    for (_, _, woken) in &mut places {
        woken.borrow_and_update();
    }
    apply(&cache, 7, ("c", "z"), Some("n3"));
    let woken: Vec<bool> = places
        .iter()
        .map(|one| one.2.has_changed().unwrap())
        .collect();
    assert_eq!(woken, [true, false, false, false]);
    for part in &parts {
        assert!(cache.watchers() > 0);
        cache.leave(part);
    }
    assert_eq!(cache.watchers(), 0);
}

#[test]
fn a_watcher_may_sleep_through_changes_that_do_not_concern_it() {
    let cache = cache(1);
    let interest = part("", Some("n1"));
    let mut place = cache.end();
    assert!(cache.join(&interest, place).is_ok());
    let mut revision = 1;
    let mut pass = |node: &str, many: usize| {
        for _ in 0..many {
            revision += 1;
            apply(&cache, revision, ("a", node), Some(node));
        }
    };
    pass("n2", 2 * CHANGES_MAX);
    pass("n1", 1);
    let seen = cache.changes_of(&interest, &mut place, 10).ok().unwrap();
    assert_eq!(seen.len(), 1);
    // A change that concerned the watcher was dropped: it gets an error, whether another one
    // follows or not.
    pass("n1", 1);
    pass("n2", CHANGES_MAX);
    assert!(cache.changes_of(&interest, &mut place.clone(), 10).is_err());
    pass("n1", 1);
    assert!(cache.changes_of(&interest, &mut place.clone(), 10).is_err());
    cache.reset(Content::default(), 100_000);
    let mut place = cache.end();
    assert!(cache.join(&interest, place).is_ok());
    assert!(
        cache
            .changes_of(&interest, &mut place, 10)
            .ok()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn who_joins_an_old_place_is_told_what_came_behind_it() {
    let cache = cache(1);
    let interest = part("a/", Some("n1"));
    for (revision, node) in [(2, "n1"), (3, "n2"), (4, "n1"), (5, "n2"), (6, "n1")] {
        apply(&cache, revision, ("a", node), Some(node));
    }
    for (after, told) in [
        (4, vec![6]),
        (1, vec![2, 4, 6]),
        (2, vec![4, 6]),
        (6, vec![]),
    ] {
        let mut place = cache.after(after).ok().unwrap();
        assert!(cache.join(&interest, place).is_ok());
        let first = cache.changes_of(&interest, &mut place, 1).ok().unwrap();
        let rest = cache.changes_of(&interest, &mut place, 10).ok().unwrap();
        let all: Vec<i64> = first.iter().chain(&rest).map(|one| one.revision).collect();
        assert_eq!(all, told, "after {after}");
    }
}

#[test]
fn changes_that_came_before_the_list_are_shown_only_if_it_lacks_them() {
    let cache = Cache::new("/registry/configmaps/".into());
    put(&cache, "x", 3);
    put(&cache, "x", 5);
    put(&cache, "y", 7);
    cache.apply(heard("/registry/configmaps/a/z", 8, Ok(None)));
    cache.apply(heard(
        "/registry/configmaps/a/w",
        9,
        Err(Status::internal("no object")),
    ));
    assert!(cache.snapshot("/registry/configmaps/").0.is_empty());
    let mut content = Content::default();
    for (name, revision) in [("x", 5), ("z", 4)] {
        content.insert("", Ok(entry(name, revision)));
    }
    cache.reset(content, 6);
    let (items, _, revision) = cache.snapshot("/registry/configmaps/");
    let items: Vec<(String, i64)> = items.iter().map(|one| (one.name(), one.revision)).collect();
    assert_eq!(items, [("x".to_owned(), 5), ("y".to_owned(), 7)]);
    assert_eq!(revision, 8);
    assert!(cache.check("/registry/configmaps/").is_err());
    // The changes behind the list are remembered; older ones are not.
    let mut cursor = cache.after(6).ok().unwrap();
    let changes = cache.changes(&mut cursor, 10).ok().unwrap();
    assert_eq!(names(&changes), [(7, false, false), (8, true, true)]);
    assert_eq!(cache.after(5).err(), Some(Missed::TooOld));
}

#[test]
fn changes_that_come_after_a_newer_list_are_not_shown() {
    let cache = Cache::new("/registry/configmaps/".into());
    let mut content = Content::default();
    content.insert("", Ok(entry("x", 6)));
    cache.reset(content, 8);
    put(&cache, "x", 5);
    put(&cache, "gone", 7);
    cache.apply(heard("/registry/configmaps/a/x", 4, Ok(None)));
    let shown = || {
        let (items, _, revision) = cache.snapshot("/registry/configmaps/");
        let items = items.iter().map(|one| (one.name(), one.revision));
        (items.collect::<Vec<_>>(), revision)
    };
    assert_eq!(shown(), (vec![("x".to_owned(), 6)], 8));
    // Of one transaction that comes after the list, each change counts.
    put(&cache, "y", 9);
    put(&cache, "z", 9);
    assert_eq!(shown().0.len(), 3);
}

#[test]
fn watchers_of_a_closed_collection_wake_and_are_told_so() {
    let cache = cache(1);
    let interest = part("", None);
    let mut place = cache.end();
    let woken = cache.join(&interest, place).ok().unwrap();
    assert!(!woken.has_changed().unwrap());
    cache.close();
    assert!(woken.has_changed().unwrap());
    let told = cache.changes_of(&interest, &mut place, 1).err();
    assert_eq!(told, Some(Missed::Closed));
    assert_eq!(cache.join(&interest, place).err(), Some(Missed::Closed));
    cache.leave(&interest);
}

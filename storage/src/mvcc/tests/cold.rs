//! A store whose pages are not in memory: what is read one after the other is announced before,
//! all together.

use std::collections::BTreeSet;

use super::*;
use crate::mvcc::keys::DeltaLimits;

const KEYS: usize = 20_000;

/// More keys than a leaf of the base holds: one key in so many is alone in its leaf.
const SPARSE: usize = 200;

/// Nothing is merged unless a test says so.
const NO_MERGES: DeltaLimits = DeltaLimits {
    direct_bytes: 0,
    close_parts: 1,
    close_bytes: 1,
    close_bytes_max: 1,
    merge_trees: 1,
    base_entries: u64::MAX,
    merge_trees_max: 1,
    merge_every: u32::MAX,
    merge_entries: KEYS / SPARSE / 2,
};

fn key(i: usize) -> String {
    format!("key{i:05}")
}

/// All keys, in the base.
fn filled() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.store.set_key_bytes_direct(1 << 30);
    (0..KEYS).for_each(|i| fixture.put(&key(i), "old"));
    fixture
}

/// Opens what is saved, with nothing in memory, and notices that. Returns how much was announced.
fn cool(fixture: &mut Fixture, limits: DeltaLimits) -> usize {
    fixture.reopen();
    fixture.store.delta_limits = limits;
    fixture.vfs.set_cold(true);
    let root = fixture.store.root();
    assert!(from_memory(|| root.get(b"key00000", 0, |_| ())).is_none());
    assert!(root.misses_pages());
    // That has read some branches.
    fixture.vfs.set_cold(true);
    fixture.vfs.announced().len()
}

/// Places that were announced after the first `before` announcements, each once.
fn places(fixture: &Fixture, before: usize) -> BTreeSet<(u64, u64)> {
    let announced = fixture.vfs.announced();
    announced[before..].iter().copied().collect()
}

#[test]
fn the_leaves_of_many_changes_are_announced_once_each_and_none_that_is_in_memory() {
    let mut fixture = filled();
    fixture.checkpoint();
    let before = cool(&mut fixture, DeltaLimits::beyond(1 << 30));
    let (vfs, root) = (&fixture.vfs, fixture.store.root());
    let keys: Vec<String> = (0..KEYS).rev().step_by(10).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    // All branches are missing, too: they are announced first. The root is read at once.
    root.announce_changes(keys.clone());
    let announced = vfs.announced().len() - before;
    let different = places(&fixture, before).len();
    let base = fixture.store.survey().unwrap().0[0];
    assert!(base.leaves > 100 && base.branches > 2, "{base:?}");
    let pages = (base.leaves + base.branches - 1) as usize;
    assert_eq!((announced, different), (pages, pages), "{base:?}");

    // Whoever may wait for a page hardly ever asks whether it must.
    let (asked, read) = (vfs.asked(), vfs.reads());
    for key in &keys {
        root.head(key).unwrap();
    }
    let (asked, read) = (vfs.asked() - asked, vfs.reads() - read);
    assert!(
        read >= keys.len() as u64 && asked <= read / 32,
        "{asked}, {read}"
    );

    // By now all are in memory. Each page is asked for once, branches on the ways of many keys too.
    let (before, asked) = (vfs.announced().len(), vfs.asked());
    root.announce_changes(keys.clone());
    assert_eq!(vfs.announced().len(), before);
    assert_eq!(vfs.asked() - asked, base.leaves + base.branches);
    // That is noticed after some more.
    vfs.set_cold(false);
    for _ in 0..40 {
        root.announce_changes(keys.clone());
    }
    assert!(!root.misses_pages());
    assert_eq!(vfs.announced().len(), before);
}

#[test]
fn a_start_has_the_filters_of_delta_trees_read_as_a_whole() {
    let mut fixture = Fixture::new();
    fixture.store.delta_limits = DeltaLimits {
        close_bytes: 1 << 30,
        close_bytes_max: 1 << 30,
        ..NO_MERGES
    };
    (0..KEYS).for_each(|i| fixture.put(&key(i), "new"));
    fixture.checkpoint();
    fixture.vfs.set_cold(true);
    fixture.reopen();
    // No page that was read before says that pages are missing.
    let filter_bytes = (KEYS as u64 * 16 / 8).next_power_of_two();
    let announced = fixture.vfs.announced();
    let is_whole = announced.iter().any(|(_, len)| *len > filter_bytes);
    assert!(is_whole, "{announced:?}");
}

#[test]
fn the_leaves_of_delta_trees_that_changes_look_into_are_announced() {
    let mut fixture = filled();
    let waits = DeltaLimits {
        close_bytes: 1 << 30,
        close_bytes_max: 1 << 30,
        ..NO_MERGES
    };
    fixture.store.delta_limits = waits;
    let in_delta = |i: usize| i.is_multiple_of(10);
    (0..KEYS)
        .filter(|i| in_delta(*i))
        .for_each(|i| fixture.put(&key(i), "new"));
    fixture.checkpoint();
    let (trees, _) = fixture.store.survey().unwrap();
    let [base, _, _, delta] = &trees[..] else {
        panic!("{trees:?}");
    };
    let pages = |tree: &TreeFound| tree.leaves + tree.branches - 1;
    for (first, of_delta) in [(0, pages(delta)), (5, 0)] {
        let before = cool(&mut fixture, waits);
        let keys: Vec<String> = (first..KEYS).step_by(10).map(key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
        fixture.store.root().announce_changes(keys);
        let announced = places(&fixture, before).len() as u64;
        let least = pages(base) + of_delta;
        // The delta tree's filter takes a few keys for its own.
        let most = least + if of_delta > 0 { 0 } else { delta.leaves / 2 };
        assert!(
            (least..=most).contains(&announced),
            "{announced}, {trees:?}"
        );
    }
}

#[test]
fn where_a_branch_is_missing_a_change_announces_the_branch() {
    let mut fixture = filled();
    fixture.checkpoint();
    let before = cool(&mut fixture, DeltaLimits::beyond(1 << 30));
    let root = fixture.store.root();
    // Then the root is in memory, and another branch.
    root.head(b"key19999").unwrap();
    root.announce_change(b"key00000");
    let branch = places(&fixture, before);
    assert_eq!(branch.len(), 1);
    // Another leaf of that branch.
    root.head(b"key00300").unwrap();
    let before = fixture.vfs.announced().len();
    root.announce_change(b"key00000");
    let leaf = places(&fixture, before);
    assert_eq!(leaf.len(), 1);
    assert!(leaf.is_disjoint(&branch));
}

#[test]
fn where_values_are_is_announced_once_the_keys_are_known() {
    let mut fixture = filled();
    fixture.checkpoint();
    let before = cool(&mut fixture, DeltaLimits::beyond(1 << 30));
    let root = fixture.store.root();
    let keys: Vec<String> = (0..KEYS).rev().step_by(SPARSE).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    // A caller that must not wait gets nothing while the leaf of the key is missing.
    root.announce_value(keys[0]);
    assert!(places(&fixture, before).is_empty());
    root.announce_values(keys.clone());
    let announced = places(&fixture, before);
    let (trees, _) = fixture.store.survey().unwrap();
    let branches = (trees[0].branches + trees[1].branches) as usize;
    // There are fewer leaves of rows than keys that were asked for, and one in each leaf of keys.
    let leaves = keys.len() + trees[1].leaves as usize;
    assert!(
        (leaves - 1..=leaves + branches).contains(&announced.len()),
        "{}, {trees:?}",
        announced.len()
    );

    cool(&mut fixture, DeltaLimits::beyond(1 << 30));
    let root = fixture.store.root();
    root.head(keys[0]).unwrap();
    // Another row, so that what is above all rows is in memory.
    root.get(keys[50], 0, |_| ()).unwrap();
    let before = fixture.vfs.announced().len();
    root.announce_value(keys[0]);
    let row = places(&fixture, before);
    assert_eq!(row.len(), 1, "{row:?}");
    assert!(row.is_subset(&announced));
    // There is no such key, as the same leaf says.
    root.announce_value(b"key19999a");
    root.announce_values(vec![b"key19999a"]);
    assert_eq!(places(&fixture, before), row);
}

/// Puts of these keys, one entry each.
fn lone_puts(keys: &[String], first: u64) -> Vec<LonePut<'_>> {
    keys.iter()
        .zip(first..)
        .map(|(key, index)| LonePut {
            applied: Applied { index, term: 1 },
            key: key.as_bytes(),
            value: b"new",
            lease: 0,
        })
        .collect()
}

#[test]
fn what_puts_that_are_replayed_look_for_is_announced() {
    // Looked for in a view, and by puts that go into the base.
    for limits in [NO_MERGES, DeltaLimits::beyond(1 << 30)] {
        let mut fixture = filled();
        fixture.checkpoint();
        let before = cool(&mut fixture, limits);
        let is_direct = !fixture.store.looks_for_keys();
        let keys: Vec<String> = (0..KEYS).step_by(SPARSE).map(key).collect();
        let puts = lone_puts(&keys, fixture.store.root().applied().index + 1);
        fixture.store.put_all(&puts, None).unwrap();
        let announced = places(&fixture, before).len();
        assert!(announced >= keys.len(), "{announced}, {is_direct}");
        assert!(announced < 2 * keys.len(), "{announced}, {is_direct}");
    }
}

#[test]
fn the_leaves_that_a_step_of_a_merge_changes_are_announced() {
    let mut fixture = filled();
    fixture.checkpoint();
    fixture.store.delta_limits = NO_MERGES;
    (0..KEYS)
        .step_by(SPARSE)
        .for_each(|i| fixture.put(&key(i), "new"));
    fixture.checkpoint();
    assert!(fixture.store.root().keys.merging().next().is_some());
    let limits = DeltaLimits {
        merge_every: 1,
        ..NO_MERGES
    };
    let before = cool(&mut fixture, limits);
    fixture.put("key00000", "newest");
    let announced = places(&fixture, before).len();
    // Beside them some of the tree that is merged.
    let moves = limits.merge_entries;
    assert!(announced >= moves - 1, "{announced} of {moves}");
    fixture.vfs.set_cold(false);
    let before = fixture.vfs.announced().len();
    fixture.put("key00000", "newest");
    let announced = places(&fixture, before).len();
    assert!(announced < 10, "{announced} though all is in memory");
    assert!(fixture.store.root().keys.merging().next().is_none());
    fixture.store.check().unwrap();
}

#[test]
fn the_leaves_in_which_a_compaction_looks_for_older_versions_are_announced() {
    let mut fixture = filled();
    let revision = fixture.store.root().revision();
    fixture.write().compact(revision).unwrap();
    while !fixture.store.compact_step(KEYS).unwrap().done {}
    let changes = KEYS / SPARSE;
    (0..changes).for_each(|i| fixture.put(&key(i * SPARSE), "new"));
    let revision = fixture.store.root().revision();
    fixture.write().compact(revision).unwrap();
    fixture.checkpoint();
    for is_cold in [true, false] {
        let before = cool(&mut fixture, DeltaLimits::beyond(1 << 30));
        fixture.store.batch_bytes_max = usize::MAX;
        fixture.vfs.set_cold(is_cold);
        let progress = fixture.store.compact_step(changes).unwrap();
        assert!(!progress.done && progress.removed == 0);
        let announced = places(&fixture, before).len();
        if is_cold {
            assert!(announced >= changes - 1, "{announced} of {changes}");
        } else {
            assert!(announced < 10, "{announced} though all is in memory");
        }
    }
    while !fixture.store.compact_step(KEYS).unwrap().done {}
    assert_eq!(fixture.store.root().versions().unwrap(), KEYS as u64);
    fixture.store.check().unwrap();
}

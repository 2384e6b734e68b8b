//! Changes collected in delta trees, and merged: each test sees every role that a tree can have.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::mvcc::keys::DeltaLimits;

/// The roles of delta trees that have entries, besides the open one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Open,
    Waiting,
    Merging,
}

pub(super) fn roles(root: &Root) -> BTreeSet<Role> {
    let keys = &root.keys;
    let closed = keys.waiting().count() > usize::from(keys.open().len() > 0);
    let all = [
        (keys.open().len() > 0, Role::Open),
        (closed, Role::Waiting),
        (keys.merging().count() > 0, Role::Merging),
    ];
    all.into_iter()
        .filter(|(is, _)| *is)
        .map(|(_, role)| role)
        .collect()
}

/// A second passes between any two looks at it.
fn clock() -> Duration {
    thread_local! { static SECONDS: Cell<u64> = const { Cell::new(0) } }
    SECONDS.set(SECONDS.get() + 1);
    Duration::from_secs(SECONDS.get())
}

#[test]
fn the_time_of_merges_is_that_of_their_steps_alone() {
    let mut fixture = Fixture::new();
    let mut before = Duration::ZERO;
    let (mut steps, mut others) = (0, 0);
    for i in 0..2_000 {
        if i == 1_000 {
            assert_eq!(before, Duration::ZERO, "without a clock");
            fixture.store.time_merges(clock);
        }
        fixture.put(&format!("key/{:03}", i * 7 % 500), "");
        if i % 40 == 0 {
            fixture.checkpoint();
        }
        let time = fixture.store.merge_time();
        let is_step = time > before;
        assert!(!is_step || time - before == Duration::from_secs(1), "{i}");
        if i >= 1_000 {
            *if is_step { &mut steps } else { &mut others } += 1;
        }
        before = time;
    }
    assert!(steps > 10 && others > 500, "{steps} and {others}");
}

#[test]
fn counts_and_versions_are_right_at_every_step_of_a_merge() {
    let mut fixture = Fixture::new();
    let mut live = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut rows = 0;
    for (i, byte) in noise(3, 12_000).into_iter().enumerate() {
        // Few keys, so that each has versions, tombstones and marks in several trees at once.
        let key = format!("key/{:02}", byte % 48);
        if byte < 200 {
            fixture.put(&key, &"v".repeat(i % 7));
            live.insert(key.clone(), (i % 7 + key.len()) as u64);
            rows += 1;
        } else if live.remove(&key).is_some() {
            fixture.delete(&key);
            rows += 1;
        }
        if i % 97 == 0 {
            let revision = fixture.store.root().revision() - 20;
            if revision > fixture.store.root().compacted() {
                fixture.write().compact(revision).unwrap();
                fixture.finish_compaction();
                rows = fixture.store.root().revisions.len();
            }
        }
        if i % 40 == 0 {
            fixture.checkpoint();
        }
        if i == 5003 {
            fixture.checkpoint();
            fixture.reopen();
        }
        let root = fixture.store.root();
        seen.extend(roles(root));
        let usage = root.usage(KeyRange::ALL).unwrap();
        assert_eq!(usage.keys, live.len() as u64, "step {i}");
        assert_eq!(usage.bytes, live.values().sum::<u64>(), "step {i}");
        let from = KeyRange::from_wire(key.as_bytes(), b"\0");
        let behind = live.range(key.clone()..).count() as u64;
        assert_eq!(root.count(from, 0).unwrap(), behind, "step {i}");
        let found = value_at(root, &key, 0).map(|value| (value.len() + key.len()) as u64);
        assert_eq!(found, live.get(&key).copied(), "step {i}");
        if i % 16 == 0 {
            assert_eq!(root.versions().unwrap(), rows, "step {i}");
        }
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
    fixture.store.check().unwrap();
}

/// Bytes written for a put of a random key, with a checkpoint every `every` puts.
fn bytes_per_put(keys: u64, limits: DeltaLimits, every: u64) -> u64 {
    const PUTS: u64 = 20_000;
    let mut fixture = Fixture::new();
    fixture.store.delta_limits = limits;
    let numbers = noise(7, 3 * PUTS as usize);
    let random = numbers.chunks(3).map(|chunk| {
        let bytes = [chunk[0], chunk[1], chunk[2], 0];
        u64::from(u32::from_le_bytes(bytes)) % keys
    });
    let mut written = 0;
    for (i, number) in (0..keys).chain(random).enumerate() {
        if i as u64 == keys {
            fixture.checkpoint();
            written = fixture.vfs.written_bytes();
        }
        fixture.put(&format!("/registry/pods/namespace/{number:08}"), "value");
        if (i as u64).is_multiple_of(every) {
            fixture.checkpoint();
            fixture.store.publish();
            while !fixture.store.release_step(usize::MAX) {}
        }
    }
    (fixture.vfs.written_bytes() - written) / PUTS
}

#[test]
fn a_put_into_a_key_tree_of_many_leaves_writes_no_leaf_of_its_own() {
    // 60,000 keys have some 600 leaves, and a few of 500 puts between two checkpoints share one.
    let direct = bytes_per_put(60_000, DeltaLimits::beyond(u64::MAX / 8), 500);
    let with_deltas = bytes_per_put(60_000, DeltaLimits::beyond(200_000), 500);
    assert!(direct > 2_000, "{direct}");
    assert!(with_deltas < direct / 3, "{with_deltas} of {direct}");
}

#[test]
fn a_merge_leaves_the_base_as_if_there_had_been_no_deltas() {
    let filled = |limits: DeltaLimits| {
        let mut fixture = Fixture::new();
        fixture.store.delta_limits = limits;
        for (i, byte) in noise(5, 3000).into_iter().enumerate() {
            fixture.put(
                &format!("k{:03}", usize::from(byte) * 7 % 300),
                &i.to_string(),
            );
            if i % 60 == 0 {
                fixture.checkpoint();
            }
        }
        fixture
    };
    let plain = filled(DeltaLimits::default());
    assert!(plain.store.root().keys.is_plain());
    let mut merged = filled(DeltaLimits {
        direct_bytes: 0,
        close_parts: 1,
        close_bytes: 1,
        close_bytes_max: 1,
        merge_trees: 1,
        base_entries: u64::MAX,
        merge_trees_max: 1,
        merge_every: 1,
        merge_entries: 100,
    });
    assert!(!merged.store.root().keys.is_plain());
    // Each checkpoint closes what is open; puts of one key merge the rest.
    for _ in 0..200 {
        merged.put("z", "");
        merged.checkpoint();
    }
    let (a, b) = (plain.store.root(), merged.store.root());
    let versions = |root: &Root| {
        let mut versions = Vec::new();
        let mut cursor = root.keys.base.cursor(&root.pages);
        let mut more = cursor.seek(&[0; 12]).unwrap();
        while more && cursor.key() < b"z".as_slice() {
            versions.push((cursor.key().to_vec(), cursor.value().to_vec()));
            more = cursor.next().unwrap();
        }
        versions
    };
    assert_eq!(versions(a), versions(b));
}

#[test]
fn a_view_keeps_what_it_saw_while_its_deltas_are_merged() {
    let mut fixture = Fixture::new();
    let mut views = Vec::new();
    for i in 0..600 {
        fixture.put(&format!("k{:02}", i * 7 % 50), &i.to_string());
        if i % 20 == 0 {
            fixture.checkpoint();
        }
        if i % 50 == 49 {
            fixture.store.publish();
            let view = fixture.store.reader().view();
            let state = visible_values(&view);
            views.push((view, state));
        }
    }
    assert!(
        views
            .iter()
            .any(|(view, _)| roles(view).contains(&Role::Merging))
    );
    for (view, state) in views {
        assert_eq!(visible_values(&view), state);
        assert_eq!(view.count(KeyRange::ALL, 0).unwrap(), state.len() as u64);
    }
}

fn visible_values(root: &Root) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    let range = root.range(KeyRange::ALL, 0, Want::Values, &mut |item| {
        all.push((item.key.to_vec(), item.value.to_vec()));
        ControlFlow::Continue(())
    });
    range.unwrap();
    all
}

#[test]
fn a_hot_key_with_many_versions_is_merged_a_few_at_a_time() {
    let mut fixture = Fixture::new();
    for i in 0..3000 {
        fixture.put("hot", &i.to_string());
        if i % 5 == 0 {
            fixture.put(&format!("cold{:02}", i % 30), "");
        }
        if i % 100 == 0 {
            fixture.checkpoint();
        }
        let root = fixture.store.root();
        assert_eq!(value_at(root, "hot", 0), Some(i.to_string()));
        let older = root.revision() / 2;
        let then = root
            .get(b"hot", older.max(2), |item| item.mod_revision)
            .unwrap();
        assert!(then.is_some_and(|revision| revision <= older.max(2)));
    }
    assert_eq!(fixture.store.root().count(KeyRange::ALL, 0).unwrap(), 7);
}

#[test]
fn power_cut_at_any_call_while_deltas_are_merged_loses_nothing() {
    let program = noise(2001, 9000);
    let mut seen = BTreeSet::new();
    for calls in (0..).step_by(17) {
        let vfs = SimVfs::new(calls);
        vfs.fail_after(calls);
        let mut runner = Runner::new(vfs.clone(), false);
        let finished = runner.run(&mut Input(&program)).is_ok();
        let cut = vfs.power_cut(calls);
        found_after(&cut, &runner, calls);
        seen.extend(roles(run::open(&cut).unwrap().root()));
        if finished {
            break;
        }
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}

#[test]
fn a_range_finds_the_few_live_keys_among_many_that_were_deleted() {
    let mut fixture = Fixture::new();
    let mut expected = Vec::new();
    for round in 0..4u32 {
        let mut write = fixture.write();
        for i in 0..3000 {
            write.put(format!("k{i:04}").as_bytes(), b"", 0).unwrap();
        }
        drop(write);
        fixture.checkpoint();
        expected = (0..3000u32).filter(|i| i % 911 == round).collect();
        let mut write = fixture.write();
        for i in (0..3000u32).filter(|i| i % 911 != round) {
            let key = format!("k{i:04}");
            write
                .delete_range(KeyRange::from_wire(key.as_bytes(), b""))
                .unwrap();
        }
        drop(write);
        fixture.checkpoint();
    }
    let root = fixture.store.root();
    assert!(!root.keys.is_plain());
    let expected: Vec<Vec<u8>> = expected
        .iter()
        .map(|i| format!("k{i:04}").into_bytes())
        .collect();
    let mut found = Vec::new();
    let range = root.range(KeyRange::ALL, 0, Want::KeysOnly, &mut |item| {
        found.push(item.key.to_vec());
        ControlFlow::Continue(())
    });
    range.unwrap();
    assert_eq!(found, expected);
    // The walk to the next live key begins near to it.
    for (before, live) in expected.iter().enumerate() {
        let near = root.near_live(&[0; 12], before as u64).unwrap();
        let mut cursor = root.keys.cursor(&root.pages);
        let mut more = cursor.seek(&near).unwrap();
        let mut steps = 0;
        while more && !cursor.key().starts_with(live) {
            steps += 1;
            more = cursor.next().unwrap();
        }
        assert!(more, "behind the live key");
        assert!(
            steps < 1500,
            "{steps} of {} versions",
            root.versions().unwrap()
        );
    }
}

#[test]
fn a_range_does_not_walk_over_a_deleted_beginning() {
    const KEYS: u32 = 20_000;
    let mut fixture = Fixture::new();
    // Their tails look like parts of revisions.
    let key = |i: u32| [&[0; 24][..], &u64::from(i).to_be_bytes()].concat();
    for stride in [1, 7919, 1, 11] {
        for i in 0..KEYS {
            let put = key(i * stride % KEYS);
            fixture.write().put(&put, b"", 0).unwrap();
            if i % 5000 == 0 {
                fixture.checkpoint();
            }
        }
    }
    let step = 400;
    for deleted in (step..KEYS).step_by(step as usize) {
        let (start, end) = (key(deleted - step), key(deleted));
        let range = KeyRange::from_wire(&start, &end);
        assert_eq!(fixture.write().delete_range(range).unwrap(), step.into());
        let root = fixture.store.root();
        assert!(!root.keys.is_plain());
        let near = root.near_live(&[0; 12], 0).unwrap();
        let mut cursor = root.keys.cursor(&root.pages);
        let mut more = cursor.seek(&near).unwrap();
        let mut steps = 0;
        while more && !cursor.key().starts_with(&key(deleted)) {
            steps += 1;
            more = cursor.next().unwrap();
        }
        assert!(more, "behind the live key");
        assert!(steps < 1000, "{steps} to the first after {deleted}");
    }
}

/// Puts every seventh key, from `from` on, with checkpoints in between.
fn put_each_seventh(fixture: &mut Fixture, from: u32) {
    for i in (from..2000).step_by(7) {
        fixture.put(&format!("k{i:04}"), &from.to_string());
        if i % 90 == from {
            fixture.checkpoint();
        }
    }
}

#[test]
fn filters_outlive_a_restart_and_have_every_key_of_their_trees() {
    let mut fixture = Fixture::new();
    let mut passed_by = 0;
    for round in 0..7 {
        put_each_seventh(&mut fixture, round);
        fixture.checkpoint();
        fixture.reopen();
        let root = fixture.store.root();
        for i in 0..2000 {
            let key = format!("k{i:04}");
            let expected = (i % 7 <= round).then(|| (i % 7).to_string());
            assert_eq!(value_at(root, &key, 0), expected, "{key}");
            let (all, with_key) = root.keys.delta_trees_of(key.as_bytes());
            passed_by += all - with_key;
        }
    }
    assert!(passed_by > 2000, "{passed_by}");
}

#[test]
fn puts_after_what_an_older_view_found_are_like_single_ones() {
    let mut fixture = Fixture::new();
    let mut single = Fixture::new();
    let mut used = 0;
    for round in 0..300u64 {
        fixture.store.publish();
        let view = fixture.store.reader().view();
        // Between the view and the puts: changes, and now and then another open tree.
        for fixture in [&mut fixture, &mut single] {
            fixture.put(&format!("k{}", round % 40), "between");
            if round % 3 == 0 {
                fixture.put(&format!("k{}", round % 37), "between");
                fixture.delete(&format!("k{}", round % 37));
            }
        }
        if round % 5 == 0 {
            fixture.checkpoint();
        }
        let first = fixture.store.root().applied().index + 1;
        let keys: Vec<String> = (0..30).map(|i| format!("k{}", i * round % 41)).collect();
        let puts: Vec<LonePut<'_>> = keys
            .iter()
            .zip(first..)
            .map(|(key, index)| LonePut {
                applied: Applied { index, term: 1 },
                key: key.as_bytes(),
                value: b"put",
                lease: 0,
            })
            .collect();
        let found = view.find_for(&puts).unwrap();
        used += u32::from(fixture.store.is_usable(&found, &puts));
        fixture.store.put_all(&puts, Some(found)).unwrap();
        keys.iter().for_each(|key| single.put(key, "put"));
        let (a, b) = (fixture.store.root(), single.store.root());
        assert_eq!(rows_of(a), rows_of(b), "round {round}");
        assert_eq!(
            a.usage(KeyRange::ALL).unwrap(),
            b.usage(KeyRange::ALL).unwrap()
        );
    }
    assert!((100..300).contains(&used), "{used}");
    fixture.store.check().unwrap();
}

/// All live keys, with the numbers of their newest version.
fn rows_of(root: &Root) -> Vec<(Vec<u8>, i64, i64, i64)> {
    let mut rows = Vec::new();
    let range = root.range(KeyRange::ALL, 0, Want::KeysOnly, &mut |item| {
        let numbers = (item.create_revision, item.mod_revision, item.version);
        rows.push((item.key.to_vec(), numbers.0, numbers.1, numbers.2));
        ControlFlow::Continue(())
    });
    range.unwrap();
    rows
}

#[test]
fn a_merge_leaves_no_changed_leaf_of_the_base_in_memory() {
    let mut fixture = Fixture::new();
    fixture.store.delta_limits = DeltaLimits {
        direct_bytes: 0,
        close_parts: 1,
        close_bytes: 1,
        close_bytes_max: 1,
        merge_trees: 1,
        base_entries: u64::MAX,
        merge_trees_max: 1,
        merge_every: 1,
        merge_entries: 100,
    };
    for round in 0..3 {
        for i in 0..3000 {
            fixture.put(&format!("k{:04}", i * 7 % 3000), &round.to_string());
        }
        fixture.checkpoint();
        while fixture.store.root().keys.merging().next().is_some() {
            fixture.put("z", "");
        }
        let Store { file, root, .. } = &mut fixture.store;
        let before = file.unsaved_bytes();
        file.spill_changed(&mut root.keys.base, Vec::new()).unwrap();
        assert_eq!(file.unsaved_bytes(), before, "round {round}");
    }
}

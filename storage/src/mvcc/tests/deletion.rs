//! A deletion of many keys takes effect at once, whatever of it is written.

mod many;
mod overlapping;

use super::*;
use crate::Result;
use crate::mvcc::keys::DeltaLimits;

const KEYS: u64 = 3000;
const LEASE: i64 = 7;
/// No lease here has a greater number.
const LEASES: i64 = 15;
const BYTES_IN_MEMORY: u64 = 64 << 10;
/// Changes read at a time.
const PIECE: usize = 97;

fn key(i: u64) -> Vec<u8> {
    format!("key/{i:05}").into_bytes()
}

/// A durable store with all keys, each third attached to the lease.
fn filled(vfs: &SimVfs, limits: DeltaLimits, at_once: u64) -> Store {
    let mut store = run::open(vfs).unwrap();
    store.delta_limits = limits;
    store.set_entry_bytes_in_memory(BYTES_IN_MEMORY);
    store.set_keys_deleted_at_once(at_once);
    for i in 0..KEYS {
        let lease = if i % 3 == 0 { LEASE } else { 0 };
        write(&mut store, |write| {
            write.put(&key(i * 37 % KEYS), &[1; 8], lease)
        });
    }
    assert!(store.checkpoint_alone().unwrap());
    store
}

fn write(store: &mut Store, f: impl FnOnce(&mut Write<'_>) -> Result<()>) {
    let index = store.root().applied().index + 1;
    f(&mut store.write(Applied { index, term: 1 })).unwrap();
}

/// What any reader can see: at the newest revision, at older ones, and in history.
fn seen(root: &Root) -> Vec<String> {
    let newest = root.revision();
    seen_at(root, &[newest, newest - 1, newest - 3, newest - 10])
}

fn seen_at(root: &Root, revisions: &[i64]) -> Vec<String> {
    let mut seen = rows_at(root, revisions);
    let attached = attached(root);
    assert!(attached == found_attached(root), "of a lease: {attached:?}");
    seen.extend(attached.iter().map(|row| format!("{row:?}")));
    seen
}

/// The same without the keys of leases.
fn rows_at(root: &Root, revisions: &[i64]) -> Vec<String> {
    let newest = root.revision();
    let mut seen = vec![format!("{newest} {}", root.live_keys())];
    for &at in revisions {
        let (start, end) = (key(100), key(2000));
        for range in [KeyRange::ALL, KeyRange::from_wire(&start, &end)] {
            seen.push(format!(
                "{} of {range:?} at {at}",
                root.count(range, at).unwrap()
            ));
            let all = root.range(range, at, Want::Values, &mut |item| {
                seen.push(format!("{at} {item:?}"));
                ControlFlow::Continue(())
            });
            all.unwrap();
        }
    }
    let (start, end) = (key(700), key(1300));
    for range in [KeyRange::ALL, KeyRange::from_wire(&start, &end)] {
        seen.push(format!("{:?}", root.usage(range).unwrap()));
    }
    let history = root.changes(newest - 10, newest, &mut |change| {
        seen.push(format!("{change:?}"));
        Ok(ControlFlow::Continue(()))
    });
    history.unwrap();
    assert_eq!(
        changes_in_pieces(root, newest - 10, newest),
        changes(root, newest - 10, newest)
    );
    seen
}

/// The rows of all leases' keys.
fn attached(root: &Root) -> Vec<Vec<u8>> {
    let mut attached = Vec::new();
    let leases = root.side_scan(Bucket::LeaseKeys, b"", &mut |row, _| {
        attached.push(row.to_vec());
        ControlFlow::Continue(())
    });
    leases.unwrap();
    attached
}

fn changes(root: &Root, from: i64, through: i64) -> Vec<String> {
    let mut all = Vec::new();
    root.changes(from, through, &mut |change| {
        all.push(format!("{change:?}"));
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    all
}

/// The same, going on behind each [`PIECE`] changes.
fn changes_in_pieces(root: &Root, from: i64, through: i64) -> Vec<String> {
    let mut all = Vec::new();
    let mut last: Option<(Revision, Vec<u8>)> = None;
    loop {
        let mut reached = None;
        let mut told = 0;
        let mut tell = |change: Change<'_>| -> Result<ControlFlow<()>> {
            let (revision, key) = match change {
                Change::Put { revision, item } => (revision, item.key),
                Change::Delete { revision, key } => (revision, key),
            };
            reached = Some((revision, key.to_vec()));
            all.push(format!("{change:?}"));
            told += 1;
            Ok(match told {
                PIECE => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        };
        let read = match &last {
            None => root.changes(from, through, &mut tell),
            Some((revision, key)) => root.changes_behind(*revision, key, through, &mut tell),
        };
        read.unwrap();
        if reached.is_none() {
            return all;
        }
        last = reached;
    }
}

/// The same rows, found one by one.
fn found_attached(root: &Root) -> Vec<Vec<u8>> {
    let mut rows = Vec::new();
    for lease in 1..=LEASES {
        let mut from = Vec::new();
        while let Some(key) = root.first_attached(lease, &from).unwrap() {
            from = [&key[..], &[0]].concat();
            rows.push([&lease.to_be_bytes()[..], &key].concat());
        }
    }
    rows
}

/// A transaction that deletes two ranges and puts between them, entries into what it deleted, and
/// another deletion that overlaps the first.
const ENTRIES: [fn(&mut Write<'_>) -> Result<()>; 7] = [
    |write| {
        assert_eq!(
            write.delete_range(KeyRange::from_wire(&key(10), &key(1500)))?,
            1490
        );
        write.put(&key(1600), b"between", 0)?;
        assert_eq!(
            write.delete_range(KeyRange::from_wire(&key(2000), b"\0"))?,
            1000
        );
        Ok(())
    },
    |write| write.put(&key(1200), b"again", LEASE),
    |write| write.put(&key(12), b"again", 0),
    |write| write.put(b"key/00500/new", b"new", LEASE),
    |write| {
        write.put(&key(12), b"twice", 0)?;
        assert_eq!(write.delete_range(KeyRange::from_wire(&key(1200), b""))?, 1);
        Ok(())
    },
    |write| {
        // Left are the first ten, two in the part, and those between the parts.
        assert_eq!(write.delete_range(KeyRange::ALL)?, 10 + 2 + 500);
        Ok(())
    },
    |write| write.put(&key(1), b"after all", 0),
];

#[test]
fn a_deletion_in_steps_looks_like_one_at_once_at_every_step() {
    let deltas = DeltaLimits::beyond(1000);
    for (limits, step) in [(DeltaLimits::default(), 1), (deltas, 3), (deltas, 700)] {
        let mut at_once = filled(&SimVfs::new(1), limits, u64::MAX);
        let vfs = SimVfs::new(1);
        let mut in_steps = filled(&vfs, limits, 400);
        let (reader, mut views) = (in_steps.reader(), Vec::new());
        for entry in ENTRIES {
            write(&mut at_once, entry);
            write(&mut in_steps, entry);
            if in_steps.root().is_deleting() {
                assert!(in_steps.begin_checkpoint().is_none(), "half of an entry");
            }
            let expected = seen(at_once.root());
            for _ in 0..3 {
                assert_eq!(seen(in_steps.root()), expected);
                in_steps.delete_step(step).unwrap();
            }
            in_steps.publish();
            views.push((reader.view(), expected));
        }
        assert_eq!(in_steps.root().is_deleting(), step < 700);
        let expected = seen(at_once.root());
        in_steps.delete_step(usize::MAX).unwrap();
        assert_eq!(seen(in_steps.root()), expected);
        let dirty = in_steps.stats().dirty_bytes;
        assert!(dirty < 4 * BYTES_IN_MEMORY, "{dirty} in memory");
        for (view, expected) in views {
            assert_eq!(seen(&view), expected);
        }
        assert!(in_steps.checkpoint_alone().unwrap());
        in_steps.check().unwrap();
        drop(in_steps);
        assert_eq!(seen(run::open(&vfs).unwrap().root()), expected);
    }
}

#[test]
fn a_lease_that_ends_takes_its_keys_but_none_that_a_deletion_has_taken() {
    let limits = DeltaLimits::default();
    let mut store = filled(&SimVfs::new(1), limits, 10);
    write(&mut store, |write| {
        write.delete_range(KeyRange::ALL).map(drop)
    });
    write(&mut store, |write| write.put(&key(3), b"again", LEASE));
    write(&mut store, |write| write.put(&key(4), b"of no lease", 0));
    assert_eq!(store.attached_keys(LEASE, u64::MAX).unwrap(), 1);
    write(&mut store, |write| {
        assert_eq!(write.delete_attached(LEASE)?, 1);
        Ok(())
    });
    assert_eq!(store.root().live_keys(), 1);
    store.delete_step(usize::MAX).unwrap();
    assert_eq!(store.root().live_keys(), 1);
    let left = store.root().side_scan(Bucket::LeaseKeys, b"", &mut |_, _| {
        panic!("a key is attached")
    });
    left.unwrap();
}

/// The first key of a lease from `from` on, and how many rows were looked at for it.
fn found(store: &Store, lease: i64, from: &[u8]) -> (Option<Vec<u8>>, u64) {
    store.root().find_attached(lease, from).unwrap()
}

#[test]
fn the_first_key_of_a_lease_is_found_without_a_look_at_its_others() {
    let mut store = filled(&SimVfs::new(1), DeltaLimits::default(), 400);
    assert_eq!(found(&store, LEASE, b""), (Some(key(0)), 1));
    assert_eq!(found(&store, LEASE, &key(3)), (Some(key(3)), 1));
    assert_eq!(found(&store, LEASE, &key(4)), (Some(key(6)), 1));
    assert_eq!(found(&store, LEASE, &key(KEYS)), (None, 0));
    assert_eq!(found(&store, LEASE + 1, b""), (None, 0));
    // Those before and behind it, whose keys are other leases'.
    for lease in [i64::MIN, -1, 0, 1, LEASE - 1, i64::MAX] {
        assert_eq!(found(&store, lease, b""), (None, 0));
    }
    write(&mut store, |write| write.put(&key(1), b"1", -1));
    assert_eq!(found(&store, -1, b""), (Some(key(1)), 1));
    assert_eq!(found(&store, -2, b""), (None, 0));

    // A thousand rows whose keys are gone, until the steps are done.
    write(&mut store, |write| {
        assert_eq!(write.delete_range(KeyRange::ALL)?, KEYS);
        Ok(())
    });
    assert!(store.root().is_deleting());
    assert_eq!(found(&store, LEASE, b""), (None, 1));
    assert_eq!(found(&store, LEASE, &key(1499)), (None, 1));
    // The first row; the one behind what came first since, which is not attached; and the key's own.
    for (i, lease) in [(1000, 0), (1500, LEASE), (2000, 0)] {
        write(&mut store, |write| write.put(&key(i), b"again", lease));
    }
    assert_eq!(found(&store, LEASE, b""), (Some(key(1500)), 3));
    assert_eq!(found(&store, LEASE, &key(1500)), (Some(key(1500)), 1));
    assert_eq!(found(&store, LEASE, &key(1501)), (None, 2));
    store.delete_step(1200).unwrap();
    assert!(store.root().is_deleting());
    let (first, rows) = found(&store, LEASE, b"");
    assert_eq!(first, Some(key(1500)));
    assert!(rows <= 3, "{rows}");
    store.delete_step(usize::MAX).unwrap();
    assert_eq!(found(&store, LEASE, b""), (Some(key(1500)), 1));
}

#[test]
fn the_first_key_of_a_lease_that_was_granted_again_is_behind_those_it_had() {
    let [_, mut store] = with_large_lease(DeltaLimits::default());
    write(&mut store, |write| {
        assert_eq!(write.delete_attached(LARGE)?, OF_LARGE);
        Ok(())
    });
    assert_eq!(found(&store, LARGE, b""), (None, 1));
    assert_eq!(found(&store, LARGE, &key(1501)), (None, 1));
    // Not in the part.
    write(&mut store, |write| write.put(&key(2900), b"again", LARGE));
    assert_eq!(store.root().unwritten_deletes(), OF_LARGE);
    assert_eq!(found(&store, LARGE, b""), (Some(key(2900)), 2));
    assert_eq!(found(&store, LARGE, &key(2901)), (None, 0));
    // Another lease has keys in the part.
    assert_eq!(found(&store, LEASE, &key(700)), (Some(key(705)), 1));
}

/// The lease whose end is written in steps.
const LARGE: i64 = 8;

/// Attached to it: every other key of a range, then all keys but one of another.
fn is_of_large(i: u64) -> bool {
    match i {
        500..1500 => i.is_multiple_of(2),
        1500..2100 => i != 1700,
        _ => false,
    }
}

/// Two stores with such a lease, of which the second deletes in steps.
fn with_large_lease(limits: DeltaLimits) -> [Store; 2] {
    [u64::MAX, 400].map(|at_once| {
        let mut store = filled(&SimVfs::new(1), limits, at_once);
        write(&mut store, |write| {
            let mut keys = (0..KEYS).filter(|i| is_of_large(*i)).map(key);
            keys.try_for_each(|key| write.put(&key, b"attached", LARGE))
        });
        store
    })
}

const OF_LARGE: u64 = 500 + 599;

/// The end of the lease, and entries into its part.
const ENTRIES_AROUND_A_LEASE: [fn(&mut Write<'_>) -> Result<()>; 8] = [
    |write| {
        write.put(&key(502), b"of no lease", 0)?;
        write.put(&key(502), b"back", LARGE)?;
        assert_eq!(write.delete_attached(LARGE)?, OF_LARGE);
        write.put(&key(2900), b"behind", 0)
    },
    |write| {
        write.put(&key(1000), b"again, of no lease", 0)?;
        write.put(&key(1001), b"not taken", 0)?;
        write.put(b"key/01000/new", b"new", LEASE)
    },
    |write| {
        write.put(&key(1200), b"again, of another", LEASE)?;
        write.put(&key(1000), b"twice", LEASE)?;
        write.put(&key(1203), b"not taken", LEASE)
    },
    |write| {
        for (i, live) in [(1000, 1), (1100, 0), (1101, 1)] {
            let key = key(i);
            let range = KeyRange::from_wire(&key, b"");
            assert_eq!(write.count(range, 0)?, live);
            assert_eq!(write.delete_range(range)?, live);
        }
        write.put(&key(2000), b"again", LEASE)
    },
    |write| {
        // All before the part in steps, and of the part those not taken at once.
        let live = 500 + 200;
        assert_eq!(
            write.delete_range(KeyRange::from_wire(&key(0), &key(900)))?,
            live
        );
        Ok(())
    },
    |write| write.put(&key(700), b"after both", 0),
    |write| {
        // Some before the part, some in it, some behind it.
        write.delete_attached(LEASE).map(drop)
    },
    |write| write.delete_range(KeyRange::ALL).map(drop),
];

#[test]
fn a_lease_with_keys_between_others_ends_at_once_and_looks_so_at_every_step() {
    let deltas = DeltaLimits::beyond(1000);
    let plain = DeltaLimits::default();
    for (limits, step) in [(plain, 1), (deltas, 7), (plain, 60), (deltas, 300)] {
        let [mut at_once, mut in_steps] = with_large_lease(limits);
        let (reader, mut views) = (in_steps.reader(), Vec::new());
        for (i, entry) in ENTRIES_AROUND_A_LEASE.into_iter().enumerate() {
            write(&mut at_once, entry);
            write(&mut in_steps, entry);
            let expected = seen(at_once.root());
            for _ in 0..3 {
                assert_eq!(seen(in_steps.root()), expected, "entry {i}, step {step}");
                in_steps.delete_step(step).unwrap();
            }
            in_steps.publish();
            views.push((reader.view(), expected));
            let written = (3 * step * (i + 1)) as u64;
            assert!(in_steps.root().unwritten_deletes() >= OF_LARGE.saturating_sub(written));
        }
        in_steps.delete_step(usize::MAX).unwrap();
        let expected = seen(at_once.root());
        assert_eq!(seen(in_steps.root()), expected);
        for (view, expected) in views {
            assert_eq!(seen(&view), expected);
        }
        let attached = in_steps
            .root()
            .side_scan(Bucket::LeaseKeys, b"", &mut |row, _| {
                panic!("{row:?} is attached")
            });
        attached.unwrap();
        assert!(in_steps.checkpoint_alone().unwrap());
        in_steps.check().unwrap();
    }
}

#[test]
fn a_short_range_beside_keys_taken_is_the_beginning_of_the_whole_one() {
    for limits in [DeltaLimits::default(), DeltaLimits::beyond(1000)] {
        let [_, mut store] = with_large_lease(limits);
        write(&mut store, |write| write.delete_attached(LARGE).map(drop));
        for _ in 0..4 {
            for from in (400..2200).step_by(50) {
                let live = |i: &u64| *i < KEYS && !is_of_large(*i);
                let expected: Vec<_> = (from..).filter(live).take(3).map(key).collect();
                let (start, mut found) = (key(from), Vec::new());
                let range = KeyRange::from_wire(&start, b"\0");
                let all = store.root().range(range, 0, Want::KeysOnly, &mut |item| {
                    found.push(item.key.to_vec());
                    match found.len() {
                        3 => ControlFlow::Break(()),
                        _ => ControlFlow::Continue(()),
                    }
                });
                all.unwrap();
                assert_eq!(found, expected, "from {from}");
            }
            store.delete_step(200).unwrap();
        }
        assert!(store.root().is_deleting());
    }
}

#[test]
fn a_lease_granted_again_does_not_lose_the_keys_attached_since() {
    // A key taken, one that is not, and a new one: all in the part.
    for again in [key(1600), key(801), b"key/01000/new".to_vec()] {
        let [mut at_once, mut in_steps] = with_large_lease(DeltaLimits::beyond(1000));
        for store in [&mut at_once, &mut in_steps] {
            write(store, |write| write.delete_attached(LARGE).map(drop));
            store.delete_step(10).unwrap();
            // Not in the part.
            write(store, |write| write.put(&key(2900), b"again", LARGE));
        }
        let (start, end) = (key(0), key(2950));
        let range = KeyRange::from_wire(&start, &end);
        let count = |store: &Store| store.root().count(range, 0).unwrap();
        assert_eq!(count(&in_steps), count(&at_once));
        assert_eq!(
            in_steps.root().unwritten_deletes_through(LARGE),
            OF_LARGE - 10
        );
        assert_eq!(in_steps.root().unwritten_deletes_through(LEASE), 0);
        for store in [&mut at_once, &mut in_steps] {
            write(store, |write| {
                write.put(&key(900), b"of no lease", 0)?;
                write.put(&again, b"again", LARGE)
            });
        }
        // The part ends behind the key, but not before it.
        let left = in_steps.root().unwritten_deletes();
        assert!(left < OF_LARGE - 10, "{left}");
        assert_eq!(seen(in_steps.root()), seen(at_once.root()));
        for store in [&mut at_once, &mut in_steps] {
            write(store, |write| {
                assert_eq!(write.delete_attached(LARGE)?, 2);
                Ok(())
            });
        }
        assert_eq!(seen(in_steps.root()), seen(at_once.root()));
    }
}

#[test]
fn a_deletion_of_a_lease_ends_within_bounded_memory_before_the_lease_is_granted_again() {
    let [mut at_once, mut in_steps] = with_large_lease(DeltaLimits::default());
    for store in [&mut at_once, &mut in_steps] {
        write(store, |write| {
            write.delete_attached(LARGE)?;
            write.put(&key(600), b"of no lease", 0)
        });
        assert!(store.checkpoint_alone().unwrap() != store.root().is_deleting());
        write(store, |write| write.end_deletions_of(LEASE));
    }
    assert_eq!(in_steps.root().unwritten_deletes(), OF_LARGE);
    write(&mut in_steps, |write| write.end_deletions_of(LARGE));
    write(&mut at_once, |_| Ok(()));
    assert!(!in_steps.root().is_deleting());
    let dirty = in_steps.stats().dirty_bytes;
    assert!(dirty < 2 * BYTES_IN_MEMORY, "{dirty} in memory");
    assert_eq!(seen(in_steps.root()), seen(at_once.root()));
}

#[test]
fn a_crash_leaves_nothing_of_a_deletion_that_is_not_written() {
    let vfs = SimVfs::new(1);
    let mut store = filled(&vfs, DeltaLimits::default(), 10);
    let before = seen(store.root());
    let deletions: [fn(&mut Write<'_>) -> Result<()>; 2] = [
        |write| write.delete_attached(LEASE).map(drop),
        |write| write.delete_range(KeyRange::ALL).map(drop),
    ];
    for deletion in deletions {
        write(&mut store, deletion);
        store.delete_step(700).unwrap();
        assert!(store.root().is_deleting());
        for image in [vfs.process_killed(), vfs.power_cut(3)] {
            let store = run::open(&image).unwrap();
            assert_eq!(seen(store.root()), before);
            store.check().unwrap();
        }
    }
}

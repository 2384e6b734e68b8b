//! A deletion of many keys takes effect at once, whatever of it is written.

use super::*;
use crate::Result;
use crate::mvcc::keys::DeltaLimits;

const KEYS: u64 = 3000;
const LEASE: i64 = 7;
const BYTES_IN_MEMORY: u64 = 64 << 10;

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
    let mut seen = vec![format!("{newest} {}", root.live_keys())];
    for at in [newest, newest - 1, newest - 3, newest - 10] {
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
    seen.push(format!("{:?}", root.usage(KeyRange::ALL).unwrap()));
    let history = root.changes(newest - 10, newest, &mut |change| {
        seen.push(format!("{change:?}"));
        Ok(ControlFlow::Continue(()))
    });
    history.unwrap();
    let leases = root.side_scan(Bucket::LeaseKeys, b"", &mut |row, _| {
        seen.push(format!("{row:?}"));
        ControlFlow::Continue(())
    });
    leases.unwrap();
    seen
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
    write(&mut store, |write| {
        assert_eq!(write.delete_attached(LEASE)?, 1);
        Ok(())
    });
    assert_eq!(store.root().live_keys(), 0);
    store.delete_step(usize::MAX).unwrap();
    assert_eq!(store.root().live_keys(), 0);
    let left = store.root().side_scan(Bucket::LeaseKeys, b"", &mut |_, _| {
        panic!("a key is attached")
    });
    left.unwrap();
}

#[test]
fn a_lease_with_all_keys_of_a_range_ends_at_once_and_looks_so_at_every_step() {
    const WITH_RANGE: i64 = 8;
    let other = key(1400);
    let attached: Vec<_> = (500..1500).map(key).filter(|key| *key != other).collect();
    let mut stores = [u64::MAX, 400].map(|at_once| {
        let mut store = filled(&SimVfs::new(1), DeltaLimits::beyond(1000), at_once);
        write(&mut store, |write| {
            let mut keys = attached.iter();
            keys.try_for_each(|key| write.put(key, b"attached", WITH_RANGE))
        });
        store
    });
    let [at_once, in_steps] = &mut stores;
    let entries: [fn(&mut Write<'_>) -> Result<()>; 3] = [
        |write| {
            write.put(&key(501), b"of no lease", 0)?;
            write.put(&key(501), b"back", WITH_RANGE)?;
            assert_eq!(write.delete_attached(WITH_RANGE)?, 999);
            write.put(&key(2500), b"behind", 0)
        },
        |write| write.put(&key(700), b"again", WITH_RANGE),
        |write| {
            assert_eq!(write.delete_attached(WITH_RANGE)?, 1);
            Ok(())
        },
    ];
    for entry in entries {
        write(at_once, entry);
        write(in_steps, entry);
        for _ in 0..3 {
            // The first 800 are two chunks without another key between them.
            assert!(in_steps.root().unwritten_deletes() > 700);
            assert_eq!(seen(in_steps.root()), seen(at_once.root()));
            in_steps.delete_step(7).unwrap();
        }
    }
    in_steps.delete_step(usize::MAX).unwrap();
    assert_eq!(seen(in_steps.root()), seen(at_once.root()));
    assert!(in_steps.checkpoint_alone().unwrap());
    in_steps.check().unwrap();
}

#[test]
fn a_crash_leaves_nothing_of_a_deletion_that_is_not_written() {
    let vfs = SimVfs::new(1);
    let mut store = filled(&vfs, DeltaLimits::default(), 10);
    let before = seen(store.root());
    write(&mut store, |write| {
        write.delete_range(KeyRange::ALL).map(drop)
    });
    store.delete_step(1000).unwrap();
    for image in [vfs.process_killed(), vfs.power_cut(3)] {
        let store = run::open(&image).unwrap();
        assert_eq!(seen(store.root()), before);
        store.check().unwrap();
    }
}

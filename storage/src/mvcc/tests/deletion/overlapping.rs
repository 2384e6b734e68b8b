//! Deletions of keys in the parts of earlier ones.

use super::*;

/// Leases with keys between each other's, from a fixture's keys from 300 to 2700.
const OF_THREE: [i64; 3] = [11, 12, 13];

fn lease_of_three(i: u64) -> i64 {
    match i {
        300..2700 => *OF_THREE.get((i % 4) as usize).unwrap_or(&0),
        _ => 0,
    }
}

fn with_three_leases(vfs: &SimVfs, limits: DeltaLimits, at_once: u64) -> Store {
    let mut store = filled(vfs, limits, at_once);
    write(&mut store, |write| {
        (0..KEYS).try_for_each(|i| write.put(&key(i), b"attached", lease_of_three(i)))
    });
    assert!(store.checkpoint_alone().unwrap());
    store
}

/// Every other deletion is of keys that an earlier one has taken and that were put since.
const ENTRIES_OF_THREE_LEASES: [fn(&mut Write<'_>) -> Result<()>; 11] = [
    |write| {
        assert_eq!(write.delete_attached(11)?, 600);
        write.put(&key(301), b"not taken", 12)
    },
    |write| {
        // Taken and attached to others, a new one, and some that are not taken.
        (400..2600).step_by(40).try_for_each(|i| {
            write.put(&key(i), b"again", 12)?;
            write.put(&key(i + 4), b"again", 13)
        })?;
        write.put(b"key/00500/new", b"new", 12)?;
        write.put(&key(1002), b"of another", 12)?;
        write.put(&key(1005), b"of another", 13)
    },
    |write| {
        assert_eq!(write.delete_attached(12)?, 600 + 55 + 1 + 1 - 1);
        Ok(())
    },
    |write| {
        // Taken by both, by one of them, and put twice.
        (400..2600).step_by(80).try_for_each(|i| {
            write.put(&key(i), b"third", 13)?;
            write.put(&key(i + 1), b"again", 13)?;
            write.put(&key(i + 40), b"third", 0)
        })?;
        write.put(&key(400), b"twice", 0)?;
        write.put(&key(480), b"twice", 13)
    },
    |write| {
        // Some of it may be deleted at once, but then its numbers are the same.
        write.delete_range(KeyRange::from_wire(&key(200), &key(350)))?;
        write.delete_range(KeyRange::from_wire(&key(1000), &key(2000)))?;
        write.put(&key(2100), b"behind", 13)
    },
    |write| {
        (1000..2000).step_by(30).try_for_each(|i| {
            write.put(&key(i), b"fourth", 13)?;
            write.put(&key(i + 7), b"fourth", 0)
        })?;
        write.put(&key(1002), b"twice", 13)
    },
    |write| {
        let single = key(1440);
        write.delete_range(KeyRange::from_wire(&single, b""))?;
        write.put(&key(2500), b"before the lease ends", 13)
    },
    |write| write.delete_attached(13).map(drop),
    |write| {
        (400..2600)
            .step_by(50)
            .try_for_each(|i| write.put(&key(i), b"fifth", 14))?;
        write.put(&key(1003), b"fifth", 15)
    },
    |write| {
        write.delete_range(KeyRange::from_wire(&key(100), &key(2900)))?;
        write.delete_attached(14).map(drop)
    },
    |write| {
        write.put(&key(1440), b"after all", 14)?;
        write.delete_range(KeyRange::ALL)?;
        write.put(&key(1441), b"after all", 14)
    },
];

#[test]
fn deletions_take_keys_in_the_parts_of_others_and_look_as_if_each_were_written_at_once() {
    let (plain, deltas) = (DeltaLimits::default(), DeltaLimits::beyond(1000));
    let mut overlaps = [0; 2];
    for (limits, step) in [
        (plain, 0),
        (deltas, 1),
        (plain, 30),
        (deltas, 90),
        (deltas, 400),
    ] {
        let mut at_once = with_three_leases(&SimVfs::new(1), limits, u64::MAX);
        let vfs = SimVfs::new(1);
        let mut in_steps = with_three_leases(&vfs, limits, 100);
        let before = seen(in_steps.root());
        let first = in_steps.root().revision();
        let (reader, mut views) = (in_steps.reader(), Vec::new());
        for (i, entry) in ENTRIES_OF_THREE_LEASES.into_iter().enumerate() {
            write(&mut at_once, entry);
            write(&mut in_steps, entry);
            let revisions: Vec<i64> = (first..=in_steps.root().revision()).collect();
            let expected = seen_at(at_once.root(), &revisions);
            for _ in 0..2 {
                let found = seen_at(in_steps.root(), &revisions);
                assert!(found == expected, "entry {i}, step {step}");
                assert_eq!(hashed(in_steps.root()), hashed(at_once.root()));
                in_steps.delete_step(step).unwrap();
            }
            let now = in_steps.root().overlaps();
            overlaps = [0, 1].map(|kind| overlaps[kind].max(now[kind]));
            in_steps.publish();
            views.push((reader.view(), revisions, expected));
            let image = vfs.power_cut(i as u64);
            if in_steps.root().is_deleting() && i % 4 == 0 {
                assert!(seen(run::open(&image).unwrap().root()) == before);
            }
        }
        in_steps.delete_step(usize::MAX).unwrap();
        let expected = seen(at_once.root());
        assert_eq!(seen(in_steps.root()), expected);
        for (view, revisions, expected) in views {
            assert!(seen_at(&view, &revisions) == expected);
        }
        assert!(in_steps.checkpoint_alone().unwrap());
        in_steps.check().unwrap();
        drop(in_steps);
        assert_eq!(seen(run::open(&vfs).unwrap().root()), expected);
    }
    assert_eq!(overlaps, [3, 4], "parts that overlap an earlier one's");
}

/// The rows of the hash at the newest revision.
fn hashed(root: &Root) -> Vec<String> {
    let mut rows = Vec::new();
    let all = root.hash_rows(0, &mut go_on).unwrap().unwrap();
    let mut push = |change: Change<'_>| rows.push(format!("{change:?}"));
    let flow = all.visit(Revision::default(), &mut push, &mut go_on);
    assert!(flow.unwrap().is_continue());
    rows
}

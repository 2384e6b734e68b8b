//! As many deletions under way as there may be, and one more.

use super::*;
use crate::mvcc::write::DELETIONS_MAX;

const MOST: u64 = DELETIONS_MAX as u64;

/// More keys are deleted in steps.
const AT_ONCE: u64 = 4;

/// Keys whose tombstones are written before the restart: not half of them.
const STEP: usize = 500;

/// Of the lease that is the first to end.
const FIRST_LEASE: i64 = 100;

/// The deletion of this number; returns how many keys it deletes.
type Delete = fn(&mut Write<'_>, u64) -> Result<u64>;

#[test]
fn of_ranges_beside_each_other() {
    look_as_if_each_were_written_at_once(
        |vfs, at_once| filled(vfs, DeltaLimits::default(), at_once),
        0,
        |write, i| write.delete_range(KeyRange::from_wire(&key(10 * i), &key(10 * i + 10))),
    );
}

/// Half of each is what the one before has deleted, but for a key that was put again.
#[test]
fn of_ranges_that_overlap() {
    look_as_if_each_were_written_at_once(
        |vfs, at_once| filled(vfs, DeltaLimits::beyond(1000), at_once),
        MOST - 1,
        |write, i| {
            write.put(&key(5 * i + 2), b"again", 0)?;
            write.delete_range(KeyRange::from_wire(&key(5 * i), &key(5 * i + 10)))
        },
    );
}

/// Each takes keys between those of all others.
#[test]
fn of_leases_with_keys_between_each_others() {
    let fill = |vfs: &SimVfs, at_once| {
        let mut store = filled(vfs, DeltaLimits::beyond(1000), at_once);
        write(&mut store, |write| {
            (0..KEYS).try_for_each(|i| {
                let lease = FIRST_LEASE + (i % (MOST + 2)) as i64;
                write.put(&key(i), b"attached", lease)
            })
        });
        assert!(store.checkpoint_alone().unwrap());
        store
    };
    look_as_if_each_were_written_at_once(fill, 0, |write, i| {
        // One of each lease: before the lease ends, or after that.
        write.put(&key(11 * i), b"again", 0)?;
        write.delete_attached(FIRST_LEASE + i as i64)
    });
}

/// `written`: so many keys of the first deletions are deleted at once all the same, because an
/// earlier one takes all keys there.
fn look_as_if_each_were_written_at_once(
    fill: fn(&SimVfs, u64) -> Store,
    written: u64,
    delete: Delete,
) {
    let vfs = SimVfs::new(1);
    let mut at_once = fill(&SimVfs::new(1), u64::MAX);
    let mut in_steps = fill(&vfs, AT_ONCE);
    let first = in_steps.root().revision();
    let before = looks(in_steps.root(), first);
    let (mut middle, mut deleted) = (None, 0);
    for i in 0..=MOST {
        let keys = both([&mut at_once, &mut in_steps], i, delete);
        // There is no room for the last one: it is written at once.
        let under_way = in_steps.root().deletions.len() as u64;
        assert_eq!(under_way, MOST.min(i + 1));
        deleted += if i < MOST { keys } else { 0 };
        if [0, MOST / 2, MOST - 1, MOST].contains(&i) {
            let expected = looks(at_once.root(), first);
            assert!(looks(in_steps.root(), first) == expected, "deletion {i}");
            if i == MOST / 2 {
                in_steps.publish();
                middle = Some((in_steps.reader().view(), expected));
            }
        }
    }
    let unwritten = deleted - written;
    assert_eq!(in_steps.root().unwritten_deletes(), unwritten);
    in_steps.delete_step(STEP).unwrap();
    let left = in_steps.root().unwritten_deletes();
    assert!(left > 0 && left < unwritten, "{left} of {unwritten}");
    let expected = looks(at_once.root(), first);
    assert!(looks(in_steps.root(), first) == expected, "after a step");
    for image in [vfs.process_killed(), vfs.power_cut(3)] {
        // Nothing of them is durable. The log has their entries.
        let mut store = run::open(&image).unwrap();
        assert!(looks(store.root(), first) == before, "after a restart");
        for i in 0..=MOST {
            one(&mut store, i, delete);
        }
        assert!(looks(store.root(), first) == expected, "after a replay");
    }
    // There is room again.
    let under_way = in_steps.root().deletions.len();
    both([&mut at_once, &mut in_steps], MOST + 1, delete);
    assert_eq!(in_steps.root().deletions.len(), under_way + 1);
    in_steps.delete_step(usize::MAX).unwrap();
    let expected = looks(at_once.root(), first);
    assert!(looks(in_steps.root(), first) == expected, "at the end");
    let (view, expected_then) = middle.expect("taken in the middle");
    assert!(looks(&view, first) == expected_then, "in the view");
    assert!(in_steps.checkpoint_alone().unwrap());
    in_steps.check().unwrap();
    drop(in_steps);
    assert!(looks(run::open(&vfs).unwrap().root(), first) == expected);
}

/// A deletion in both stores; returns how many keys it deleted in each.
fn both(stores: [&mut Store; 2], i: u64, delete: Delete) -> u64 {
    let [at_once, in_steps] = stores.map(|store| one(store, i, delete));
    assert_eq!(at_once, in_steps, "keys of deletion {i}");
    in_steps
}

fn one(store: &mut Store, i: u64, delete: Delete) -> u64 {
    let mut keys = 0;
    write(store, |write| {
        keys = delete(write, i)?;
        Ok(())
    });
    keys
}

/// What readers see at the newest revision, at others down to `first`, in history, and of leases.
fn looks(root: &Root, first: i64) -> Vec<String> {
    let newest = root.revision();
    let revisions = [newest, newest - 1, first.midpoint(newest), first];
    let mut looks = rows_at(root, &revisions);
    looks.extend(attached(root).iter().map(|row| format!("{row:?}")));
    looks
}

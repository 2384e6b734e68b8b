//! One entry that changes more than it may keep in memory. It writes leaves before its end, and is
//! applied completely or not at all, whenever the process or the power fails.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::*;
use crate::Result;
use crate::encryption::sample;
use crate::mvcc::keys::DeltaLimits;

const KEYS: u64 = 2400;
const LEASE: i64 = 7;

/// What the entry may keep in memory: a fraction of the leaves that it changes.
const BYTES_IN_MEMORY: u64 = 48 << 10;

/// The large entry, in its forms.
#[derive(Clone, Copy, Debug)]
enum Large {
    Range,
    Lease,
    /// A transaction: ranges from the back to the front, then puts.
    Mixed,
    /// A transaction of many puts, which comes to each leaf again after it was written.
    Puts,
}

const FORMS: [Large; 4] = [Large::Range, Large::Lease, Large::Mixed, Large::Puts];

fn key(i: u64) -> Vec<u8> {
    format!("key/{i:05}").into_bytes()
}

/// A store with all keys, some of them attached to the lease, durable and published.
fn filled(vfs: &SimVfs) -> Store {
    let mut store = open(vfs).unwrap();
    for i in 0..KEYS {
        let lease = if i % 3 == 0 { 0 } else { LEASE };
        let index = i + 1;
        let mut write = store.write(Applied { index, term: 1 });
        write.put(&key(i * 37 % KEYS), &[1; 8], lease).unwrap();
    }
    for _ in 0..2 {
        save(&mut store).unwrap();
    }
    store
}

fn open(vfs: &SimVfs) -> Result<Store> {
    let mut store = run::open(vfs)?;
    // Changes all leaves.
    store.delta_limits = DeltaLimits::default();
    store.set_entry_bytes_in_memory(BYTES_IN_MEMORY);
    Ok(store)
}

fn save(store: &mut Store) -> Result<()> {
    if let Some(job) = store.begin_checkpoint() {
        let done = job.run()?;
        store.finish_checkpoint(done);
    }
    store.publish();
    while !store.release_step(1000) {}
    Ok(())
}

/// Applies the entry, if the store does not have it.
fn apply(store: &mut Store, form: Large) -> Result<()> {
    let index = KEYS + 1;
    if store.root().applied().index >= index {
        return Ok(());
    }
    let mut write = store.write(Applied { index, term: 1 });
    match form {
        Large::Range => drop(write.delete_range(KeyRange::ALL)?),
        Large::Lease => drop(write.delete_attached(LEASE)?),
        Large::Mixed => {
            for from in (0..KEYS / 30).rev().map(|i| i * 30) {
                let (start, end) = (key(from), key(from + 25));
                write.delete_range(KeyRange::from_wire(&start, &end))?;
            }
            for i in 0..20 {
                write.put(&key(i * 60 + 28), b"new", 0)?;
            }
        }
        Large::Puts => {
            for i in (0..KEYS).step_by(2).chain((1..KEYS).step_by(2)) {
                write.put(&key(i), b"new", 0)?;
            }
        }
    }
    Ok(())
}

/// A digest of everything that a reader can see, and of the rows of the leases' keys.
fn seen(root: &Root) -> u64 {
    let mut digest = DefaultHasher::new();
    (root.applied().index, root.revision()).hash(&mut digest);
    let changes = root.changes(1, i64::MAX, &mut |change| {
        match change {
            Change::Put { revision, item } => (revision, item.key, item.value).hash(&mut digest),
            Change::Delete { revision, key } => (revision, key).hash(&mut digest),
        }
        Ok(ControlFlow::Continue(()))
    });
    changes.unwrap();
    let range = root.range(KeyRange::ALL, 0, Want::Values, &mut |item| {
        (item.key, item.value, item.mod_revision, item.lease).hash(&mut digest);
        ControlFlow::Continue(())
    });
    range.unwrap();
    let scan = root.side_scan(Bucket::LeaseKeys, b"", &mut |key, _| {
        key.hash(&mut digest);
        ControlFlow::Continue(())
    });
    scan.unwrap();
    digest.finish()
}

/// What is seen before the entry and after it, on a store that may keep everything in memory.
fn expected(form: Large) -> [u64; 2] {
    let mut store = filled(&SimVfs::new(1));
    store.set_entry_bytes_in_memory(u64::MAX / 2);
    let before = seen(store.root());
    apply(&mut store, form).unwrap();
    let whole = store.stats().dirty_bytes;
    assert!(whole > 4 * BYTES_IN_MEMORY, "{form:?} changes only {whole}");
    [before, seen(store.root())]
}

#[test]
fn a_large_entry_keeps_little_in_memory_and_is_not_seen_before_its_end() {
    for form in FORMS {
        let [before, after] = expected(form);
        let vfs = SimVfs::new(1);
        let mut store = filled(&vfs);
        let reader = store.reader();
        let bytes_before = store.stats().file_bytes;
        apply(&mut store, form).unwrap();
        let stats = store.stats();
        assert!(stats.dirty_bytes < 3 * BYTES_IN_MEMORY, "{stats:?}");
        assert!(stats.file_bytes > bytes_before, "{form:?}: nothing written");
        assert!(seen(&reader.view()) == before, "{form:?}: seen too early");
        assert!(seen(store.root()) == after, "{form:?}: another result");
        let view = reader.view();
        store.publish();
        assert!(seen(&reader.view()) == after && seen(&view) == before);
        store.check().unwrap();
        save(&mut store).unwrap();
        assert!(seen(&view) == before, "{form:?}: its pages were reused");
        drop(store);
        let store = open(&vfs).unwrap();
        assert!(
            seen(store.root()) == after,
            "{form:?}: another after a restart"
        );
        store.check().unwrap();
    }
}

/// The store on a copy of `vfs`, and the calls of the entry with the checkpoint after it.
fn calls(vfs: &SimVfs, form: Large) -> u64 {
    let vfs = vfs.power_cut(0);
    let mut store = open(&vfs).unwrap();
    let before = vfs.calls();
    apply(&mut store, form).unwrap();
    save(&mut store).unwrap();
    vfs.calls() - before
}

#[test]
fn a_crash_at_any_call_of_a_large_entry_leaves_all_of_it_or_nothing() {
    for (form, sealed) in FORMS.into_iter().zip([false, true, false, false]) {
        let expected = expected(form);
        let disk = SimVfs::new(2);
        if sealed {
            sample::give_key(&disk);
        }
        drop(filled(&disk));
        let calls = calls(&disk, form);
        for call in 0..=calls {
            let vfs = disk.power_cut(0);
            let mut store = open(&vfs).unwrap();
            vfs.fail_after(call);
            let done = apply(&mut store, form).and_then(|()| save(&mut store));
            assert_eq!(done.is_ok(), call == calls, "{form:?}, call {call}");
            drop(store);
            for image in [vfs.process_killed(), vfs.power_cut(call)] {
                look_after(&image, form, expected, call);
            }
        }
    }
}

/// Opens what a crash left, and applies the entry again as a replay does.
fn look_after(image: &SimVfs, form: Large, [before, after]: [u64; 2], call: u64) {
    let mut store = open(image).unwrap_or_else(|error| panic!("call {call}: {error}"));
    let found = seen(store.root());
    assert!(found == before || found == after, "{form:?}, call {call}");
    store.check().unwrap();
    apply(&mut store, form).unwrap();
    assert!(seen(store.root()) == after, "{form:?}, call {call}: again");
    // The meta found may be in memory only: a checkpoint that saves it is made in any case.
    store.settle_space();
    save(&mut store).unwrap();
    store.check().unwrap();
    drop(store);
    let store = open(&image.power_cut(call)).unwrap();
    assert!(seen(store.root()) == after, "{form:?}, call {call}: saved");
}

#[test]
fn a_disk_full_at_any_call_of_a_large_entry_loses_nothing_of_it() {
    for form in FORMS {
        let [_, after] = expected(form);
        let disk = SimVfs::new(3);
        drop(filled(&disk));
        for call in 0..calls(&disk, form) {
            let vfs = disk.power_cut(0);
            let mut store = open(&vfs).unwrap();
            vfs.full_after(call, 2);
            apply(&mut store, form).unwrap_or_else(|error| panic!("call {call}: {error}"));
            assert!(seen(store.root()) == after, "{form:?}, call {call}");
            store.check().unwrap();
            vfs.full_after(u64::MAX, 0);
            store.reserve(true).unwrap();
            save(&mut store).unwrap();
            store.check().unwrap();
            drop(store);
            let store = open(&vfs.power_cut(call)).unwrap();
            assert!(seen(store.root()) == after, "{form:?}, call {call}: saved");
        }
    }
}

#[test]
fn beside_a_checkpoint_a_large_entry_stays_in_memory_and_the_next_one_does_not() {
    let [before, after] = expected(Large::Range);
    let vfs = SimVfs::new(4);
    let mut store = filled(&vfs);
    store.settle_space();
    let job = store.begin_checkpoint().unwrap();
    apply(&mut store, Large::Range).unwrap();
    assert!(store.stats().dirty_bytes > 2 * BYTES_IN_MEMORY);
    let done = job.run().unwrap();
    store.finish_checkpoint(done);
    assert!(seen(open(&vfs.process_killed()).unwrap().root()) == before);
    store.spill_all().unwrap();
    let stats = store.stats();
    assert!(stats.dirty_bytes < 2 * BYTES_IN_MEMORY, "{stats:?}");
    save(&mut store).unwrap();
    store.check().unwrap();
    drop(store);
    assert!(seen(open(&vfs).unwrap().root()) == after);
}

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::super::model::run::{self, DIR, Input, Runner, compare};
use super::super::{Attempt, KeyRange, Write};
use super::*;
use crate::encryption;
use crate::vfs::sim::SimVfs;

const SIDE: [Bucket; 2] = [Bucket::Lease, Bucket::Meta];

/// Loads everything that `root` holds, beside the store of `vfs`.
fn load(vfs: &SimVfs, root: &Root) -> Result<Incoming> {
    load_with(vfs, root, Options::default())
}

fn load_with(vfs: &SimVfs, root: &Root, options: Options) -> Result<Incoming> {
    let mut loader = Loader::create(Arc::new(vfs.clone()), Path::new(DIR), options)?;
    root.changes(0, i64::MAX, &mut |change| {
        loader.push(change)?;
        Ok(ControlFlow::Continue(()))
    })?;
    for bucket in SIDE {
        let mut rows = Vec::new();
        root.side_scan(bucket, b"", &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        for (key, value) in rows {
            loader.set(bucket, &key, &value)?;
        }
    }
    loader.finish(Position {
        revision: root.revision(),
        compacted: root.compacted(),
        removed_through: root.compacted(),
        applied: root.applied(),
    })
}

fn next(store: &mut Store) -> Write<'_> {
    let applied = store.root().applied();
    store.write(Applied {
        index: applied.index + 1,
        term: applied.term,
    })
}

/// A store of 40 keys with versions, a deletion, a lease and a compaction in progress.
fn sample(vfs: &SimVfs) -> Store {
    let mut store = run::open(vfs).unwrap();
    for round in 0..3i64 {
        let mut write = next(&mut store);
        for key in 0..40 {
            let key = format!("key{key}");
            write
                .put(key.as_bytes(), &[round as u8; 300], round % 2)
                .unwrap();
        }
    }
    let doomed = KeyRange::from_wire(b"key1", b"");
    assert_eq!(next(&mut store).delete_range(doomed).unwrap(), 1);
    next(&mut store).compact(3).unwrap();
    store.compact_step(10).unwrap();
    store
}

#[test]
fn a_loaded_store_is_like_the_one_it_was_loaded_from() {
    arbtest::arbtest(|u| {
        let mut runner = Runner::new(SimVfs::new(1), true);
        let finished = runner.run(&mut Input(u.bytes(u.len())?));
        finished.expect("a disk without faults");
        let model = runner.model.clone();
        let vfs = SimVfs::new(2);
        let store = load(&vfs, runner.store().root()).unwrap().install();
        let opened = run::open(&vfs.process_killed()).unwrap();
        for store in [store.unwrap(), opened] {
            compare(store.root(), &model, 0, &mut Input(&[]));
            compare(
                store.root(),
                &model,
                model.compacted().max(1),
                &mut Input(&[]),
            );
            assert_eq!(store.root().applied(), runner.store().root().applied());
            store.check().unwrap();
        }
        Ok(())
    })
    .size_max(4096)
    .budget_ms(1500);
}

#[test]
fn a_store_goes_on_from_what_replaced_its_content() {
    let other = sample(&SimVfs::new(1));
    let vfs = SimVfs::new(2);
    let mut store = run::open(&vfs).unwrap();
    next(&mut store).put(b"old", b"1", 0).unwrap();
    store.publish();
    let (reader, before) = (store.reader(), store.reader().view());
    store.replace(load(&vfs, other.root()).unwrap()).unwrap();
    assert_eq!(before.count(KeyRange::ALL, 0).unwrap(), 1);
    let generations = [&before, &reader.view()].map(|view| view.generation());
    assert_eq!(generations, [0, 1]);
    assert_eq!(reader.view().count(KeyRange::ALL, 0).unwrap(), 39);
    assert_eq!(reader.view().applied(), other.root().applied());
    // To be dropped elsewhere.
    assert!(store.replaced.is_some());
    assert!(store.take_retired().is_some());
    assert!(store.replaced.is_none());
    assert_eq!(before.count(KeyRange::ALL, 0).unwrap(), 1);

    next(&mut store).put(b"new", b"1", 0).unwrap();
    next(&mut store).compact(4).unwrap();
    while !store.compact_step(7).unwrap().done {}
    let done = store.begin_checkpoint().unwrap().run().unwrap();
    store.finish_checkpoint(done);
    store.check().unwrap();
    let opened = run::open(&vfs.process_killed()).unwrap();
    assert_eq!(opened.root().count(KeyRange::ALL, 0).unwrap(), 40);
    assert_eq!(opened.root().compacted(), 4);
}

#[test]
fn what_a_store_noted_about_its_content_goes_with_it() {
    let vfs = SimVfs::new(1);
    let mut store = sample(&vfs);
    while !store.compact_step(7).unwrap().done {}
    assert!(store.oldest_removed.is_some());
    // As in the middle of a deletion in steps.
    store.deletion_spills_at = 1 << 30;
    let other = sample(&SimVfs::new(2));
    store.replace(load(&vfs, other.root()).unwrap()).unwrap();
    assert_eq!(store.take_oldest_removed(), None);
    assert_eq!(store.deletion_spills_at, 0);
}

#[test]
fn decrypted_pages_are_bounded_in_what_replaced_the_content_too() {
    let other = sample(&SimVfs::new(1));
    for bytes_max in [None, Some(0)] {
        let vfs = SimVfs::new(2);
        encryption::sample::give_key(&vfs);
        let mut store = run::open(&vfs).unwrap();
        if let Some(bytes_max) = bytes_max {
            store.set_decrypted_bytes_max(bytes_max);
        }
        let incoming = load_with(&vfs, other.root(), store.options()).unwrap();
        store.replace(incoming).unwrap();
        store.root().head(b"key2").unwrap();
        assert_eq!(store.file.stats().decrypted_bytes > 0, bytes_max.is_none());
    }
}

#[test]
fn errors_name_the_file_that_a_loaded_store_has_become() {
    let other = sample(&SimVfs::new(1));
    let vfs = SimVfs::new(2);
    let mut store = run::open(&vfs).unwrap();
    store.replace(load(&vfs, other.root()).unwrap()).unwrap();
    vfs.fail_reads_after(0);
    let error = store.check().unwrap_err().to_string();
    let path = Store::path_in(Path::new(DIR));
    assert!(error.contains(&format!("{}:", path.display())), "{error}");
}

#[test]
fn a_checkpoint_that_waits_for_space_is_given_up_for_another_state() {
    let other = sample(&SimVfs::new(1));
    let vfs = SimVfs::new(2);
    let mut store = run::open(&vfs).unwrap();
    let incoming = load(&vfs, other.root()).unwrap();
    next(&mut store).put(b"old", b"1", 0).unwrap();
    let job = store.begin_checkpoint().unwrap();
    vfs.full_after(0, u64::MAX);
    let Attempt::Full(waiting, _) = job.attempt().unwrap() else {
        panic!("the disk is full");
    };
    store.give_up_checkpoint(*waiting);
    store.replace(incoming).unwrap();
    vfs.full_after(0, 0);
    next(&mut store).put(b"new", b"1", 0).unwrap();
    let done = store.begin_checkpoint().unwrap().run().unwrap();
    store.finish_checkpoint(done);
    store.check().unwrap();
    let opened = run::open(&vfs.process_killed()).unwrap();
    assert_eq!(opened.root().count(KeyRange::ALL, 0).unwrap(), 40);
}

#[test]
fn a_compaction_interrupted_elsewhere_is_finished_here() {
    let vfs = SimVfs::new(1);
    let mut loader =
        Loader::create(Arc::new(vfs.clone()), Path::new(DIR), Options::default()).unwrap();
    for main in 2..=5 {
        let item = Item {
            key: b"k",
            value: b"v",
            create_revision: 2,
            mod_revision: main,
            version: main - 1,
            lease: 0,
        };
        let revision = Revision { main, sub: 0 };
        loader.push(Change::Put { revision, item }).unwrap();
    }
    let position = Position {
        revision: 5,
        compacted: 4,
        removed_through: -1,
        applied: Applied { index: 9, term: 2 },
    };
    let mut store = loader.finish(position).unwrap().install().unwrap();
    while !store.compact_step(1).unwrap().done {}
    let mut left = Vec::new();
    store
        .root()
        .recent_changes(0, 5, &mut |change| {
            if let Change::Put { revision, .. } = change {
                left.push(revision.main);
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    assert_eq!(left, [4, 5]);
    store.check().unwrap();
}

#[test]
fn large_values_are_written_before_many_of_them_are_in_memory() {
    const VALUE_BYTES: u64 = 1 << 20;
    let vfs = SimVfs::new(1);
    let mut loader = Loader::create(Arc::new(vfs), Path::new(DIR), Options::default()).unwrap();
    let value = vec![7_u8; VALUE_BYTES as usize];
    for main in 2..22 {
        let item = Item {
            key: b"k",
            value: &value,
            create_revision: 2,
            mod_revision: main,
            version: main - 1,
            lease: 0,
        };
        let revision = Revision { main, sub: 0 };
        loader.push(Change::Put { revision, item }).unwrap();
        let dirty = loader.store.stats().dirty_bytes;
        assert!(dirty < 4 * VALUE_BYTES, "{dirty} bytes at revision {main}");
    }
}

#[test]
fn rows_that_cannot_follow_each_other_are_refused() {
    let vfs = SimVfs::new(1);
    let mut loader = Loader::create(Arc::new(vfs), Path::new(DIR), Options::default()).unwrap();
    let delete = |main, sub| Change::Delete {
        revision: Revision { main, sub },
        key: b"k",
    };
    assert!(loader.push(delete(0, 0)).is_err());
    loader.push(delete(5, 1)).unwrap();
    assert!(loader.push(delete(5, 1)).is_err());
    assert!(loader.push(delete(5, 0)).is_err());
    assert!(loader.push(delete(6, 1 << 32)).is_err());
    let revision = Revision { main: 6, sub: 0 };
    let item = Item {
        key: b"k",
        value: b"",
        create_revision: 7,
        mod_revision: 6,
        version: 1,
        lease: 0,
    };
    assert!(loader.push(Change::Put { revision, item }).is_err());
}

#[test]
fn a_power_cut_leaves_the_old_store_or_the_new_one_whole() {
    let other = sample(&SimVfs::new(1));
    let new = other.root().applied();
    for calls in 0.. {
        let vfs = SimVfs::new(3);
        let mut store = run::open(&vfs).unwrap();
        next(&mut store).put(b"old", b"1", 0).unwrap();
        let done = store.begin_checkpoint().unwrap().run().unwrap();
        store.finish_checkpoint(done);
        let old = store.root().applied();
        vfs.fail_after(calls);
        let replaced = load(&vfs, other.root()).and_then(|incoming| store.replace(incoming));
        for survival in 0..3 {
            let cut = vfs.power_cut(survival);
            let found = run::open(&cut).unwrap_or_else(|e| panic!("cut at call {calls}: {e}"));
            let applied = found.root().applied();
            let keys = found.root().count(KeyRange::ALL, 0).unwrap();
            assert!(
                (applied == old && keys == 1) || (applied == new && keys == 39),
                "cut at call {calls}: {applied:?}, {keys} keys"
            );
            assert!(replaced.is_err() || applied == new, "the new one was lost");
            found.check().unwrap();
            load(&cut, other.root()).unwrap().install().unwrap();
        }
        if replaced.is_ok() {
            assert!(calls > 5, "loading wrote next to nothing");
            break;
        }
    }
}

#[test]
fn what_is_found_after_a_kill_is_there_after_a_power_cut() {
    let source = SimVfs::new(1);
    let sample = sample(&source);
    for calls in 0.. {
        let vfs = SimVfs::new(2);
        drop(run::open(&vfs).unwrap());
        let incoming = load(&vfs, sample.root()).unwrap();
        vfs.fail_after(calls);
        let done = incoming.install().is_ok();
        let killed = vfs.process_killed();
        let found = run::open(&killed).unwrap().root().applied();
        for survival in 0..8 {
            let opened = run::open(&killed.power_cut(survival)).unwrap();
            assert_eq!(opened.root().applied(), found, "at call {calls}");
        }
        if done {
            break;
        }
    }
}

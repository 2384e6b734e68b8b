use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use etcd_api::etcdserverpb as pb;
use pb::request_op::Request as Op;
use raft::Now;
use storage::mvcc::{Applied, Options, Store, from_memory};
use storage::vfs::sim::SimVfs;

use super::super::ApplyEffects;
use super::*;
use crate::member::event::ApplyEvent;
use crate::state::State;
use crate::state::lessor::Lessor;
use crate::state::watch::Hub;

const KEYS: usize = 20_000;

/// More keys than a leaf holds: one key in so many is alone in its leaf.
const SPARSE: usize = 200;

/// More than the key tree has.
const BRANCHES_MAX: usize = 20;

/// Key number `i` of those that are alone in their leaves.
fn key(i: usize) -> Vec<u8> {
    format!("key{:05}", i * SPARSE).into_bytes()
}

fn open(vfs: &SimVfs) -> Store {
    let vfs = Arc::new(vfs.clone());
    Store::open(vfs, Path::new("/store"), Options::default()).unwrap()
}

/// An applier after a start, on a store with all keys.
fn restarted() -> (SimVfs, Applier) {
    let vfs = SimVfs::new(1);
    let mut store = open(&vfs);
    let mut write = store.write(Applied { index: 1, term: 1 });
    for i in 0..KEYS {
        let key = format!("key{i:05}");
        write.put(key.as_bytes(), b"old", 0).unwrap();
    }
    drop(write);
    let done = store.begin_checkpoint().unwrap().run().unwrap();
    store.finish_checkpoint(done);
    drop(store);
    let vfs = vfs.process_killed();
    let store = open(&vfs);
    let (_, hub) = Hub::new(store.reader());
    let state = State::new(store, 1).unwrap();
    let second = Now::from_secs(1);
    let lessor = Lessor::new(second);
    let applier = Applier::new(state, lessor, hub, 0, second, Now::ZERO).unwrap();
    (vfs, applier)
}

/// Nothing is in memory any more, and that was noticed.
fn cool(vfs: &SimVfs, applier: &Applier) {
    vfs.set_cold(true);
    let root = applier.state.store.root();
    assert!(from_memory(|| root.get(&key(0), 0, |_| ())).is_none());
    // That has read some branches.
    vfs.set_cold(true);
}

/// Places that were announced after the first `before` announcements, each once.
fn places(vfs: &SimVfs, before: usize) -> usize {
    let announced = vfs.announced();
    let places: BTreeSet<(u64, u64)> = announced[before..].iter().copied().collect();
    places.len()
}

fn put(i: usize) -> pb::PutRequest {
    pb::PutRequest {
        key: key(i).into(),
        value: b"new"[..].into(),
        ..Default::default()
    }
}

fn delete(i: usize) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest {
        key: key(i).into(),
        ..Default::default()
    }
}

/// As on a member that did not propose them, and how many keys they read: forty puts, a deletion and
/// a transaction.
fn entries() -> (Vec<Committed>, usize) {
    let op = |request| pb::RequestOp {
        request: Some(request),
    };
    let txn = pb::TxnRequest {
        compare: vec![pb::Compare {
            key: key(41).into(),
            ..Default::default()
        }],
        success: vec![op(Op::RequestPut(put(42)))],
        failure: vec![op(Op::RequestDeleteRange(delete(43)))],
    };
    let puts = (0..40).map(|i| Request::Put(put(i)));
    let others = [Request::DeleteRange(delete(40)), Request::Txn(txn)];
    let entry = |(request, index): (Request, u64)| Committed {
        entry: raft::Entry {
            term: 1,
            index,
            data: request.encode(index),
            ..Default::default()
        },
        request: None,
        reply: None,
    };
    (puts.chain(others).zip(2..).map(entry).collect(), 44)
}

#[test]
fn the_keys_of_committed_entries_are_announced_and_none_that_is_in_memory() {
    let (vfs, applier) = restarted();
    let (mut entries, keys) = entries();
    let before = vfs.announced().len();
    applier.announce(&mut entries);
    assert_eq!(vfs.announced().len(), before);
    assert!(entries.iter().all(|committed| committed.request.is_none()));

    cool(&vfs, &applier);
    applier.announce(&mut entries);
    let announced = places(&vfs, before);
    assert!(
        (keys..keys + BRANCHES_MAX).contains(&announced),
        "{announced} for {keys} keys"
    );
    // A put is read where it lies, and what was decoded need not be again.
    let decoded = entries
        .iter()
        .filter(|committed| committed.request.is_some());
    assert_eq!(decoded.count(), 2);

    // A client's request was announced when this member proposed it.
    for Committed { entry, request, .. } in &mut entries {
        *request = Some(entry::request(entry).unwrap());
    }
    let before = vfs.announced().len();
    applier.announce(&mut entries);
    assert_eq!(vfs.announced().len(), before);
}

#[test]
fn a_member_announces_entries_as_soon_as_it_hears_of_them() {
    let (vfs, mut applier) = restarted();
    cool(&vfs, &applier);
    let before = vfs.announced().len();
    let (entries, keys) = entries();
    let last = entries.last().map(|committed| committed.entry.index);
    let mut effects = ApplyEffects::default();
    let mut events = vec![ApplyEvent::Committed(entries)];
    applier.turn(Now::ZERO, &mut events, &mut effects).unwrap();
    assert_eq!(effects.applied, last);
    let announced = places(&vfs, before);
    assert!(announced >= keys, "{announced} for {keys} keys");
}

#[test]
fn the_values_that_committed_entries_read_are_announced() {
    let (vfs, applier) = restarted();
    cool(&vfs, &applier);
    let (mut entries, _) = entries();
    applier.announce(&mut entries);
    let of_keys = places(&vfs, 0);
    for Committed { entry, request, .. } in &mut entries {
        let mut compared = entry::request(entry).unwrap();
        if let Request::Txn(txn) = &mut compared {
            txn.compare[0].target = pb::compare::CompareTarget::Value as i32;
        }
        *request = Some(compared);
    }
    // By now the keys are known, so that of all this only the row that is compared is missing.
    applier.announce(&mut entries);
    assert_eq!(places(&vfs, 0), of_keys + 1);
}

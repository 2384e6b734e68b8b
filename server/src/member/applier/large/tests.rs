use std::path::Path;
use std::sync::Arc;

use storage::mvcc::{Applied, Bucket, Options, Store};
use storage::vfs::sim::SimVfs;

use super::super::{BackgroundLimits, LogBounds};
use super::*;
use crate::member::event::ApplyEvent;
use crate::state::State;
use crate::state::lessor::Lessor;
use crate::state::watch::Hub;
use raft::Now;

const KEYS: u64 = 1000;
const LEASE: i64 = 7;
const OF_PREFIX: i64 = 8;

/// All keys, half of them attached to the lease.
fn filled(store: &mut Store) {
    let lease = LEASE.to_be_bytes();
    let mut write = store.write(Applied { index: 1, term: 1 });
    write.set(Bucket::Lease, &lease, &[0; 16]).unwrap();
    for i in 0..KEYS {
        let key = format!("key/{i:04}");
        let lease = if i % 2 == 0 { LEASE } else { 0 };
        write.put(key.as_bytes(), b"value", lease).unwrap();
    }
}

/// Another lease, with as many keys of its own.
fn grant_prefix(store: &mut Store) {
    let lease = OF_PREFIX.to_be_bytes();
    let mut write = store.write(Applied { index: 2, term: 1 });
    write.set(Bucket::Lease, &lease, &[0; 16]).unwrap();
    for i in 0..KEYS {
        let key = format!("prefix/{i:04}");
        write.put(key.as_bytes(), b"value", OF_PREFIX).unwrap();
    }
}

fn applier(pace: BackgroundLimits) -> Applier {
    applier_on(&SimVfs::new(1), pace)
}

fn applier_on(vfs: &SimVfs, pace: BackgroundLimits) -> Applier {
    let vfs = Arc::new(vfs.clone());
    let mut store = Store::open(vfs, Path::new("/store"), Options::default()).unwrap();
    filled(&mut store);
    store.publish();
    let (_, hub) = Hub::new(store.reader());
    let state = State::new(store, 1).unwrap();
    let second = Now::from_secs(1);
    let lessor = Lessor::new(second);
    let mut applier = Applier::new(state, lessor, hub, 0, second, Now::ZERO).unwrap();
    applier.set_pace(pace);
    applier
}

fn entry(index: u64, request: &Request) -> Committed {
    let data = request.encode(index);
    Committed {
        entry: raft::Entry {
            term: 1,
            index,
            data,
            ..Default::default()
        },
        // As on a member that did not propose it.
        request: None,
        reply: None,
    }
}

fn turn(applier: &mut Applier, event: Option<ApplyEvent>) -> ApplyEffects {
    let mut effects = ApplyEffects::default();
    let mut events = event.into_iter().collect();
    applier.turn(Now::ZERO, &mut events, &mut effects).unwrap();
    effects
}

fn put() -> Request {
    Request::Put(pb::PutRequest {
        key: b"other"[..].into(),
        ..Default::default()
    })
}

fn delete(key: &[u8], end: &[u8]) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest {
        key: key.to_vec().into(),
        range_end: end.to_vec().into(),
        ..Default::default()
    }
}

fn compact(revision: i64) -> Request {
    Request::Compaction(pb::CompactionRequest {
        revision,
        ..Default::default()
    })
}

fn revoke(id: i64) -> Request {
    Request::LeaseRevoke(pb::LeaseRevokeRequest { id })
}

#[test]
fn what_an_entry_changes_is_known_before_it_is_applied() {
    let applier = applier(BackgroundLimits::default());
    let store = &applier.state.store;
    let most = u64::MAX;
    let bytes = |request: &Request| bytes_changed_by(store, &mut entry(2, request), most, most);
    let all = delete(b"key/", b"key0");
    let op = |delete: &pb::DeleteRangeRequest| pb::RequestOp {
        request: Some(Op::RequestDeleteRange(delete.clone())),
    };
    let put_op = pb::RequestOp {
        request: Some(Op::RequestPut(pb::PutRequest {
            value: vec![0; 1000].into(),
            ..Default::default()
        })),
    };
    let puts = Request::Txn(pb::TxnRequest {
        success: vec![put_op.clone(), put_op.clone()],
        ..Default::default()
    });
    assert_eq!(bytes(&puts).unwrap(), 2 * (BYTES_PER_KEY + 1000));
    let nested = pb::TxnRequest {
        failure: vec![op(&all)],
        ..Default::default()
    };
    let nested = pb::RequestOp {
        request: Some(Op::RequestTxn(nested)),
    };
    let txn = Request::Txn(pb::TxnRequest {
        success: vec![op(&delete(b"key/0000", b"")), put_op.clone(), put_op],
        failure: vec![nested, op(&delete(b"key/05", b"key/06"))],
        ..Default::default()
    });
    let whole = KEYS * BYTES_PER_KEY_IN_RANGE;
    assert_eq!(bytes(&put()).unwrap(), 0);
    assert_eq!(bytes(&Request::DeleteRange(all)).unwrap(), whole);
    assert_eq!(bytes(&txn).unwrap(), whole + whole / 10);
    let attached = KEYS / 2 * BYTES_PER_KEY;
    assert_eq!(bytes(&revoke(LEASE)).unwrap(), attached);
    let mut ends = entry(2, &revoke(LEASE));
    let some = bytes_changed_by(store, &mut ends, 10_000, most).unwrap();
    assert!(
        some < attached && some >= 10_000,
        "counted to its end: {some}"
    );
    let in_steps = bytes_changed_by(store, &mut entry(2, &txn), most, 7).unwrap();
    let larger = BYTES_PER_KEY_IN_RANGE + 2 * (BYTES_PER_KEY + 1000);
    assert_eq!(in_steps, larger);
}

#[test]
fn a_large_entry_waits_for_the_checkpoint_and_nothing_before_it_waits_for_it() {
    let pace = BackgroundLimits {
        dirty_bytes_max: 300 << 10,
        entry_bytes_in_memory: 100 << 10,
        log: LogBounds {
            bytes: 1,
            ..LogBounds::DIRECT
        },
        ..BackgroundLimits::default()
    };
    let all = Request::DeleteRange(delete(b"key/", b"key0"));
    for large in [all, revoke(LEASE)] {
        let mut applier = applier(pace);
        // The checkpoint that begins here runs until it is told to have run.
        let first = entry(2, &put());
        let effects = turn(&mut applier, Some(ApplyEvent::Committed(vec![first])));
        let job = effects.checkpoint.expect("due");
        let entries = vec![entry(3, &put()), entry(4, &large), entry(5, &put())];
        let effects = turn(&mut applier, Some(ApplyEvent::Committed(entries)));
        assert_eq!(effects.applied, Some(3));
        assert!(applier.hurries(), "an entry waits for the checkpoint");
        assert!(applier.entries_wait());
        assert_eq!(applier.wake_at(Now::ZERO), None);
        assert_eq!(turn(&mut applier, None).applied, None);

        let ran = ApplyEvent::CheckpointRan(Box::new(job.attempt()));
        let effects = turn(&mut applier, Some(ran));
        assert_eq!(effects.applied, Some(5));
        let keys = KeyRange::from_wire(b"key/", b"key0");
        let left = applier.state.store.root().count(keys, 0).unwrap();
        assert!(left <= KEYS / 2, "{left}");
        assert!(!applier.hurries() && !applier.entries_wait());
    }
}

#[test]
fn what_was_applied_before_a_large_entry_is_answered_before_it_begins() {
    let pace = BackgroundLimits {
        entry_bytes_in_memory: 100 << 10,
        ..BackgroundLimits::default()
    };
    let mut applier = applier(pace);
    let reader = applier.state.store.reader();
    let entries = vec![entry(2, &put()), entry(3, &revoke(LEASE)), entry(4, &put())];
    let effects = turn(&mut applier, Some(ApplyEvent::Committed(entries)));
    assert_eq!(effects.applied, Some(2));
    assert_eq!(reader.view().applied().index, 2);
    assert_eq!(applier.wake_at(Now::ZERO), Some(Now::ZERO));
    assert_eq!(turn(&mut applier, None).applied, Some(4));
    let stats = applier.stats();
    assert!(
        stats.dirty_bytes < 2 * pace.entry_bytes_in_memory,
        "{stats:?}"
    );
}

#[test]
fn entries_behind_a_large_deletion_are_applied_before_its_tombstones_are_written() {
    let pace = BackgroundLimits {
        keys_deleted_at_once: 100,
        delete_step_keys: 300,
        log: LogBounds {
            bytes: 1,
            ..LogBounds::DIRECT
        },
        ..BackgroundLimits::default()
    };
    let mut applier = applier(pace);
    let reader = applier.state.store.reader();
    let revision = applier.state.store.root().revision();
    let all = Request::DeleteRange(delete(b"", b"\0"));
    let entries = vec![entry(2, &all), entry(3, &put()), entry(4, &put())];
    let effects = turn(&mut applier, Some(ApplyEvent::Committed(entries)));
    assert_eq!(effects.applied, Some(4));
    let view = reader.view();
    assert_eq!(view.revision(), revision + 3);
    assert_eq!(view.live_keys(), 1);
    assert_eq!(view.unwritten_deletes(), KEYS - 300);
    assert!(effects.checkpoint.is_none(), "half of an entry");
    assert_eq!(applier.wake_at(Now::ZERO), Some(Now::ZERO));

    // Nor does a compaction of the deletion wait; the rows are removed afterwards.
    let entries = vec![entry(5, &compact(revision + 2)), entry(6, &put())];
    let effects = turn(&mut applier, Some(ApplyEvent::Committed(entries)));
    assert_eq!(effects.applied, Some(6));
    assert_eq!(reader.view().live_keys(), 1);
    assert!(reader.view().is_deleting());
    let effects = turn(&mut applier, Some(ApplyEvent::Stop));
    assert!(
        !effects.stopped,
        "the next start would have to write the rest"
    );
    let effects = turn(&mut applier, None);
    assert_eq!(reader.view().unwritten_deletes(), 0);
    assert!(effects.checkpoint.is_some());
}

#[test]
fn beside_a_checkpoint_that_waits_for_space_tombstones_take_no_more_than_the_memory_there_is() {
    const STEP: usize = 20;
    /// What tombstones change: far less than all of these do.
    const ROOM: u64 = 32 << 10;
    let mut pace = BackgroundLimits {
        keys_deleted_at_once: 100,
        delete_step_keys: STEP,
        log: LogBounds {
            bytes: 1,
            ..LogBounds::DIRECT
        },
        ..BackgroundLimits::default()
    };
    let vfs = SimVfs::new(1);
    let mut applier = applier_on(&vfs, pace);
    let first = vec![entry(2, &put())];
    let effects = turn(&mut applier, Some(ApplyEvent::Committed(first)));
    let job = effects.checkpoint.expect("due");
    vfs.full_after(0, u64::MAX);
    let ran = ApplyEvent::CheckpointRan(Box::new(job.attempt()));
    turn(&mut applier, Some(ran));
    assert!(applier.waiting_checkpoint.is_some());
    let most = applier.stats().dirty_bytes + ROOM;
    pace.dirty_bytes_max = most;
    applier.set_pace(pace);
    let all = Request::DeleteRange(delete(b"", b"\0"));
    turn(
        &mut applier,
        Some(ApplyEvent::Committed(vec![entry(3, &all)])),
    );
    while applier.wake_at(Now::ZERO) == Some(Now::ZERO) {
        turn(&mut applier, None);
    }
    let root = applier.state.store.root();
    assert!(root.unwritten_deletes() > 0);
    let dirty = applier.stats().dirty_bytes;
    assert!((most..most + ROOM).contains(&dirty), "{dirty} of {most}");

    // There is space again.
    vfs.full_after(0, 0);
    let job = applier.waiting_checkpoint.take().expect("it waits");
    let ran = ApplyEvent::CheckpointRan(Box::new(job.attempt()));
    turn(&mut applier, Some(ran));
    while applier.is_deleting() {
        assert_eq!(applier.wake_at(Now::ZERO), Some(Now::ZERO));
        turn(&mut applier, None);
    }
    assert_eq!(applier.state.store.root().live_keys(), 0);
}

#[test]
fn the_end_of_a_large_lease_is_written_in_steps_and_before_it_is_granted_again() {
    let pace = BackgroundLimits {
        keys_deleted_at_once: 100,
        delete_step_keys: 100,
        ..BackgroundLimits::default()
    };
    let mut applier = applier(pace);
    grant_prefix(&mut applier.state.store);
    let bytes = |applier: &mut Applier, request: &Request| {
        let store = &mut applier.state.store;
        store.set_keys_deleted_at_once(100);
        bytes_changed_by(store, &mut entry(3, request), u64::MAX, 100).unwrap()
    };
    for id in [OF_PREFIX, LEASE] {
        assert_eq!(bytes(&mut applier, &revoke(id)), 0);
    }
    let entries = vec![entry(3, &revoke(LEASE)), entry(4, &put())];
    let effects = turn(&mut applier, Some(ApplyEvent::Committed(entries)));
    assert_eq!(effects.applied, Some(4));
    let root = applier.state.store.root();
    assert_eq!(root.live_keys(), KEYS / 2 + KEYS + 1);
    let left = KEYS / 2 - 100;
    assert_eq!(root.unwritten_deletes(), left);

    let grant = |id| Request::LeaseGrant(pb::LeaseGrantRequest { id, ttl: 100 });
    assert_eq!(bytes(&mut applier, &grant(9)), 0);
    assert_eq!(bytes(&mut applier, &grant(LEASE)), left * BYTES_PER_KEY);
    let attach = Request::Put(pb::PutRequest {
        key: b"key/0998"[..].into(),
        lease: LEASE,
        ..Default::default()
    });
    let entries = vec![
        entry(5, &grant(9)),
        entry(6, &grant(LEASE)),
        entry(7, &attach),
    ];
    let effects = turn(&mut applier, Some(ApplyEvent::Committed(entries)));
    assert_eq!(effects.applied, Some(7));
    let root = applier.state.store.root();
    assert_eq!(root.unwritten_deletes(), 0);
    assert_eq!(root.live_keys(), KEYS / 2 + KEYS + 2);
    assert_eq!(crate::state::lease_keys(root, LEASE).unwrap().len(), 1);
}

#[test]
fn deletions_between_the_keys_of_another_are_written_in_steps_too() {
    let pace = BackgroundLimits {
        keys_deleted_at_once: 100,
        delete_step_keys: 100,
        ..BackgroundLimits::default()
    };
    let mut applier = applier(pace);
    let between = OF_PREFIX;
    let mut write = applier.state.store.write(Applied { index: 2, term: 1 });
    let row = between.to_be_bytes();
    write.set(Bucket::Lease, &row, &[0; 16]).unwrap();
    for i in (1..KEYS).step_by(4) {
        let key = format!("key/{i:04}");
        write.put(key.as_bytes(), b"value", between).unwrap();
    }
    drop(write);
    let all = Request::DeleteRange(delete(b"", b"\0"));
    let requests = [revoke(LEASE), revoke(between), all, put()];
    for (index, request) in (3..).zip(requests) {
        let store = &mut applier.state.store;
        store.set_keys_deleted_at_once(100);
        let mut next = entry(index, &request);
        let bytes = bytes_changed_by(store, &mut next, u64::MAX, 100).unwrap();
        assert!(bytes <= 100 * BYTES_PER_KEY_IN_RANGE, "{bytes}");
        let effects = turn(&mut applier, Some(ApplyEvent::Committed(vec![next])));
        assert_eq!(effects.applied, Some(index));
    }
    let root = applier.state.store.root();
    assert_eq!(root.live_keys(), 1);
    assert_eq!(root.unwritten_deletes(), KEYS - 4 * 100);
    // Those of the other lease come first.
    let left = KEYS / 2 + KEYS / 4 - 4 * 100;
    let grant = Request::LeaseGrant(pb::LeaseGrantRequest {
        id: between,
        ttl: 100,
    });
    let bytes = bytes_changed_by(&applier.state.store, &mut entry(7, &grant), u64::MAX, 100);
    assert_eq!(bytes.unwrap(), left * BYTES_PER_KEY);
    turn(
        &mut applier,
        Some(ApplyEvent::Committed(vec![entry(7, &grant)])),
    );
    let root = applier.state.store.root();
    assert_eq!(root.live_keys(), 1);
    assert!(root.unwritten_deletes() <= KEYS / 4);
}

#[test]
fn deletions_are_written_at_once_while_others_make_the_log_long() {
    let pace = BackgroundLimits {
        keys_deleted_at_once: 100,
        delete_step_keys: 1,
        log_bytes_while_deleting: 1,
        ..BackgroundLimits::default()
    };
    let mut applier = applier(pace);
    grant_prefix(&mut applier.state.store);
    let mut delete = |index, key: &[u8], end: &[u8]| {
        let request = Request::DeleteRange(delete(key, end));
        let entries = vec![entry(index, &request)];
        turn(&mut applier, Some(ApplyEvent::Committed(entries)));
        applier.state.store.root().unwritten_deletes()
    };
    assert_eq!(delete(3, b"key/", b"key/05"), KEYS / 2 - 1);
    assert_eq!(delete(4, b"key/", b"key0"), KEYS / 2 - 2);
    assert_eq!(delete(5, b"", b"\0"), KEYS / 2 - 3);
    assert_eq!(applier.state.store.root().live_keys(), 0);
}

//! Log and store together, with a power cut at every single call of a mixed workload. The remaining
//! files must open and hold every synced entry; and the log's tail replayed on the store must give
//! the same state as those entries give without a cut.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use etcd_api::etcdserverpb as pb;
use pb::request_op::Request as Op;
use raft::durable::{LogWriter, Options};
use raft::{Entry, HardState, Position, Write};
use storage::encryption::{DataKeys, KeyFile};
use storage::mvcc::{
    Applied, Attempt, Change, CheckpointJob, Item, KeyRange, Revision, Store, Want,
};
use storage::vfs::Vfs;
use storage::vfs::sim::SimVfs;

use crate::request::Request;
use crate::state::{AnswerFor, Effects, State, lease_keys, leases};

pub(super) const LOG: &str = "/member/log";
pub(super) const STORE: &str = "/member/store";
/// If this file exists, the disk is encrypted.
pub(super) const KEYS: &str = "/member/keys";
pub(super) const ENTRIES: u64 = 120;
/// One page: entries that delete a few keys write pages before their end.
const ENTRY_BYTES_IN_MEMORY: u64 = 4 << 10;
/// Variants of which unsynced blocks survive, tried after each cut.
pub(super) const SURVIVALS: u64 = 4;
pub(super) const TERM: u64 = 2;

/// Always the same request for the same index.
fn request(index: u64) -> Request {
    let key = |salt: u64| format!("key/{:02}", index.wrapping_mul(salt) % 23).into_bytes();
    let put = |salt: u64| pb::PutRequest {
        key: key(salt).into(),
        value: vec![index as u8; [0, 30, 700, 5_000][index as usize % 4]].into(),
        lease: if index.is_multiple_of(5) && index > 10 {
            7
        } else {
            0
        },
        ..Default::default()
    };
    match index % 12 {
        3 => Request::DeleteRange(pb::DeleteRangeRequest {
            key: key(7).into(),
            range_end: if index % 24 == 3 {
                b"key/1"[..].into()
            } else {
                Default::default()
            },
            ..Default::default()
        }),
        5 => Request::Compaction(pb::CompactionRequest {
            revision: index as i64 / 2,
            physical: false,
        }),
        8 => Request::LeaseRevoke(pb::LeaseRevokeRequest { id: 7 }),
        9 | 10 if index < 12 || index % 24 > 12 => {
            Request::LeaseGrant(pb::LeaseGrantRequest { id: 7, ttl: 100 })
        }
        2 | 7 => {
            let op = |request| pb::RequestOp {
                request: Some(request),
            };
            let nested = pb::TxnRequest {
                success: vec![op(Op::RequestPut(put(5)))],
                ..Default::default()
            };
            let delete = pb::DeleteRangeRequest {
                key: b"key/05"[..].into(),
                ..Default::default()
            };
            Request::Txn(pb::TxnRequest {
                success: vec![
                    op(Op::RequestDeleteRange(delete)),
                    op(Op::RequestTxn(nested)),
                ],
                ..Default::default()
            })
        }
        _ => Request::Put(put(3)),
    }
}

pub(super) fn entry(index: u64) -> Entry {
    Entry {
        term: TERM,
        index,
        data: request(index).encode(index),
        ..Entry::default()
    }
}

/// Applies an entry; a refused request only advances the applied index.
pub(super) fn apply(state: &mut State, entry: &Entry) {
    let applied = Applied {
        index: entry.index,
        term: entry.term,
    };
    let request = Request::decode(&entry.data).unwrap();
    let (by, mut effects) = (Default::default(), Effects::default());
    let _ = state.apply(applied, &request, &by, AnswerFor::Nobody, &mut effects);
}

/// Everything a client can see, and the rows of HashKV, as a text that does not change between
/// versions.
pub(super) fn seen(state: &State) -> String {
    let root = state.store.root();
    let Applied { index, term } = root.applied();
    let (revision, compacted) = (root.revision(), root.compacted());
    let mut text =
        format!("applied {term}.{index}, revision {revision}, compacted {compacted}\nkeys\n");
    root.range(KeyRange::ALL, 0, Want::Values, &mut |item| {
        text += &told(&item);
        ControlFlow::Continue(())
    })
    .unwrap();
    text += "digested\n";
    let go_on = &mut || ControlFlow::Continue(());
    let mut tell = |change: Change<'_>| match change {
        Change::Put { revision, item } => {
            text += &format!("{}.{} {}", revision.main, revision.sub, told(&item));
        }
        Change::Delete { revision, key } => {
            let key = String::from_utf8_lossy(key);
            text += &format!("{}.{} {key} deleted\n", revision.main, revision.sub);
        }
    };
    let rows = root.hash_rows(revision, go_on).unwrap().unwrap();
    let _ = rows.visit(Revision::default(), &mut tell, go_on).unwrap();
    for lease in leases(root).unwrap() {
        let keys = lease_keys(root, lease.id).unwrap();
        text += &format!("lease {} of {} s: {keys:?}\n", lease.id, lease.granted_ttl);
    }
    text
}

/// One row as text; in this test a value repeats one byte.
fn told(item: &Item<'_>) -> String {
    let key = String::from_utf8_lossy(item.key);
    let byte = item.value.first().copied().unwrap_or(0);
    assert!(item.value.iter().all(|other| *other == byte));
    format!(
        "{key} created {} modified {} version {} lease {} value {} * {byte}\n",
        item.create_revision,
        item.mod_revision,
        item.version,
        item.lease,
        item.value.len()
    )
}

pub(super) struct Machine {
    pub(super) log: LogWriter,
    pub(super) state: State,
    /// Index of the newest log entry.
    pub(super) last: u64,
}

/// Creates keys on the disk, so that it is encrypted from now on.
pub(super) fn give_keys(vfs: &SimVfs) -> storage::Result<Option<Arc<DataKeys>>> {
    let keys = KeyFile::parse("keys", &format!("1 {}", "5a".repeat(32))).expect("a good file");
    DataKeys::open(Arc::new(vfs.clone()), Path::new(KEYS), Some(&keys), true)
}

pub(super) fn open(vfs: &SimVfs) -> storage::Result<Machine> {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    for dir in [LOG, STORE] {
        let made = vfs.create_dir_all(Path::new(dir));
        made.map_err(storage::Error::io("create", Path::new(dir)))?;
    }
    let data_keys = match vfs.contents(Path::new(KEYS)) {
        Some(_) => give_keys(vfs)?,
        None => None,
    };
    let options = storage::mvcc::Options {
        data_keys: data_keys.clone(),
    };
    let mut store = Store::open(Arc::clone(&shared), Path::new(STORE), options)?;
    store.set_entry_bytes_in_memory(ENTRY_BYTES_IN_MEMORY);
    let Applied { index, term } = store.root().applied();
    let options = Options {
        segment_bytes: 16 << 10,
        data_keys,
        ..Options::default()
    };
    let (log, opened) = LogWriter::open(shared, Path::new(LOG), Position { term, index }, options)?;
    let mut state = State::new(store, 1).expect("what opens can be read");
    let mut last = index;
    for found in opened.recovered.entries.iter().filter(|e| e.index > index) {
        assert_eq!(*found, entry(last + 1), "the log holds what it was given");
        apply(&mut state, found);
        last += 1;
    }
    Ok(Machine { log, state, last })
}

/// Runs the server's steps in one thread. Batches are appended to the log, synced and applied. At
/// intervals a checkpoint runs while entries continue, the log is truncated to what both
/// checkpoints cover, and compacted rows are removed. `synced` is the newest acknowledged entry.
pub(super) fn work(vfs: &SimVfs, through: u64, synced: &mut u64) -> storage::Result<()> {
    let mut machine = open(vfs)?;
    let mut job = None;
    while machine.last < through {
        let first = machine.last + 1;
        let last = (first + first % 3).min(through);
        let entries: Vec<Entry> = (first..=last).map(entry).collect();
        machine.log.append(&Write {
            entries: entries.clone(),
            hard_state: first.is_multiple_of(2).then_some(HardState {
                term: TERM,
                vote: 1,
                commit: first - 1,
            }),
            ..Write::default()
        })?;
        machine.log.sync()?;
        *synced = last;
        machine.last = last;
        for entry in &entries {
            apply(&mut machine.state, entry);
        }
        let store = &mut machine.state.store;
        store.publish();
        store.compact_step(5)?;
        store.reserve(first.is_multiple_of(4))?;
        if let Some(sync) = store.spill()? {
            sync.run()?;
        }
        if let Some(attempt) = job.take().map(CheckpointJob::attempt) {
            match attempt? {
                Attempt::Done(done) => {
                    let behind = store.finish_checkpoint(*done);
                    machine.log.drop_before(behind)?;
                    machine
                        .log
                        .finish_drop()
                        .map_or(Ok(()), |job| job.run(|| ()))?;
                }
                Attempt::Full(waiting, _) => {
                    store.ran_out();
                    job = Some(*waiting);
                }
            }
        } else if first % 5 < 3 {
            job = store.begin_checkpoint();
        }
    }
    Ok(())
}

#[test]
fn power_cut_at_any_call_of_log_and_store_loses_nothing_synced() {
    let mut without_cut = vec![String::new()];
    let mut reference = open(&SimVfs::new(1)).unwrap();
    for index in 1..=ENTRIES {
        apply(&mut reference.state, &entry(index));
        without_cut.push(seen(&reference.state));
    }
    let mut cuts = 0;
    for call in 0.. {
        let vfs = SimVfs::new(call);
        vfs.fail_after(call);
        let mut synced = 0;
        let finished = work(&vfs, ENTRIES, &mut synced).is_ok();
        for survival in 0..SURVIVALS {
            let what = format!("call {call}, survival {survival}");
            let image = vfs.power_cut(survival);
            let machine = open(&image).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(
                machine.last >= synced,
                "{what}: {} < {synced}",
                machine.last
            );
            if machine.last > 0 {
                let expected = &without_cut[machine.last as usize];
                assert!(seen(&machine.state) == *expected, "{what}: another state");
            }
            let checked = machine.state.store.check();
            checked.unwrap_or_else(|error| panic!("{what}: {error}"));
            cuts += 1;
        }
        if finished {
            println!("{call} calls, {cuts} cuts, nothing lost");
            assert!(
                call > 200,
                "the workload wrote next to nothing: {call} calls"
            );
            return;
        }
        // Work continues on what was left.
        let image = vfs.power_cut(call);
        work(&image, ENTRIES, &mut synced)
            .unwrap_or_else(|error| panic!("after call {call}: {error}"));
        assert!(seen(&open(&image).unwrap().state) == without_cut[ENTRIES as usize]);
    }
}

#[test]
fn a_disk_full_at_any_call_of_log_and_store_loses_nothing_synced() {
    let mut untroubled = vec![String::new()];
    let mut reference = open(&SimVfs::new(1)).unwrap();
    for index in 1..=ENTRIES {
        apply(&mut reference.state, &entry(index));
        untroubled.push(seen(&reference.state));
    }
    for call in 0.. {
        let vfs = SimVfs::new(call);
        // The disk is full for one call, for some calls, or for ever.
        vfs.full_after(call, [1, 5, u64::MAX][call as usize % 3]);
        let mut synced = 0;
        if let Err(error) = work(&vfs, ENTRIES, &mut synced) {
            assert!(error.is_full(), "call {call}: {error}");
        }
        let times = vfs.times_full();
        // After a process kill or a power cut, now with free space.
        for image in [vfs.process_killed(), vfs.power_cut(call)] {
            let machine = open(&image).unwrap_or_else(|error| panic!("call {call}: {error}"));
            assert!(
                machine.last >= synced,
                "call {call}: {} < {synced}",
                machine.last
            );
            let expected = &untroubled[machine.last as usize];
            assert!(
                machine.last == 0 || seen(&machine.state) == *expected,
                "call {call}: another state"
            );
            let checked = machine.state.store.check();
            checked.unwrap_or_else(|error| panic!("call {call}: {error}"));
            drop(machine);
            work(&image, ENTRIES, &mut 0).unwrap();
            assert!(seen(&open(&image).unwrap().state) == untroubled[ENTRIES as usize]);
        }
        if times == 0 {
            assert!(call > 200, "few calls prove little: {call}");
            return;
        }
    }
}

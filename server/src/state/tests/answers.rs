//! The answer to an entry is put together for a client that waits for it, and only as far as it can
//! be sent. What the entry changes depends on neither.

use std::path::Path;
use std::sync::Arc;

use etcd_api::etcdserverpb as pb;
use etcd_api::raw::response_op::Response;
use pb::request_op::Request as Op;
use prost::Message as _;
use storage::mvcc::{Applied, Store};
use storage::vfs::sim::SimVfs;

use super::power::{STORE, seen};
use crate::basics::error::Error;
use crate::request::{AuthInfo, Request};
use crate::state::{AnswerFor, Effects, Outcome, State};

const KEYS: u64 = 10;

fn open(disk: &SimVfs) -> State {
    let disk = Arc::new(disk.clone());
    let store = Store::open(disk, Path::new(STORE), Default::default());
    State::new(store.unwrap(), 1).unwrap()
}

fn apply(
    state: &mut State,
    request: &Request,
    answer_for: AnswerFor,
) -> (Result<Outcome, Error>, Effects) {
    let index = state.store.root().applied().index + 1;
    let applied = Applied { index, term: 1 };
    let (by, mut effects) = (AuthInfo::default(), Effects::default());
    let result = state.apply(applied, request, &by, answer_for, &mut effects);
    (result, effects)
}

/// A state with so many keys, whose values have so many bytes.
fn filled(disk: &SimVfs, keys: u64, value_bytes: usize) -> State {
    let mut state = open(disk);
    for number in 0..keys {
        let mut put = put(&format!("key/{number}"));
        put.value = vec![7; value_bytes].into();
        let (result, _) = apply(&mut state, &Request::Put(put), AnswerFor::Nobody);
        result.unwrap();
    }
    state
}

/// Asks for the row before it.
fn put(key: &str) -> pb::PutRequest {
    pb::PutRequest {
        key: key.to_owned().into(),
        value: vec![8; 3].into(),
        prev_kv: true,
        ..Default::default()
    }
}

/// Asks for the rows that it deletes.
fn delete(key: &str, range_end: &str) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest {
        key: key.to_owned().into(),
        range_end: range_end.to_owned().into(),
        prev_kv: true,
    }
}

/// All keys.
fn range(revision: i64) -> Op {
    Op::RequestRange(pb::RangeRequest {
        key: b"key/"[..].into(),
        range_end: b"key0"[..].into(),
        revision,
        ..Default::default()
    })
}

fn txn(ops: Vec<Op>) -> pb::TxnRequest {
    let op = |op| pb::RequestOp { request: Some(op) };
    pb::TxnRequest {
        success: ops.into_iter().map(op).collect(),
        ..Default::default()
    }
}

/// Reads, puts and deletes, also in a transaction within it.
fn mixed() -> Request {
    Request::Txn(txn(vec![
        range(0),
        Op::RequestPut(put("key/5")),
        Op::RequestDeleteRange(delete("key/6", "key/8")),
        Op::RequestTxn(txn(vec![range(0), Op::RequestPut(put("key/new"))])),
    ]))
}

/// What gives an answer with rows, one without, and an error, each with the number of its rows.
fn program() -> Vec<(Request, usize)> {
    let keeps_value = pb::PutRequest {
        value: Default::default(),
        ignore_value: true,
        ..put("key/1")
    };
    let keeps_lease = pb::PutRequest {
        ignore_lease: true,
        prev_kv: false,
        ..put("key/2")
    };
    let keeps_nothing = pb::PutRequest {
        key: b"none"[..].into(),
        ..keeps_value.clone()
    };
    let without_lease = pb::PutRequest {
        lease: 99,
        ..put("key/3")
    };
    let compaction = pb::CompactionRequest {
        revision: 5,
        physical: false,
    };
    let at = |revision| txn(vec![Op::RequestPut(put("key/0")), range(revision)]);
    vec![
        (Request::Put(put("key/0")), 1),
        (Request::Put(keeps_value), 1),
        (Request::Put(keeps_lease), 0),
        (Request::Put(keeps_nothing), 0),
        (Request::Put(without_lease), 0),
        (Request::DeleteRange(delete("key/4", "")), 1),
        (Request::DeleteRange(delete("x", "y")), 0),
        // Nine keys, the one that is put, the two that are deleted, the seven that are left.
        (mixed(), 9 + 1 + 2 + 7),
        (Request::Txn(at(1 << 40)), 0),
        (Request::Compaction(compaction), 0),
        (Request::Txn(at(3)), 0),
        (Request::DeleteRange(delete("key/", "key0")), 8),
    ]
}

/// `None` if the outcome never has rows.
fn response(outcome: Outcome) -> Option<Response> {
    match outcome {
        Outcome::Put(put) => Some(Response::ResponsePut(put)),
        Outcome::DeleteRange(deleted) => Some(Response::ResponseDeleteRange(deleted)),
        Outcome::Txn(txn) => Some(Response::ResponseTxn(txn)),
        Outcome::Done => None,
        other => panic!("{other:?}"),
    }
}

/// The number of rows, and their bytes as they are sent. Takes them out of the response.
fn take_rows(response: &mut Response) -> (usize, usize) {
    match response {
        Response::ResponsePut(put) => {
            let prev_kv = put.prev_kv.take();
            let count = usize::from(prev_kv.is_some());
            let alone = pb::PutResponse {
                header: None,
                prev_kv,
            };
            (count, alone.encoded_len())
        }
        Response::ResponseDeleteRange(deleted) => {
            let alone = pb::DeleteRangeResponse {
                prev_kvs: std::mem::take(&mut deleted.prev_kvs),
                ..Default::default()
            };
            (alone.prev_kvs.len(), alone.encoded_len())
        }
        Response::ResponseRange(range) => {
            let rows = std::mem::take(range).kvs;
            (rows.len(), rows.bytes())
        }
        Response::ResponseTxn(txn) => {
            let steps = txn.responses.iter_mut();
            let rows = steps.filter_map(|step| step.response.as_mut().map(take_rows));
            rows.fold((0, 0), |sum, step| (sum.0 + step.0, sum.1 + step.1))
        }
    }
}

#[test]
fn what_an_entry_changes_does_not_depend_on_who_waits_for_its_answer() {
    for at_once in [u64::MAX, 1] {
        let [mut asked, mut other] = [(); 2].map(|()| filled(&SimVfs::new(1), KEYS, 30));
        // There is nothing that could be too large.
        other.answer_bytes_max = 0;
        for (request, rows) in program() {
            for state in [&mut asked, &mut other] {
                state.store.set_keys_deleted_at_once(at_once);
            }
            let (answer, effects) = apply(&mut asked, &request, AnswerFor::Client);
            let (silence, same) = apply(&mut other, &request, AnswerFor::Nobody);
            assert_eq!(effects, same, "{request:?}");
            match (answer, silence) {
                (Ok(answer), Ok(silence)) => {
                    let (mut answer, silence) = (response(answer), response(silence));
                    let taken = answer.as_mut().map_or(0, |answer| take_rows(answer).0);
                    assert_eq!(taken, rows, "{request:?}");
                    assert_eq!(answer, silence, "{request:?}");
                }
                (answer, silence) => {
                    assert_eq!(answer.err(), silence.err(), "{request:?}");
                }
            }
            for state in [&mut asked, &mut other] {
                state.store.delete_step(usize::MAX).unwrap();
            }
            assert_eq!(seen(&asked), seen(&other), "{request:?}");
        }
    }
}

#[test]
fn rows_that_only_an_answer_would_show_are_not_read_for_nobody() {
    let disk = SimVfs::new(1);
    // A value is longer than a page.
    let mut state = filled(&disk, KEYS, 5_000);
    state.store.publish();
    let job = state.store.begin_checkpoint().expect("there are changes");
    let _ = state.store.finish_checkpoint(job.run().unwrap());
    drop(state);
    let deletion = Request::DeleteRange(delete("key/", "key0"));
    let txn = Request::Txn(txn(vec![range(0), Op::RequestPut(put("other"))]));
    for request in [deletion, txn] {
        let [few, many] = [AnswerFor::Nobody, AnswerFor::Client].map(|answer_for| {
            let disk = disk.process_killed();
            let mut state = open(&disk);
            let before = disk.reads();
            let (result, _) = apply(&mut state, &request, answer_for);
            result.unwrap();
            disk.reads() - before
        });
        // Two rows may share a page.
        assert!(
            few + KEYS / 2 <= many,
            "{few} and {many} reads: {request:?}"
        );
    }
}

#[test]
fn an_answer_that_is_too_large_is_given_up_and_its_entry_takes_effect() {
    let fill = || filled(&SimVfs::new(1), KEYS, 30);
    let deletion = Request::DeleteRange(delete("key/", "key0"));
    for request in [Request::Put(put("key/0")), deletion, mixed()] {
        let mut unbounded = fill();
        let (answer, effects) = apply(&mut unbounded, &request, AnswerFor::Client);
        let rows = take_rows(&mut response(answer.unwrap()).unwrap());
        let (_, bytes) = rows;
        for most in [bytes, bytes - 1, 0] {
            let mut state = fill();
            state.answer_bytes_max = most;
            let (answer, same) = apply(&mut state, &request, AnswerFor::Client);
            match answer.unwrap() {
                Outcome::TooLarge { bytes: read } => {
                    assert!(most < read && read <= bytes, "{most}, {read}, {bytes}");
                }
                answer => {
                    assert_eq!(most, bytes, "{request:?}");
                    assert_eq!(take_rows(&mut response(answer).unwrap()), rows);
                }
            }
            assert_eq!(same, effects, "{request:?}");
            assert_eq!(seen(&state), seen(&unbounded), "{request:?}");
        }
    }
}

//! Operations as etcd's requests, and answers read back.

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::raw;
use pb::request_op::Request as Op;
use prost::Message;
use server::member::event::Outcome;
use server::request::Request;
use storage::mvcc::View;

use crate::history::{self, Key, Operation, Step, Value};
use testkit::Rng;

pub(super) fn name(partition: usize, key: Key) -> Bytes {
    format!("k/{partition}/{key}").into()
}

/// The value, and something behind it that takes room.
fn encode(value: Value, rng: &mut Rng) -> Bytes {
    let padding = match rng.below(60) {
        0 => 6000,
        1..10 => rng.below(600),
        _ => rng.below(20),
    };
    format!("{value}:{}", "x".repeat(padding as usize)).into()
}

fn decode(bytes: &[u8]) -> Value {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let number = text
        .split(':')
        .next()
        .and_then(|number| number.parse().ok());
    number.unwrap_or(Value::MAX)
}

fn put(partition: usize, key: Key, value: Value, rng: &mut Rng) -> pb::PutRequest {
    pb::PutRequest {
        key: name(partition, key),
        value: encode(value, rng),
        ..Default::default()
    }
}

fn delete(partition: usize, key: Key) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest {
        key: name(partition, key),
        ..Default::default()
    }
}

/// An operation that is not a read.
pub(super) fn change(partition: usize, operation: &Operation, rng: &mut Rng) -> Request {
    match (&operation.when[..], &operation.then[..]) {
        ([], [Step::Put(key, value)]) => Request::Put(put(partition, *key, *value, rng)),
        ([], [Step::Delete(key)]) => Request::DeleteRange(delete(partition, *key)),
        _ => {
            let when = operation.when.iter();
            let compare = when.flat_map(|(key, value)| compares(partition, *key, *value));
            let compare = compare.collect();
            let mut ops = |steps: &[Step]| -> Vec<pb::RequestOp> {
                steps.iter().map(|step| op(partition, *step, rng)).collect()
            };
            Request::Txn(pb::TxnRequest {
                compare,
                success: ops(&operation.then),
                failure: ops(&operation.otherwise),
            })
        }
    }
}

/// Values carry padding: one is met by all that begins with its number and a colon.
fn compares(partition: usize, key: Key, value: Value) -> Vec<pb::Compare> {
    use pb::compare::{CompareResult, CompareTarget, TargetUnion};
    let compare = |result: CompareResult, target: CompareTarget, union| pb::Compare {
        result: result as i32,
        target: target as i32,
        key: name(partition, key),
        target_union: Some(union),
        ..Default::default()
    };
    if value == 0 {
        let union = TargetUnion::Version(0);
        return vec![compare(CompareResult::Equal, CompareTarget::Version, union)];
    }
    let below = [format!("{value}9").as_bytes(), &[0xff]].concat();
    let above = format!("{value};");
    let value = CompareTarget::Value;
    vec![
        compare(
            CompareResult::Greater,
            value,
            TargetUnion::Value(below.into()),
        ),
        compare(CompareResult::Less, value, TargetUnion::Value(above.into())),
    ]
}

fn op(partition: usize, step: Step, rng: &mut Rng) -> pb::RequestOp {
    let request = match step {
        Step::Get(key) => Op::RequestRange(pb::RangeRequest {
            key: name(partition, key),
            ..Default::default()
        }),
        Step::Put(key, value) => Op::RequestPut(put(partition, key, value, rng)),
        Step::Delete(key) => Op::RequestDeleteRange(delete(partition, key)),
    };
    pb::RequestOp {
        request: Some(request),
    }
}

/// Answers a read from a view.
pub(super) fn read(
    view: &View,
    partition: usize,
    operation: &Operation,
) -> storage::Result<history::Outcome> {
    let mut results = Vec::new();
    for step in &operation.then {
        let Step::Get(key) = *step else {
            unreachable!("a read only reads");
        };
        let value = view.get(&name(partition, key), 0, |item| decode(item.value))?;
        results.push(value.unwrap_or(0));
    }
    Ok(history::Outcome {
        succeeded: true,
        results,
    })
}

/// What a change answered.
pub(super) fn outcome(operation: &Operation, outcome: &Outcome) -> history::Outcome {
    let (succeeded, results) = match outcome {
        Outcome::Put(_) => (true, vec![0]),
        Outcome::DeleteRange(deleted) => (true, vec![deleted.deleted as Value]),
        Outcome::Txn(txn) => (txn.succeeded, txn.responses.iter().map(result).collect()),
        other => unreachable!("{operation:?} was answered with {other:?}"),
    };
    history::Outcome { succeeded, results }
}

fn result(response: &raw::ResponseOp) -> Value {
    use raw::response_op::Response;
    match &response.response {
        Some(Response::ResponseRange(range)) => match range.kvs.iter().next() {
            Some(kv) => {
                etcd_api::mvccpb::KeyValue::decode(kv).map_or(Value::MAX, |kv| decode(&kv.value))
            }
            None => 0,
        },
        Some(Response::ResponseDeleteRange(deleted)) => deleted.deleted as Value,
        _ => 0,
    }
}

pub(super) fn grant(id: i64, ttl: i64) -> Request {
    Request::LeaseGrant(pb::LeaseGrantRequest { id, ttl })
}

/// An empty value is a value.
pub(super) fn attach(lease: i64) -> Request {
    Request::Put(pb::PutRequest {
        key: format!("l/{lease}").into(),
        lease,
        ..Default::default()
    })
}

pub(super) fn revoke(id: i64) -> Request {
    Request::LeaseRevoke(pb::LeaseRevokeRequest { id })
}

pub(super) fn compact(revision: i64) -> Request {
    Request::Compaction(pb::CompactionRequest {
        revision,
        physical: false,
    })
}

//! Normalizes what etcd leaves open before answers are compared: the order of unsorted lists, the
//! order of equal elements in an unstable sort, and elapsed seconds.

use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::range_request::{SortOrder, SortTarget};
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::response_op::Response;
use etcd_api::mvccpb::KeyValue;

use super::op::{Answer, Op};

/// Brings an answer to its normal form.
pub(crate) fn answer(op: &Op, answer: &mut Answer) {
    match (op, answer) {
        (Op::Range(request) | Op::RangeStream(request), Answer::Range(response)) => {
            range(request, response);
        }
        (Op::Txn(request), Answer::Txn(response)) => txn(request, response),
        (_, Answer::TimeToLive(response)) => response.keys.sort(),
        (_, Answer::Leases(response)) => response.leases.sort_by_key(|lease| lease.id),
        (_, Answer::Status(response)) => {
            assert!(response.db_size >= response.db_size_in_use && response.db_size_in_use > 0);
            // Sizes and log positions are each server's own.
            response.db_size = 0;
            response.db_size_in_use = 0;
            response.raft_index = 0;
            response.raft_applied_index = 0;
        }
        _ => {}
    }
}

/// Remaining times may differ by as much as `seconds`.
pub(crate) fn pair(reference: &mut Answer, subject: &mut Answer, seconds: i64) {
    if let (Answer::TimeToLive(a), Answer::TimeToLive(b)) = (reference, subject)
        && (a.ttl - b.ttl).abs() <= seconds
    {
        b.ttl = a.ttl;
    }
}

fn txn(request: &pb::TxnRequest, response: &mut pb::TxnResponse) {
    let branch = if response.succeeded {
        &request.success
    } else {
        &request.failure
    };
    for (op, answer) in branch.iter().zip(&mut response.responses) {
        match (&op.request, &mut answer.response) {
            (Some(Request::RequestRange(request)), Some(Response::ResponseRange(response))) => {
                range(request, response);
            }
            (Some(Request::RequestTxn(request)), Some(Response::ResponseTxn(response))) => {
                txn(request, response);
            }
            _ => {}
        }
    }
}

/// Elements that sort alike are put in key order. When the limit cut the answer, which of the last
/// such group are left is open: only that they sort as they do is kept.
fn range(request: &pb::RangeRequest, response: &mut pb::RangeResponse) {
    let target = SortTarget::try_from(request.sort_target).unwrap_or(SortTarget::Key);
    let sorted = request.sort_order != SortOrder::None as i32 || target != SortTarget::Key;
    if !sorted || target == SortTarget::Key {
        return;
    }
    let cut = response.more;
    if target == SortTarget::Value && request.keys_only {
        // The values that tell the groups apart are not in the answer.
        if cut {
            response.kvs.fill(KeyValue::default());
        }
        response.kvs.sort_by(|a, b| a.key.cmp(&b.key));
        return;
    }
    let mut groups = response
        .kvs
        .chunk_by_mut(|a, b| alike(target, a, b))
        .peekable();
    while let Some(group) = groups.next() {
        if cut && groups.peek().is_none() {
            group.iter_mut().for_each(|kv| keep_only(target, kv));
        }
        group.sort_by(|a, b| a.key.cmp(&b.key));
    }
}

fn alike(target: SortTarget, a: &KeyValue, b: &KeyValue) -> bool {
    match target {
        SortTarget::Key => a.key == b.key,
        SortTarget::Version => a.version == b.version,
        SortTarget::Create => a.create_revision == b.create_revision,
        SortTarget::Mod => a.mod_revision == b.mod_revision,
        SortTarget::Value => a.value == b.value,
    }
}

fn keep_only(target: SortTarget, kv: &mut KeyValue) {
    let full = std::mem::take(kv);
    match target {
        SortTarget::Key => kv.key = full.key,
        SortTarget::Version => kv.version = full.version,
        SortTarget::Create => kv.create_revision = full.create_revision,
        SortTarget::Mod => kv.mod_revision = full.mod_revision,
        SortTarget::Value => kv.value = full.value,
    }
}

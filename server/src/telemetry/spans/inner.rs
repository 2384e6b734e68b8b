//! The spans of etcd's server for a call: name and attributes, by request.

use etcd_api::etcdserverpb as pb;
use etcd_api::otlp::KeyValue;
use pb::request_op::Request as Operation;
use prost::Message;

use super::{flag, number, text};
use crate::state::txn;

/// `None` for calls without such a span.
pub(super) fn describe(method: &str, message: &[u8]) -> Option<(&'static str, Vec<KeyValue>)> {
    let (service, name) = method.rsplit_once('/')?;
    match (service, name) {
        ("/etcdserverpb.KV", "Range") => read(message, "range", range),
        ("/etcdserverpb.KV", "Put") => read(message, "put", |put: &pb::PutRequest| {
            vec![text("key", lossy(&put.key))]
        }),
        ("/etcdserverpb.KV", "DeleteRange") => read(
            message,
            "delete_range",
            |delete: &pb::DeleteRangeRequest| stretch(&delete.key, &delete.range_end),
        ),
        ("/etcdserverpb.KV", "Txn") => read(message, "txn", transaction),
        ("/etcdserverpb.KV", "Compact") => {
            read(message, "compact", |compaction: &pb::CompactionRequest| {
                vec![
                    flag("is_physical", compaction.physical),
                    number("rev", compaction.revision),
                ]
            })
        }
        ("/etcdserverpb.Lease", "LeaseGrant") => {
            read(message, "lease_grant", |grant: &pb::LeaseGrantRequest| {
                vec![number("id", grant.id), number("ttl", grant.ttl)]
            })
        }
        ("/etcdserverpb.Lease", "LeaseRevoke") => read(
            message,
            "lease_revoke",
            |revoke: &pb::LeaseRevokeRequest| vec![number("id", revoke.id)],
        ),
        _ => None,
    }
}

fn read<M: Message + Default>(
    message: &[u8],
    name: &'static str,
    attributes: impl Fn(&M) -> Vec<KeyValue>,
) -> Option<(&'static str, Vec<KeyValue>)> {
    let message = M::decode(message).ok()?;
    Some((name, attributes(&message)))
}

fn range(range: &pb::RangeRequest) -> Vec<KeyValue> {
    let mut attributes = stretch(&range.key, &range.range_end);
    attributes.extend([
        number("rev", range.revision),
        number("limit", range.limit),
        flag("count_only", range.count_only),
        flag("keys_only", range.keys_only),
    ]);
    attributes
}

fn stretch(key: &[u8], end: &[u8]) -> Vec<KeyValue> {
    vec![
        text("range_begin", lossy(key)),
        text("range_end", lossy(end)),
    ]
}

fn transaction(txn: &pb::TxnRequest) -> Vec<KeyValue> {
    let compare = txn.compare.first().map_or(&[][..], |compare| &compare.key);
    let first = txn.success.first().and_then(|op| op.request.as_ref());
    let (kind, key, lease) = match first {
        Some(Operation::RequestRange(range)) => ("range", &range.key[..], 0),
        Some(Operation::RequestPut(put)) => ("put", &put.key[..], put.lease),
        Some(Operation::RequestDeleteRange(delete)) => ("delete_range", &delete.key[..], 0),
        Some(Operation::RequestTxn(_)) => ("txn", &[][..], 0),
        None => ("", &[][..], 0),
    };
    vec![
        text("compare_first_key", lossy(compare)),
        text("success_first_key", lossy(key)),
        text("success_first_type", kind),
        number("success_first_lease", lease),
        number("compare_len", txn.compare.len() as i64),
        number("success_len", txn.success.len() as i64),
        number("failure_len", txn.failure.len() as i64),
        flag("read_only", txn::is_read_only(txn)),
    ]
}

/// Keys are bytes, but attributes are text.
fn lossy(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

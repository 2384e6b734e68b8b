//! Requests as log text: like etcd, protobuf's text format with the sizes of values instead of the
//! values.

use std::fmt::Write as _;

use etcd_api::etcdserverpb as pb;

use crate::request::Request;

/// Operations shown of a transaction; further ones are omitted.
const OPERATIONS_MAX: usize = 64;

/// A request of the Raft log.
pub(crate) fn request(request: &Request) -> String {
    match request {
        Request::Put(request) => format!("put:<{}>", put(request)),
        Request::DeleteRange(request) => format!("delete_range:<{}>", delete_range(request)),
        Request::Txn(request) => format!("txn:<{}>", txn(request)),
        Request::Compaction(request) => format!(
            "compaction:<revision:{} physical:{}>",
            request.revision, request.physical
        ),
        Request::LeaseGrant(request) => {
            format!("lease_grant:<TTL:{} ID:{}>", request.ttl, request.id)
        }
        Request::LeaseRevoke(request) => format!("lease_revoke:<ID:{}>", request.id),
        Request::LeaseCheckpoint(request) => {
            format!("lease_checkpoint:<{} leases>", request.checkpoints.len())
        }
        other => {
            // Only the kind's name: these requests contain nothing that explains a duration.
            let text = format!("{other:?}");
            text.split(['(', ' ']).next().unwrap_or_default().to_owned()
        }
    }
}

pub(crate) fn range(request: &pb::RangeRequest) -> String {
    let mut text = Text::default();
    text.bytes("key", &request.key);
    text.bytes("range_end", &request.range_end);
    text.number("limit", request.limit);
    text.number("revision", request.revision);
    text.number("sort_order", request.sort_order.into());
    text.number("sort_target", request.sort_target.into());
    text.flag("serializable", request.serializable);
    text.flag("keys_only", request.keys_only);
    text.flag("count_only", request.count_only);
    text.number("min_mod_revision", request.min_mod_revision);
    text.number("max_mod_revision", request.max_mod_revision);
    text.number("min_create_revision", request.min_create_revision);
    text.number("max_create_revision", request.max_create_revision);
    text.0
}

pub(crate) fn put(request: &pb::PutRequest) -> String {
    let mut text = Text::default();
    text.bytes("key", &request.key);
    text.number("value_size", request.value.len() as i64);
    text.number("lease", request.lease);
    text.flag("prev_kv", request.prev_kv);
    text.flag("ignore_value", request.ignore_value);
    text.flag("ignore_lease", request.ignore_lease);
    text.0
}

pub(crate) fn delete_range(request: &pb::DeleteRangeRequest) -> String {
    let mut text = Text::default();
    text.bytes("key", &request.key);
    text.bytes("range_end", &request.range_end);
    text.flag("prev_kv", request.prev_kv);
    text.0
}

pub(crate) fn txn(request: &pb::TxnRequest) -> String {
    let mut text = Text::default();
    for compare in request.compare.iter().take(OPERATIONS_MAX) {
        let mut inner = Text::default();
        inner.number("result", compare.result.into());
        inner.number("target", compare.target.into());
        inner.bytes("key", &compare.key);
        inner.bytes("range_end", &compare.range_end);
        text.group("compare", &inner.0);
    }
    for (name, branch) in [("success", &request.success), ("failure", &request.failure)] {
        for operation in branch.iter().take(OPERATIONS_MAX) {
            text.group(name, &self::operation(operation));
        }
    }
    text.0
}

fn operation(operation: &pb::RequestOp) -> String {
    use pb::request_op::Request as Operation;
    match &operation.request {
        Some(Operation::RequestRange(inner)) => format!("request_range:<{}>", range(inner)),
        Some(Operation::RequestPut(inner)) => format!("request_put:<{}>", put(inner)),
        Some(Operation::RequestDeleteRange(inner)) => {
            format!("request_delete_range:<{}>", delete_range(inner))
        }
        // Shown by its sizes only, because transactions nest.
        Some(Operation::RequestTxn(inner)) => format!(
            "request_txn:<compare:{} success:{} failure:{}>",
            inner.compare.len(),
            inner.success.len(),
            inner.failure.len()
        ),
        None => String::new(),
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn name(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.0.push_str(name);
        self.0.push(':');
    }

    fn bytes(&mut self, name: &str, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.name(name);
            let _ = write!(self.0, "\"{}\"", bytes.escape_ascii());
        }
    }

    fn number(&mut self, name: &str, number: i64) {
        if number != 0 {
            self.name(name);
            let _ = write!(self.0, "{number}");
        }
    }

    fn flag(&mut self, name: &str, on: bool) {
        if on {
            self.name(name);
            self.0.push_str("true");
        }
    }

    fn group(&mut self, name: &str, inner: &str) {
        self.name(name);
        let _ = write!(self.0, "<{inner}>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_shows_keys_and_sizes() {
        let put = pb::PutRequest {
            key: "a\n".into(),
            value: "secret".into(),
            lease: 7,
            ..Default::default()
        };
        let request = pb::TxnRequest {
            compare: vec![pb::Compare {
                key: "a".into(),
                target: 2,
                ..Default::default()
            }],
            success: vec![pb::RequestOp {
                request: Some(pb::request_op::Request::RequestPut(put)),
            }],
            failure: Vec::new(),
        };
        let text = super::request(&Request::Txn(request));
        assert_eq!(
            text,
            r#"txn:<compare:<target:2 key:"a"> success:<request_put:<key:"a\n" value_size:6 lease:7>>>"#
        );
        let alarm = super::request(&Request::Alarm(pb::AlarmRequest::default()));
        assert_eq!(alarm, "Alarm");
    }
}

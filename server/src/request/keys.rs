//! The keys that a request names one by one, and those whose values it reads.

use etcd_api::etcdserverpb as pb;
use pb::compare::CompareTarget;
use pb::request_op::Request as Op;

use super::Request;

impl Request {
    /// Calls `each` with the keys that the request changes or reads when it is applied, but not with
    /// those of ranges. Of a transaction that are the keys of its comparisons and of both branches:
    /// which one is chosen is known when it is applied.
    pub(crate) fn each_key<'r>(&'r self, each: &mut dyn FnMut(&'r [u8])) {
        match self {
            Request::Put(put) => each(&put.key),
            Request::DeleteRange(delete) => lone_key(&delete.key, &delete.range_end, each),
            Request::Txn(txn) => each_key_of(txn, each),
            _ => {}
        }
    }

    /// Calls `each` with those of these keys whose values are read, too. Of a transaction that are the
    /// keys of its comparisons and of its first branch. The second one mostly reads what is there when a
    /// comparison failed; to look for it each time would be a useless read for every one that holds.
    /// `answers`: a client of this member waits for the answer.
    pub(crate) fn each_value<'r>(&'r self, answers: bool, each: &mut dyn FnMut(&'r [u8])) {
        match self {
            Request::Put(put) => value_of_put(put, answers, each),
            Request::DeleteRange(delete) => value_of_delete(delete, answers, each),
            Request::Txn(txn) => each_value_of(txn, answers, each),
            _ => {}
        }
    }
}

/// True if a put reads what it replaces: to show it, if `shows` says so, or to keep a part of it.
pub(crate) fn reads_previous(put: &pb::PutRequest, shows: bool) -> bool {
    shows || put.ignore_value || put.ignore_lease
}

/// True if a comparison reads rows: the trees of keys know all else.
pub(crate) fn compares_rows(compare: &pb::Compare) -> bool {
    let of_rows = [CompareTarget::Value, CompareTarget::Lease];
    of_rows
        .iter()
        .any(|target| compare.target == *target as i32)
}

fn each_key_of<'r>(txn: &'r pb::TxnRequest, each: &mut dyn FnMut(&'r [u8])) {
    for compare in &txn.compare {
        lone_key(&compare.key, &compare.range_end, each);
    }
    for op in txn.success.iter().chain(&txn.failure) {
        match &op.request {
            Some(Op::RequestPut(put)) => each(&put.key),
            Some(Op::RequestRange(range)) => lone_key(&range.key, &range.range_end, each),
            Some(Op::RequestDeleteRange(delete)) => lone_key(&delete.key, &delete.range_end, each),
            Some(Op::RequestTxn(nested)) => each_key_of(nested, each),
            None => {}
        }
    }
}

fn each_value_of<'r>(txn: &'r pb::TxnRequest, answers: bool, each: &mut dyn FnMut(&'r [u8])) {
    for compare in &txn.compare {
        if compares_rows(compare) {
            lone_key(&compare.key, &compare.range_end, each);
        }
    }
    for op in &txn.success {
        match &op.request {
            Some(Op::RequestPut(put)) => value_of_put(put, answers, each),
            Some(Op::RequestRange(range)) => {
                let of_keys = range.keys_only || range.count_only;
                if answers && range.revision == 0 && !of_keys {
                    lone_key(&range.key, &range.range_end, each);
                }
            }
            Some(Op::RequestDeleteRange(delete)) => value_of_delete(delete, answers, each),
            Some(Op::RequestTxn(nested)) => each_value_of(nested, answers, each),
            None => {}
        }
    }
}

fn value_of_put<'r>(put: &'r pb::PutRequest, answers: bool, each: &mut dyn FnMut(&'r [u8])) {
    if reads_previous(put, put.prev_kv && answers) {
        each(&put.key);
    }
}

fn value_of_delete<'r>(
    delete: &'r pb::DeleteRangeRequest,
    answers: bool,
    each: &mut dyn FnMut(&'r [u8]),
) {
    if delete.prev_kv && answers {
        lone_key(&delete.key, &delete.range_end, each);
    }
}

fn lone_key<'r>(key: &'r [u8], range_end: &[u8], each: &mut dyn FnMut(&'r [u8])) {
    if range_end.is_empty() {
        each(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(request: &Request, answers: bool) -> Vec<&[u8]> {
        let mut values = Vec::new();
        request.each_value(answers, &mut |key| values.push(key));
        values
    }

    #[test]
    fn a_put_reads_a_value_to_show_or_to_keep_it() {
        let put = |prev_kv, ignore_value, ignore_lease| {
            Request::Put(pb::PutRequest {
                key: b"a"[..].into(),
                prev_kv,
                ignore_value,
                ignore_lease,
                ..Default::default()
            })
        };
        assert!(values(&put(false, false, false), true).is_empty());
        assert_eq!(values(&put(true, false, false), true), [b"a"]);
        assert!(values(&put(true, false, false), false).is_empty());
        assert_eq!(values(&put(false, true, false), false), [b"a"]);
        assert_eq!(values(&put(false, false, true), false), [b"a"]);
    }

    #[test]
    fn a_transaction_reads_what_it_compares_and_what_its_first_branch_shows() {
        let op = |request| pb::RequestOp {
            request: Some(request),
        };
        let range = |key: &'static [u8]| pb::RangeRequest {
            key: key.into(),
            ..Default::default()
        };
        let old = pb::RangeRequest {
            revision: 1,
            ..range(b"old")
        };
        let counted = pb::RangeRequest {
            count_only: true,
            ..range(b"counted")
        };
        let compare = |key: &'static [u8], target: CompareTarget| pb::Compare {
            key: key.into(),
            target: target as i32,
            ..Default::default()
        };
        let nested = pb::TxnRequest {
            compare: vec![compare(b"nested", CompareTarget::Value)],
            ..Default::default()
        };
        let delete = pb::DeleteRangeRequest {
            key: b"deleted"[..].into(),
            prev_kv: true,
            ..Default::default()
        };
        let many = pb::DeleteRangeRequest {
            range_end: b"e"[..].into(),
            ..delete.clone()
        };
        let txn = Request::Txn(pb::TxnRequest {
            compare: vec![
                compare(b"mod", CompareTarget::Mod),
                compare(b"value", CompareTarget::Value),
                compare(b"lease", CompareTarget::Lease),
            ],
            success: vec![
                op(Op::RequestRange(range(b"shown"))),
                op(Op::RequestRange(old)),
                op(Op::RequestRange(counted)),
                op(Op::RequestDeleteRange(delete)),
                op(Op::RequestDeleteRange(many)),
                op(Op::RequestTxn(nested)),
            ],
            failure: vec![op(Op::RequestRange(range(b"lost")))],
        });
        let compared: [&[u8]; 3] = [b"value", b"lease", b"nested"];
        assert_eq!(values(&txn, false), compared);
        let all: [&[u8]; 5] = [b"value", b"lease", b"shown", b"deleted", b"nested"];
        assert_eq!(values(&txn, true), all);
    }
}

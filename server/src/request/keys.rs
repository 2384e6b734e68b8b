//! The keys that a request names one by one.

use etcd_api::etcdserverpb as pb;
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

fn lone_key<'r>(key: &'r [u8], range_end: &[u8], each: &mut dyn FnMut(&'r [u8])) {
    if range_end.is_empty() {
        each(key);
    }
}

//! `--namespace`: clients' keys get a prefix on their way to the cluster and lose it on their way
//! back, so that clients see only what is below it, as if it were everything.

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::response_op::Response;
use etcd_api::mvccpb::{Event, KeyValue};

use crate::basics::error::Error;

/// The prefix. Empty: keys stay as they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Namespace(pub(super) Bytes);

/// The end of a range without an end.
const NO_END: &[u8] = &[0];

impl Namespace {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts the prefix in front of a key and of the end of its range.
    pub(super) fn enter(&self, key: &mut Bytes, end: &mut Bytes) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        // With the prefix, it would be a key.
        if key.is_empty() {
            return Err(Error::EmptyKey);
        }
        *key = self.before(key);
        if &end[..] == NO_END {
            *end = self.end();
        } else if !end.is_empty() {
            *end = self.before(end);
        }
        Ok(())
    }

    fn before(&self, key: &[u8]) -> Bytes {
        [&self.0, key].concat().into()
    }

    /// The first key behind all that begin with the prefix.
    fn end(&self) -> Bytes {
        let mut end = self.0.to_vec();
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                return end.into();
            }
        }
        // Nothing but the end of all keys is behind a prefix of the highest bytes.
        Bytes::from_static(NO_END)
    }

    /// Takes the prefix off a key; shares its bytes.
    pub(super) fn leave(&self, key: &mut Bytes) {
        if key.starts_with(&self.0) {
            *key = key.slice(self.0.len()..);
        }
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        key.starts_with(&self.0)
    }

    pub(super) fn leave_all<'a>(&self, kvs: impl IntoIterator<Item = &'a mut KeyValue>) {
        if !self.is_empty() {
            kvs.into_iter().for_each(|kv| self.leave(&mut kv.key));
        }
    }

    pub(super) fn leave_events(&self, events: &mut [Event]) {
        for event in events {
            self.leave_all(event.kv.iter_mut().chain(&mut event.prev_kv));
        }
    }

    /// Puts the prefix in front of every key of a transaction.
    pub(super) fn enter_txn(&self, txn: &mut pb::TxnRequest) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        for compare in &mut txn.compare {
            self.enter(&mut compare.key, &mut compare.range_end)?;
        }
        for operation in txn.success.iter_mut().chain(&mut txn.failure) {
            match &mut operation.request {
                Some(Request::RequestRange(range)) => {
                    self.enter(&mut range.key, &mut range.range_end)?;
                }
                Some(Request::RequestPut(put)) => self.enter(&mut put.key, &mut Bytes::new())?,
                Some(Request::RequestDeleteRange(range)) => {
                    self.enter(&mut range.key, &mut range.range_end)?;
                }
                Some(Request::RequestTxn(txn)) => self.enter_txn(txn)?,
                None => {}
            }
        }
        Ok(())
    }

    pub(super) fn leave_txn(&self, answer: &mut pb::TxnResponse) {
        for operation in &mut answer.responses {
            match &mut operation.response {
                Some(Response::ResponseRange(range)) => self.leave_all(&mut range.kvs),
                Some(Response::ResponsePut(put)) => self.leave_all(&mut put.prev_kv),
                Some(Response::ResponseDeleteRange(range)) => self.leave_all(&mut range.prev_kvs),
                Some(Response::ResponseTxn(txn)) => self.leave_txn(txn),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(prefix: &'static [u8], key: &'static [u8], end: &'static [u8]) -> (Bytes, Bytes) {
        let (mut key, mut end) = (Bytes::from_static(key), Bytes::from_static(end));
        let namespace = Namespace(Bytes::from_static(prefix));
        namespace.enter(&mut key, &mut end).unwrap();
        (key, end)
    }

    #[test]
    fn ranges_stay_below_the_prefix() {
        let pair = |key: &'static [u8], end: &'static [u8]| (Bytes::from(key), Bytes::from(end));
        assert_eq!(enter(b"n/", b"a", b""), pair(b"n/a", b""));
        assert_eq!(enter(b"n/", b"a", b"b"), pair(b"n/a", b"n/b"));
        assert_eq!(enter(b"n/", b"a", b"\0"), pair(b"n/a", b"n0"));
        assert_eq!(enter(b"n\xff", b"\0", b"\0"), pair(b"n\xff\0", b"o"));
        assert_eq!(enter(b"\xff", b"a", b"\0"), pair(b"\xffa", b"\0"));
        assert_eq!(enter(b"", b"", b"\0"), pair(b"", b"\0"));
        let namespace = Namespace("n/".into());
        let refused = namespace.enter(&mut Bytes::new(), &mut Bytes::new());
        assert_eq!(refused, Err(Error::EmptyKey));
        let mut key = Bytes::from("n/a");
        namespace.leave(&mut key);
        assert_eq!(key, "a");
    }

    #[test]
    fn transactions_are_changed_at_any_depth() {
        let namespace = Namespace("n/".into());
        let op = |request| pb::RequestOp {
            request: Some(request),
        };
        let put = |key: &'static str| {
            op(Request::RequestPut(pb::PutRequest {
                key: key.into(),
                ..pb::PutRequest::default()
            }))
        };
        let inner = pb::TxnRequest {
            failure: vec![put("b")],
            ..pb::TxnRequest::default()
        };
        let mut txn = pb::TxnRequest {
            compare: vec![pb::Compare {
                key: "a".into(),
                range_end: "\0".into(),
                ..pb::Compare::default()
            }],
            success: vec![op(Request::RequestTxn(inner))],
            ..pb::TxnRequest::default()
        };
        namespace.enter_txn(&mut txn).unwrap();
        assert_eq!(txn.compare[0].key, "n/a");
        assert_eq!(txn.compare[0].range_end, "n0");
        let Some(Request::RequestTxn(inner)) = &txn.success[0].request else {
            panic!("{txn:?}");
        };
        assert_eq!(inner.failure, [put("n/b")]);

        let answered = |key: &'static str| pb::TxnResponse {
            responses: vec![pb::ResponseOp {
                response: Some(Response::ResponseRange(pb::RangeResponse {
                    kvs: vec![KeyValue {
                        key: key.into(),
                        ..KeyValue::default()
                    }],
                    ..pb::RangeResponse::default()
                })),
            }],
            ..pb::TxnResponse::default()
        };
        let mut answer = answered("n/a");
        namespace.leave_txn(&mut answer);
        assert_eq!(answer, answered("a"));
    }
}

//! Shared by locks and elections. The contenders for a name are keys below `name/`, each attached
//! to its session's lease and ordered by create revision.
//!
//! A contender waits only for its predecessor, the youngest key older than its own, so one deletion
//! wakes one contender. It then checks again: the predecessor may have left before its turn.

use std::convert::Infallible;
use std::future::Future;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::event::EventType;
use pb::compare::{CompareResult, CompareTarget, TargetUnion};
use pb::range_request::{SortOrder, SortTarget};
use pb::request_op::Request as Op;
use tokio::sync::oneshot;
use tokio_stream::StreamExt as _;
use tonic::{Code, Status, Streaming};

use super::on_behalf::OnBehalf;
use crate::basics::error::Error;

/// TTL, in seconds, of a lease granted to a caller that brings none.
const SESSION_TTL: i64 = 60;

/// Resolves when the caller has left.
pub(crate) struct Gone(oneshot::Receiver<Infallible>);

/// Runs `work` to its end even if the caller leaves, so that `work` can remove the key it made. A
/// recipe dropped halfway could leave behind a key whose creation was in flight in the log.
pub(crate) async fn run<T, F>(work: impl FnOnce(Gone) -> F) -> Result<T, Status>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Status>> + Send + 'static,
{
    let (here, gone) = oneshot::channel();
    let result = tokio::spawn(work(Gone(gone))).await;
    drop(here);
    match result {
        Ok(result) => result.map_err(plain),
        Err(_) => Err(plain(Error::Stopped.into())),
    }
}

/// etcd's recipes use its client library, whose errors are not gRPC statuses, so only the text
/// reaches the caller. The caller's own deadline or cancellation keeps its code.
pub(crate) fn plain(status: Status) -> Status {
    match status.code() {
        Code::Cancelled | Code::DeadlineExceeded => status,
        _ => Status::unknown(status.message()),
    }
}

/// Why a wait ended early.
pub(crate) enum Interrupted {
    Gone,
    Failed(Status),
}

impl From<Interrupted> for Status {
    fn from(interrupted: Interrupted) -> Status {
        match interrupted {
            Interrupted::Gone => Status::cancelled("context canceled"),
            Interrupted::Failed(status) => status,
        }
    }
}

/// A caller and its lease.
#[derive(Clone)]
pub(crate) struct Session {
    caller: OnBehalf,
    pub(crate) lease: i64,
}

impl Session {
    /// Grants a lease if the caller brings none. Only the caller keeps it alive.
    pub(crate) async fn new(caller: OnBehalf, lease: i64) -> Result<Session, Status> {
        let lease = match lease {
            0 => {
                let request = pb::LeaseGrantRequest {
                    ttl: SESSION_TTL,
                    id: 0,
                };
                caller.lease().lease_grant(request).await?.into_inner().id
            }
            lease => lease,
        };
        Ok(Session { caller, lease })
    }

    /// For calls that only read.
    pub(crate) fn without_lease(caller: OnBehalf) -> Session {
        Session { caller, lease: 0 }
    }

    /// The key of this session below `prefix`.
    pub(crate) fn key(&self, prefix: &[u8]) -> Bytes {
        let sign = if self.lease < 0 { "-" } else { "" };
        let number = format!("{sign}{:x}", self.lease.unsigned_abs());
        [prefix, number.as_bytes()].concat().into()
    }

    pub(crate) async fn get(&self, request: pb::RangeRequest) -> Result<pb::RangeResponse, Status> {
        Ok(self.caller.kv().range(request).await?.into_inner())
    }

    pub(crate) async fn delete(&self, key: Bytes) -> Result<pb::DeleteRangeResponse, Status> {
        let request = pb::DeleteRangeRequest {
            key,
            ..Default::default()
        };
        Ok(self.caller.kv().delete_range(request).await?.into_inner())
    }

    /// Runs `then` if `key` was created at `revision` (0: does not exist), else `otherwise`.
    pub(crate) async fn if_created_at(
        &self,
        key: &Bytes,
        revision: i64,
        then: Vec<Op>,
        otherwise: Vec<Op>,
    ) -> Result<pb::TxnResponse, Status> {
        let ops = |ops: Vec<Op>| {
            ops.into_iter()
                .map(|op| pb::RequestOp { request: Some(op) })
        };
        let compare = pb::Compare {
            result: CompareResult::Equal as i32,
            target: CompareTarget::Create as i32,
            key: key.clone(),
            target_union: Some(TargetUnion::CreateRevision(revision)),
            ..Default::default()
        };
        let request = pb::TxnRequest {
            compare: vec![compare],
            success: ops(then).collect(),
            failure: ops(otherwise).collect(),
        };
        Ok(self.caller.kv().txn(request).await?.into_inner())
    }

    pub(crate) fn put(&self, key: &Bytes, value: Bytes) -> Op {
        Op::RequestPut(pb::PutRequest {
            key: key.clone(),
            value,
            lease: self.lease,
            ..Default::default()
        })
    }

    /// Returns when no contender below `prefix` is older than the one created at `revision`.
    pub(crate) async fn wait_for_turn(
        &self,
        prefix: &Bytes,
        revision: i64,
        gone: &mut Gone,
    ) -> Result<(), Interrupted> {
        let older = pb::RangeRequest {
            max_create_revision: revision - 1,
            ..by_creation(prefix, SortOrder::Descend)
        };
        let turn = async {
            loop {
                let response = self.get(older.clone()).await?;
                let Some(before) = response.kvs.into_iter().next() else {
                    return Ok(());
                };
                let seen = response.header.map_or(0, |header| header.revision);
                self.wait_for_end(before.key, seen).await?;
            }
        };
        tokio::select! {
            result = turn => result.map_err(Interrupted::Failed),
            Err(_) = &mut gone.0 => Err(Interrupted::Gone),
        }
    }

    /// Returns when `key` is deleted at revision `from` or later.
    async fn wait_for_end(&self, key: Bytes, from: i64) -> Result<(), Status> {
        let mut watch = self.watch(key, Bytes::new(), from).await?;
        while let Some(response) = watch.message().await? {
            if response.canceled {
                return Err(end_of_watch(response));
            }
            let mut events = response.events.iter();
            if events.any(|event| event.r#type() == EventType::Delete) {
                return Ok(());
            }
        }
        Err(Status::unknown("lost watcher waiting for delete"))
    }

    pub(crate) async fn watch(
        &self,
        key: Bytes,
        range_end: Bytes,
        start_revision: i64,
    ) -> Result<Streaming<pb::WatchResponse>, Status> {
        let create = pb::WatchCreateRequest {
            key,
            range_end,
            start_revision,
            ..Default::default()
        };
        let request = pb::WatchRequest {
            request_union: Some(pb::watch_request::RequestUnion::CreateRequest(create)),
        };
        // A watch continues after its request stream has ended.
        let requests = tokio_stream::iter([request]).fuse();
        Ok(self.caller.watch().watch(requests).await?.into_inner())
    }
}

pub(crate) fn below(name: &[u8]) -> Bytes {
    [name, b"/"].concat().into()
}

/// The range end for all keys below `prefix`, which ends in a slash.
pub(crate) fn end_of(prefix: &Bytes) -> Bytes {
    let name = prefix.strip_suffix(b"/").unwrap_or(prefix);
    [name, b"0"].concat().into()
}

pub(crate) fn single(key: &Bytes) -> pb::RangeRequest {
    pb::RangeRequest {
        key: key.clone(),
        ..Default::default()
    }
}

/// Sorts contenders by age: ascending finds the oldest, descending the youngest.
pub(crate) fn by_creation(prefix: &Bytes, order: SortOrder) -> pb::RangeRequest {
    pb::RangeRequest {
        key: prefix.clone(),
        range_end: end_of(prefix),
        limit: 1,
        sort_order: order as i32,
        sort_target: SortTarget::Create as i32,
        ..Default::default()
    }
}

/// The rows found by the range at `index` of a transaction.
pub(crate) fn rows(response: &pb::TxnResponse, index: usize) -> &[etcd_api::mvccpb::KeyValue] {
    use pb::response_op::Response;
    match response.responses.get(index).map(|op| &op.response) {
        Some(Some(Response::ResponseRange(range))) => &range.kvs,
        _ => &[],
    }
}

pub(crate) fn revision(header: Option<&pb::ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}

fn end_of_watch(response: pb::WatchResponse) -> Status {
    match response.compact_revision {
        0 => Status::unknown(response.cancel_reason),
        _ => Error::Compacted.into(),
    }
}

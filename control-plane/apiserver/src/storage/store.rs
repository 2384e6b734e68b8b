//! The calls to the store that an apiserver needs. It knows no objects. Values are sealed on their
//! way in, and read through [`Store::open`] alone: see `at_rest`.

use std::sync::Arc;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::KeyValue;
use machinery::status::Status;
use pb::compare::{CompareResult, CompareTarget, TargetUnion};
use pb::{request_op, response_op};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::resources::catalogue::Storage;
use crate::storage::at_rest::{self, AtRest, Opened};

/// etcd's messages for a compacted revision and a future one. Both have the same code; etcd's own
/// clients compare the texts, too.
const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";
const FUTURE: &str = "etcdserver: mvcc: required revision is a future revision";

/// The result of a write that expects a revision of a key.
pub(crate) enum Swap {
    /// The key had that revision; the write got this one.
    Done(i64),
    /// The key has another revision; this is its value.
    Changed(Option<Raw>),
}

/// A key that must still have this revision when another one is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Guard {
    pub(crate) key: String,
    pub(crate) revision: i64,
}

/// The result of a create.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Created {
    /// The key was created at this revision.
    At(i64),
    /// The key exists.
    Exists,
    /// A guard has another revision; whether the key exists is not said.
    Unguarded,
}

/// A key with its value as the store has it, sealed or not.
pub(crate) struct Raw {
    pub(crate) key: Bytes,
    /// Revision of the last change.
    pub(crate) revision: i64,
    value: Bytes,
}

impl Raw {
    /// The value of a key that no collection has: it is never sealed.
    pub(crate) fn plain(&self) -> &[u8] {
        &self.value
    }

    pub(crate) fn is_sealed(&self) -> bool {
        at_rest::is_sealed(&self.value)
    }
}

impl From<KeyValue> for Raw {
    fn from(kv: KeyValue) -> Raw {
        Raw {
            key: kv.key,
            revision: kv.mod_revision,
            value: kv.value,
        }
    }
}

/// A page of keys and values.
pub(crate) struct Page {
    pub(crate) items: Vec<Raw>,
    /// True if more keys follow.
    pub(crate) more: bool,
    /// Number of keys from the start of the page on.
    pub(crate) count: i64,
    /// Revision of the store at the time of the response.
    pub(crate) revision: i64,
}

/// A client of a store that nobody serves. It needs a tokio runtime.
#[cfg(test)]
pub(crate) fn unreachable() -> etcd_api::Client {
    let channel = tonic::transport::Channel::from_static("http://127.0.0.1:1").connect_lazy();
    etcd_api::Client::new(channel)
}

/// Calls to the store.
#[derive(Clone)]
pub(crate) struct Store {
    client: etcd_api::Client,
    at_rest: Arc<AtRest>,
}

impl Store {
    /// A store whose values are sealed and opened by these rules.
    pub(crate) fn new(client: etcd_api::Client, at_rest: Arc<AtRest>) -> Store {
        Store { client, at_rest }
    }

    /// The rules by which values are sealed.
    pub(crate) fn at_rest(&self) -> &AtRest {
        &self.at_rest
    }

    /// Opens a value of a collection.
    pub(crate) async fn open(&self, storage: &Storage, raw: &Raw) -> Result<Opened, Status> {
        let key = String::from_utf8_lossy(&raw.key);
        self.at_rest.open(&storage.kind, &key, &raw.value).await
    }

    /// Opens a watch with these requests.
    pub(crate) async fn watch(
        &self,
        requests: ReceiverStream<pb::WatchRequest>,
    ) -> Result<Streaming<pb::WatchResponse>, Status> {
        let opened = self.client.watch().watch(requests).await;
        Ok(opened.map_err(status)?.into_inner())
    }

    /// Returns the value of a key, and the revision of the store.
    pub(crate) async fn get(&self, key: &str) -> Result<(Option<Raw>, i64), Status> {
        let request = pb::RangeRequest {
            key: key.as_bytes().to_vec().into(),
            ..Default::default()
        };
        let page = self.range(request).await?;
        Ok((page.items.into_iter().next(), page.revision))
    }

    /// Returns the revision of the store, at least that of everything acknowledged before this
    /// call.
    pub(crate) async fn revision(&self) -> Result<i64, Status> {
        let request = pb::RangeRequest {
            key: Bytes::from_static(b"/registry/health"),
            keys_only: true,
            ..Default::default()
        };
        Ok(self.range(request).await?.revision)
    }

    /// Returns keys from `start` up to the end of `prefix` at a revision (0: the newest).
    pub(crate) async fn list(
        &self,
        start: &str,
        prefix: &str,
        limit: i64,
        revision: i64,
    ) -> Result<Page, Status> {
        let request = pb::RangeRequest {
            key: start.as_bytes().to_vec().into(),
            range_end: prefix_end(prefix).into(),
            limit,
            revision,
            ..Default::default()
        };
        self.range(request).await
    }

    /// Creates a key of a collection if all guards still have their revisions.
    pub(crate) async fn create(
        &self,
        storage: &Storage,
        key: &str,
        value: Vec<u8>,
        lease: i64,
        guards: &[Guard],
    ) -> Result<Created, Status> {
        let value = self.at_rest.seal(&storage.kind, key, value).await?;
        let mut compare = vec![is_at(key, 0)];
        compare.extend(guards.iter().map(|guard| is_at(&guard.key, guard.revision)));
        let request = pb::TxnRequest {
            compare,
            success: vec![op(put(key, value, lease))],
            // A failed transaction does not say which comparison failed.
            failure: guards
                .iter()
                .map(|guard| op(read(&guard.key, true)))
                .collect(),
        };
        let answer = self.txn(request).await?;
        if answer.succeeded {
            return Ok(Created::At(revision_of(&answer)));
        }
        let found = answer.responses.into_iter().map(revision_read);
        let mut guards = guards.iter().zip(found);
        Ok(if guards.all(|(guard, found)| guard.revision == found) {
            Created::Exists
        } else {
            Created::Unguarded
        })
    }

    /// Replaces the value of a key of a collection if it still has the expected revision.
    pub(crate) async fn update(
        &self,
        storage: &Storage,
        key: &str,
        expected: i64,
        value: Vec<u8>,
        lease: i64,
    ) -> Result<Swap, Status> {
        let value = self.at_rest.seal(&storage.kind, key, value).await?;
        self.swap(key, expected, put(key, value, lease)).await
    }

    /// Writes a key that no collection has if it still has the expected revision, 0 if it must not
    /// exist.
    pub(crate) async fn swap_plain(
        &self,
        key: &str,
        expected: i64,
        value: Vec<u8>,
    ) -> Result<Swap, Status> {
        self.swap(key, expected, put(key, value, 0)).await
    }

    /// Writes a key that no collection has.
    pub(crate) async fn put_plain(
        &self,
        key: &str,
        value: Vec<u8>,
        lease: i64,
    ) -> Result<(), Status> {
        let request = pb::PutRequest {
            key: key.as_bytes().to_vec().into(),
            value: value.into(),
            lease,
            ..Default::default()
        };
        self.client.kv().put(request).await.map_err(status)?;
        Ok(())
    }

    /// Deletes a key that no collection has.
    pub(crate) async fn delete_plain(&self, key: &str) -> Result<(), Status> {
        let request = pb::DeleteRangeRequest {
            key: key.as_bytes().to_vec().into(),
            ..Default::default()
        };
        let deleted = self.client.kv().delete_range(request).await;
        deleted.map(|_| ()).map_err(status)
    }

    /// Deletes a key if it still has the expected revision.
    pub(crate) async fn delete(&self, key: &str, expected: i64) -> Result<Swap, Status> {
        let request = pb::DeleteRangeRequest {
            key: key.as_bytes().to_vec().into(),
            ..Default::default()
        };
        let delete = request_op::Request::RequestDeleteRange(request);
        self.swap(key, expected, delete).await
    }

    /// Grants a lease of this many seconds; returns its id.
    pub(crate) async fn grant(&self, seconds: i64) -> Result<i64, Status> {
        let request = pb::LeaseGrantRequest {
            ttl: seconds,
            id: 0,
        };
        let answer = self
            .client
            .lease()
            .lease_grant(request)
            .await
            .map_err(status)?;
        Ok(answer.into_inner().id)
    }

    /// Compacts the store up to a revision.
    pub(crate) async fn compact(&self, revision: i64) -> Result<(), Status> {
        let request = pb::CompactionRequest {
            revision,
            physical: false,
        };
        self.client.kv().compact(request).await.map_err(status)?;
        Ok(())
    }

    async fn range(&self, request: pb::RangeRequest) -> Result<Page, Status> {
        let answer = self
            .client
            .kv()
            .range(request)
            .await
            .map_err(status)?
            .into_inner();
        Ok(Page {
            items: answer.kvs.into_iter().map(Raw::from).collect(),
            more: answer.more,
            count: answer.count,
            revision: answer.header.map_or(0, |header| header.revision),
        })
    }

    /// Carries out a write if the key has the expected revision, and reads the key otherwise.
    async fn swap(
        &self,
        key: &str,
        expected: i64,
        write: request_op::Request,
    ) -> Result<Swap, Status> {
        let request = pb::TxnRequest {
            compare: vec![is_at(key, expected)],
            success: vec![op(write)],
            failure: vec![op(read(key, false))],
        };
        let answer = self.txn(request).await?;
        if answer.succeeded {
            return Ok(Swap::Done(revision_of(&answer)));
        }
        let found = answer.responses.into_iter().find_map(key_read);
        Ok(Swap::Changed(found.map(Raw::from)))
    }

    async fn txn(&self, request: pb::TxnRequest) -> Result<pb::TxnResponse, Status> {
        let answer = self.client.kv().txn(request).await;
        Ok(answer.map_err(status_of_write)?.into_inner())
    }
}

/// The first key after all keys with this prefix.
pub(crate) fn prefix_end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    // Prefixes end with a slash, so the last byte can always be incremented.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// The status for the client when the store refuses a request or cannot be reached.
pub(crate) fn status(error: tonic::Status) -> Status {
    let text = error.message();
    match error.code() {
        tonic::Code::OutOfRange if text == COMPACTED => Status::expired(
            "The provided resource version is too old: its state is no longer kept.",
        ),
        // The second is what gRPC says of a message far above the limit.
        tonic::Code::InvalidArgument | tonic::Code::ResourceExhausted
            if text.contains("too large") || text.contains("larger than max") =>
        {
            let mut status = Status::too_large(0);
            status.message = format!("Request entity too large: {text}");
            status
        }
        _ => Status::internal(&format!("the store answers: {} {text}", error.code())),
    }
}

/// The same for a write. One that the store refuses as too large is not carried out; of any other,
/// nobody knows.
fn status_of_write(error: tonic::Status) -> Status {
    let mut status = status(error);
    status.may_be_written = status.code >= 500;
    status
}

/// True if the store was asked for a future revision.
pub(crate) fn is_future(error: &Status) -> bool {
    error.message.ends_with(FUTURE)
}

fn put(key: &str, value: Vec<u8>, lease: i64) -> request_op::Request {
    request_op::Request::RequestPut(pb::PutRequest {
        key: key.as_bytes().to_vec().into(),
        value: value.into(),
        lease,
        ..Default::default()
    })
}

fn read(key: &str, keys_only: bool) -> request_op::Request {
    request_op::Request::RequestRange(pb::RangeRequest {
        key: key.as_bytes().to_vec().into(),
        keys_only,
        ..Default::default()
    })
}

fn op(request: request_op::Request) -> pb::RequestOp {
    pb::RequestOp {
        request: Some(request),
    }
}

/// True of a key whose last change has this revision; 0 if it does not exist.
fn is_at(key: &str, revision: i64) -> pb::Compare {
    pb::Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key: key.as_bytes().to_vec().into(),
        target_union: Some(TargetUnion::ModRevision(revision)),
        ..Default::default()
    }
}

fn revision_of(answer: &pb::TxnResponse) -> i64 {
    answer.header.as_ref().map_or(0, |header| header.revision)
}

/// The revision of the key that was read; 0 if it does not exist.
fn revision_read(one: pb::ResponseOp) -> i64 {
    key_read(one).map_or(0, |kv| kv.mod_revision)
}

fn key_read(one: pb::ResponseOp) -> Option<KeyValue> {
    match one.response {
        Some(response_op::Response::ResponseRange(range)) => range.kvs.into_iter().next(),
        _ => None,
    }
}

#[test]
fn a_write_that_fails_may_be_carried_out_unless_the_store_refuses_it() {
    let lost = status_of_write(tonic::Status::unavailable("connection reset"));
    assert!(lost.may_be_written, "{lost:?}");
    let refused = tonic::Status::invalid_argument("etcdserver: request is too large");
    let refused = status_of_write(refused);
    assert_eq!((refused.code, refused.may_be_written), (413, false));
    let read = status(tonic::Status::unavailable("connection reset"));
    assert!(!read.may_be_written, "{read:?}");
}

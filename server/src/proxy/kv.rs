//! Keys and values: reads and writes with the prefix of `--namespace`, and the cache beside them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::request_op::Request;
use etcd_api::etcdserverpb::response_op::Response;
use parking_lot::Mutex;
use prost::Message;
use tonic::{Code, Status};

use super::cache::{Cache, Known, question};
use super::forward::Along;
use super::namespace::Namespace;
use super::ordering::{Ordering, at_least, is_serializable};
use super::upstream::Upstream;
use crate::basics::error::Error;
use crate::telemetry::metrics::Metrics;

/// How often and how soon a read is tried again that no member could answer, as in etcd's client.
const ATTEMPTS: u32 = 100;
const RETRY: Duration = Duration::from_millis(25);

/// Pause after the cluster could not be read at the start, as in etcd.
const RECOVERY_PAUSE: Duration = Duration::from_secs(1);

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Kv {
    upstream: Upstream,
    namespace: Namespace,
    cache: Arc<Mutex<Cache>>,
    ordering: Ordering,
    metrics: Arc<Metrics>,
}

impl Kv {
    pub(super) fn new(
        upstream: Upstream,
        namespace: Namespace,
        ordering: Ordering,
        metrics: Arc<Metrics>,
    ) -> Kv {
        Kv {
            upstream,
            namespace,
            cache: Arc::default(),
            ordering,
            metrics,
        }
    }

    pub(super) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Waits for a linearizable read, whose revision no client of an earlier proxy has gone beyond.
    pub(super) async fn recover_ordering(&self) {
        tracing::info!("waiting for linearized read from cluster to recover ordering");
        let read = pb::RangeRequest {
            key: "_".into(),
            keys_only: true,
            ..pb::RangeRequest::default()
        };
        while let Err(status) = self.range(&Along::default(), read.clone()).await {
            let error = status.message();
            // The cluster has users, and the proxy is none of them. etcd's would never start.
            if let Code::InvalidArgument | Code::PermissionDenied = status.code() {
                tracing::warn!(
                    error,
                    "ordering recovery is refused, order begins with the first answer"
                );
                return;
            }
            tracing::warn!(error, "ordering recovery failed, retrying in 1s");
            tokio::time::sleep(RECOVERY_PAUSE).await;
        }
    }

    pub(super) async fn range(
        &self,
        along: &Along,
        asked: pb::RangeRequest,
    ) -> Result<pb::RangeResponse, Status> {
        let question = question(&asked);
        let least = self.least(asked.serializable);
        let is_cached = self.is_cached(along);
        if asked.serializable && is_cached {
            let known = self.cache.lock().get(&question, asked.revision, least);
            let (hit, miss) = (
                &self.metrics.proxy_cache_hits,
                &self.metrics.proxy_cache_misses,
            );
            match known {
                Known::Answer(answer) => {
                    hit.add(1);
                    return Ok(answer);
                }
                Known::Compacted => {
                    hit.add(1);
                    return Err(Error::Compacted.into());
                }
                Known::Nothing => miss.add(1),
            }
        }
        let endpoints = self.upstream.endpoints();
        let read = || self.read(along, asked.clone());
        let header = |answer: &pb::RangeResponse| answer.header;
        let answer = at_least(least, endpoints, header, read).await?;
        self.ordering.told(answer.header.as_ref());
        if is_cached {
            self.change(|cache| cache.add(question, &asked, &answer));
        }
        Ok(answer)
    }

    /// True if the cache has a part in a call. A call with a token shows that the cluster has users:
    /// whether this one may still read what it has read is for a member to say, and what was read
    /// before there were users is nobody's any more.
    fn is_cached(&self, along: &Along) -> bool {
        let has_user = !along.user().is_empty();
        if has_user {
            self.change(Cache::clear);
        }
        !has_user
    }

    /// Reads without the cache. A read that no member could answer is tried again.
    pub(super) async fn read(
        &self,
        along: &Along,
        mut asked: pb::RangeRequest,
    ) -> Result<pb::RangeResponse, Status> {
        self.namespace.enter(&mut asked.key, &mut asked.range_end)?;
        let mut attempt = 1;
        loop {
            let answer: Result<pb::RangeResponse, Status> = self
                .upstream
                .ask("/etcdserverpb.KV/Range", along, &asked)
                .await;
            match answer {
                Ok(mut answer) => {
                    self.namespace.leave_all(&mut answer.kvs);
                    return Ok(answer);
                }
                Err(status) if status.code() == Code::Unavailable && attempt < ATTEMPTS => {
                    attempt += 1;
                    tokio::time::sleep(RETRY).await;
                }
                Err(status) => {
                    self.note_users(&status);
                    return Err(status);
                }
            }
        }
    }

    /// A call without a token was refused for that, so the cluster has users now: as with a token.
    fn note_users(&self, refusal: &Status) {
        let known = Status::from(Error::UserEmpty);
        if (refusal.code(), refusal.message()) == (known.code(), known.message()) {
            self.change(Cache::clear);
        }
    }

    pub(super) async fn put(
        &self,
        along: &Along,
        mut put: pb::PutRequest,
    ) -> Result<pb::PutResponse, Status> {
        let touched = vec![(put.key.clone(), Bytes::new())];
        self.namespace.enter(&mut put.key, &mut Bytes::new())?;
        let mut answer: pb::PutResponse = self
            .write(
                "/etcdserverpb.KV/Put",
                along,
                &put,
                &touched,
                |answer: &pb::PutResponse| answer.header,
            )
            .await?;
        self.namespace.leave_all(&mut answer.prev_kv);
        Ok(answer)
    }

    pub(super) async fn delete_range(
        &self,
        along: &Along,
        mut range: pb::DeleteRangeRequest,
    ) -> Result<pb::DeleteRangeResponse, Status> {
        let touched = vec![(range.key.clone(), range.range_end.clone())];
        self.namespace.enter(&mut range.key, &mut range.range_end)?;
        let path = "/etcdserverpb.KV/DeleteRange";
        let header = |answer: &pb::DeleteRangeResponse| answer.header;
        let mut answer = self.write(path, along, &range, &touched, header).await?;
        self.namespace.leave_all(&mut answer.prev_kvs);
        Ok(answer)
    }

    pub(super) async fn txn(
        &self,
        along: &Along,
        asked: pb::TxnRequest,
    ) -> Result<pb::TxnResponse, Status> {
        let mut touched = Vec::new();
        touched_by(&asked, &mut touched);
        let mut txn = asked.clone();
        self.namespace.enter_txn(&mut txn)?;
        let path = "/etcdserverpb.KV/Txn";
        let header = |answer: &pb::TxnResponse| answer.header;
        let (least, endpoints) = (
            self.least(is_serializable(&asked)),
            self.upstream.endpoints(),
        );
        let commit = || self.write(path, along, &txn, &touched, header);
        let mut answer = at_least(least, endpoints, header, commit).await?;
        self.namespace.leave_txn(&mut answer);
        self.keep_reads_of(along, &asked, &answer);
        Ok(answer)
    }

    pub(super) async fn compact(
        &self,
        along: &Along,
        request: pb::CompactionRequest,
    ) -> Result<pb::CompactionResponse, Status> {
        let path = "/etcdserverpb.KV/Compact";
        let answer = self.upstream.ask(path, along, &request).await?;
        self.change(|cache| cache.compact(request.revision));
        Ok(answer)
    }

    /// What is left of a lease, and its keys.
    pub(super) async fn time_to_live(
        &self,
        along: &Along,
        request: pb::LeaseTimeToLiveRequest,
    ) -> Result<pb::LeaseTimeToLiveResponse, Status> {
        let path = "/etcdserverpb.Lease/LeaseTimeToLive";
        let mut left: pb::LeaseTimeToLiveResponse =
            self.upstream.ask(path, along, &request).await?;
        left.keys.retain(|key| self.namespace.contains(key));
        left.keys
            .iter_mut()
            .for_each(|key| self.namespace.leave(key));
        Ok(left)
    }

    /// Writes, and forgets what was known of the keys that are touched: before, because the write
    /// is seen by others before it is acknowledged; and after, because of reads in between.
    async fn write<Q, A>(
        &self,
        path: &'static str,
        along: &Along,
        request: &Q,
        touched: &[(Bytes, Bytes)],
        header: impl FnOnce(&A) -> Option<pb::ResponseHeader>,
    ) -> Result<A, Status>
    where
        Q: Message,
        A: Message + Default,
    {
        let forget = |cache: &mut Cache| cache.forget_all(touched);
        self.change(forget);
        let answer = self.upstream.ask(path, along, request).await;
        if let Err(status) = &answer {
            self.note_users(status);
        }
        let header = answer.as_ref().ok().and_then(header);
        self.ordering.told(header.as_ref());
        self.change(|cache| {
            forget(cache);
            cache.written_at(header.map_or(0, |header| header.revision));
        });
        answer
    }

    /// A call that changes keys goes past the cache, to the cluster or back.
    pub(super) fn forget_everything(&self) {
        self.change(Cache::clear);
    }

    /// Such a call is acknowledged. The header is the first field of each of their answers.
    pub(super) fn written_unseen(&self, answer: &[u8]) {
        let answer = pb::LeaseRevokeResponse::decode(answer).unwrap_or_default();
        self.ordering.told(answer.header.as_ref());
        self.change(|cache| {
            cache.clear();
            cache.written_at(answer.header.map_or(0, |header| header.revision));
        });
    }

    /// The revision that an answer must have at least: any, if it is not serializable.
    fn least(&self, serializable: bool) -> i64 {
        if serializable {
            self.ordering.least()
        } else {
            0
        }
    }

    /// The answers to a transaction's ranges are as good as those to ranges, unless a later
    /// operation of the transaction changes them.
    fn keep_reads_of(&self, along: &Along, asked: &pb::TxnRequest, answer: &pb::TxnResponse) {
        let operations = if answer.succeeded {
            &asked.success
        } else {
            &asked.failure
        };
        let only_reads = operations
            .iter()
            .all(|operation| matches!(operation.request, Some(Request::RequestRange(_))));
        if !only_reads || !self.is_cached(along) {
            return;
        }
        let header = answer.header;
        self.change(|cache| {
            for (operation, answer) in operations.iter().zip(&answer.responses) {
                if let (Some(Request::RequestRange(asked)), Some(Response::ResponseRange(answer))) =
                    (&operation.request, &answer.response)
                {
                    let mut answer = answer.clone();
                    answer.header = header;
                    cache.add(question(asked), asked, &answer);
                }
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Cache)) {
        let mut cache = self.cache.lock();
        change(&mut cache);
        let keys = i64::try_from(cache.len()).unwrap_or(i64::MAX);
        self.metrics.proxy_cache_keys.set(keys);
    }
}

/// The ranges that a transaction may change, and those that it compares: that a client compares a
/// key shows that it may have changed.
fn touched_by(txn: &pb::TxnRequest, touched: &mut Vec<(Bytes, Bytes)>) {
    let compared = txn.compare.iter();
    touched.extend(compared.map(|compare| (compare.key.clone(), compare.range_end.clone())));
    for operation in txn.success.iter().chain(&txn.failure) {
        match &operation.request {
            Some(Request::RequestPut(put)) => touched.push((put.key.clone(), Bytes::new())),
            Some(Request::RequestDeleteRange(range)) => {
                touched.push((range.key.clone(), range.range_end.clone()));
            }
            Some(Request::RequestTxn(txn)) => touched_by(txn, touched),
            Some(Request::RequestRange(_)) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use etcd_api::v3lockpb::LockResponse;

    use super::*;
    use crate::proxy::upstream::tests::to_nobody;

    /// Without a cluster.
    fn kv() -> Kv {
        let (namespace, ordering) = (Namespace::default(), Ordering::new(false));
        Kv::new(to_nobody(), namespace, ordering, Arc::default())
    }

    fn header(revision: i64) -> Option<pb::ResponseHeader> {
        Some(pb::ResponseHeader {
            revision,
            ..pb::ResponseHeader::default()
        })
    }

    /// A serializable read gives an answer of this revision; how many answers are known then.
    fn learn(kv: &Kv, revision: i64) -> usize {
        let asked = pb::RangeRequest {
            key: "a".into(),
            serializable: true,
            ..pb::RangeRequest::default()
        };
        let answer = pb::RangeResponse {
            header: header(revision),
            ..pb::RangeResponse::default()
        };
        kv.change(|cache| cache.add(question(&asked), &asked, &answer));
        known(kv)
    }

    fn known(kv: &Kv) -> usize {
        kv.cache.lock().len()
    }

    #[tokio::test]
    async fn a_lock_leaves_no_older_answer() {
        let kv = kv();
        assert_eq!(learn(&kv, 6), 1);
        let locked = LockResponse {
            header: header(7),
            key: "a/1".into(),
        };
        kv.written_unseen(&locked.encode_to_vec());
        assert_eq!(known(&kv), 0);
        // A member that lags.
        assert_eq!(learn(&kv, 6), 0);
        assert_eq!(learn(&kv, 7), 1);
    }

    #[tokio::test]
    async fn a_refusal_without_a_user_shows_that_the_cluster_has_users() {
        let kv = kv();
        assert_eq!(learn(&kv, 6), 1);
        kv.note_users(&Error::Compacted.into());
        assert_eq!(known(&kv), 1);
        kv.note_users(&Error::UserEmpty.into());
        assert_eq!(known(&kv), 0);
    }
}

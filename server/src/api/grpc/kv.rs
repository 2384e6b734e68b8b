//! `etcdserverpb.KV`: reads from a view, changes through the log.

use std::pin::Pin;
use std::sync::Arc;

use etcd_api::etcdserverpb as pb;
use etcd_api::raw;
use storage::mvcc::{KeyRange, View, from_memory};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request as Call, Response, Status};

use super::caller_of;
use super::limits::budget::{BUDGET_BYTES, Budget, too_large};
use super::limits::large::{STEP, read_large};
use super::limits::patience::Patience;
use super::limits::slow;
use super::limits::slow::SlowRead;
use crate::auth::{self, Credentials, Image, Kind};
use crate::basics::error::Error;
use crate::member::event::Outcome;
use crate::request::check;
use crate::request::{AuthInfo, Request};
use crate::runtime::etcd_server::{EtcdServer, run_blocking};
use crate::state::kv::Reading;
use crate::state::{kv, txn};
use crate::telemetry::loggable;

/// A range over more keys than this runs on the blocking pool, so that its work and its page faults
/// do not stall the runtime's threads.
const MAX_INLINE_ROWS: u64 = 256;

/// Keys in the first part of a range stream; the size of later parts follows the size of the rows.
const STREAM_FIRST_ROWS: i64 = 10;
/// Upper bound for the bytes of one part, whatever the request limit. Three parts exist at a time:
/// one queued, one being sent, one being read.
const STREAM_PART_BYTES_MAX: usize = 2 << 20;
/// Parts of a range stream queued for a slow client.
const STREAM_QUEUE: usize = 1;

/// A handler attaches this to its response when a transaction only read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadonlyTxn;

pub(crate) struct KvService {
    server: EtcdServer,
    budget: Budget,
}

impl KvService {
    pub(crate) fn new(server: EtcdServer) -> KvService {
        let budget = Budget::new(BUDGET_BYTES, Arc::clone(server.metrics()));
        KvService { server, budget }
    }

    async fn change(&self, request: Request, who: &Credentials) -> Result<Outcome, Status> {
        match self.server.propose_by(request, who).await?.outcome {
            Outcome::TooLarge { bytes } => Err(too_large(bytes).into()),
            outcome => Ok(outcome),
        }
    }

    async fn read_txn(
        &self,
        request: pb::TxnRequest,
        who: &Credentials,
    ) -> Result<Response<raw::TxnResponse>, Status> {
        if !txn::is_serializable(&request) {
            self.server.linearizable().await?;
        }
        let view = self.server.view();
        let ask = |image: &Image, by: &AuthInfo| auth::check_txn(image, by, &request);
        self.server.check_read(who, ask).await?;
        let reading = txn::Reading::new(request);
        read_large(&self.server, &self.budget, view, reading).await
    }
}

#[tonic::async_trait]
impl raw::kv_server::Kv for KvService {
    async fn range(
        &self,
        call: Call<pb::RangeRequest>,
    ) -> Result<Response<raw::RangeResponse>, Status> {
        let who = caller_of(&call);
        let called = self.server.now();
        let request = call.into_inner();
        if !request.serializable && self.server.is_learner() {
            return Err(Error::NotSupportedForLearner.into());
        }
        check::range(&request)?;
        let mut began = called;
        if !request.serializable {
            self.server.linearizable().await?;
            began = self.server.now();
        }
        let view = self.server.view();
        self.server.check_read(&who, may_read(&request)).await?;
        self.server.metrics().range_total.inc();
        let slow = SlowRead::begin(&self.server, called, began);
        let shown = request.clone();
        let mut response = match from_memory(|| read_here(&view, &request)) {
            Some(Ok(Here::Done(mut response))) => {
                self.server.complete(&mut response.header);
                Response::new(response)
            }
            Some(Ok(Here::Further(reading))) => {
                read_large(&self.server, &self.budget, view, reading).await?
            }
            Some(Err(error)) => return Err(error.into()),
            // It waits for the disk, as no other call of this thread should.
            None => {
                let reading = Reading::new(&view, request)?;
                read_large(&self.server, &self.budget, view, reading).await?
            }
        };
        let count = response.get_ref().count;
        slow.end(&mut response, count, "read-only range ", || {
            loggable::range(&shown)
        });
        Ok(response)
    }

    type RangeStreamStream =
        Pin<Box<dyn Stream<Item = Result<raw::RangeStreamResponse, Status>> + Send>>;

    async fn range_stream(
        &self,
        call: Call<pb::RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        let who = caller_of(&call);
        let request = call.into_inner();
        check::range(&request)?;
        check::range_stream(&request)?;
        if !request.serializable {
            self.server.linearizable().await?;
        }
        let view = self.server.view();
        let by = self.server.check_read(&who, may_read(&request)).await?;
        // One extra slot for the error that ends the stream.
        let (parts, stream) = mpsc::channel(STREAM_QUEUE + 1);
        let streaming = Streaming::new(&self.server, view, request, by)?;
        tokio::spawn(streaming.run(parts));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn put(&self, call: Call<pb::PutRequest>) -> Result<Response<pb::PutResponse>, Status> {
        let who = caller_of(&call);
        let request = call.into_inner();
        check::put(&request)?;
        let outcome = self.change(Request::Put(request), &who).await?;
        let Outcome::Put(mut response) = outcome else {
            unreachable!("a put is answered as a put");
        };
        self.server.complete(&mut response.header);
        Ok(Response::new(response))
    }

    async fn delete_range(
        &self,
        call: Call<pb::DeleteRangeRequest>,
    ) -> Result<Response<pb::DeleteRangeResponse>, Status> {
        let who = caller_of(&call);
        let request = call.into_inner();
        check::delete_range(&request)?;
        let began = self.server.now();
        let outcome = self.change(Request::DeleteRange(request), &who).await?;
        let Outcome::DeleteRange(mut response) = outcome else {
            unreachable!("a delete is answered as a delete");
        };
        self.server.complete(&mut response.header);
        let deleted = response.deleted;
        let mut response = Response::new(response);
        slow::count(&self.server, began, &mut response, deleted);
        Ok(response)
    }

    async fn txn(&self, call: Call<pb::TxnRequest>) -> Result<Response<raw::TxnResponse>, Status> {
        let who = caller_of(&call);
        let request = call.into_inner();
        check::txn(&request, self.server.limits().max_txn_ops)?;
        if txn::is_read_only(&request) {
            let shown = request.clone();
            let now = self.server.now();
            let slow = SlowRead::begin(&self.server, now, now);
            let mut response = self.read_txn(request, &who).await?;
            slow.end(&mut response, 0, "read-only txn ", || loggable::txn(&shown));
            response.extensions_mut().insert(ReadonlyTxn);
            return Ok(response);
        }
        let outcome = self.change(Request::Txn(request), &who).await?;
        let Outcome::Txn(mut response) = outcome else {
            unreachable!("a transaction is answered as a transaction");
        };
        self.server.complete(&mut response.header);
        Ok(Response::new(response))
    }

    async fn compact(
        &self,
        call: Call<pb::CompactionRequest>,
    ) -> Result<Response<pb::CompactionResponse>, Status> {
        let who = caller_of(&call);
        self.server.require_admin(&who).await?;
        let compaction = Request::Compaction(call.into_inner());
        let applied = self.server.propose_by(compaction, &who).await?;
        let header = Some(self.server.header(applied.revision));
        Ok(Response::new(pb::CompactionResponse { header }))
    }
}

/// Checks that the caller may read the range.
fn may_read(range: &pb::RangeRequest) -> impl FnOnce(&Image, &AuthInfo) -> Result<(), Error> {
    let (key, range_end) = (range.key.clone(), range.range_end.clone());
    move |image, by| image.check(by, Kind::Read, &key, &range_end)
}

/// How far a runtime thread came with a range.
enum Here {
    Done(raw::RangeResponse),
    Further(Reading),
}

/// Reads a range on this thread, if it is short.
fn read_here(root: &storage::mvcc::Root, request: &pb::RangeRequest) -> Result<Here, Error> {
    let is_large = is_large(root, request)?;
    let mut reading = Reading::new(root, request.clone())?;
    if is_large || !reading.step(root, STEP)? {
        return Ok(Here::Further(reading));
    }
    Ok(Here::Done(reading.finish(root)?))
}

/// True if a range reads more rows than a runtime thread should.
fn is_large(root: &storage::mvcc::Root, request: &pb::RangeRequest) -> Result<bool, Error> {
    if request.range_end.is_empty() {
        return Ok(false);
    }
    let limited = request.limit > 0 && request.limit as u64 <= MAX_INLINE_ROWS;
    let current = request.revision <= 0;
    if current && (limited || request.count_only) {
        return Ok(false);
    }
    let keys = KeyRange::from_wire(&request.key, &request.range_end);
    // The current count is close enough for an older revision too, and needs no walk.
    Ok(root.count(keys, 0)? > MAX_INLINE_ROWS || !current)
}

type StreamPart = Result<raw::RangeStreamResponse, Status>;

/// A range sent in parts, all from one view. Parts start small so that the first one leaves at
/// once, and then grow or shrink towards the size of the largest request.
struct Streaming {
    server: EtcdServer,
    view: View,
    by: AuthInfo,
    /// The request for the next part.
    request: pb::RangeRequest,
    /// Row limit over all parts.
    limit: i64,
    sent: i64,
    part_bytes: usize,
    patience: Patience,
}

impl Streaming {
    fn new(
        server: &EtcdServer,
        view: View,
        mut request: pb::RangeRequest,
        by: AuthInfo,
    ) -> Result<Streaming, Error> {
        request.revision = kv::revision_to_read(&view, request.revision)?;
        // As in etcd, a limit below zero limits neither the stream nor its parts. Clients see that
        // where rows are sorted, because each part is sorted by itself.
        let limit = match request.limit {
            0 => i64::MAX,
            limit => limit,
        };
        request.limit = STREAM_FIRST_ROWS.min(limit);
        Ok(Streaming {
            server: server.clone(),
            view,
            by,
            request,
            limit,
            sent: 0,
            part_bytes: server.limits().max_request_bytes.min(STREAM_PART_BYTES_MAX),
            patience: Patience::new(),
        })
    }

    async fn run(mut self, parts: mpsc::Sender<StreamPart>) {
        let Ok(last_word) = parts.clone().reserve_owned().await else {
            return;
        };
        loop {
            // Read the next part only when there is room for it.
            let room = match self.patience.wait(&self.server, parts.reserve()).await {
                Some(Ok(room)) => room,
                // The client has left.
                Some(Err(_)) => return,
                None => {
                    last_word.send(Err(Error::Timeout.into()));
                    return;
                }
            };
            let part = run_blocking(move || {
                let (part, is_last) = self.next()?;
                Ok((self, part, is_last))
            });
            match part.await {
                Ok((same, part, is_last)) => {
                    room.send(Ok(part));
                    if is_last {
                        // As in etcd, the stream ends with an error if users or roles changed while
                        // it ran.
                        if let Err(stale) = same.server.check_still(&same.by) {
                            last_word.send(Err(stale.into()));
                        }
                        return;
                    }
                    self = same;
                }
                Err(error) => return room.send(Err(error.into())),
            }
        }
    }

    /// Reads the next part; true if it is the last.
    fn next(&mut self) -> Result<(raw::RangeStreamResponse, bool), Error> {
        let part = kv::part(&self.view, &self.request, self.part_bytes)?;
        self.sent += part.rows.len() as i64;
        let bytes = part.rows.bytes();
        self.patience.gave(bytes as u64);
        let mut response = raw::RangeResponse {
            kvs: part.rows,
            ..Default::default()
        };
        if part.more {
            self.request.key = part.next_key;
        }
        let is_last = !part.more || self.sent == self.limit;
        if is_last {
            response.header = Some(self.server.header(self.view.revision()));
            response.more = part.more;
            response.count = self.sent;
            if part.more || self.request.count_only {
                let rest = KeyRange::from_wire(&self.request.key, &self.request.range_end);
                response.count += self.view.count(rest, self.request.revision)? as i64;
            }
        }
        let rows = sized(self.request.limit, bytes, self.part_bytes);
        self.request.limit = rows.min(self.limit.saturating_sub(self.sent));
        let range_response = Some(response);
        Ok((raw::RangeStreamResponse { range_response }, is_last))
    }
}

/// The row limit of a part that comes after one of so many `bytes` under `limit`.
fn sized(limit: i64, bytes: usize, part_bytes: usize) -> i64 {
    if bytes < part_bytes / 2 {
        limit.saturating_mul(2)
    } else if bytes > part_bytes * 2 {
        (limit / 2).max(1)
    } else {
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_parts_grow_and_shrink_and_the_extreme_ones_stay_as_they_are() {
        let (small, right, large) = (10, 100, 1000);
        assert_eq!(sized(8, small, right), 16);
        assert_eq!(sized(8, right, right), 8);
        assert_eq!(sized(8, large, right), 4);
        assert_eq!(sized(1, large, right), 1);
        assert_eq!(sized(i64::MAX, small, right), i64::MAX);
        assert_eq!(sized(i64::MIN, small, right), i64::MIN);
        // Part by part, as a stream with the least of limits goes on.
        let (mut limit, mut sent) = (i64::MIN, 0_i64);
        for bytes in [small, large, right, small, large] {
            sent += 1000;
            limit = sized(limit, bytes, right).min(i64::MIN.saturating_sub(sent));
            assert_eq!(limit, i64::MIN);
        }
    }
}

//! `etcdserverpb.KV`: reads from a view, changes through the log.

use std::pin::Pin;
use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use etcd_api::raw;
use storage::mvcc::{KeyRange, View};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request as Call, Response, Status};

use super::budget::{BUDGET_BYTES, Budget};
use super::check;
use super::large::{STEP, read_large};
use crate::error::Error;
use crate::event::Outcome;
use crate::node::{Node, run_blocking};
use crate::request::Request;
use crate::serve::ReadonlyTxn;
use crate::state::kv::Reading;
use crate::state::{kv, txn};

/// A range of more keys than this runs off the runtime's threads, so that it, and the pages it
/// may have to fetch, hold up nobody else.
const MAX_INLINE_ROWS: u64 = 256;

/// Keys in the first part of a range stream; later parts follow the size of the data.
const STREAM_FIRST_ROWS: i64 = 10;
/// Bytes of a part, whatever the largest request is. Of these, one waits, one is being sent and
/// one is being read.
const STREAM_PART_BYTES_MAX: usize = 2 << 20;
/// Parts of a range stream that may wait for a slow client.
const STREAM_QUEUE: usize = 1;
/// A client gets this long to take a part: a stream reads one view to its end, and a view keeps
/// pages from being used again.
const STREAM_PATIENCE: Duration = Duration::from_secs(120);

pub struct KvService {
    node: Node,
    budget: Budget,
}

impl KvService {
    pub fn new(node: Node) -> KvService {
        KvService {
            node,
            budget: Budget::new(BUDGET_BYTES),
        }
    }

    async fn change(&self, request: Request) -> Result<Outcome, Status> {
        Ok(self.node.propose(request).await?.outcome)
    }

    async fn read_txn(
        &self,
        request: pb::TxnRequest,
    ) -> Result<Response<raw::TxnResponse>, Status> {
        if !txn::is_serializable(&request) {
            self.node.linearizable().await?;
        }
        let reading = txn::Reading::new(request);
        read_large(&self.node, &self.budget, self.node.view(), reading).await
    }
}

#[tonic::async_trait]
impl raw::kv_server::Kv for KvService {
    async fn range(
        &self,
        call: Call<pb::RangeRequest>,
    ) -> Result<Response<raw::RangeResponse>, Status> {
        let request = call.into_inner();
        if !request.serializable && self.node.is_learner() {
            return Err(Error::NotSupportedForLearner.into());
        }
        check::range(&request)?;
        if !request.serializable {
            self.node.linearizable().await?;
        }
        let view = self.node.view();
        self.node.metrics().range_total.inc();
        let is_large = is_large(&view, &request)?;
        let mut reading = Reading::new(&view, request)?;
        if is_large || !reading.step(&view, STEP)? {
            return read_large(&self.node, &self.budget, view, reading).await;
        }
        let mut response = reading.finish(&view)?;
        self.node.complete(&mut response.header);
        Ok(Response::new(response))
    }

    type RangeStreamStream =
        Pin<Box<dyn Stream<Item = Result<raw::RangeStreamResponse, Status>> + Send>>;

    async fn range_stream(
        &self,
        call: Call<pb::RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        let request = call.into_inner();
        check::range(&request)?;
        check::range_stream(&request)?;
        if !request.serializable {
            self.node.linearizable().await?;
        }
        // One more place for the word that the client has been given up on.
        let (parts, stream) = mpsc::channel(STREAM_QUEUE + 1);
        let streaming = Streaming::new(&self.node, request)?;
        tokio::spawn(streaming.run(parts));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn put(&self, call: Call<pb::PutRequest>) -> Result<Response<pb::PutResponse>, Status> {
        let request = call.into_inner();
        check::put(&request)?;
        let Outcome::Put(mut response) = self.change(Request::Put(request)).await? else {
            unreachable!("a put is answered as a put");
        };
        self.node.complete(&mut response.header);
        Ok(Response::new(response))
    }

    async fn delete_range(
        &self,
        call: Call<pb::DeleteRangeRequest>,
    ) -> Result<Response<pb::DeleteRangeResponse>, Status> {
        let request = call.into_inner();
        check::delete_range(&request)?;
        let Outcome::DeleteRange(mut response) = self.change(Request::DeleteRange(request)).await?
        else {
            unreachable!("a delete is answered as a delete");
        };
        self.node.complete(&mut response.header);
        Ok(Response::new(response))
    }

    async fn txn(&self, call: Call<pb::TxnRequest>) -> Result<Response<raw::TxnResponse>, Status> {
        let request = call.into_inner();
        check::txn(&request, self.node.limits().max_txn_ops)?;
        if txn::is_read_only(&request) {
            let mut response = self.read_txn(request).await?;
            response.extensions_mut().insert(ReadonlyTxn);
            return Ok(response);
        }
        let Outcome::Txn(mut response) = self.change(Request::Txn(request)).await? else {
            unreachable!("a transaction is answered as a transaction");
        };
        self.node.complete(&mut response.header);
        Ok(Response::new(response))
    }

    async fn compact(
        &self,
        call: Call<pb::CompactionRequest>,
    ) -> Result<Response<pb::CompactionResponse>, Status> {
        let applied = self
            .node
            .propose(Request::Compaction(call.into_inner()))
            .await?;
        let header = Some(self.node.header(applied.revision));
        Ok(Response::new(pb::CompactionResponse { header }))
    }
}

/// Whether a range reads more rows than a runtime thread should.
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
    // The count now is near enough also for an older revision, and costs no walk.
    Ok(root.count(keys, 0)? > MAX_INLINE_ROWS || !current)
}

type StreamPart = Result<raw::RangeStreamResponse, Status>;

/// A range sent part by part, all of one view. Parts start small, so that the first one comes at
/// once, and grow or shrink towards the size of the largest request.
struct Streaming {
    node: Node,
    view: View,
    /// Of the next part.
    request: pb::RangeRequest,
    /// Rows of all parts.
    limit: i64,
    sent: i64,
    part_bytes: usize,
}

impl Streaming {
    fn new(node: &Node, mut request: pb::RangeRequest) -> Result<Streaming, Error> {
        let view = node.view();
        request.revision = kv::revision_to_read(&view, request.revision)?;
        let limit = match request.limit {
            0 => i64::MAX,
            limit => limit,
        };
        request.limit = STREAM_FIRST_ROWS.min(limit);
        Ok(Streaming {
            node: node.clone(),
            view,
            request,
            limit,
            sent: 0,
            part_bytes: node.limits().max_request_bytes.min(STREAM_PART_BYTES_MAX),
        })
    }

    async fn run(mut self, parts: mpsc::Sender<StreamPart>) {
        let Ok(last_word) = parts.clone().reserve_owned().await else {
            return;
        };
        loop {
            // Only when there is room for it the next part is read.
            let room = match tokio::time::timeout(STREAM_PATIENCE, parts.reserve()).await {
                Ok(Ok(room)) => room,
                // The client has gone.
                Ok(Err(_)) => return,
                Err(_) => {
                    let text = "the client takes nothing any more";
                    last_word.send(Err(Status::unavailable(text)));
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
                        return;
                    }
                    self = same;
                }
                Err(error) => return room.send(Err(error.into())),
            }
        }
    }

    /// The next part, and whether it is the last.
    fn next(&mut self) -> Result<(raw::RangeStreamResponse, bool), Error> {
        let part = kv::part(&self.view, &self.request, self.part_bytes)?;
        self.sent += part.rows.len() as i64;
        let bytes = part.rows.bytes();
        let mut response = raw::RangeResponse {
            kvs: part.rows,
            ..Default::default()
        };
        if part.more {
            self.request.key = part.next_key;
        }
        let is_last = !part.more || self.sent == self.limit;
        if is_last {
            response.header = Some(self.node.header(self.view.revision()));
            response.more = part.more;
            response.count = self.sent;
            if part.more || self.request.count_only {
                let rest = KeyRange::from_wire(&self.request.key, &self.request.range_end);
                response.count += self.view.count(rest, self.request.revision)? as i64;
            }
        }
        if bytes < self.part_bytes / 2 {
            self.request.limit *= 2;
        } else if bytes > self.part_bytes * 2 {
            self.request.limit = (self.request.limit / 2).max(1);
        }
        self.request.limit = self.request.limit.min(self.limit - self.sent);
        let range_response = Some(response);
        Ok((raw::RangeStreamResponse { range_response }, is_last))
    }
}

//! `etcdserverpb.KV`: reads from a view, changes through the log.

use std::pin::Pin;

use etcd_api::etcdserverpb as pb;
use etcd_api::raw;
use storage::mvcc::KeyRange;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request as Call, Response, Status};

use super::check;
use crate::error::Error;
use crate::event::Outcome;
use crate::node::{Node, run_blocking};
use crate::request::Request;
use crate::serve::ReadonlyTxn;
use crate::state::{Tally, kv, txn};

/// A range of more keys than this runs off the runtime's threads, so that it, and the pages it
/// may have to fetch, hold up nobody else.
const MAX_INLINE_ROWS: u64 = 256;

/// Keys in the first part of a range stream; later parts follow the size of the data.
const STREAM_FIRST_ROWS: i64 = 10;
/// Parts of a range stream that may wait for a slow client.
const STREAM_QUEUE: usize = 2;

pub struct KvService {
    node: Node,
}

impl KvService {
    pub fn new(node: Node) -> KvService {
        KvService { node }
    }

    async fn change(&self, request: Request) -> Result<Outcome, Status> {
        Ok(self.node.propose(request).await?.outcome)
    }

    async fn read_txn(&self, request: pb::TxnRequest) -> Result<raw::TxnResponse, Error> {
        if !txn::is_serializable(&request) {
            self.node.linearizable().await?;
        }
        let view = self.node.view();
        // Whether the chosen ranges are large is not known before they are chosen.
        let mut tally = Tally::default();
        let (response, tally) = run_blocking(move || {
            let response = txn::read(&view, &request, &mut tally)?;
            Ok((response, tally))
        })
        .await?;
        self.node.metrics().tally(&tally);
        Ok(response)
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
        let mut response = if is_large(&view, &request)? {
            run_blocking(move || kv::range(&view, &request)).await?
        } else {
            kv::range(&view, &request)?
        };
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
        let (parts, stream) = tokio::sync::mpsc::channel(STREAM_QUEUE);
        let node = self.node.clone();
        tokio::task::spawn_blocking(move || {
            // A client that has gone closes the channel, and the walk ends at the next part.
            let mut send = |part| parts.blocking_send(part).is_ok();
            if let Err(error) = stream_range(&node, request, &mut send) {
                send(Err(error.into()));
            }
        });
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
        let readonly = txn::is_read_only(&request);
        let mut response = if readonly {
            self.read_txn(request).await?
        } else {
            match self.change(Request::Txn(request)).await? {
                Outcome::Txn(response) => response,
                _ => unreachable!("a transaction is answered as a transaction"),
            }
        };
        self.node.complete(&mut response.header);
        let mut response = Response::new(response);
        if readonly {
            response.extensions_mut().insert(ReadonlyTxn);
        }
        Ok(response)
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

/// Sends a range part by part, all of one view. Parts start small, so that the first one comes at
/// once, and grow or shrink towards the size of the largest request.
fn stream_range(
    node: &Node,
    request: pb::RangeRequest,
    send: &mut dyn FnMut(Result<raw::RangeStreamResponse, Status>) -> bool,
) -> Result<(), Error> {
    let view = node.view();
    let at = kv::revision_to_read(&view, request.revision)?;
    let target = node.limits().max_request_bytes;
    let part_of = |response| {
        Ok(raw::RangeStreamResponse {
            range_response: Some(response),
        })
    };

    let limit = if request.limit == 0 {
        i64::MAX
    } else {
        request.limit
    };
    let mut part_request = pb::RangeRequest {
        revision: at,
        ..request
    };
    part_request.limit = STREAM_FIRST_ROWS.min(limit);
    let mut sent = 0;
    loop {
        let part = kv::part(&view, &part_request)?;
        sent += part.rows.len() as i64;
        let more = part.more;
        let bytes: usize = part.rows.iter().map(|row| row.len()).sum();
        let mut response = raw::RangeResponse {
            kvs: part.rows,
            ..Default::default()
        };
        part_request.key = if more {
            part.next_key
        } else {
            part_request.key
        };
        let last = !more || sent == limit;
        if last {
            response.header = Some(node.header(view.revision()));
            response.more = more;
            let rest = KeyRange::from_wire(&part_request.key, &part_request.range_end);
            let left = more || part_request.count_only;
            response.count = sent
                + if left {
                    view.count(rest, at)? as i64
                } else {
                    0
                };
        }
        if !send(part_of(response)) || last {
            return Ok(());
        }
        if bytes < target / 2 {
            part_request.limit *= 2;
        } else if bytes > target * 2 {
            part_request.limit = (part_request.limit / 2).max(1);
        }
        part_request.limit = part_request.limit.min(limit - sent);
    }
}

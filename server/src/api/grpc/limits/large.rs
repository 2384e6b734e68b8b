//! Replies that are read in steps on the blocking pool, within the budget, and sent in the pieces
//! in which they were read.

use bytes::Bytes;
use etcd_api::etcdserverpb::ResponseHeader;
use etcd_api::raw;
use storage::mvcc::View;
use tonic::{Response, Status};

use super::budget::{Budget, Growing, SMALL_BYTES, check_size};
use crate::basics::error::Error;
use crate::runtime::etcd_server::{EtcdServer, run_blocking};
use crate::state::kv::{self, Step};
use crate::state::{Tally, txn};

/// The rows and bytes to read in one step.
pub(crate) const STEP: Step = Step {
    rows: 16 << 10,
    bytes: SMALL_BYTES,
};

/// A reply that is being read.
pub(crate) trait Reading: Sized + Send + 'static {
    type Response: Reply;
    /// Reads one step. Returns true when all has been read.
    fn step(&mut self, view: &View) -> Result<bool, Error>;
    fn held_bytes(&self) -> usize;
    /// The response, and what to add to the metrics for it.
    fn finish(self, view: &View) -> Result<(Self::Response, Tally), Error>;
}

pub(crate) trait Reply: Default + Send + 'static {
    fn header(&mut self) -> &mut Option<ResponseHeader>;
    /// The encoded message, in pieces.
    fn into_pieces(self) -> Vec<Bytes>;
}

/// Reads the remaining steps of a reply.
pub(crate) async fn read_large<R: Reading>(
    server: &EtcdServer,
    budget: &Budget,
    mut view: View,
    mut reading: R,
) -> Result<Response<R::Response>, Status> {
    let mut turn: Option<Growing> = None;
    loop {
        let stepped = run_blocking(move || {
            Ok(if reading.step(&view)? {
                Stepped::Done(reading.finish(&view)?)
            } else {
                Stepped::Further(view, reading)
            })
        });
        match stepped.await? {
            Stepped::Further(same, further) => (view, reading) = (same, further),
            Stepped::Done((mut response, tally)) => {
                server.metrics().tally(&tally);
                server.complete(response.header());
                let Some(growing) = turn else {
                    return Ok(Response::new(response));
                };
                let large = growing.done(response.into_pieces())?;
                let mut response = Response::new(R::Response::default());
                response.extensions_mut().insert(large);
                return Ok(response);
            }
        }
        let held = reading.held_bytes();
        check_size(held)?;
        if held >= SMALL_BYTES {
            let growing = match &mut turn {
                Some(growing) => growing,
                None => turn.insert(budget.turn().await),
            };
            growing.to(held + STEP.bytes).await;
        }
    }
}

enum Stepped<R: Reading> {
    Further(View, R),
    Done((R::Response, Tally)),
}

impl Reading for kv::Reading {
    type Response = raw::RangeResponse;

    fn step(&mut self, view: &View) -> Result<bool, Error> {
        kv::Reading::step(self, view, STEP)
    }

    fn held_bytes(&self) -> usize {
        kv::Reading::held_bytes(self)
    }

    fn finish(self, view: &View) -> Result<(raw::RangeResponse, Tally), Error> {
        // The call was counted when it arrived.
        Ok((kv::Reading::finish(self, view)?, Tally::default()))
    }
}

impl Reading for txn::Reading {
    type Response = raw::TxnResponse;

    fn step(&mut self, view: &View) -> Result<bool, Error> {
        txn::Reading::step(self, view, STEP)
    }

    fn held_bytes(&self) -> usize {
        txn::Reading::held_bytes(self)
    }

    fn finish(self, view: &View) -> Result<(raw::TxnResponse, Tally), Error> {
        Ok(txn::Reading::finish(self, view))
    }
}

impl Reply for raw::RangeResponse {
    fn header(&mut self) -> &mut Option<ResponseHeader> {
        &mut self.header
    }

    fn into_pieces(self) -> Vec<Bytes> {
        raw::RangeResponse::into_pieces(self)
    }
}

impl Reply for raw::TxnResponse {
    fn header(&mut self) -> &mut Option<ResponseHeader> {
        &mut self.header
    }

    fn into_pieces(self) -> Vec<Bytes> {
        raw::TxnResponse::into_pieces(self)
    }
}

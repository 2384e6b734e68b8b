//! Read-only transactions, read in steps like their ranges.

use std::vec;

use etcd_api::etcdserverpb as pb;
use etcd_api::raw;
use pb::request_op::Request as Op;
use raw::response_op::Response as OpResponse;
use storage::mvcc::Root;

use super::{check, choose};
use crate::basics::error::Error;
use crate::state::Tally;
use crate::state::kv::{self, Step};

/// Answers a transaction that only reads from `root`, in one step.
pub fn read(root: &Root, txn: pb::TxnRequest) -> Result<raw::TxnResponse, Error> {
    let mut reading = Reading::new(txn);
    while !reading.step(root, Step::WHOLE)? {}
    Ok(reading.finish(root).0)
}

/// True if both branches hold only ranges. A nested transaction counts as a write, whatever it
/// does: etcd sends it through the log as well.
pub(crate) fn is_read_only(txn: &pb::TxnRequest) -> bool {
    ranges_of(txn).all(|range| range.is_some())
}

/// True if all ranges are serializable, so local data is enough.
pub(crate) fn is_serializable(txn: &pb::TxnRequest) -> bool {
    ranges_of(txn).all(|range| range.is_some_and(|range| range.serializable))
}

fn ranges_of(txn: &pb::TxnRequest) -> impl Iterator<Item = Option<&pb::RangeRequest>> {
    let ops = txn.success.iter().chain(&txn.failure);
    ops.map(|op| match &op.request {
        Some(Op::RequestRange(range)) => Some(range),
        _ => None,
    })
}

/// A read-only transaction being read. All steps must use the same root.
#[derive(Default)]
pub(crate) struct Reading {
    /// The request, until the comparisons have been made.
    asked: Option<pb::TxnRequest>,
    succeeded: bool,
    left: vec::IntoIter<pb::RangeRequest>,
    current: Option<kv::Reading>,
    done: Vec<raw::ResponseOp>,
    done_bytes: usize,
    tally: Tally,
}

impl Reading {
    pub(crate) fn new(txn: pb::TxnRequest) -> Reading {
        Reading {
            asked: Some(txn),
            ..Reading::default()
        }
    }

    /// Reads on. Returns true when everything needed has been read.
    pub(crate) fn step(&mut self, root: &Root, step: Step) -> Result<bool, Error> {
        if let Some(txn) = self.asked.take() {
            self.choose(root, &txn)?;
        }
        let until = self.held_bytes().saturating_add(step.bytes);
        while self.held_bytes() < until {
            let next = match self.current.take() {
                None => self.left.next().map(|range| kv::Reading::new(root, range)),
                current => current.map(Ok),
            };
            let Some(mut reading) = next.transpose()? else {
                return Ok(true);
            };
            if !reading.step(root, step)? {
                self.current = Some(reading);
                return Ok(false);
            }
            self.done_bytes += reading.held_bytes();
            let range = reading.finish(root)?;
            self.done.push(raw::ResponseOp {
                response: Some(OpResponse::ResponseRange(range)),
            });
        }
        Ok(false)
    }

    /// Approximate memory of what has been read.
    pub(crate) fn held_bytes(&self) -> usize {
        self.done_bytes + self.current.as_ref().map_or(0, kv::Reading::held_bytes)
    }

    /// The answer and its counts; all steps must be done.
    pub(crate) fn finish(self, root: &Root) -> (raw::TxnResponse, Tally) {
        let response = raw::TxnResponse {
            header: Some(kv::revision_header(root.revision())),
            succeeded: self.succeeded,
            responses: self.done,
        };
        let mut total = Tally::default();
        self.tally.end(&mut total);
        (response, total)
    }

    fn choose(&mut self, root: &Root, txn: &pb::TxnRequest) -> Result<(), Error> {
        let path = choose(root, txn, &mut self.tally)?;
        check(root, &path)?;
        self.succeeded = path.succeeded;
        let mut ranges = Vec::with_capacity(path.steps.len());
        for step in path.steps {
            let super::Step::Range(range) = step else {
                unreachable!("a read-only transaction holds ranges alone");
            };
            self.tally.range();
            ranges.push(range.clone());
        }
        self.left = ranges.into_iter();
        Ok(())
    }
}

//! Entries that change so much that their changes may not stay in memory. The store writes such an
//! entry's pages while it is applied, which it can do only while no checkpoint runs. So an entry
//! that does not fit beside the running checkpoint waits for its end, and the checkpoint hurries.
//!
//! All entries behind it wait too: they see what it did. What was applied before it is answered
//! first: a large entry begins a turn.

use std::ops::ControlFlow;

use etcd_api::etcdserverpb as pb;
use pb::request_op::Request as Op;
use storage::mvcc::{Bucket, End, KeyRange, Root};

use super::{Applier, ApplyEffects};
use crate::error::Error;
use crate::event::Committed;
use crate::request::Request;
use crate::state::entry;

/// What a deleted key of a range changes, approximately: the neighbours' pages are shared.
const BYTES_PER_KEY_IN_RANGE: u64 = 512;

/// What a key changes that is put, or deleted with its lease: it may have a page of its own, of
/// 4 KiB.
const BYTES_PER_KEY: u64 = BYTES_PER_KEY_IN_RANGE + (4 << 10);

impl Applier {
    /// Takes the next entry, if there is memory for it, and if it may be applied in this turn.
    pub(super) fn next_entry(
        &mut self,
        effects: &ApplyEffects,
    ) -> Result<Option<Committed>, Error> {
        let root = self.state.store.root();
        let most = self.pace.dirty_bytes_max;
        self.next_bytes = match self.backlog.front_mut() {
            Some(next) if next.entry.index > root.applied().index => {
                bytes_changed_by(root, next, most)?
            }
            _ => 0,
        };
        if self.stalled() {
            return Ok(None);
        }
        if self.next_bytes >= self.pace.entry_bytes_in_memory {
            if effects.applied.is_some() {
                return Ok(None);
            }
            // Pages that the published root has in memory would stay there beside the entry's own.
            self.state.store.spill_all()?;
            self.state.store.publish();
        }
        self.next_bytes = 0;
        Ok(self.backlog.pop_front())
    }
}

/// Approximate bytes of pages that an entry changes, unless it is a single put. Counts no further
/// than to about `most`.
fn bytes_changed_by(root: &Root, next: &mut Committed, most: u64) -> Result<u64, Error> {
    if next.entry.kind != raft::EntryKind::Normal || next.entry.data.is_empty() {
        return Ok(0);
    }
    let request = match &mut next.request {
        Some(request) => request,
        none => none.insert(entry::request(&next.entry)?),
    };
    match request {
        Request::DeleteRange(delete) => bytes_of_range(root, delete),
        Request::Txn(txn) => bytes_of_transaction(root, txn),
        Request::LeaseRevoke(revoke) => bytes_of_lease(root, revoke.id, most),
        _ => Ok(0),
    }
}

fn bytes_of_range(root: &Root, delete: &pb::DeleteRangeRequest) -> Result<u64, Error> {
    let range = KeyRange::from_wire(&delete.key, &delete.range_end);
    let keys = match range.end {
        End::Single => 1,
        _ => root.count(range, 0)?,
    };
    Ok(keys.saturating_mul(BYTES_PER_KEY_IN_RANGE))
}

/// That of the larger branch: what the comparisons choose is known when it is applied.
fn bytes_of_transaction(root: &Root, txn: &pb::TxnRequest) -> Result<u64, Error> {
    let branch = |ops: &[pb::RequestOp]| -> Result<u64, Error> {
        let mut bytes: u64 = 0;
        for op in ops {
            bytes = bytes.saturating_add(match &op.request {
                Some(Op::RequestDeleteRange(delete)) => bytes_of_range(root, delete)?,
                Some(Op::RequestTxn(nested)) => bytes_of_transaction(root, nested)?,
                Some(Op::RequestPut(put)) => BYTES_PER_KEY + put.value.len() as u64,
                _ => 0,
            });
        }
        Ok(bytes)
    };
    Ok(branch(&txn.success)?.max(branch(&txn.failure)?))
}

fn bytes_of_lease(root: &Root, id: i64, most: u64) -> Result<u64, Error> {
    let mut bytes = 0;
    root.side_scan(Bucket::LeaseKeys, &id.to_be_bytes(), &mut |_, _| {
        bytes += BYTES_PER_KEY;
        if bytes < most {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;

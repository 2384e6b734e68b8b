//! Entries that change so much that their changes may not stay in memory. The store writes such an
//! entry's pages while it is applied, which it can do only while no checkpoint runs. So an entry
//! that does not fit beside the running checkpoint waits for its end, and the checkpoint hurries.
//!
//! All entries behind it wait too: they see what it did. What was applied before it is answered
//! first: a large entry begins a turn.
//!
//! The deletion of a large range or the end of a large lease is none of these: it takes effect at once,
//! and its tombstones are written in steps, between the entries behind it. No checkpoint begins until
//! that is done. So that one begins some time, deletions are written at once when the log has become
//! long meanwhile.

use etcd_api::etcdserverpb as pb;
use pb::request_op::Request as Op;
use raft::Now;
use storage::mvcc::{End, KeyRange, Root, Store};

use super::{Applier, ApplyEffects};
use crate::basics::error::Error;
use crate::member::event::Committed;
use crate::request::Request;
use crate::state::entry;
use crate::telemetry::metrics::Chore;

/// What a deleted key of a range changes, approximately: the neighbours' pages are shared.
const BYTES_PER_KEY_IN_RANGE: u64 = 512;

/// What a key changes that is put, or deleted with its lease: it may have a dedicated page, of 4 KiB.
const BYTES_PER_KEY: u64 = BYTES_PER_KEY_IN_RANGE + (4 << 10);

impl Applier {
    /// Takes the next entry, if there is memory for it, and if it may be applied in this turn.
    pub(super) fn next_entry(
        &mut self,
        effects: &ApplyEffects,
    ) -> Result<Option<Committed>, Error> {
        let at_once = self.keys_deleted_at_once();
        let store = &mut self.state.store;
        store.set_keys_deleted_at_once(at_once);
        // An entry that waits was looked at in an earlier turn.
        if self.next_bytes.is_none()
            && let Some(next) = self.backlog.front_mut()
            && next.entry.index > store.root().applied().index
        {
            let most = self.pace.dirty_bytes_max;
            self.next_bytes = Some(bytes_changed_by(store, next, most, at_once)?);
        }
        if self.stalled() {
            return Ok(None);
        }
        if self.next_bytes >= Some(self.pace.entry_bytes_in_memory) {
            if effects.applied.is_some() {
                return Ok(None);
            }
            // Pages that the published root has in memory would stay there beside the entry's own.
            self.state.store.spill_all()?;
            self.state.store.publish();
        }
        self.next_bytes = None;
        Ok(self.backlog.pop_front())
    }

    /// Deletions of more keys are written in steps.
    fn keys_deleted_at_once(&self) -> u64 {
        if self.is_deleting() && self.unsaved.bytes >= self.pace.log_bytes_while_deleting {
            return u64::MAX;
        }
        self.pace.keys_deleted_at_once
    }

    /// A deletion is not written completely.
    pub(super) fn is_deleting(&self) -> bool {
        self.state.store.root().is_deleting()
    }

    /// When the next tombstones are written. Beside a checkpoint they would stay in memory; but one
    /// that waits for space on the disk may need what the deletion frees. Beside that one they are
    /// written as far as there is memory.
    pub(super) fn deletion_at(&self, now: Now) -> Option<Now> {
        let is_free = if self.waiting_checkpoint.is_some() {
            !self.stalled()
        } else {
            !self.checkpoint_running
        };
        let at = if self.stopping {
            now
        } else {
            self.deletion_steps.due_at(now)
        };
        (self.is_deleting() && is_free).then_some(at)
    }

    /// Writes some tombstones, if it is time.
    pub(super) fn go_on_deleting(
        &mut self,
        now: Now,
        effects: &mut ApplyEffects,
    ) -> Result<(), Error> {
        if self.deletion_at(now) != Some(now) {
            return Ok(());
        }
        let began = self.step_time();
        let keys = self.deletion_steps.size(self.pace.delete_step_keys);
        self.state.store.delete_step(keys)?;
        let (took, busy) = (self.step_time() - began, effects.applied.is_some());
        self.deletion_steps
            .ended(now, took, busy, self.pace.delete_pause);
        effects.counts.chores.push((Chore::Deletion, took));
        Ok(())
    }
}

/// Approximate bytes of pages that an entry changes, unless it is a single put. Counts no further
/// than to about `most`. No more than `at_once` keys of ranges are deleted at once.
fn bytes_changed_by(
    store: &Store,
    next: &mut Committed,
    most: u64,
    at_once: u64,
) -> Result<u64, Error> {
    if next.entry.kind != raft::EntryKind::Normal || next.entry.data.is_empty() {
        return Ok(0);
    }
    let request = match &mut next.request {
        Some(request) => request,
        none => none.insert(entry::request(&next.entry)?),
    };
    let root = store.root();
    match request {
        Request::DeleteRange(delete) => Ok(changed_by_range(root, delete)?.bytes(at_once)),
        Request::Txn(txn) => Ok(changed_by_transaction(root, txn, at_once)?.bytes(at_once)),
        Request::LeaseRevoke(revoke) => {
            let keys = store.attached_keys(revoke.id, most.div_ceil(BYTES_PER_KEY))?;
            Ok(keys.saturating_mul(BYTES_PER_KEY))
        }
        Request::LeaseGrant(grant) => {
            // What is left of the deletion of its keys is written before it is granted again.
            let keys = root.unwritten_deletes_through(grant.id);
            Ok(keys.saturating_mul(BYTES_PER_KEY))
        }
        _ => Ok(0),
    }
}

fn changed_by_range(root: &Root, delete: &pb::DeleteRangeRequest) -> Result<Changed, Error> {
    let range = KeyRange::from_wire(&delete.key, &delete.range_end);
    if range.end == End::Single {
        return Ok(Changed { keys: 1, others: 0 });
    }
    let all = root.count(range, 0)?;
    // Keys that came since another deletion of the range are deleted at once, however many there are.
    let since = root.count_since(range)?;
    Ok(Changed {
        keys: all - since,
        others: since.saturating_mul(BYTES_PER_KEY_IN_RANGE),
    })
}

/// What an entry changes.
#[derive(Default)]
struct Changed {
    /// Keys that it deletes in ranges.
    keys: u64,
    /// Bytes of what it changes otherwise.
    others: u64,
}

impl Changed {
    /// No more than `at_once` keys are deleted before the entry ends.
    fn bytes(&self, at_once: u64) -> u64 {
        let keys = self.keys.min(at_once);
        let bytes = keys.saturating_mul(BYTES_PER_KEY_IN_RANGE);
        bytes.saturating_add(self.others)
    }
}

/// That of the larger branch: what the comparisons choose is known when it is applied.
fn changed_by_transaction(
    root: &Root,
    txn: &pb::TxnRequest,
    at_once: u64,
) -> Result<Changed, Error> {
    let branch = |ops: &[pb::RequestOp]| -> Result<Changed, Error> {
        let mut changed = Changed::default();
        for op in ops {
            let by_op = match &op.request {
                Some(Op::RequestDeleteRange(delete)) => changed_by_range(root, delete)?,
                Some(Op::RequestTxn(nested)) => changed_by_transaction(root, nested, at_once)?,
                Some(Op::RequestPut(put)) => Changed {
                    keys: 0,
                    others: BYTES_PER_KEY + put.value.len() as u64,
                },
                _ => Changed::default(),
            };
            changed.keys = changed.keys.saturating_add(by_op.keys);
            changed.others = changed.others.saturating_add(by_op.others);
        }
        Ok(changed)
    };
    let (a, b) = (branch(&txn.success)?, branch(&txn.failure)?);
    Ok(if a.bytes(at_once) < b.bytes(at_once) {
        b
    } else {
        a
    })
}

#[cfg(test)]
mod tests;

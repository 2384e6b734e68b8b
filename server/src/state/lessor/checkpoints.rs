//! Which remaining TTLs to store, so that a restart does not give leases their full TTL again.
//!
//! **When a checkpoint is written.** A restart must not renew leases that were not renewed, but one
//! row per renewal would put all keep-alives through the log. So:
//! - A lease not renewed since it was granted, restored or last checkpointed is written every
//!   eighth of its TTL, at least [`CHECKPOINT_STEP_MIN`] apart. After a crash it lives too long by
//!   at most that (plus an election timeout).
//! - A lease that was renewed is not written for half its TTL. Clients renew every third, so the
//!   leases of live sessions are never written. A lease whose owner has gone falls under the first
//!   rule.
//! - If a remaining TTL of the lease is stored or in flight, a renewal must reset that row before
//!   the client is answered; otherwise a crash would expire the lease early. The next renewal waits
//!   for the same reset, because until then the store still has the short time
//!   ([`super::Renewal::waits_for`]).
//! - At most [`CHECKPOINT_ROWS_PER_SECOND`] rows are written, the longest overdue first. With more
//!   leases than that, the error grows instead of the load.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use super::{Lease, Lessor, current_mut, seconds};

/// A checkpointed lease is written again after this fraction of its TTL.
const CHECKPOINTS_PER_TTL: u32 = 8;

/// Shorter steps would gain little: the store keeps whole seconds.
pub(crate) const CHECKPOINT_STEP_MIN: Duration = Duration::from_secs(2);

/// A million leases of one hour that are never renewed need 2,200 rows a second.
pub(crate) const CHECKPOINT_ROWS_PER_SECOND: u32 = 5_000;

/// A lease that expires sooner than this is not checkpointed.
const CHECKPOINT_REMAINING_MIN: Duration = Duration::from_secs(2);

/// Checkpoint rows of one lease that were issued and not yet seen applied.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    /// Remaining TTLs, in log order. A row is lost if a later one is applied before it.
    pub(super) rows: VecDeque<i64>,
    /// Rows of this lease applied or lost since the first row was in flight.
    pub(super) settled: u64,
    /// The row applied last was a reset.
    is_reset: bool,
    pub(super) issued_at: Duration,
}

impl UnderWay {
    /// How many rows are settled when the store has no short time and none is on its way. `None`:
    /// that is so already. The last row must be a reset.
    ///
    /// Resets in a row are equal: if one was lost, the one applied may be any of them. So the first
    /// one counts, and those after it, which may never be applied, keep nobody waiting.
    pub(super) fn reset_after(&self) -> Option<u64> {
        let last_short = self.rows.iter().rposition(|row| *row > 0);
        match last_short {
            Some(place) => Some(self.settled + place as u64 + 2),
            None if self.is_reset => None,
            None => Some(self.settled + 1),
        }
    }
}

impl Lessor {
    /// A row proposed by this leader or an earlier one was applied. Returns the number of settled
    /// rows: renewals that wait for at most this many may be acknowledged.
    pub fn applied(&mut self, id: i64, remaining: i64) -> u64 {
        let Some(under_way) = self.under_way.get_mut(&id) else {
            self.note_foreign(id, remaining);
            return u64::MAX;
        };
        let Some(place) = under_way.rows.iter().position(|row| *row == remaining) else {
            let settled = under_way.settled;
            under_way.is_reset &= remaining <= 0;
            self.note_foreign(id, remaining);
            return settled;
        };
        under_way.rows.drain(..=place);
        under_way.settled += place as u64 + 1;
        under_way.is_reset = remaining <= 0;
        if under_way.rows.is_empty() {
            self.under_way.remove(&id);
            u64::MAX
        } else {
            under_way.settled
        }
    }

    /// Sets whether remaining TTLs may be stored. If not, [`Lessor::checkpoints`] resets those that
    /// are stored.
    pub fn allow_checkpoints(&mut self, may_checkpoint: bool) {
        if std::mem::replace(&mut self.may_checkpoint, may_checkpoint) == may_checkpoint {
            return;
        }
        self.to_take_back.clear();
        if !may_checkpoint {
            let short = self.leases.iter().filter(|(_, lease)| lease.is_short);
            self.to_take_back.extend(short.map(|(id, _)| *id));
        }
    }

    /// Up to `max` rows `(id, remaining TTL in seconds)` that are due for a checkpoint. Seconds are
    /// rounded up: a restart must not expire a lease early.
    pub fn checkpoints(&mut self, now: Duration, max: usize) -> Vec<(i64, i64)> {
        if now >= self.allowance.0 + Duration::from_secs(1) {
            self.allowance = (now, CHECKPOINT_ROWS_PER_SECOND);
        }
        let max = max.min(self.allowance.1 as usize);
        let rows = if self.may_checkpoint {
            self.due_checkpoints(now, max)
        } else {
            self.taken_back(max)
        };
        for (id, remaining) in &rows {
            self.issue(*id, *remaining, now);
        }
        self.allowance.1 -= u32::try_from(rows.len()).unwrap_or(u32::MAX);
        rows
    }

    /// A row for every lease that has used a second or more, for a graceful stop after which
    /// nothing is renewed.
    pub fn checkpoint_all(&mut self, now: Duration) -> Vec<(i64, i64)> {
        if !self.may_checkpoint {
            return Vec::new();
        }
        let mut rows: Vec<(i64, i64)> = Vec::new();
        for (id, lease) in &mut self.leases {
            let left = lease.whole_seconds_left(now);
            if lease.deadline > now && left < lease.ttl {
                lease.is_short = true;
                rows.push((*id, left));
            }
        }
        rows.sort_unstable();
        rows
    }

    fn taken_back(&mut self, max: usize) -> Vec<(i64, i64)> {
        let mut rows = Vec::new();
        while rows.len() < max
            && let Some(id) = self.to_take_back.pop_last()
        {
            if let Some(lease) = self.leases.get_mut(&id)
                && std::mem::take(&mut lease.is_short)
            {
                rows.push((id, 0));
            }
        }
        rows
    }

    fn due_checkpoints(&mut self, now: Duration, max: usize) -> Vec<(i64, i64)> {
        let mut rows = Vec::new();
        while rows.len() < max {
            let Some(Reverse((at, id, serial))) = self.checkpoints.peek().copied() else {
                break;
            };
            if at > now {
                break;
            }
            self.checkpoints.pop();
            let Some(lease) = current_mut(&mut self.leases, id, serial) else {
                continue;
            };
            if lease.checkpoint_at <= now {
                if lease.deadline >= now + CHECKPOINT_REMAINING_MIN {
                    rows.push((id, lease.whole_seconds_left(now)));
                    lease.is_short = true;
                }
                lease.checkpoint_at = now + lease.checkpoint_step();
            }
            // Expired leases stay in the heap too: always one entry per lease.
            self.checkpoints
                .push(Reverse((lease.checkpoint_at, id, serial)));
        }
        rows
    }

    pub(super) fn issue(&mut self, id: i64, remaining: i64, now: Duration) {
        let under_way = self.under_way.entry(id).or_default();
        under_way.rows.push_back(remaining);
        under_way.issued_at = now;
    }

    /// A row that this leader did not issue: it may come from a former leader running etcd.
    fn note_foreign(&mut self, id: i64, remaining: i64) {
        if remaining > 0
            && let Some(lease) = self.leases.get_mut(&id)
        {
            lease.is_short = true;
            if !self.may_checkpoint {
                self.to_take_back.insert(id);
            }
        }
    }
}

impl Lease {
    fn whole_seconds_left(&self, now: Duration) -> i64 {
        let left = self.deadline.saturating_sub(now);
        let rounded = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        // After a restart a lease may have up to an election timeout more than its TTL; do not
        // report more than the TTL.
        i64::try_from(rounded).unwrap_or(i64::MAX).min(self.ttl)
    }

    pub(super) fn checkpoint_step(&self) -> Duration {
        (seconds(self.ttl) / CHECKPOINTS_PER_TTL).max(CHECKPOINT_STEP_MIN)
    }
}

//! The leader's clock of leases: who expires when, and what of it to write down.
//!
//! A plain struct: `now` comes in, ids go out. It does not know keys, the log or threads. Its owner
//! turns [`Lessor::expired`] into proposed revokes and [`Lessor::checkpoints`] into proposed
//! checkpoints, and calls [`Lessor::revoke`] when a revoke was applied.
//!
//! **Never early.** A lease lives at least its TTL from the last renewal that was answered, across
//! restarts too. Late is allowed: a restart adds one election timeout, and gives back what passed
//! since the last checkpoint.
//!
//! **Heaps with lazy renewal.** Each lease has exactly one entry in the heap of deadlines and one
//! in the heap of checkpoints, and `entry.at <= what the lease says now`. Renewing only changes
//! the lease; an entry that comes up too soon is put back where it belongs. So a renewal is one
//! hash lookup, and a lease renewed a thousand times between two looks costs one move.
//!
//! **When a checkpoint is written.** A restart must not renew what was not renewed, but writing a
//! row per renewal would put keep-alives through the log. So:
//! - a lease that was not renewed since it was granted or restored, or since its last checkpoint,
//!   is written down every eighth of its TTL, at least [`CHECKPOINT_STEP_MIN`] apart: after a
//!   crash it lives at most that much (and an election timeout) too long;
//! - a lease that was renewed is left alone for half its TTL. Clients renew each third, so living
//!   sessions are never written at all; a lease whose owner has gone joins the first kind;
//! - a renewal of a lease whose remaining time stands in the store, or is on its way there, must
//!   take that row back before the client hears of it, else a crash would end the lease early. The
//!   next renewal waits for the same row to be taken back: until then the store has the short time
//!   still ([`Renewal::waits_for`]);
//! - at most [`CHECKPOINT_ROWS_PER_SECOND`] rows, the longest due first: with more than that the
//!   error grows instead of the load.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// A lease handed out by [`Lessor::expired`] and still there after this is handed out again: its
/// revoke was lost on the way.
pub const EXPIRED_RETRY: Duration = Duration::from_secs(3);

/// A checkpointed lease is written again after this part of its TTL.
const CHECKPOINTS_PER_TTL: u32 = 8;

/// Shorter steps would say little: the store keeps whole seconds.
pub const CHECKPOINT_STEP_MIN: Duration = Duration::from_secs(2);

/// A million leases of an hour need 2,200 rows a second when none of them is ever renewed.
pub const CHECKPOINT_ROWS_PER_SECOND: u32 = 5_000;

/// A lease that ends sooner than this is not worth a row.
const CHECKPOINT_REMAINING_MIN: Duration = Duration::from_secs(2);

/// What a renewal means for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The granted TTL in seconds, which the lease now has again.
    pub ttl: i64,
    /// The store holds, or will hold, a remaining time from before. Log a checkpoint of zero, which
    /// means the whole TTL.
    pub takes_back: bool,
    /// The client may hear of the renewal once so many of the lease's rows are settled; see
    /// [`Lessor::applied`]. `None`: at once.
    pub waits_for: Option<u64>,
}

/// One lease as [`Lessor::list`] and [`Lessor::remaining`] tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseState {
    pub id: i64,
    /// Seconds.
    pub granted_ttl: i64,
    /// Zero when it has expired and its revoke is on the way.
    pub remaining: Duration,
}

#[derive(Debug)]
struct Lease {
    /// Seconds, positive.
    ttl: i64,
    deadline: Duration,
    /// When its remaining time is to be written down next.
    checkpoint_at: Duration,
    /// The newest row that was issued or found is a remaining time; else there is none, or a zero.
    is_short: bool,
    /// Its revoke is on the way.
    handed_out: bool,
    /// Tells this lease from an earlier one with the same id.
    serial: u64,
}

/// Rows of one lease that were issued and are not seen applied.
#[derive(Debug, Default)]
struct UnderWay {
    /// Remaining times, in the order of the log. One that is overtaken by a later one was lost.
    rows: VecDeque<i64>,
    /// Rows of this lease that are applied or lost, since one was first under way.
    settled: u64,
    issued_at: Duration,
}

/// Heap entry; the order of the fields is the order of the heap.
type Due = Reverse<(Duration, i64, u64)>;

#[derive(Debug)]
pub struct Lessor {
    /// Added to every restored lease: the time an election may have taken.
    election_timeout: Duration,
    leases: HashMap<i64, Lease>,
    /// Of leases not handed out.
    deadlines: BinaryHeap<Due>,
    /// Those handed out, and when they are handed out again: always so long after the last time.
    retries: VecDeque<(Duration, i64, u64)>,
    /// Leases handed out and still there.
    handed_out: usize,
    checkpoints: BinaryHeap<Due>,
    under_way: HashMap<i64, UnderWay>,
    /// Whether remaining times may be written down: members of etcd, should one lead next, would
    /// never take them back.
    may_checkpoint: bool,
    /// While they may not: leases of which one was written before.
    to_take_back: Vec<i64>,
    serial: u64,
    /// Rows that may still be written in the second that began at `.0`.
    allowance: (Duration, u32),
}

impl Lessor {
    /// `election_timeout` is what restored leases get on top of their remaining time.
    pub fn new(election_timeout: Duration) -> Lessor {
        Lessor {
            election_timeout,
            leases: HashMap::new(),
            deadlines: BinaryHeap::new(),
            retries: VecDeque::new(),
            handed_out: 0,
            checkpoints: BinaryHeap::new(),
            under_way: HashMap::new(),
            may_checkpoint: true,
            to_take_back: Vec::new(),
            serial: 0,
            allowance: (Duration::ZERO, CHECKPOINT_ROWS_PER_SECOND),
        }
    }

    /// Takes in the leases of the store, `(id, granted TTL, remaining TTL)` in seconds; a remaining
    /// TTL of zero means that none was written and the lease gets its whole TTL.
    pub fn restore(&mut self, leases: impl IntoIterator<Item = (i64, i64, i64)>, now: Duration) {
        for (id, ttl, remaining) in leases {
            let is_short = remaining > 0;
            let left = if is_short { remaining } else { ttl };
            let deadline = now + seconds(left) + self.election_timeout;
            self.insert(id, ttl, deadline, now, is_short);
            if is_short && !self.may_checkpoint {
                self.to_take_back.push(id);
            }
        }
    }

    /// A lease was granted. The id is free: the state has checked it.
    pub fn grant(&mut self, id: i64, ttl: i64, now: Duration) {
        self.insert(id, ttl, now + seconds(ttl), now, false);
    }

    /// A revoke was applied.
    pub fn revoke(&mut self, id: i64) {
        self.under_way.remove(&id);
        // The heap entries stay until their time: they no longer name a lease.
        if self
            .leases
            .remove(&id)
            .is_some_and(|lease| lease.handed_out)
        {
            self.handed_out -= 1;
        }
    }

    /// Gives the lease its whole TTL again. `None` when there is no such lease or it has expired:
    /// its revoke may be in the log already, so there is no way back.
    pub fn renew(&mut self, id: i64, now: Duration) -> Option<Renewal> {
        let lease = self.leases.get_mut(&id)?;
        if lease.deadline <= now {
            return None;
        }
        let ttl = seconds(lease.ttl);
        // Never shorter than before: after a restart the lease may have more than its TTL left.
        lease.deadline = lease.deadline.max(now + ttl);
        let quiet_until = (now + ttl / 2).max(now + CHECKPOINT_STEP_MIN);
        lease.checkpoint_at = lease.checkpoint_at.max(quiet_until);
        let (ttl, is_short) = (lease.ttl, std::mem::take(&mut lease.is_short));
        let under_way = self.under_way.get(&id);
        // What was to take a row back, and was not applied for so long, is lost.
        let is_lost = under_way.is_some_and(|rows| rows.issued_at + EXPIRED_RETRY <= now);
        let takes_back = is_short || is_lost;
        if takes_back {
            self.issue(id, 0, now);
        }
        let under_way = self.under_way.get(&id);
        Some(Renewal {
            ttl,
            takes_back,
            waits_for: under_way.map(|under_way| under_way.settled + under_way.rows.len() as u64),
        })
    }

    /// A row that this leader, or an earlier one, had logged was applied. Renewals of the lease that
    /// wait for no more rows than are returned may be answered.
    pub fn applied(&mut self, id: i64, remaining: i64) -> u64 {
        let Some(under_way) = self.under_way.get_mut(&id) else {
            self.note_foreign(id, remaining);
            return u64::MAX;
        };
        let Some(place) = under_way.rows.iter().position(|row| *row == remaining) else {
            let settled = under_way.settled;
            self.note_foreign(id, remaining);
            return settled;
        };
        under_way.rows.drain(..=place);
        under_way.settled += place as u64 + 1;
        if under_way.rows.is_empty() {
            self.under_way.remove(&id);
            u64::MAX
        } else {
            under_way.settled
        }
    }

    /// A row that nobody here issued: a former leader of another make may send it on.
    fn note_foreign(&mut self, id: i64, remaining: i64) {
        if remaining > 0
            && let Some(lease) = self.leases.get_mut(&id)
        {
            lease.is_short = true;
            if !self.may_checkpoint {
                self.to_take_back.push(id);
            }
        }
    }

    fn issue(&mut self, id: i64, remaining: i64, now: Duration) {
        let under_way = self.under_way.entry(id).or_default();
        under_way.rows.push_back(remaining);
        under_way.issued_at = now;
    }

    /// Whether remaining times may be written down from now on. When not, [`Lessor::checkpoints`]
    /// takes back those that were.
    pub fn allow_checkpoints(&mut self, may_checkpoint: bool) {
        if std::mem::replace(&mut self.may_checkpoint, may_checkpoint) == may_checkpoint {
            return;
        }
        self.to_take_back.clear();
        if !may_checkpoint {
            let short = self.leases.iter().filter(|(_, lease)| lease.is_short);
            self.to_take_back.extend(short.map(|(id, _)| *id));
            // Equal states are to do equal things.
            self.to_take_back.sort_unstable();
        }
    }

    pub fn remaining(&self, id: i64, now: Duration) -> Option<LeaseState> {
        self.leases.get(&id).map(|lease| lease.state(id, now))
    }

    /// All leases, those that end first in front.
    pub fn list(&self, now: Duration) -> Vec<LeaseState> {
        let mut all: Vec<(Duration, LeaseState)> = self
            .leases
            .iter()
            .map(|(id, lease)| (lease.deadline, lease.state(*id, now)))
            .collect();
        all.sort_unstable_by_key(|(deadline, lease)| (*deadline, lease.id));
        all.into_iter().map(|(_, lease)| lease).collect()
    }

    pub fn len(&self) -> usize {
        self.leases.len()
    }

    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Leases whose time is over, the longest expired first; no more than `max` are on the way at
    /// any time, so that a crowd that ends at once lets other requests through. Each is handed out
    /// once, and again only when it is still there after [`EXPIRED_RETRY`].
    pub fn expired(&mut self, now: Duration, max: usize) -> Vec<i64> {
        let mut expired = Vec::new();
        while let Some((at, id, serial)) = self.retries.front().copied() {
            let is_there = current(&self.leases, id, serial).is_some();
            if is_there && (at > now || expired.len() >= max) {
                break;
            }
            self.retries.pop_front();
            if is_there {
                expired.push(id);
                self.retries.push_back((now + EXPIRED_RETRY, id, serial));
            }
        }
        while self.handed_out < max {
            let Some(Reverse((at, id, serial))) = self.deadlines.peek().copied() else {
                break;
            };
            if at > now {
                break;
            }
            self.deadlines.pop();
            let Some(lease) = current_mut(&mut self.leases, id, serial) else {
                continue;
            };
            if lease.deadline > now {
                self.deadlines.push(Reverse((lease.deadline, id, serial)));
                continue;
            }
            lease.handed_out = true;
            self.handed_out += 1;
            self.retries.push_back((now + EXPIRED_RETRY, id, serial));
            expired.push(id);
        }
        expired
    }

    /// Up to `max` rows `(id, remaining TTL in seconds)` that are due to be written down. The
    /// seconds are rounded up: a restart must not end a lease early.
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

    fn taken_back(&mut self, max: usize) -> Vec<(i64, i64)> {
        let mut rows = Vec::new();
        while rows.len() < max
            && let Some(id) = self.to_take_back.pop()
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
            // An expired lease stays in the heap as well: one entry per lease, always.
            self.checkpoints
                .push(Reverse((lease.checkpoint_at, id, serial)));
        }
        rows
    }

    /// A row for every lease that has spent a second or more, for a graceful stop: nothing is
    /// renewed after it.
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

    /// When to ask for up to `max` expired leases, or for checkpoints, next. May be too soon, never
    /// too late.
    pub fn next_wake(&self, max: usize) -> Option<Duration> {
        let deadline = self.deadlines.peek().map(|Reverse((at, ..))| *at);
        // With as many on the way as may be, it is a revoke that makes room, or a retry.
        let deadline = deadline.filter(|_| self.handed_out < max);
        let retry = self.retries.front().map(|(at, ..)| *at);
        let checkpoint = if self.may_checkpoint {
            self.checkpoints.peek().map(|Reverse((at, ..))| *at)
        } else {
            self.to_take_back.first().map(|_| Duration::ZERO)
        };
        // With the second's rows used up, being due does not help before the next second.
        let checkpoint = match self.allowance {
            (since, 0) => checkpoint.map(|at| at.max(since + Duration::from_secs(1))),
            _ => checkpoint,
        };
        [deadline, retry, checkpoint].into_iter().flatten().min()
    }

    fn insert(&mut self, id: i64, ttl: i64, deadline: Duration, now: Duration, is_short: bool) {
        self.serial += 1;
        let mut lease = Lease {
            ttl,
            deadline,
            checkpoint_at: Duration::ZERO,
            is_short,
            handed_out: false,
            serial: self.serial,
        };
        lease.checkpoint_at = now + lease.checkpoint_step();
        self.deadlines.push(Reverse((deadline, id, self.serial)));
        self.checkpoints
            .push(Reverse((lease.checkpoint_at, id, self.serial)));
        match self.leases.entry(id) {
            Entry::Vacant(free) => free.insert(lease),
            Entry::Occupied(_) => panic!("lease {id:x} granted twice"),
        };
    }
}

impl Lease {
    fn state(&self, id: i64, now: Duration) -> LeaseState {
        LeaseState {
            id,
            granted_ttl: self.ttl,
            remaining: self.deadline.saturating_sub(now),
        }
    }

    fn whole_seconds_left(&self, now: Duration) -> i64 {
        let left = self.deadline.saturating_sub(now);
        let rounded = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        // Right after a restart a lease has an election timeout more than it was granted.
        i64::try_from(rounded).unwrap_or(i64::MAX).min(self.ttl)
    }

    fn checkpoint_step(&self) -> Duration {
        (seconds(self.ttl) / CHECKPOINTS_PER_TTL).max(CHECKPOINT_STEP_MIN)
    }
}

fn seconds(ttl: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl).unwrap_or(0))
}

/// The lease a heap entry was made for, if it is still that one.
fn current(leases: &HashMap<i64, Lease>, id: i64, serial: u64) -> Option<&Lease> {
    leases.get(&id).filter(|lease| lease.serial == serial)
}

fn current_mut(leases: &mut HashMap<i64, Lease>, id: i64, serial: u64) -> Option<&mut Lease> {
    leases.get_mut(&id).filter(|lease| lease.serial == serial)
}

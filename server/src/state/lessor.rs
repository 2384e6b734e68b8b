//! The leader's clock of leases: which leases expire, and which remaining TTLs to store.
//!
//! A plain struct: time goes in, ids come out. It does not know keys, the log or threads. Its owner
//! proposes a revoke for each id of [`Lessor::expired`] and a checkpoint for the rows of
//! [`Lessor::checkpoints`], and calls [`Lessor::revoke`] when a revoke was applied.
//!
//! **Never early.** A lease lives at least its TTL from its last acknowledged renewal, across
//! restarts too. Late expiry is allowed: a restart adds one election timeout, and the time since
//! the last checkpoint.
//!
//! **Heaps with lazy renewal.** Each lease has exactly one entry in the heap of deadlines and one
//! in the heap of checkpoints, with `entry.at <=` the lease's current time. A renewal only changes
//! the lease; an entry that comes up too early is pushed back with the current time. So a renewal
//! is one hash lookup, and a thousand renewals of a lease between two checks cost one heap move.
//!
//! The entries of a revoked lease stay until they come up, or until such entries are the larger
//! part of the heap; see [`HEAP_FACTOR`].

mod checkpoints;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use checkpoints::UnderWay;

pub(crate) use checkpoints::{CHECKPOINT_ROWS_PER_SECOND, CHECKPOINT_STEP_MIN};

/// A lease returned by [`Lessor::expired`] that still exists after this time is returned again: its
/// revoke was lost.
pub(crate) const EXPIRED_RETRY: Duration = Duration::from_secs(3);

/// A heap is cleared of the entries of revoked leases when it has more entries than this many for
/// each lease, and [`HEAP_SLACK`] more. Otherwise they would stay for ever where nothing takes them
/// out: a follower never asks what is due, and nobody asks for checkpoints while none may be
/// written. More than half of the entries are removed then, each once, so a grant pays for a
/// constant number of looks.
const HEAP_FACTOR: usize = 2;

/// A heap of fewer entries than this is never cleared: 32 KiB.
const HEAP_SLACK: usize = 1024;

/// The result of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The granted TTL in seconds, which now runs again in full.
    pub ttl: i64,
    /// The store holds, or will hold, an older remaining TTL. The caller must propose a checkpoint
    /// of zero, which means the full TTL.
    pub takes_back: bool,
    /// The renewal may be acknowledged when this many of the lease's rows are settled; see
    /// [`Lessor::applied`]. `None`: at once.
    pub waits_for: Option<u64>,
}

/// One lease as returned by [`Lessor::remaining`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseState {
    /// Seconds.
    pub granted_ttl: i64,
    /// Zero if it has expired and its revoke is in flight.
    pub remaining: Duration,
}

#[derive(Debug)]
struct Lease {
    /// Seconds, positive.
    ttl: i64,
    deadline: Duration,
    /// When to write the next checkpoint.
    checkpoint_at: Duration,
    /// True if the newest row issued or stored has a remaining TTL; false if there is no row or it
    /// is zero.
    is_short: bool,
    /// Its revoke is in flight.
    handed_out: bool,
    /// Distinguishes this lease from an earlier one with the same id.
    serial: u64,
}

/// Heap entry; the order of the fields is the order of the heap.
type Due = Reverse<(Duration, i64, u64)>;

#[derive(Debug)]
pub struct Lessor {
    /// Added to every restored lease: an election may have taken this long.
    election_timeout: Duration,
    leases: HashMap<i64, Lease>,
    /// Deadlines of the leases not handed out, and of some that were revoked.
    deadlines: BinaryHeap<Due>,
    /// Leases handed out, with the time to hand them out again; the delay is constant, so they are
    /// sorted.
    retries: VecDeque<(Duration, i64, u64)>,
    /// Number of leases handed out that still exist.
    handed_out: usize,
    checkpoints: BinaryHeap<Due>,
    under_way: HashMap<i64, UnderWay>,
    /// Whether checkpoints may be written. Etcd members must not be in the cluster: as leader they
    /// would never reset a stored remaining TTL.
    may_checkpoint: bool,
    /// While checkpoints may not be written: leases with a stored remaining TTL to reset. A follower
    /// of an etcd leader hears of many rows and resets none. Sorted, so that equal states act equally.
    to_take_back: BTreeSet<i64>,
    serial: u64,
    /// Rows still allowed in the second that began at `.0`.
    allowance: (Duration, u32),
}

impl Lessor {
    /// `election_timeout` is added to the remaining TTL of restored leases.
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
            to_take_back: BTreeSet::new(),
            serial: 0,
            allowance: (Duration::ZERO, CHECKPOINT_ROWS_PER_SECOND),
        }
    }

    /// Loads the leases of the store: `(id, granted TTL, remaining TTL)` in seconds. A remaining
    /// TTL of zero means there is no checkpoint, and the lease gets its full TTL.
    pub fn restore(&mut self, leases: impl IntoIterator<Item = (i64, i64, i64)>, now: Duration) {
        for (id, ttl, remaining) in leases {
            let is_short = remaining > 0;
            let left = if is_short { remaining } else { ttl };
            let deadline = now + seconds(left) + self.election_timeout;
            self.insert(id, ttl, deadline, now, is_short);
            if is_short && !self.may_checkpoint {
                self.to_take_back.insert(id);
            }
        }
    }

    /// A lease was granted. The state has checked that the id is free.
    pub fn grant(&mut self, id: i64, ttl: i64, now: Duration) {
        self.insert(id, ttl, now + seconds(ttl), now, false);
    }

    /// A revoke was applied.
    pub fn revoke(&mut self, id: i64) {
        self.under_way.remove(&id);
        self.to_take_back.remove(&id);
        // The heap entries stay for now; they no longer refer to a lease.
        if self
            .leases
            .remove(&id)
            .is_some_and(|lease| lease.handed_out)
        {
            self.handed_out -= 1;
        }
        self.clear_heaps();
    }

    /// Gives the lease its full TTL again. `None` if the lease does not exist or has expired: its
    /// revoke may already be in the log, so it cannot be renewed.
    pub fn renew(&mut self, id: i64, now: Duration) -> Option<Renewal> {
        let lease = self.leases.get_mut(&id)?;
        if lease.deadline <= now {
            return None;
        }
        let ttl = seconds(lease.ttl);
        // Never earlier than before: after a restart the lease may have more than its TTL left.
        lease.deadline = lease.deadline.max(now + ttl);
        let quiet_until = (now + ttl / 2).max(now + CHECKPOINT_STEP_MIN);
        lease.checkpoint_at = lease.checkpoint_at.max(quiet_until);
        let (ttl, is_short) = (lease.ttl, std::mem::take(&mut lease.is_short));
        let under_way = self.under_way.get(&id);
        // A reset that is waited for, and was not applied within this time, is lost.
        let is_lost = under_way.is_some_and(|rows| {
            rows.reset_after().is_some() && rows.issued_at + EXPIRED_RETRY <= now
        });
        let takes_back = is_short || is_lost;
        if takes_back {
            self.issue(id, 0, now);
        }
        let under_way = self.under_way.get(&id);
        Some(Renewal {
            ttl,
            takes_back,
            waits_for: under_way.and_then(UnderWay::reset_after),
        })
    }

    pub fn remaining(&self, id: i64, now: Duration) -> Option<LeaseState> {
        self.leases.get(&id).map(|lease| lease.state(now))
    }

    /// The deadline and the id of every lease, not sorted.
    pub fn ends(&self) -> Vec<(Duration, i64)> {
        self.leases
            .iter()
            .map(|(id, lease)| (lease.deadline, *id))
            .collect()
    }

    pub fn len(&self) -> usize {
        self.leases.len()
    }

    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Expired leases, the longest expired first. At most `max` are handed out at any time, so that
    /// many expiring at once do not block other requests. Each is handed out once, and again only
    /// if it still exists after [`EXPIRED_RETRY`].
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

    /// When to call [`Lessor::expired`] (with the same `max`) or [`Lessor::checkpoints`] next. May
    /// be too early, never too late.
    pub fn next_wake(&self, max: usize) -> Option<Duration> {
        let deadline = self.deadlines.peek().map(|Reverse((at, ..))| *at);
        // With `max` leases handed out, only an applied revoke or a retry allows the next one.
        let deadline = deadline.filter(|_| self.handed_out < max);
        let retry = self.retries.front().map(|(at, ..)| *at);
        let checkpoint = if self.may_checkpoint {
            self.checkpoints.peek().map(|Reverse((at, ..))| *at)
        } else {
            self.to_take_back.first().map(|_| Duration::ZERO)
        };
        // If this second's rows are used up, the next checkpoint is in the next second.
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
        self.clear_heaps();
    }

    /// Removes the entries of revoked leases from a heap that has too many; see [`HEAP_FACTOR`].
    /// The others keep their times, so what comes up, and in which order, is the same as without.
    fn clear_heaps(&mut self) {
        let leases = &self.leases;
        let most = HEAP_FACTOR * leases.len() + HEAP_SLACK;
        for heap in [&mut self.deadlines, &mut self.checkpoints] {
            if heap.len() > most {
                heap.retain(|Reverse((_, id, serial))| current(leases, *id, *serial).is_some());
            }
        }
    }
}

impl Lease {
    fn state(&self, now: Duration) -> LeaseState {
        LeaseState {
            granted_ttl: self.ttl,
            remaining: self.deadline.saturating_sub(now),
        }
    }
}

fn seconds(ttl: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl).unwrap_or(0))
}

/// The lease of a heap entry, if it is still the same lease.
fn current(leases: &HashMap<i64, Lease>, id: i64, serial: u64) -> Option<&Lease> {
    leases.get(&id).filter(|lease| lease.serial == serial)
}

fn current_mut(leases: &mut HashMap<i64, Lease>, id: i64, serial: u64) -> Option<&mut Lease> {
    leases.get_mut(&id).filter(|lease| lease.serial == serial)
}

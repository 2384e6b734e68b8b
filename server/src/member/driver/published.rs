//! Figures that the actors publish. Each group names its one writer. Request handlers and pages only
//! read.

#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

use raft::durable::Keep;
use raft::{NOBODY, NodeId, RoleChange, Term, Waiting};
use storage::mvcc::Stats;

use super::job::Hurry;
use crate::member::cluster::peer::join::minor;
use crate::state::MemberInfo;
use crate::state::held_back::{HeldBack, held_bytes};

/// From this version on, etcd's members check a transaction as Stele does; see
/// [`crate::request::nesting`].
const SAME_RULES: (u64, u64) = (3, 7);

#[derive(Debug)]
pub struct Published {
    member_id: NodeId,
    pub leadership: Leadership,
    pub progress: Progress,
    pub space: Space,
    pub queues: Queues,
    /// Read by the running checkpoint. Written by the applier alone.
    pub(super) hurry: Hurry,
    /// Read by the hash of a compaction. Written by the applier alone.
    pub hash_hurry: Hurry,
    /// Bytes that the log has written since the start. Written by the holder of the log.
    log_bytes: AtomicU64,
    /// How many bytes the log may have written before the next look at its disk; 0: not known.
    /// Written by [`super::space::Disks`].
    log_limit_bytes: AtomicU64,
    /// Bytes of the log's files that no start needs, kept for members that were away. Written by the
    /// holder of the log.
    log_kept_bytes: AtomicU64,
    /// How many of them may be kept. Written by [`super::space::Disks`].
    log_keep_bytes: AtomicU64,
    /// The same while a member is being fed. Written by [`super::space::Disks`].
    log_fed_bytes: AtomicU64,
}

/// Who leads, as far as this member knows. Written by the consensus actor alone.
#[derive(Debug, Default)]
pub struct Leadership {
    term: AtomicU64,
    leader: AtomicU64,
    changes: AtomicU64,
    /// When this member last became the leader, in nanoseconds of its clock.
    led_since: AtomicU64,
    committed: AtomicU64,
    /// Others may know that entries up to this one are committed: it was the last one when the last
    /// of them was gone. `u64::MAX` while raft has others.
    known: AtomicU64,
    /// See [`raft::Status::feeding_after`]; `u64::MAX` for `None`.
    feeding_after: AtomicU64,
}

/// What waits in memory, in bytes of entries; see [`raft::Waiting`]. Written by the consensus actor
/// alone.
#[derive(Debug, Default)]
pub struct Queues {
    uncommitted: AtomicUsize,
    unapplied: AtomicUsize,
    unsaved: AtomicUsize,
    in_flight: AtomicUsize,
}

/// The applied part of the log, and the members by it. Written by the applier alone.
#[derive(Debug, Default)]
pub struct Progress {
    applied: AtomicU64,
    /// Term of the entry at `applied`; written after the entry's effects are visible.
    applied_term: AtomicU64,
    learner: AtomicBool,
    alone: AtomicBool,
    has_older: AtomicBool,
}

/// What a member is among all members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    pub learner: bool,
    /// There is no other member.
    pub alone: bool,
}

impl Standing {
    /// What the member `own` is among `members`.
    pub(super) fn among(own: NodeId, members: &[MemberInfo]) -> Standing {
        let is_own = |member: &&MemberInfo| member.id == own;
        let found = members.iter().find(is_own);
        Standing {
            learner: found.is_some_and(|found| found.is_learner),
            alone: found.is_some() && members.len() == 1,
        }
    }
}

/// The space that the data takes, and whether space is low. Written by the applier alone.
#[derive(Debug, Default)]
pub struct Space {
    /// Size of the file, free pages included.
    file_bytes: AtomicU64,
    /// Bytes in use. The quota counts these, so clients and alerts see them both as the size of the
    /// database and as its size in use. etcd's quota counts the whole file, because only a
    /// defragmentation makes its free pages usable again. Here free pages are usable at once and go
    /// back to the disk without a request. With the file's size beside this quota, etcd's alerts
    /// would ask for useless defragmentations and warn far below the quota.
    in_use_bytes: AtomicU64,
    /// Requests that take space are refused.
    is_low: AtomicBool,
    /// Bytes of the file that only views keep from reuse.
    held_bytes: AtomicU64,
    /// The disk is full, or nearly.
    is_short: AtomicBool,
}

impl Published {
    pub fn new(member_id: NodeId, standing: Standing) -> Published {
        let shared = Published {
            member_id,
            leadership: Leadership::default(),
            progress: Progress::default(),
            space: Space::default(),
            queues: Queues::default(),
            hurry: Hurry::default(),
            hash_hurry: Hurry::default(),
            log_bytes: AtomicU64::new(0),
            log_limit_bytes: AtomicU64::new(0),
            log_kept_bytes: AtomicU64::new(0),
            log_keep_bytes: AtomicU64::new(0),
            log_fed_bytes: AtomicU64::new(0),
        };
        shared.progress.set_standing(standing);
        shared
    }

    /// True if a change that takes `needed` bytes may be proposed while requests of `in_flight` bytes
    /// are not answered. A `quota` of 0 is none.
    pub fn admits(&self, needed: u64, in_flight: u64, quota: u64) -> bool {
        needed == 0 || (self.space.fits(needed, quota) && !self.overruns_disk(needed + in_flight))
    }

    /// True if these bytes, with what the log has written since the last look at its disk, may take
    /// more space than that look found.
    fn overruns_disk(&self, bytes: u64) -> bool {
        let limit = self.log_limit_bytes.load(Relaxed);
        limit != 0 && self.log_bytes() + bytes > limit
    }

    pub fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Relaxed)
    }

    pub(super) fn set_log_bytes(&self, bytes: u64) {
        self.log_bytes.store(bytes, Relaxed);
    }

    pub(super) fn set_log_limit(&self, bytes: u64) {
        self.log_limit_bytes.store(bytes, Relaxed);
    }

    pub(super) fn log_kept_bytes(&self) -> u64 {
        self.log_kept_bytes.load(Relaxed)
    }

    pub(super) fn set_log_kept(&self, bytes: u64) {
        self.log_kept_bytes.store(bytes, Relaxed);
    }

    pub(super) fn log_keep(&self) -> Keep {
        let feeding_after = self.leadership.feeding_after.load(Relaxed);
        Keep {
            bytes: self.log_keep_bytes.load(Relaxed),
            feeding_after: (feeding_after != u64::MAX).then_some(feeding_after),
            fed_bytes: self.log_fed_bytes.load(Relaxed),
        }
    }

    pub(super) fn set_log_keep(&self, bytes: u64, fed_bytes: u64) {
        self.log_keep_bytes.store(bytes, Relaxed);
        self.log_fed_bytes.store(fed_bytes, Relaxed);
    }

    /// True if this member leads.
    pub fn leads(&self) -> bool {
        self.leadership.leader() == self.member_id
    }

    /// True if a read need not ask for the newest committed entry. A leader without other members has
    /// applied and published everything that anybody has seen. Entries that an earlier leader
    /// acknowledged are applied once an entry of this term is.
    ///
    /// To be the only voter is not enough: a learner may apply an entry before its leader does, and
    /// whoever read it there must not read less here. Nor is it enough to have applied the removal of
    /// all others: one of them may have applied later entries, which are not applied here yet.
    pub fn decides_alone(&self) -> bool {
        self.progress.is_alone()
            && self.leads()
            && self.progress.applied_term.load(Acquire) == self.leadership.term.load(Acquire)
            && self.progress.applied() >= self.leadership.known.load(Acquire)
    }
}

impl Leadership {
    /// 0: no leader is known.
    pub fn leader(&self) -> NodeId {
        self.leader.load(Relaxed)
    }

    pub fn has_leader(&self) -> bool {
        self.leader() != NOBODY
    }

    pub fn term(&self) -> Term {
        self.term.load(Relaxed)
    }

    /// Number of times that a different leader was found.
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    pub fn led_since(&self) -> Duration {
        Duration::from_nanos(self.led_since.load(Relaxed))
    }

    pub fn committed(&self) -> u64 {
        self.committed.load(Relaxed)
    }

    pub(super) fn set_committed(&self, index: u64) {
        self.committed.store(index, Relaxed);
    }

    pub(super) fn set_known(&self, index: Option<u64>) {
        self.known.store(index.unwrap_or(u64::MAX), Release);
    }

    pub(super) fn set_feeding_after(&self, index: Option<u64>) {
        self.feeding_after.store(index.unwrap_or(u64::MAX), Relaxed);
    }

    /// Publishes a change of role and returns the previous leader. `now` counts as the time when
    /// this member, `own`, began to lead, if it leads.
    pub(super) fn publish(&self, change: &RoleChange, own: NodeId, now: Duration) -> NodeId {
        self.term.store(change.term, Relaxed);
        let previous = self.leader.swap(change.leader, Release);
        if change.leader != previous && change.leader != NOBODY {
            self.changes.fetch_add(1, Relaxed);
            if change.leader == own {
                self.led_since.store(now.as_nanos() as u64, Relaxed);
            }
        }
        previous
    }
}

impl Queues {
    pub fn waiting(&self) -> Waiting {
        Waiting {
            uncommitted: self.uncommitted.load(Relaxed),
            unapplied: self.unapplied.load(Relaxed),
            unsaved: self.unsaved.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
        }
    }

    pub(super) fn publish(&self, waiting: Waiting) {
        self.uncommitted.store(waiting.uncommitted, Relaxed);
        self.unapplied.store(waiting.unapplied, Relaxed);
        self.unsaved.store(waiting.unsaved, Relaxed);
        self.in_flight.store(waiting.in_flight, Relaxed);
    }
}

impl Progress {
    pub fn applied(&self) -> u64 {
        self.applied.load(Acquire)
    }

    /// True if this member is a learner.
    pub fn is_learner(&self) -> bool {
        self.learner.load(Acquire)
    }

    /// True if the cluster has no other member.
    pub(super) fn is_alone(&self) -> bool {
        self.alone.load(Acquire)
    }

    /// True if a member may run etcd 3.6 or older, by the cluster version.
    pub fn has_older_members(&self) -> bool {
        self.has_older.load(Acquire)
    }

    pub(super) fn set_cluster_version(&self, decided: Option<&str>) {
        // Until it is decided, members of any version may be there.
        let has_older = decided.and_then(minor) < Some(SAME_RULES);
        self.has_older.store(has_older, Release);
    }

    pub(super) fn set_standing(&self, standing: Standing) {
        self.alone.store(standing.alone, Release);
        self.learner.store(standing.learner, Release);
    }

    /// A reader of this term also sees the effects of its entry.
    pub(super) fn publish(&self, index: u64, term: Term) {
        self.applied.store(index, Release);
        self.applied_term.store(term, Release);
    }
}

impl Space {
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes.load(Relaxed)
    }

    pub fn in_use_bytes(&self) -> u64 {
        self.in_use_bytes.load(Relaxed)
    }

    pub fn is_low(&self) -> bool {
        self.is_low.load(Acquire)
    }

    pub fn held_back(&self) -> HeldBack {
        let held = self.held_bytes.load(Relaxed);
        HeldBack::of(held, self.file_bytes(), self.is_short.load(Relaxed))
    }

    fn fits(&self, needed: u64, quota: u64) -> bool {
        let fits = quota == 0 || self.in_use_bytes() + needed < quota;
        fits && !self.is_low()
    }

    pub(super) fn publish(&self, stats: &Stats, is_low: bool, is_short: bool) {
        let in_use = stats.in_use_bytes + stats.dirty_bytes;
        self.file_bytes.store(stats.file_bytes, Relaxed);
        self.in_use_bytes.store(in_use, Relaxed);
        self.held_bytes.store(held_bytes(stats), Relaxed);
        self.is_short.store(is_short, Relaxed);
        self.is_low.store(is_low, Release);
    }
}

//! Which compactions are hashed when there are more than can be hashed. A plain state machine.
//!
//! Only hashes of the same compaction can be compared, and members are not equally fast. So all
//! members prefer the same compactions: those of the highest *level*. The level of a compaction is
//! the highest power of two that its revisions reach or cross, which all members know. Of *n*
//! compactions at equal distances, half have the lowest level and one the highest.
//!
//! - One job waits: of those that came, one of the highest level, and of these the newest.
//! - A job of a higher level than the running one breaks it off. So that job begins on all members
//!   when its compaction is applied, and as levels only rise, some job always comes to its end.

use storage::mvcc::Revision;

use super::HashJob;

#[derive(Default)]
pub(super) struct Queue {
    waiting: Option<HashJob>,
    /// The level of the job that is being computed.
    running: Option<u32>,
    is_superseded: bool,
    /// The oldest row removed after the last job that was begun, until the waiting one.
    removed: Option<Revision>,
    /// The same, after the waiting one.
    removed_after: Option<Revision>,
}

impl Queue {
    /// Takes a job. Returns the revision of the one that will not be computed, if there is one.
    pub(super) fn push(&mut self, job: HashJob, may_break_off: bool) -> Option<i64> {
        let level = job.level();
        self.is_superseded |= may_break_off && self.running.is_some_and(|running| running < level);
        self.removed_after = older(self.removed_after, job.oldest_removed);
        if self.waiting.as_ref().is_some_and(|w| w.level() > level) {
            return Some(job.revision);
        }
        self.removed = older(self.removed, self.removed_after.take());
        let gone = self.waiting.replace(job);
        gone.map(|gone| gone.revision)
    }

    /// The next job, and the oldest row removed since the last job that was begun. Call
    /// [`Queue::ended`] when the job has ended.
    pub(super) fn take(&mut self) -> Option<(HashJob, Option<Revision>)> {
        let job = self.waiting.take()?;
        self.running = Some(job.level());
        self.is_superseded = false;
        let removed = std::mem::replace(&mut self.removed, self.removed_after.take());
        Some((job, removed))
    }

    /// The job that was taken has ended. `removed`: what [`Queue::take`] returned with it, if it
    /// was broken off before it began to hash; the next job then takes that into account.
    pub(super) fn ended(&mut self, removed: Option<Revision>) {
        self.running = None;
        self.is_superseded = false;
        self.removed = older(self.removed, removed);
    }

    /// True if the running job must be broken off.
    pub(super) fn is_superseded(&self) -> bool {
        self.is_superseded
    }
}

impl HashJob {
    fn level(&self) -> u32 {
        let crossed = self.view.compacted().max(0) ^ self.revision.max(0);
        i64::BITS - crossed.leading_zeros()
    }
}

fn older(one: Option<Revision>, other: Option<Revision>) -> Option<Revision> {
    one.into_iter().chain(other).min()
}

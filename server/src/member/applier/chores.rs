//! What runs between entries: removal of compacted rows and checkpoints, at the pace that memory
//! and disk allow.

use std::time::Duration;

use raft::Now;

use super::background::{BackgroundLimits, Unsaved};
use super::steps::{StepClock, WorkClock};
use super::{Applier, ApplyEffects};
use crate::basics::error::Error;
use crate::member::event::Outcome;
use crate::state::hashes::Compacted;
use crate::state::held_back::{HeldBack, held_bytes};
use crate::telemetry::metrics::Chore;

impl Applier {
    /// Removes some compacted rows. Answers the clients that wait for it when theirs are gone.
    pub(super) fn compact(&mut self, now: Now, effects: &mut ApplyEffects) -> Result<(), Error> {
        if self.removal.due_at().is_some() {
            let (stats, root) = (self.state.store.stats(), self.state.store.root());
            let urgent = self.is_short() || self.space.is_asked();
            let (superseded, keys) = (root.superseded_rows(), root.live_keys());
            self.removal.begin(now, urgent, superseded, keys, &stats);
        }
        if !self.removal.is_running() || self.is_ahead_of_hub() || self.holds_too_much() {
            return Ok(());
        }
        if self.is_deleting() {
            return Ok(());
        }
        if !self.removal_steps.is_due(now) && !self.is_short() {
            return Ok(());
        }
        if self.waits_for_readers(now) {
            self.removal_steps.wait(now + READERS_PATIENCE);
            return Ok(());
        }
        let rows = self.removal_steps.size(self.pace.compact_step_rows);
        let rows = if self.is_short() {
            rows.min(COMPACT_STEP_ROWS_WHEN_LOW)
        } else {
            rows
        };
        let began = self.step_time();
        let progress = self.state.store.compact_step(rows)?;
        let (took, busy) = (self.step_time() - began, effects.applied.is_some());
        let pause = self.pace.compact_pause;
        self.removal_steps.ended(now, took, busy, pause);
        effects.counts.chores.push((Chore::Removal, took));
        if self.removal.since().is_some() {
            effects.counts.compacted_rows = Some(progress.removed);
            self.removal.removed(progress.removed as u64);
        }
        if progress.removed > 0 {
            self.space.freed();
        }
        if let Some(revision) = progress.through {
            let since = self.removal.since();
            let took = since.map(|since| now.saturating_sub(since));
            effects.counts.compaction_took = took;
            effects.compacted = took.map(|took| Compacted {
                revision,
                took,
                rows: self.removal.rows(),
                bytes: self.state.store.stats().in_use_bytes,
            });
            for slot in self.removal.ended(now, revision, progress.done) {
                effects.replies.push((slot, self.answer(Ok(Outcome::Done))));
            }
        }
        Ok(())
    }

    /// True if removal waits for readers; see [`Removal::wait_for_readers`]. If the disk is short, what
    /// it frees beside them is needed.
    ///
    /// [`Removal::wait_for_readers`]: super::removal::Removal::wait_for_readers
    fn waits_for_readers(&mut self, now: Now) -> bool {
        let stats = self.state.store.stats();
        let held = HeldBack::of(held_bytes(&stats), stats.file_bytes, self.is_short());
        self.removal.wait_for_readers(now, held == HeldBack::Much)
    }

    /// Takes a step of re-encryption, if it is time.
    pub(super) fn reseal(&mut self, now: Now, effects: &mut ApplyEffects) -> Result<(), Error> {
        if self.stopping || self.is_deleting() || !self.resealing_steps.is_due(now) {
            return Ok(());
        }
        let began = self.step_time();
        let bytes = self.resealing_steps.size(RESEALING_STEP_BYTES) as u64;
        let (running, store) = (self.checkpoint_running, &mut self.state.store);
        let did = self.reencryptor.turn(now, bytes, store, running)?;
        effects.reencryption = did.told.or(effects.reencryption.take());
        if did.looked {
            let (took, busy) = (self.step_time() - began, effects.applied.is_some());
            self.resealing_steps.ended(now, took, busy, Duration::ZERO);
            effects.counts.chores.push((Chore::Resealing, took));
        }
        Ok(())
    }

    /// Times the steps of chores. Without it their sizes do not change.
    pub fn set_step_clock(&mut self, clock: StepClock) {
        self.step_clock = Some(clock);
    }

    /// Times the application of entries. Without it, its time starts no checkpoints.
    pub fn set_work_clock(&mut self, clock: WorkClock) {
        self.work_clock = Some(clock);
        self.state.store.time_merges(clock);
    }

    pub(super) fn work_time(&self) -> Duration {
        self.work_clock.map_or(Duration::ZERO, |now| now())
    }

    /// Only differences count: it need not have begun with the member's clock.
    pub(super) fn step_time(&self) -> Duration {
        self.step_clock.as_ref().map_or(Duration::ZERO, |now| now())
    }

    /// True while the hub has not read everything that a compaction would remove. Watches that were
    /// never behind would miss those events.
    pub(super) fn is_ahead_of_hub(&self) -> bool {
        self.hub.seen() < self.state.store.root().compacted()
    }

    /// True if removal must wait for the running checkpoint, so that memory is left for clients.
    /// Removal changes pages as fast as a checkpoint can save them.
    pub(super) fn holds_too_much(&self) -> bool {
        let dirty = self.state.store.stats().dirty_bytes;
        let most = self.pace().dirty_bytes_to_checkpoint;
        self.checkpoint_running && self.waiting_checkpoint.is_none() && dirty >= most * 5 / 4
    }

    /// The next entry waits until the running checkpoint is done.
    pub(super) fn stalled(&self) -> bool {
        // One that waits for space on the disk may need what the entry frees.
        let next = if self.waiting_checkpoint.is_some() {
            0
        } else {
            self.next_bytes.unwrap_or_default()
        };
        let dirty = self.state.store.stats().dirty_bytes;
        self.checkpoint_running && dirty.saturating_add(next) >= self.pace.dirty_bytes_max
    }

    pub(super) fn pace(&self) -> BackgroundLimits {
        if self.is_short() {
            self.pace.when_low(&self.state.store.stats())
        } else if self.removal.is_running() {
            self.pace.when_removing(&self.state.store.stats())
        } else {
            self.pace
        }
    }

    /// Begins a checkpoint if one is due; `wanted`: to return space.
    pub(super) fn checkpoint(&mut self, now: Now, wanted: bool, effects: &mut ApplyEffects) {
        if self.checkpoint_running {
            // A checkpoint that waits for space is given up: the log has everything it would save.
            effects.stopped = self.stopping && self.waiting_checkpoint.is_some();
            return;
        }
        let due = self.stopping
            || self.reencryptor.takes_checkpoint()
            || wanted
            || self
                .pace()
                .checkpoint_is_due(self.unsaved, &self.state.store.stats());
        if due {
            effects.checkpoint = self.state.store.begin_checkpoint();
            self.checkpoint_running = effects.checkpoint.is_some();
            // A checkpoint does not begin if there is no space for it.
            if self.checkpoint_running {
                self.unsaved = Unsaved::default();
            }
            if wanted && self.checkpoint_running {
                self.space.began();
            } else if wanted {
                let waiting = self.space.could_not_begin(now).into_iter();
                let refused = waiting.map(|slot| (slot, Err(Error::NoSpace)));
                effects.replies.extend(refused);
            }
        }
        // During a stop, the first checkpoint spares the next start the replay. A second one writes
        // nothing but itself, and lets the log drop most of its entries.
        effects.stopped = self.stopping && !self.checkpoint_running && !self.is_deleting();
    }

    /// Takes a step towards returning space. Returns true if that needs a checkpoint.
    pub(super) fn give_space_back(
        &mut self,
        now: Now,
        effects: &mut ApplyEffects,
    ) -> Result<bool, Error> {
        if self.checkpoint_running || self.stopping || self.is_deleting() {
            return Ok(false);
        }
        self.space.note(now, &self.state.store.stats());
        if self.removal.is_running() {
            return Ok(false);
        }
        let urgent = self.is_short();
        if !self.space_steps.is_due(now) && !urgent {
            return Ok(false);
        }
        let began = self.step_time();
        let bytes = self.space_steps.size(MOVE_STEP_BYTES) as u64;
        let wish = self.space.step(now, urgent, bytes, &mut self.state.store)?;
        if wish.moved {
            let (took, busy) = (self.step_time() - began, effects.applied.is_some());
            self.space_steps.ended(now, took, busy, Duration::ZERO);
            effects.counts.chores.push((Chore::SpaceReturn, took));
        }
        for slot in wish.answered {
            effects.replies.push((slot, self.answer(Ok(Outcome::Done))));
        }
        Ok(wish.checkpoint)
    }
}

/// Interval of looks whether readers that hold much back are gone.
pub(super) const READERS_PATIENCE: Now = Now::from_millis(20);

/// Bytes of pages looked at in one step of re-encryption, and in one that moves pages. If they are
/// cached, it takes well below a millisecond.
const RESEALING_STEP_BYTES: usize = 256 << 10;
const MOVE_STEP_BYTES: usize = 512 << 10;

/// Small, because each row may change a different page.
const COMPACT_STEP_ROWS_WHEN_LOW: usize = 16;

//! Actor 3. It applies committed entries to the [`State`], keeps the time of leases, and starts
//! checkpoints and compactions of the store in between. Plain values in and out; the shell runs it
//! on its own thread.

mod ahead;
mod alarm;
mod background;
mod chores;
mod effects;
mod entries;
mod large;
mod leases;
mod reencryptor;
mod removal;
mod slow;
mod space;
mod steps;
#[cfg(test)]
mod tests;
mod views;

use std::collections::{HashMap, VecDeque};

use raft::Now;
use storage::mvcc::{Attempt, CheckpointJob, Reader, SyncJob};

use crate::basics::error::Error;
use crate::member::event::{
    Answer, ApplyEvent, Committed, LeaseCall, Look, Outcome, Reply, ReplySlot,
};
use crate::request::AuthInfo;
use crate::state::lessor::Lessor;
use crate::state::snapshot::Received;
use crate::state::space_alarm::Guard;
use crate::state::watch::HubHandle;
use crate::state::{self, State};
use alarm::SpaceAlarm;
pub(crate) use background::KEYS_DELETED_AT_ONCE;
pub use background::{BackgroundLimits, LogBounds, Unsaved};
pub use effects::{ApplyEffects, SpaceNews};
use leases::WaitingRenewal;
use reencryptor::Reencryptor;
use removal::Removal;
pub use slow::{Slow, Stopwatch};
use space::Space;
use steps::Steps;
pub use steps::{StepClock, WorkClock};
use views::Views;

/// Pause before removal looks again whether the hub has read the compacted rows. Usually the hub
/// has read them within microseconds.
const HUB_PATIENCE: Now = Now::from_millis(1);
/// Most revokes of expired leases in flight. A client's request waits for no more of them.
const REVOKES_UNDER_WAY: usize = 500;

pub struct Applier {
    state: State,
    reader: Reader,
    lessor: Lessor,
    hub: HubHandle,
    /// The term that this member was elected to lead.
    elected: Option<raft::Term>,
    /// The same term, once all entries of earlier leaders are applied. Before that, the store may
    /// miss a renewal that took a checkpoint back, and the lease would end too early.
    leading: Option<raft::Term>,
    /// Questions about leases, waiting until `leading` equals `elected`.
    waiting_leases: Vec<(LeaseCall, ReplySlot)>,
    /// Entries up to this index were in the log when this run began. Their compactions leave no
    /// digest, as in etcd, where digests do not survive a restart.
    replayed_through: u64,
    /// A received state. It replaces the current one as soon as no checkpoint runs.
    installing: Option<Box<Received>>,
    pace: BackgroundLimits,
    /// Committed entries that wait for memory; see [`BackgroundLimits::dirty_bytes_max`].
    backlog: VecDeque<Committed>,
    /// Bytes of pages that the first of them changes, approximately; 0 if that is not much. `None`
    /// until it is looked at.
    next_bytes: Option<u64>,
    checkpoint_running: bool,
    /// The running checkpoint, if it waits for space on the disk.
    waiting_checkpoint: Option<CheckpointJob>,
    alarm: SpaceAlarm,
    unsaved: Unsaved,
    /// `None`: slow entries are not reported.
    stopwatch: Option<Stopwatch>,
    step_clock: Option<StepClock>,
    work_clock: Option<WorkClock>,
    deletion_steps: Steps,
    removal_steps: Steps,
    space_steps: Steps,
    resealing_steps: Steps,
    /// A sync that a replay left to do.
    sync: Option<SyncJob>,
    removal: Removal,
    /// By lease id.
    waiting_renewals: HashMap<i64, Vec<WaitingRenewal>>,
    /// Every member is known to run Stele: only Stele can take a lease's checkpoint back.
    may_checkpoint_leases: bool,
    /// The remaining times of leases were requested, to be written to the log before a stop.
    leases_are_written: bool,
    /// Reads, each with the index that must be applied first.
    waiting_reads: Vec<(u64, Vec<ReplySlot>)>,
    election_timeout: Now,
    space: Space,
    views: Views,
    reencryptor: Reencryptor,
    stopping: bool,
}

impl Applier {
    /// Leases in the store start to run at `now`.
    pub fn new(
        state: State,
        mut lessor: Lessor,
        hub: HubHandle,
        replayed_through: u64,
        election_timeout: Now,
        now: Now,
    ) -> Result<Applier, Error> {
        let rows = state::leases(state.store.root())?;
        lessor.allow_checkpoints(false);
        lessor.restore(
            rows.iter()
                .map(|row| (row.id, row.granted_ttl, row.remaining_ttl)),
            now,
        );
        let removing = state.store.root().is_removing();
        Ok(Applier {
            reader: state.store.reader(),
            reencryptor: Reencryptor::new(&state.store),
            state,
            lessor,
            hub,
            elected: None,
            leading: None,
            waiting_leases: Vec::new(),
            replayed_through,
            installing: None,
            pace: BackgroundLimits::default(),
            backlog: VecDeque::new(),
            next_bytes: None,
            checkpoint_running: false,
            waiting_checkpoint: None,
            alarm: SpaceAlarm::new(Guard::new(0, true), raft::NOBODY, false),
            unsaved: Unsaved::default(),
            stopwatch: None,
            step_clock: None,
            work_clock: None,
            deletion_steps: Steps::default(),
            removal_steps: Steps::default(),
            space_steps: Steps::default(),
            resealing_steps: Steps::default(),
            sync: None,
            removal: Removal::interrupted(removing.then_some(now)),
            waiting_renewals: HashMap::new(),
            may_checkpoint_leases: false,
            leases_are_written: false,
            waiting_reads: Vec::new(),
            election_timeout,
            space: Space::default(),
            views: Views::default(),
            stopping: false,
        })
    }

    /// Takes over what a replay left: its entries, which count for the next checkpoint, and the sync
    /// of what it wrote to the store's file.
    pub fn go_on_from(&mut self, replayed: Unsaved, sync: Option<SyncJob>) {
        self.unsaved = replayed;
        self.sync = sync;
    }

    pub fn set_pace(&mut self, pace: BackgroundLimits) {
        let store = &mut self.state.store;
        pace.bound(store);
        store.set_keys_deleted_at_once(pace.keys_deleted_at_once);
        self.pace = pace;
    }

    /// Reports the entries that take longer than `stopwatch` allows.
    pub fn set_stopwatch(&mut self, stopwatch: Stopwatch) {
        self.stopwatch = Some(stopwatch);
    }

    /// True if space on the disk is low, or a checkpoint waits for space.
    pub fn is_short(&self) -> bool {
        let waits = self.waiting_checkpoint.is_some();
        self.alarm.is_low() || waits || self.state.store.stats().is_short
    }

    /// Raises and clears this member's space alarm as `guard` decides.
    pub(crate) fn set_guard(&mut self, guard: Guard, member_id: u64) {
        let is_raised = self.state.has_space_alarm(member_id);
        self.alarm = SpaceAlarm::new(guard, member_id, is_raised);
    }

    /// True if requests that take space must be refused before they enter the log.
    pub fn refuses_growth(&self) -> bool {
        self.alarm.refuses() || self.state.store.stats().is_short
    }

    pub fn stats(&self) -> storage::mvcc::Stats {
        self.state.store.stats()
    }

    /// When the next turn is due even if no event arrives.
    pub fn wake_at(&self, now: Now) -> Option<Now> {
        if self.removal.is_running() && self.is_ahead_of_hub() {
            return Some(now + HUB_PATIENCE);
        }
        if !self.backlog.is_empty() && !self.stalled() {
            return Some(now);
        }
        let deletion = self.deletion_at(now);
        if deletion == Some(now) {
            return deletion;
        }
        let removes = self.removal.is_running() && !self.is_deleting() && !self.holds_too_much();
        let step = removes.then(|| self.removal_steps.due_at(now));
        if step == Some(now) {
            return step;
        }
        // The other chores wait until deletions are written.
        let is_deleting = self.is_deleting();
        let reencrypt = self.reencryptor.wake_at(now, self.checkpoint_running);
        let reencrypt = reencrypt.filter(|_| !is_deleting);
        let reencrypt = reencrypt.map(|at| self.resealing_steps.due_at(at));
        let lessor = self
            .leading
            .and_then(|_| self.lessor.next_wake(REVOKES_UNDER_WAY));
        let chores = match self.checkpoint_running || is_deleting {
            true => None,
            false if self.state.store.is_releasing() => Some(now),
            // Space is given back after it.
            false if self.removal.is_running() => None,
            false => {
                let at = self.space.wake_at(now);
                at.map(|at| self.space_steps.due_at(at))
            }
        };
        let removal = self.removal.due_at();
        let all = lessor
            .into_iter()
            .chain(chores)
            .chain(reencrypt)
            .chain(step);
        all.chain(removal).chain(deletion).min()
    }

    /// Handles all of `events`. An error is final: the store cannot be used any more.
    pub fn turn(
        &mut self,
        now: Now,
        events: &mut Vec<ApplyEvent>,
        effects: &mut ApplyEffects,
    ) -> Result<(), Error> {
        let revision_before = self.state.store.root().revision();
        for event in events.drain(..) {
            self.hear(event, effects)?;
        }
        self.install(now, effects)?;
        self.apply_backlog(now, effects)?;
        self.go_on_deleting(now, effects)?;
        let is_raised = self.state.has_space_alarm(self.alarm.member_id());
        self.alarm.note(is_raised, effects);
        self.compact(now, effects)?;
        self.reseal(now, effects)?;
        let sync = self.state.store.spill()?.or(self.sync.take());
        effects.sync = sync.or(effects.sync.take());
        self.state.store.reserve(false)?;
        self.state.store.publish();
        effects.retired = self.state.store.take_retired();
        if self.leading == self.elected {
            for (call, slot) in std::mem::take(&mut self.waiting_leases) {
                self.answer_lease(now, call, slot, effects);
            }
        }
        let revision = self.state.store.root().revision();
        if revision != revision_before {
            effects.advanced = Some(revision);
        }
        effects.term = self.leading.unwrap_or(0);
        if self.leading.is_some() {
            self.run_lessor(now, effects);
        }
        self.answer_reads(effects);
        let wanted = self.give_space_back(now, effects)?;
        self.checkpoint(now, wanted, effects);
        effects.oldest_view = self.views.note(now, &self.state.store.stats());
        Ok(())
    }

    fn hear(&mut self, event: ApplyEvent, effects: &mut ApplyEffects) -> Result<(), Error> {
        match event {
            ApplyEvent::Committed(mut entries) => {
                self.announce(&mut entries);
                self.backlog.extend(entries);
            }
            ApplyEvent::Lease(call, slot) => self.waiting_leases.push((call, slot)),
            ApplyEvent::CheckpointRan(attempt) => match (*attempt)? {
                Attempt::Done(done) => {
                    self.checkpoint_running = false;
                    let needed_from = self.state.store.finish_checkpoint(*done);
                    effects.drop_log_before = Some(needed_from + 1);
                }
                Attempt::Full(job, _) => {
                    self.state.store.ran_out();
                    self.waiting_checkpoint = Some(*job);
                }
            },
            ApplyEvent::Looked(look) => self.look(look, effects)?,
            ApplyEvent::Refused { needed, slot } => {
                self.alarm.refused(needed, slot, effects);
            }
            ApplyEvent::LogIsShort => self.alarm.log_is_short(effects),
            ApplyEvent::Reads { index, slots } => self.waiting_reads.push((index, slots)),
            ApplyEvent::Leading(term) if term == self.elected => {}
            ApplyEvent::Leading(term) => {
                self.elected = term;
                self.leading = None;
                self.abandon_renewals(effects);
            }
            ApplyEvent::LeaseCheckpoints { allowed } => {
                self.may_checkpoint_leases = allowed;
                self.lessor.allow_checkpoints(allowed);
            }
            ApplyEvent::Defragment(slot) => self.space.ask(slot),
            ApplyEvent::Install(received) => self.installing = Some(received),
            ApplyEvent::KeysChanged => self.reencryptor.begin(),
            ApplyEvent::Stop => self.stopping = true,
        }
        Ok(())
    }

    /// Applies entries until the limit of memory is reached.
    fn apply_backlog(&mut self, now: Now, effects: &mut ApplyEffects) -> Result<(), Error> {
        if self.backlog.is_empty() {
            return Ok(());
        }
        let (began, merged_before) = (self.work_time(), self.state.store.merge_time());
        while let Some(committed) = self.next_entry(effects)? {
            // All entries of earlier leaders come before the first entry of this term.
            let begins_to_lead =
                self.leading.is_none() && self.elected == Some(committed.entry.term);
            self.apply(now, committed, effects)?;
            if begins_to_lead {
                self.take_over_leases(now)?;
                self.leading = self.elected;
            }
        }
        let work = self.work_time() - began;
        let merged = self.state.store.merge_time() - merged_before;
        self.unsaved.worked(work, merged);
        Ok(())
    }

    fn look(&mut self, look: Look, effects: &mut ApplyEffects) -> Result<(), Error> {
        let stats = self.state.store.stats();
        if self.alarm.look(look, &stats, effects) {
            self.state.store.reserve(true)?;
            let waiting = self.waiting_checkpoint.take();
            effects.checkpoint = waiting.or(effects.checkpoint.take());
        }
        Ok(())
    }

    /// Replaces the state by the received one, which is durable already. Entries up to its applied
    /// index are part of it.
    fn install(&mut self, now: Now, effects: &mut ApplyEffects) -> Result<(), Error> {
        // A checkpoint that waits for space is given up: the received state has all it would save.
        if self.installing.is_some()
            && let Some(waiting) = self.waiting_checkpoint.take()
        {
            self.state.store.give_up_checkpoint(waiting);
            self.checkpoint_running = false;
        }
        // A running checkpoint writes to the file that is about to go away.
        let Some(received) = self.installing.take_if(|_| !self.checkpoint_running) else {
            return Ok(());
        };
        self.abandon_renewals(effects);
        self.next_bytes = None;
        let gone = self.backlog.drain(..).filter_map(|entry| entry.reply);
        effects
            .replies
            .extend(gone.map(|slot| (slot, Err(Error::Timeout))));
        self.state.replace(*received)?;
        let is_raised = self.state.has_space_alarm(self.alarm.member_id());
        self.alarm.installed(is_raised);
        // The generations of another file count anew.
        self.views = Views::default();
        self.take_over_leases(now)?;
        let removing = self.state.store.root().is_removing();
        self.removal.go_on(removing.then_some(now));
        self.unsaved = Unsaved::default();
        effects.applied = Some(self.state.store.root().applied().index);
        effects.cluster_changed = true;
        effects.installed = true;
        Ok(())
    }

    /// Answers the reads that this turn's published state satisfies.
    fn answer_reads(&mut self, effects: &mut ApplyEffects) {
        let applied = self.state.store.root().applied().index;
        let ready = self
            .waiting_reads
            .extract_if(.., |(index, _)| *index <= applied);
        let slots: Vec<ReplySlot> = ready.flat_map(|(_, slots)| slots).collect();
        for slot in slots {
            effects.replies.push((slot, self.answer(Ok(Outcome::Done))));
        }
    }

    pub fn members(&self) -> Result<Vec<state::MemberInfo>, Error> {
        state::members(self.state.store.root())
    }

    pub fn cluster_version(&self) -> Result<Option<String>, Error> {
        state::cluster_version(self.state.store.root())
    }

    pub fn downgrade(&self) -> Result<state::Downgrade, Error> {
        state::downgrade(self.state.store.root())
    }

    pub fn applied_term(&self) -> u64 {
        self.state.store.root().applied().term
    }

    pub fn removed_members(&self) -> Result<Vec<u64>, Error> {
        state::removed(self.state.store.root())
    }

    /// The identity under which this member itself proposes changes.
    pub fn own_auth_info(&self) -> AuthInfo {
        self.state.own_auth_info()
    }

    fn answer(&self, result: Result<Outcome, Error>) -> Reply {
        let revision = self.state.store.root().revision();
        result.map(|outcome| Answer { outcome, revision })
    }

    /// True if entries wait for memory until the running checkpoint ends, and nothing waits for the
    /// space that it returns.
    pub fn entries_wait(&self) -> bool {
        self.stalled() && !self.is_short()
    }

    /// True if a client waits for a removal that waits for readers, of which the hash of the same
    /// compaction mostly is one.
    pub fn hurries_hash(&self) -> bool {
        self.removal.keeps_a_client_waiting()
    }

    /// True if the running checkpoint must skip its pauses.
    pub fn hurries(&self) -> bool {
        let hurries = self.stopping
            || self.is_short()
            || self.is_deleting()
            || self.holds_too_much()
            || self.stalled();
        self.checkpoint_running && hurries
    }
}

//! History: watchers that start in the past, and the gap before they are live.

use super::{Ended, Phase, WatchStream};
use crate::state::watch::HISTORY_REVISIONS;
use crate::state::watch::history::{Aside, Done, GroupDone, HistoryDone, Outcome, ReadFor};
use crate::state::watch::response::{Fields, Out};

impl WatchStream {
    /// The longest waiting watcher, and those at nearly the same revision: one read serves all of
    /// them. They take turns, so that a watcher far behind does not delay the others.
    pub(super) fn next_group(&mut self) -> Vec<u32> {
        self.drop_not_behind();
        let slots = &self.slots;
        let Some(first) = self.behind.front() else {
            return Vec::new();
        };
        let from = slots[*first as usize]
            .as_ref()
            .map_or(0, |watcher| watcher.next);
        let near = from..from.saturating_add(HISTORY_REVISIONS);
        let mut group = Vec::new();
        self.behind.retain(|slot| {
            let joins_in = slots[*slot as usize]
                .as_ref()
                .is_some_and(|watcher| near.contains(&watcher.next) && !watcher.is_alone);
            if joins_in {
                group.push(*slot);
            }
            !joins_in
        });
        group.sort_unstable();
        group.dedup();
        group
    }

    /// Drops from `behind` the watchers that have left this phase.
    pub(super) fn drop_not_behind(&mut self) {
        let slots = &self.slots;
        self.behind.retain(|slot| {
            slots[*slot as usize]
                .as_ref()
                .is_some_and(|watcher| watcher.phase == Phase::Behind)
        });
    }

    pub(super) fn take_history(&mut self, done: HistoryDone, out: &mut Out) {
        let GroupDone {
            watchers,
            is_gap,
            outcome,
        } = match done.0 {
            Done::Group(done) => done,
            Done::Long(long, step) => return self.take_long(long, step, out),
        };
        match outcome {
            Outcome::Failed(error) => self.ended = Some(Ended::Failed(error)),
            Outcome::Compacted { revision } => {
                self.take_compacted(&watchers, revision, phase_of(is_gap), out);
            }
            Outcome::Read {
                events,
                hits,
                through,
                aside,
                store_revision,
            } => {
                let phase = phase_of(is_gap);
                // Meanwhile watchers may have been canceled, and their slots reused.
                let known: Vec<bool> = watchers.iter().map(|of| self.is_still(of, phase)).collect();
                self.batch.events = events;
                self.batch.store_revision = store_revision;
                for (place, event) in hits {
                    if known[place as usize] {
                        self.add_hit(watchers[place as usize].slot, event, phase);
                    }
                }
                let (mut level, mut late) = (Vec::with_capacity(watchers.len()), Vec::new());
                for (place, of) in watchers.iter().enumerate() {
                    if !known[place] {
                        continue;
                    }
                    let watcher = self.watcher(of.slot);
                    if let Some(aside) = aside.get(&(place as u32)) {
                        watcher.next = watcher.next.max(through);
                        watcher.is_alone = *aside == Aside::Alone;
                        late.push(of.slot);
                    } else {
                        watcher.next = watcher.next.max(through + 1);
                        level.push(of.slot);
                    }
                }
                if is_gap {
                    self.settle_gap();
                    return;
                }
                self.behind.extend(late);
                if through == store_revision {
                    self.join_level(level);
                } else {
                    self.behind.extend(level);
                }
            }
        }
    }

    /// These watchers have read everything.
    fn join_level(&mut self, slots: Vec<u32>) {
        for slot in &slots {
            self.watcher(*slot).phase = Phase::Joining;
        }
        if !slots.is_empty() {
            self.join(slots);
        }
    }

    /// Ends the gap for the watchers that need it no longer: those that have everything up to its
    /// end are live, those canceled or compacted must not block the stream for ever. Returns true
    /// if it is still open.
    ///
    /// Each watcher's own `next` decides, not how far a read came: when all watchers of a gap are
    /// canceled while it is read, the next gap opens before that read is done.
    pub(super) fn settle_gap(&mut self) -> bool {
        let watchers = &mut self.slots;
        self.gap.take_if(|(slots, end)| {
            slots.retain(|slot| match &mut watchers[*slot as usize] {
                Some(watcher) if watcher.phase == Phase::Filling => {
                    let is_filled = watcher.next > *end;
                    if is_filled {
                        watcher.phase = Phase::Live;
                    }
                    !is_filled
                }
                _ => false,
            });
            slots.is_empty()
        });
        self.gap.is_some()
    }

    pub(super) fn take_compacted(
        &mut self,
        of: &[ReadFor],
        compacted: i64,
        phase: Phase,
        out: &mut Out,
    ) {
        for of in of {
            if !self.is_still(of, phase) {
                continue;
            }
            let watcher = self.watcher(of.slot);
            if watcher.next < compacted {
                watcher.phase = Phase::Compacted;
                let fields = Fields {
                    watch_id: watcher.id,
                    canceled: true,
                    compact_revision: compacted,
                    ..Fields::default()
                };
                out.control(0, &fields);
            } else if phase == Phase::Behind {
                self.behind.push_back(of.slot);
            }
        }
        self.settle_gap();
    }

    pub(super) fn is_still(&self, of: &ReadFor, phase: Phase) -> bool {
        self.slots[of.slot as usize]
            .as_ref()
            .is_some_and(|watcher| watcher.serial == of.serial && watcher.phase == phase)
    }
}

/// The phase of watchers for which history is read.
pub(super) fn phase_of(is_gap: bool) -> Phase {
    if is_gap {
        Phase::Filling
    } else {
        Phase::Behind
    }
}

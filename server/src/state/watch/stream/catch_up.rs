//! History: watchers that start in the past, and the gap before they are live.

use super::{Ended, Phase, WatchStream};
use crate::state::watch::HISTORY_REVISIONS;
use crate::state::watch::history::{HistoryDone, Outcome, ReadFor};
use crate::state::watch::response::{Fields, Out};

impl WatchStream {
    /// The longest waiting watcher, and those at nearly the same revision: one read serves all of
    /// them. They take turns, so that a watcher far behind does not delay the others.
    pub(super) fn next_group(&mut self) -> Vec<u32> {
        let slots = &self.slots;
        let is_behind = |slot: &u32| {
            slots[*slot as usize]
                .as_ref()
                .is_some_and(|watcher| watcher.phase == Phase::Behind)
        };
        self.behind.retain(is_behind);
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
                .is_some_and(|watcher| near.contains(&watcher.next));
            if joins_in {
                group.push(*slot);
            }
            !joins_in
        });
        group.sort_unstable();
        group.dedup();
        group
    }

    pub(super) fn take_history(&mut self, done: HistoryDone, out: &mut Out) {
        let HistoryDone {
            watchers,
            is_gap,
            outcome,
        } = done;
        let phase = if is_gap {
            Phase::Filling
        } else {
            Phase::Behind
        };
        match outcome {
            Outcome::Failed(error) => self.ended = Some(Ended::Failed(error)),
            Outcome::Compacted { revision } => {
                self.take_compacted(&watchers, revision, phase, out);
            }
            Outcome::Read {
                events,
                hits,
                through,
                store_revision,
            } => {
                // Meanwhile watchers may have been canceled, and their slots reused.
                let known: Vec<bool> = watchers.iter().map(|of| self.is_still(of, phase)).collect();
                self.batch.events = events;
                self.batch.store_revision = store_revision;
                for (place, event) in hits {
                    if known[place as usize] {
                        self.add_hit(watchers[place as usize].slot, event, phase);
                    }
                }
                let mut slots: Vec<u32> = Vec::with_capacity(watchers.len());
                for (of, known) in watchers.iter().zip(known) {
                    if known {
                        slots.push(of.slot);
                        let watcher = self.watcher(of.slot);
                        watcher.next = watcher.next.max(through + 1);
                    }
                }
                if is_gap {
                    self.settle_gap();
                } else if through == store_revision {
                    for slot in &slots {
                        self.watcher(*slot).phase = Phase::Joining;
                    }
                    if !slots.is_empty() {
                        self.join(slots);
                    }
                } else {
                    self.behind.extend(slots);
                }
            }
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

    fn take_compacted(&mut self, of: &[ReadFor], compacted: i64, phase: Phase, out: &mut Out) {
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

    fn is_still(&self, of: &ReadFor, phase: Phase) -> bool {
        self.slots[of.slot as usize]
            .as_ref()
            .is_some_and(|watcher| watcher.serial == of.serial && watcher.phase == phase)
    }
}

//! The mailbox: events and answers of the hub, given to their watchers.

use super::{Ended, NO_WATCH_ID, Phase, WatchStream, created};
use crate::state::watch::mailbox::{Ask, Delivery, Item};
use crate::state::watch::response::{Fields, Out};

impl WatchStream {
    pub(super) fn take_item(&mut self, item: Item, out: &mut Out) {
        match item {
            Item::Events(delivery) => self.take_events(delivery),
            Item::Joined { slots, through } => self.take_joined(slots, through, out),
            Item::Behind { slots } => {
                for slot in slots {
                    self.take_behind(slot, out);
                }
            }
            Item::Left { slot } => {
                self.slots[slot as usize] = None;
                self.free.push(slot);
            }
            Item::Detached { through } => self.take_detached(through),
            Item::Progress {
                revision,
                ask: Ask::Stream,
            } => {
                self.asking = false;
                let mut watchers = self.by_id.values();
                let slots = &self.slots;
                if watchers.all(|slot| {
                    slots[*slot as usize]
                        .as_ref()
                        .is_some_and(|watcher| watcher.is_at(revision))
                }) {
                    let fields = Fields {
                        watch_id: NO_WATCH_ID,
                        ..Fields::default()
                    };
                    out.control(revision, &fields);
                }
            }
            Item::Progress {
                revision,
                ask: Ask::Idle,
            } => {
                for watcher in self.slots.iter_mut().flatten() {
                    if watcher.progress_notify && watcher.idle && watcher.is_at(revision) {
                        let fields = Fields {
                            watch_id: watcher.id,
                            ..Fields::default()
                        };
                        out.control(revision, &fields);
                    }
                    watcher.idle = true;
                }
            }
            Item::Closed => self.ended = Some(Ended::ServerStopped),
        }
    }

    /// Merges this delivery and those directly after it into one batch, so that they are sent
    /// together.
    fn take_events(&mut self, delivery: Delivery) {
        self.add_events(delivery);
        while let Some(Item::Events(_)) = self.queue.front() {
            if let Some(Item::Events(delivery)) = self.queue.pop_front() {
                self.add_events(delivery);
            }
        }
    }

    fn add_events(&mut self, mut delivery: Delivery) {
        let base = self.batch.events.len() as u32;
        self.batch.events.append(&mut delivery.events);
        self.batch.store_revision = delivery.store_revision;
        for hit in delivery.hits {
            self.add_hit(hit.slot, base + hit.event, Phase::Live);
        }
    }

    /// Adds an event for a watcher, if the watcher is still in the phase for which the event was
    /// read.
    pub(super) fn add_hit(&mut self, slot: u32, event: u32, phase: Phase) {
        let Some(watcher) = &mut self.slots[slot as usize] else {
            return;
        };
        if watcher.phase == phase {
            if watcher.pending.is_empty() {
                self.batch.ready.push_back(slot);
            }
            watcher.pending.push(event);
        }
    }

    fn take_behind(&mut self, slot: u32, out: &mut Out) {
        let current = self.reader.view().revision();
        let watcher = self.watcher(slot);
        if watcher.phase == Phase::Leaving {
            return;
        }
        if watcher.phase == Phase::Creating {
            out.control(current, &created(watcher.id));
            self.asking = false;
        }
        self.watcher(slot).phase = Phase::Behind;
        self.behind.push_back(slot);
    }

    fn take_joined(&mut self, slots: Vec<u32>, through: i64, out: &mut Out) {
        let mut filling = Vec::new();
        let mut is_answer = false;
        for slot in slots {
            let watcher = self.watcher(slot);
            if watcher.phase == Phase::Creating {
                out.control(through, &created(watcher.id));
                is_answer = true;
                if watcher.start == 0 {
                    watcher.next = through + 1;
                }
                // The start revision may have been reached before the hub was asked.
                watcher.phase = Phase::Joining;
            }
            match watcher.phase {
                Phase::Joining if watcher.next > through => watcher.phase = Phase::Live,
                Phase::Joining => {
                    watcher.phase = Phase::Filling;
                    filling.push(slot);
                }
                Phase::Leaving => {}
                other => unreachable!("joined while {other:?}"),
            }
        }
        if is_answer {
            self.asking = false;
        }
        if !filling.is_empty() {
            self.gap = Some((filling, through));
        }
    }

    fn take_detached(&mut self, through: i64) {
        for (slot, watcher) in self.slots.iter_mut().enumerate() {
            if let Some(watcher) = watcher
                && watcher.phase == Phase::Live
            {
                watcher.phase = Phase::Behind;
                watcher.next = watcher.next.max(through + 1);
                self.behind.push_back(slot as u32);
            }
        }
    }
}

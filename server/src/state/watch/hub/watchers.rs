//! Which streams and watchers there are: they come, join at a revision, and leave.

use std::sync::Arc;

use storage::Result;

use super::{Hub, HubStream, Part, Watcher};
use crate::state::watch::JOIN_GAP_REVISIONS;
use crate::state::watch::inbox::{Join, StreamId};
use crate::state::watch::mailbox::{Delivery, Item, Mailbox};

impl Hub {
    pub(super) fn open(&mut self, id: StreamId, mailbox: Arc<Mailbox>) {
        let stream = HubStream {
            mailbox,
            epoch: 0,
            live: 0,
            slots: Vec::new(),
            open: Delivery::default(),
            newest: [None, None],
            part: Part::default(),
            #[cfg(test)]
            most_open: 0,
        };
        if self.stopped {
            self.wakers.extend(stream.mailbox.answer(Item::Closed));
            return;
        }
        let number = match self.free_streams.pop() {
            Some(number) => number,
            None => {
                self.streams.push(None);
                (self.streams.len() - 1) as u32
            }
        };
        self.streams[number as usize] = Some(stream);
        self.by_id.insert(id, number);
    }

    pub(super) fn join(&mut self, id: StreamId, joins: &[Join]) -> Result<()> {
        // Changes acknowledged before the client's request are not new to it.
        self.advance()?;
        let Some(number) = self.by_id.get(&id).copied() else {
            return Ok(());
        };
        let slots: Vec<u32> = joins.iter().map(|join| join.slot).collect();
        let earliest = joins.iter().filter(|join| join.next > 0);
        let earliest = earliest.map(|join| join.next).min();
        let is_behind =
            earliest.is_some_and(|next| next.saturating_add(JOIN_GAP_REVISIONS) <= self.last);
        if !is_behind {
            for join in joins {
                self.take_in(number, join);
            }
        }
        let through = self.last;
        let stream = self.streams[number as usize].as_mut().expect("is known");
        self.wakers.extend(stream.mailbox.answer(if is_behind {
            Item::Behind { slots }
        } else {
            Item::Joined { slots, through }
        }));
        Ok(())
    }

    fn take_in(&mut self, number: u32, join: &Join) {
        let stream = self.streams[number as usize].as_mut().expect("is known");
        let slot = join.slot as usize;
        if stream.slots.len() <= slot {
            stream.slots.resize(slot + 1, None);
        }
        let next = join.next.max(self.last + 1);
        stream.live += 1;
        self.live += 1;
        if let Some(known) = stream.slots[slot] {
            let watcher = self.watchers[known as usize].as_mut().expect("has a slot");
            assert!(
                watcher.epoch != stream.epoch,
                "a joined watcher joins again"
            );
            watcher.epoch = stream.epoch;
            watcher.next = next;
            return;
        }
        let watcher = Watcher {
            stream: number,
            slot: join.slot,
            epoch: stream.epoch,
            next,
            wants: join.wants,
        };
        let known = match self.free_watchers.pop() {
            Some(known) => known,
            None => {
                self.watchers.push(None);
                (self.watchers.len() - 1) as u32
            }
        };
        self.watchers[known as usize] = Some(watcher);
        stream.slots[slot] = Some(known);
        self.index.insert(known, &join.span);
    }

    pub(super) fn leave(&mut self, id: StreamId, slot: u32) {
        let Some(number) = self.by_id.get(&id).copied() else {
            return;
        };
        let stream = self.streams[number as usize].as_mut().expect("is known");
        let known = stream.slots.get_mut(slot as usize).and_then(Option::take);
        if let Some(known) = known {
            self.forget(number, known);
        }
        let stream = self.streams[number as usize].as_mut().expect("is known");
        self.wakers
            .extend(stream.mailbox.answer(Item::Left { slot }));
    }

    fn forget(&mut self, number: u32, known: u32) {
        let watcher = self.watchers[known as usize].take().expect("has a slot");
        let stream = self.streams[number as usize].as_mut().expect("is known");
        if watcher.epoch == stream.epoch {
            stream.live -= 1;
            self.live -= 1;
        }
        self.index.remove(known);
        self.free_watchers.push(known);
    }

    pub(super) fn close(&mut self, id: StreamId) {
        let Some(number) = self.by_id.remove(&id) else {
            return;
        };
        let stream = self.streams[number as usize].as_mut().expect("is known");
        for known in std::mem::take(&mut stream.slots).into_iter().flatten() {
            self.forget(number, known);
        }
        self.streams[number as usize] = None;
        self.free_streams.push(number);
    }
}

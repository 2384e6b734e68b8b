//! Delivers new changes. Each is read once and encoded at most once in each form, however many
//! streams watch its key.

use std::ops::ControlFlow;
use std::task::Waker;

use storage::Result;
use storage::mvcc::{Change, View};

use super::{Hub, HubStream, Part};
use crate::state::watch::event::{self, Event, Wants};
use crate::state::watch::mailbox::{Hit, Item};
use crate::state::watch::{HIT_BYTES, HUB_FLUSH_BYTES, HUB_FLUSH_HITS};

/// One change being delivered; encoded when the first watcher needs it.
struct Encoded<'a, 'v> {
    view: &'v View,
    change: &'a Change<'a>,
    /// The forms without and with the previous version.
    forms: [Option<Event>; 2],
    /// Distinguishes the changes of one read.
    serial: u64,
}

impl Hub {
    /// Delivers everything published since the last time.
    pub(super) fn advance(&mut self) -> Result<()> {
        let view = self.reader.view();
        let through = view.revision();
        if view.generation() != self.generation {
            self.generation = view.generation();
            self.let_go();
        }
        if through <= self.last {
            return Ok(());
        }
        if self.live > 0 {
            self.hand_over(&view, through)?;
        }
        self.last = through;
        self.inbox.set_seen(through);
        Ok(())
    }

    /// The store's content was replaced, and the revisions in between may be compacted in it. So
    /// every stream must read history itself.
    fn let_go(&mut self) {
        for stream in self.streams.iter_mut().flatten().filter(|s| s.live > 0) {
            self.wakers.extend(stream.detach(self.last, &mut self.live));
        }
    }

    fn hand_over(&mut self, view: &View, through: i64) -> Result<()> {
        let mut serial = 0;
        let mut reading = self.last;
        view.recent_changes(self.last + 1, through, &mut |change| {
            let revision = event::revision(&change);
            if revision != reading {
                // All earlier revisions are complete, so `last` may move here, and a full mailbox
                // may detach its stream here.
                self.last = revision - 1;
                reading = revision;
                if self.pending_bytes >= HUB_FLUSH_BYTES || self.pending_hits >= HUB_FLUSH_HITS {
                    self.flush(through);
                }
            }
            if self.live == 0 {
                // All streams are detached: nobody wants the rest, of which there may be millions.
                return Ok(ControlFlow::Break(()));
            }
            serial += 1;
            let mut encoded = Encoded {
                view,
                change: &change,
                forms: [None, None],
                serial,
            };
            self.offer(&mut encoded, through)?;
            Ok(ControlFlow::Continue(()))
        })?;
        self.last = through;
        self.flush(through);
        Ok(())
    }

    /// Adds one change to the open delivery of every stream that watches it. A stream that gets too
    /// much of the revision is detached before it, and offered nothing more.
    fn offer(&mut self, encoded: &mut Encoded<'_, '_>, store_revision: i64) -> Result<()> {
        let Hub {
            index,
            limits,
            watchers,
            streams,
            touched,
            pending_bytes,
            pending_hits,
            live,
            wakers,
            ..
        } = self;
        let revision = event::revision(encoded.change);
        let mut outcome = Ok(());
        index.find(event::key(encoded.change), |number| {
            let watcher = watchers[number as usize].as_ref().expect("is in the index");
            let stream = streams[watcher.stream as usize]
                .as_mut()
                .expect("has watchers");
            if watcher.epoch != stream.epoch
                || revision < watcher.next
                || !watcher.wants.admits(encoded.change)
                || outcome.is_err()
            {
                return;
            }
            let form = match encoded.form(watcher.wants) {
                Ok(form) => form,
                Err(error) => {
                    outcome = Err(error);
                    return;
                }
            };
            if stream.open.hits.is_empty() {
                touched.push(watcher.stream);
            }
            *pending_bytes += stream.add(watcher.slot, form, encoded);
            *pending_hits += 1;
            if stream.part.cost > limits.held_bytes {
                wakers.extend(stream.give_up_part(store_revision, live));
            }
        });
        outcome
    }

    /// Moves all open deliveries into the mailboxes.
    fn flush(&mut self, store_revision: i64) {
        for number in self.touched.drain(..) {
            // Streams are removed only between turns, when no delivery is open.
            let stream = self.streams[number as usize].as_mut().expect("was touched");
            let waker = stream.close_delivery(store_revision, &mut self.live);
            self.wakers.extend(waker);
        }
        self.pending_bytes = 0;
        self.handed_over += std::mem::take(&mut self.pending_hits);
    }
}

impl HubStream {
    /// Moves the open delivery into the mailbox, if it holds something. `live`: the hub's, which has
    /// fewer if the stream is detached because there is no room.
    fn close_delivery(&mut self, store_revision: i64, live: &mut usize) -> Option<Waker> {
        self.newest = [None, None];
        self.part = Part::default();
        let mut delivery = std::mem::take(&mut self.open);
        if delivery.hits.is_empty() {
            return None;
        }
        delivery.store_revision = store_revision;
        match self.mailbox.deliver(delivery) {
            Ok(waker) => waker,
            // The stream has everything before the first of these events, and reads the rest from
            // history.
            Err(delivery) => self.detach(delivery.events[0].revision - 1, live),
        }
    }

    /// Detaches the stream before the revision that is being read. Of this revision nothing is
    /// delivered: its beginning alone must not reach a watcher. All of what came before it is.
    fn give_up_part(&mut self, store_revision: i64, live: &mut usize) -> Option<Waker> {
        let through = self.part.revision - 1;
        self.open.events.truncate(self.part.events_before);
        self.open.hits.truncate(self.part.hits_before);
        self.open.bytes = self.part.bytes_before;
        let epoch = self.epoch;
        let waker = self.close_delivery(store_revision, live);
        if self.epoch != epoch {
            // It had no room for what came before, either.
            return waker;
        }
        let next = self.detach(through, live);
        waker.or(next)
    }

    /// The stream has everything up to `through`, and gets nothing more until it joins again.
    fn detach(&mut self, through: i64, live: &mut usize) -> Option<Waker> {
        *live -= std::mem::take(&mut self.live);
        self.epoch += 1;
        self.mailbox.answer(Item::Detached { through })
    }

    /// Adds a hit to the open delivery; returns the bytes of event data added with it.
    fn add(&mut self, slot: u32, form: usize, encoded: &Encoded<'_, '_>) -> usize {
        let revision = event::revision(encoded.change);
        if self.part.revision != revision {
            self.part = Part {
                revision,
                events_before: self.open.events.len(),
                hits_before: self.open.hits.len(),
                bytes_before: self.open.bytes,
                cost: 0,
            };
        }
        let mut added = 0;
        let event = match self.newest[form] {
            Some((serial, event)) if serial == encoded.serial => event,
            _ => {
                let shared = encoded.forms[form].clone().expect("was encoded");
                added = shared.bytes.len();
                self.part.cost += shared.cost();
                self.open.bytes += added;
                self.open.events.push(shared);
                let event = (self.open.events.len() - 1) as u32;
                self.newest[form] = Some((encoded.serial, event));
                event
            }
        };
        self.open.hits.push(Hit { slot, event });
        self.part.cost += HIT_BYTES;
        #[cfg(test)]
        {
            self.most_open = self.most_open.max(self.open.bytes);
        }
        added
    }
}

impl Encoded<'_, '_> {
    /// Encodes the event in the form that the watcher wants, if not done yet; returns the index of
    /// that form.
    fn form(&mut self, wants: Wants) -> Result<usize> {
        let form = usize::from(wants.takes_previous(self.change));
        if self.forms[form].is_none() {
            self.forms[form] = Some(event::encode_for(self.view, self.change, wants)?);
        }
        Ok(form)
    }
}

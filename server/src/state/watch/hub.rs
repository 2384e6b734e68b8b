//! Reads every new change once and delivers it to the streams that watch it.
//!
//! **Where a watcher stands.** The hub has read all changes up to `last`. A joined watcher has
//! received, or has in its mailbox, every event up to `last` after the revision that `Joined`
//! named. A stream whose mailbox is full is detached by raising its `epoch`: its watchers stay in
//! the index, at the cost of one comparison each, until they join again. All streams are detached
//! when a snapshot replaces the store's content.
//!
//! **While nobody watches**, the hub tracks the revision and reads nothing.
//!
//! **Two threads run it**, one at a time: its own, and the applying thread, which delivers small
//! amounts itself ([`Hub::advance_if_brief`]). This avoids a thread wake-up between a change and
//! its events, and, as in etcd, events leave before the change is acknowledged.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use storage::Result;
use storage::mvcc::{Change, Reader, View};

use super::event::{self, Event, Wants};
use super::inbox::{Ask, HubEvent, HubHandle, HubInbox, Join, StreamId};
use super::index::Index;
use super::mailbox::{Delivery, Hit, Item, Mailbox};
use super::{HUB_FLUSH_BYTES, HUB_FLUSH_HITS, JOIN_GAP_REVISIONS};

/// Limit for the deliveries that the applying thread makes itself: about 50 microseconds.
const BRIEF_HITS: usize = 256;

/// Rest after delivering many events: per delivery, and at most. Changes published meanwhile reach
/// a watcher in one response, which costs its client little more than a response for one event.
/// With a wide fan-out, the clients run out of CPU first.
const REST_PER_HIT: Duration = Duration::from_micros(2);
const REST_MAX: Duration = Duration::from_millis(4);

/// See the module.
#[derive(Debug)]
pub struct Hub {
    reader: Reader,
    inbox: HubInbox,
    /// Taken from the inbox; empty between turns, kept to reuse its memory.
    events: Vec<HubEvent>,
    /// All changes up to this revision have been delivered.
    last: i64,
    /// Generation of the store that `last` belongs to.
    generation: u64,
    index: Index,
    /// Indexed by the watcher numbers used in `index`.
    watchers: Vec<Option<Watcher>>,
    free_watchers: Vec<u32>,
    streams: Vec<Option<HubStream>>,
    free_streams: Vec<u32>,
    by_id: HashMap<StreamId, u32>,
    /// Number of watchers of attached streams.
    live: usize,
    /// Streams with something in `open`.
    touched: Vec<u32>,
    pending_bytes: usize,
    pending_hits: usize,
    /// Deliveries since the last call of [`Hub::rest`].
    handed_over: usize,
    /// Streams to wake at the end of the turn, each once, however much was delivered to them.
    wakers: Vec<Waker>,
    stopped: bool,
}

#[derive(Debug)]
struct Watcher {
    stream: u32,
    slot: u32,
    /// The watcher is live while this equals its stream's epoch.
    epoch: u32,
    /// Earlier events are not for this watcher.
    next: i64,
    wants: Wants,
}

#[derive(Debug)]
struct HubStream {
    mailbox: Arc<Mailbox>,
    epoch: u32,
    /// Number of watchers in this epoch.
    live: usize,
    /// Maps the stream's slots to watcher numbers.
    slots: Vec<Option<u32>>,
    /// The delivery being collected.
    open: Delivery,
    /// The last event of the current read in `open`, for each form (without and with the previous
    /// version). All hits of one event are consecutive.
    newest: [Option<(u64, u32)>; 2],
}

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
    /// Creates a hub that starts at the newest published revision, and its handle.
    pub fn new(reader: Reader) -> (Hub, HubHandle) {
        let (handle, inbox) = HubHandle::new();
        let view = reader.view();
        let (last, generation) = (view.revision(), view.generation());
        inbox.set_seen(last);
        let hub = Hub {
            reader,
            inbox,
            events: Vec::new(),
            last,
            generation,
            index: Index::default(),
            watchers: Vec::new(),
            free_watchers: Vec::new(),
            streams: Vec::new(),
            free_streams: Vec::new(),
            by_id: HashMap::new(),
            live: 0,
            touched: Vec::new(),
            pending_bytes: 0,
            pending_hits: 0,
            handed_over: 0,
            wakers: Vec::new(),
            stopped: false,
        };
        (hub, handle)
    }

    /// Delivers the changes published since the last time if they are few; otherwise does nothing
    /// and returns false. An error means that the store cannot be read: the process must stop.
    pub fn advance_if_brief(&mut self, revision: i64) -> Result<bool> {
        let revisions = usize::try_from(revision - self.last).unwrap_or(0);
        // One revision may have deleted all keys of the store.
        let is_large = self.live > 0 && self.reader.view().is_deleting();
        if is_large || revisions.saturating_mul(self.live) > BRIEF_HITS {
            return Ok(false);
        }
        self.advance()?;
        self.wake();
        Ok(true)
    }

    /// How long the hub's thread should rest before its next delivery, given what it did last.
    pub fn rest(&mut self) -> Duration {
        let hits = std::mem::take(&mut self.handed_over);
        if hits <= BRIEF_HITS {
            Duration::ZERO
        } else {
            REST_MAX.min(REST_PER_HIT * hits.try_into().unwrap_or(u32::MAX))
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Handles queued events without waiting. Returns false if there were none.
    pub fn turn(&mut self) -> Result<bool> {
        self.inbox.take(&mut self.events);
        let is_busy = !self.events.is_empty();
        self.handle_events()?;
        Ok(is_busy)
    }

    fn handle_events(&mut self) -> Result<()> {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                HubEvent::Advanced { revision } if revision <= self.last => {}
                HubEvent::Advanced { .. } => self.advance()?,
                HubEvent::Open { stream, mailbox } => self.open(stream, mailbox),
                HubEvent::Join { stream, joins } => self.join(stream, &joins)?,
                HubEvent::Leave { stream, slot } => self.leave(stream, slot),
                HubEvent::Progress { stream, ask } => self.progress(stream, ask)?,
                HubEvent::Close { stream } => self.close(stream),
                HubEvent::Stop => self.stop(),
            }
        }
        self.events = events;
        self.wake();
        Ok(())
    }

    fn wake(&mut self) {
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
    }

    /// Delivers everything published since the last time.
    fn advance(&mut self) -> Result<()> {
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
            stream.live = 0;
            stream.epoch += 1;
            let through = self.last;
            let waker = stream.mailbox.answer(Item::Detached { through });
            self.wakers.extend(waker);
        }
        self.live = 0;
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
            serial += 1;
            self.offer(&mut Encoded {
                view,
                change: &change,
                forms: [None, None],
                serial,
            })?;
            Ok(ControlFlow::Continue(()))
        })?;
        self.last = through;
        self.flush(through);
        Ok(())
    }

    /// Adds one change to the open delivery of every stream that watches it.
    fn offer(&mut self, encoded: &mut Encoded<'_, '_>) -> Result<()> {
        let Hub {
            index,
            watchers,
            streams,
            touched,
            pending_bytes,
            pending_hits,
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
        });
        outcome
    }

    /// Moves all open deliveries into the mailboxes.
    fn flush(&mut self, store_revision: i64) {
        for number in self.touched.drain(..) {
            // Streams are removed only between turns, when no delivery is open.
            let stream = self.streams[number as usize].as_mut().expect("was touched");
            stream.newest = [None, None];
            let mut delivery = std::mem::take(&mut stream.open);
            delivery.store_revision = store_revision;
            let waker = match stream.mailbox.deliver(delivery) {
                Ok(waker) => waker,
                Err(delivery) => {
                    // The stream has everything before the first of these events, and reads the
                    // rest from history.
                    let through = delivery.events[0].revision - 1;
                    self.live -= std::mem::take(&mut stream.live);
                    stream.epoch += 1;
                    stream.mailbox.answer(Item::Detached { through })
                }
            };
            self.wakers.extend(waker);
        }
        self.pending_bytes = 0;
        self.handed_over += std::mem::take(&mut self.pending_hits);
    }

    fn open(&mut self, id: StreamId, mailbox: Arc<Mailbox>) {
        let stream = HubStream {
            mailbox,
            epoch: 0,
            live: 0,
            slots: Vec::new(),
            open: Delivery::default(),
            newest: [None, None],
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

    fn join(&mut self, id: StreamId, joins: &[Join]) -> Result<()> {
        // Changes acknowledged before the client's request are not new to it.
        self.advance()?;
        let Some(number) = self.by_id.get(&id).copied() else {
            return Ok(());
        };
        let slots: Vec<u32> = joins.iter().map(|join| join.slot).collect();
        let earliest = joins.iter().filter(|join| join.next > 0);
        let earliest = earliest.map(|join| join.next).min();
        let is_behind = earliest.is_some_and(|next| next + JOIN_GAP_REVISIONS <= self.last);
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

    fn leave(&mut self, id: StreamId, slot: u32) {
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

    fn progress(&mut self, id: StreamId, ask: Ask) -> Result<()> {
        // Deliver everything published first, so that the answer comes after it in the mailbox.
        self.advance()?;
        if let Some(number) = self.by_id.get(&id) {
            let stream = self.streams[*number as usize].as_mut().expect("is known");
            let revision = self.last;
            let item = Item::Progress { revision, ask };
            self.wakers.extend(stream.mailbox.answer(item));
        }
        Ok(())
    }

    fn close(&mut self, id: StreamId) {
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

    fn stop(&mut self) {
        self.stopped = true;
        // No watcher is left, so compactions need not wait for the hub.
        self.inbox.set_seen(i64::MAX);
        for stream in self.streams.iter().flatten() {
            self.wakers.extend(stream.mailbox.answer(Item::Closed));
        }
    }

    #[cfg(test)]
    pub(super) fn watchers(&self) -> (usize, usize) {
        (self.index.len(), self.live)
    }
}

impl HubStream {
    /// Adds a hit to the open delivery; returns the bytes of event data added with it.
    fn add(&mut self, slot: u32, form: usize, encoded: &Encoded<'_, '_>) -> usize {
        let mut added = 0;
        let event = match self.newest[form] {
            Some((serial, event)) if serial == encoded.serial => event,
            _ => {
                let shared = encoded.forms[form].clone().expect("was encoded");
                added = shared.bytes.len();
                self.open.bytes += added;
                self.open.events.push(shared);
                let event = (self.open.events.len() - 1) as u32;
                self.newest[form] = Some((encoded.serial, event));
                event
            }
        };
        self.open.hits.push(Hit { slot, event });
        added
    }
}

impl Encoded<'_, '_> {
    /// Encodes the event in the form that the watcher wants, if not done yet; returns the index of
    /// that form.
    fn form(&mut self, wants: Wants) -> Result<usize> {
        let form = usize::from(wants.prev_kv && event::has_previous(self.change));
        if self.forms[form].is_none() {
            let encoded = match form {
                0 => event::encode(self.change, None),
                _ => event::encode_with_previous(self.view, self.change)?,
            };
            self.forms[form] = Some(encoded);
        }
        Ok(form)
    }
}

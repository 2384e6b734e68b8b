//! Reads every new change once and delivers it to the streams that watch it.
//!
//! **Where a watcher stands.** The hub has read all changes up to `last`. A joined watcher has
//! received, or has in its mailbox, every event up to `last` after the revision that `Joined`
//! named. A stream whose mailbox is full is detached by raising its `epoch`: its watchers stay in
//! the index, at the cost of one comparison each, until they join again. So is a stream that gets too
//! much of one revision, before that revision. All streams are detached when a snapshot replaces the
//! store's content.
//!
//! **While nobody watches**, the hub tracks the revision and reads nothing.
//!
//! **Two threads run it**, one at a time: its own, and the applying thread, which delivers small
//! amounts itself ([`Hub::advance_if_brief`]). This avoids a thread wake-up between a change and
//! its events, and, as in etcd, events leave before the change is acknowledged.

mod deliver;
mod watchers;

use std::collections::HashMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use storage::Result;
use storage::mvcc::Reader;

use super::RevisionLimits;
use super::event::Wants;
use super::inbox::{HubEvent, HubHandle, HubInbox, StreamId};
use super::index::Index;
use super::mailbox::{Ask, Delivery, Item, Mailbox};

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
    limits: RevisionLimits,
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
    part: Part,
    /// The most bytes of events that `open` has held.
    #[cfg(test)]
    most_open: usize,
}

/// What `open` holds of the newest revision in it.
#[derive(Debug, Default)]
struct Part {
    revision: i64,
    /// What `open` had of earlier revisions.
    events_before: usize,
    hits_before: usize,
    bytes_before: usize,
    /// Memory that the part takes.
    cost: usize,
}

impl Hub {
    /// Creates a hub that starts at the newest published revision, and its handle.
    pub fn new(reader: Reader) -> (Hub, HubHandle) {
        Hub::with_limits(reader, RevisionLimits::default())
    }

    pub(super) fn with_limits(reader: Reader, limits: RevisionLimits) -> (Hub, HubHandle) {
        let (handle, inbox) = HubHandle::new(limits);
        let view = reader.view();
        let (last, generation) = (view.revision(), view.generation());
        inbox.set_seen(last);
        let hub = Hub {
            reader,
            inbox,
            limits,
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

    /// The most bytes of events that the open delivery of a stream has held.
    #[cfg(test)]
    pub(super) fn most_open(&self) -> usize {
        let streams = self.streams.iter().flatten();
        streams.map(|stream| stream.most_open).max().unwrap_or(0)
    }
}

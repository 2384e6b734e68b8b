//! One client's Watch call as a state machine: requests in, responses out.
//!
//! The owner calls [`WatchStream::request`] for each message of the client while [`WatchStream::accepts`] is
//! true, [`WatchStream::pump`] whenever there may be work, [`WatchStream::next_read`] for history to be read
//! on any thread, and [`WatchStream::tick`] when the progress interval has passed.
//!
//! **The phases of a watcher.** A watcher that starts now or later first joins the hub, and is
//! announced when the hub has answered: from then on it misses nothing. A watcher that starts in
//! the past is announced at once and is `Behind`. Reads of history advance it until one reaches the
//! newest revision; then it asks to join, and the hub answers up to which revision it has already
//! delivered. The revisions between the watcher's last read and that one (the *gap*) are read while
//! the mailbox waits; then the watcher is `Live`. `Detached` in the mailbox makes every live
//! watcher `Behind` again.
//!
//! **One batch at a time.** Events are assigned to their watchers, and all of them are encoded
//! before anything else is taken from mailbox or history. So an answer that comes after events in
//! the mailbox also comes after them on the wire, and memory is limited to one mailbox, one read of
//! history, and [`super::OUT_BYTES`]. A revision that is too large for that is sent in pieces
//! ([`long`]).

mod catch_up;
mod deliver;
mod long;
mod respond;
mod watches;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use etcd_api::etcdserverpb::WatchRequest;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use storage::mvcc::Reader;

use super::event::{Event, Wants};
use super::history::{Group, HeldView, HistoryDone, HistoryRead, Long, ReadFor};
use super::inbox::{HubEvent, HubHandle, StreamId};
use super::index::Span;
use super::mailbox::{Ask, Item, Mailbox};
use super::response::{Fields, Out};

/// The watch id in responses that belong to no watcher.
const NO_WATCH_ID: i64 = -1;

const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";
const EMPTY_RANGE: &str = "mvcc: watcher range is empty";
const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";

const FILTER_NO_PUT: i32 = 0;
const FILTER_NO_DELETE: i32 = 1;

#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Larger responses are split into fragments if the client allows it.
    pub fragment_bytes: usize,
}

/// Why a stream ended, other than by its client.
#[derive(Debug)]
pub enum Ended {
    ServerStopped,
    /// History could not be read.
    Failed(storage::Error),
    /// The client was too slow in taking a large revision; see [`HeldView`].
    GivenUp,
    /// The events of one revision take more bytes, of which this is the number, than a message may
    /// have.
    TooLarge(usize),
}

/// See the module.
#[derive(Debug)]
pub struct WatchStream {
    id: StreamId,
    hub: HubHandle,
    reader: Reader,
    options: StreamOptions,
    mailbox: Arc<Mailbox>,
    /// Items taken from the mailbox and not handled yet.
    queue: VecDeque<Item>,
    slots: Vec<Option<Watcher>>,
    free: Vec<u32>,
    by_id: BTreeMap<i64, u32>,
    /// Where the search for a free id starts; as in etcd, it never decreases.
    next_id: i64,
    next_serial: u64,
    /// A request to the hub is open. Client requests wait, so that answers keep their order.
    asking: bool,
    /// Watchers in `Behind`, and possibly some that have left this phase.
    behind: VecDeque<u32>,
    /// Watchers in `Filling`, and the end of their gap; the mailbox waits.
    gap: Option<(Vec<u32>, i64)>,
    reading: bool,
    /// A finished read, kept until the batch before it is sent.
    done: Option<HistoryDone>,
    /// A large revision that is being read, between two pieces.
    long: Option<Box<Long>>,
    /// A part of it is sent, and not all.
    is_telling: bool,
    /// Its view, until somebody asks.
    held_view: Option<HeldView>,
    batch: Batch,
    ended: Option<Ended>,
}

/// Events being sent to the client.
#[derive(Debug, Default)]
struct Batch {
    events: Vec<Event>,
    store_revision: i64,
    /// Watchers with events in `pending`.
    ready: VecDeque<u32>,
}

#[derive(Debug)]
struct Watcher {
    id: i64,
    serial: u64,
    span: Span,
    wants: Wants,
    phase: Phase,
    /// The first revision that the watcher has not received. Not updated while it is live.
    next: i64,
    /// The start revision that the client asked for; zero means now.
    start: i64,
    fragment: bool,
    progress_notify: bool,
    /// It has too many events at `next` to be read for with others.
    is_alone: bool,
    /// True if there were no events since the last tick.
    idle: bool,
    /// Indices into the batch's events.
    pending: Vec<u32>,
    /// How many of `pending` are sent.
    sent: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Has asked the hub, and is not announced yet.
    Creating,
    /// Reads history.
    Behind,
    /// Has asked the hub, and has received everything up to its last read.
    Joining,
    /// Has joined; the gap is being read.
    Filling,
    Live,
    /// Its next revision was compacted. As in etcd, its id stays in use until the client cancels
    /// it.
    Compacted,
    /// Canceled; the slot is free when the hub confirms it.
    Leaving,
}

impl WatchStream {
    pub fn new(hub: HubHandle, reader: Reader, options: StreamOptions) -> WatchStream {
        let mailbox = Arc::new(hub.new_mailbox());
        let id = hub.open(mailbox.clone());
        WatchStream {
            id,
            hub,
            reader,
            options,
            mailbox,
            queue: VecDeque::new(),
            slots: Vec::new(),
            free: Vec::new(),
            by_id: BTreeMap::new(),
            next_id: 0,
            next_serial: 0,
            asking: false,
            behind: VecDeque::new(),
            gap: None,
            reading: false,
            done: None,
            long: None,
            is_telling: false,
            held_view: None,
            batch: Batch::default(),
            ended: None,
        }
    }

    /// The mailbox to wait on when [`WatchStream::pump`] has nothing to do.
    pub fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// The number of watchers, and how many of them are catching up through history.
    pub fn watches(&self) -> (usize, usize) {
        let filling = self.gap.as_ref().map_or(0, |(slots, _)| slots.len());
        (self.by_id.len(), self.behind.len() + filling)
    }

    /// True if the next request may be passed in.
    pub fn accepts(&self) -> bool {
        !self.asking && !self.is_telling && self.ended.is_none()
    }

    /// True while the mailbox waits for a read of history.
    pub fn waits_for_history(&self) -> bool {
        self.gap.is_some() || self.is_telling
    }

    /// Set when no more responses will follow.
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// Handles one message of the client.
    pub fn request(&mut self, request: WatchRequest, out: &mut Out) {
        assert!(self.accepts(), "requests wait for the answer before them");
        match request.request_union {
            Some(RequestUnion::CreateRequest(request)) => self.create(&request, out),
            Some(RequestUnion::CancelRequest(request)) => self.cancel(request.watch_id, out),
            Some(RequestUnion::ProgressRequest(_)) if !self.by_id.is_empty() => {
                self.asking = true;
                self.ask(Ask::Stream);
            }
            Some(RequestUnion::ProgressRequest(_)) => {}
            // An unknown or empty request: ignored.
            None => {}
        }
    }

    /// Answers a create request without permission. An invalid start revision is reported first.
    pub fn refuse(&mut self, request: WatchRequest, reason: &str, out: &mut Out) {
        assert!(self.accepts(), "requests wait for the answer before them");
        let Some(RequestUnion::CreateRequest(request)) = request.request_union else {
            return;
        };
        let reason = if request.start_revision < 0 {
            COMPACTED
        } else {
            reason
        };
        let revision = self.reader.view().revision();
        out.control(revision, &refused(reason));
    }

    /// Must be called when the progress interval has passed.
    pub fn tick(&mut self) {
        let mut watchers = self.slots.iter().flatten();
        if watchers.any(|watcher| watcher.progress_notify) {
            self.ask(Ask::Idle);
        }
    }

    /// Encodes what is ready, until `out` is full or nothing is left.
    pub fn pump(&mut self, out: &mut Out) {
        while !out.is_full() && self.ended.is_none() {
            if let Some(slot) = self.batch.ready.front().copied() {
                if self.respond(slot, out) {
                    self.batch.ready.pop_front();
                }
                continue;
            }
            self.batch.events.clear();
            if let Some(done) = self.done.take() {
                self.take_history(done, out);
                continue;
            }
            if self.is_telling || self.settle_gap() {
                return;
            }
            match self.next_item() {
                Some(item) => self.take_item(item, out),
                None => return,
            }
        }
    }

    /// The next read of history, if one is needed. At most one read is open, and its events are
    /// sent before the next one. Pass the result to [`WatchStream::read_done`].
    pub fn next_read(&mut self) -> Option<HistoryRead> {
        if self.reading || self.done.is_some() || self.ended.is_some() {
            return None;
        }
        if let Some(read) = self.next_piece() {
            self.reading = true;
            return Some(read);
        }
        let (slots, through) = match &self.gap {
            Some((slots, through)) => (slots.clone(), Some(*through)),
            None => (self.next_group(), None),
        };
        let watchers = slots.into_iter().filter_map(|slot| self.read_for(slot));
        let watchers: Vec<ReadFor> = watchers.collect();
        let from = watchers.iter().map(|watcher| watcher.next).min()?;
        self.reading = true;
        Some(HistoryRead::of_group(Group {
            reader: self.reader.clone(),
            limits: self.hub.limits(),
            watchers,
            from,
            through,
        }))
    }

    pub fn read_done(&mut self, done: HistoryDone) {
        assert!(std::mem::take(&mut self.reading), "no read was out");
        self.done = Some(done);
    }

    fn read_for(&self, slot: u32) -> Option<ReadFor> {
        let watcher = self.slots[slot as usize].as_ref()?;
        Some(ReadFor {
            slot,
            serial: watcher.serial,
            span: watcher.span.clone(),
            next: watcher.next,
            wants: watcher.wants,
        })
    }

    fn ask(&mut self, ask: Ask) {
        let stream = self.id;
        self.hub.send(HubEvent::Progress { stream, ask });
    }

    fn next_item(&mut self) -> Option<Item> {
        if self.queue.is_empty() {
            self.mailbox.take(&mut self.queue);
        }
        self.queue.pop_front()
    }
}

#[cfg(test)]
impl WatchStream {
    /// Bytes of events on their way from mailbox and history to the client.
    pub(super) fn bytes_held(&self) -> usize {
        let of_events = |events: &[Event]| -> usize {
            let bytes = events.iter().map(|event| event.bytes.len());
            bytes.sum()
        };
        let queued = self.queue.iter().map(|item| match item {
            Item::Events(delivery) => delivery.bytes,
            _ => 0,
        });
        let done = self.done.as_ref().map_or(0, HistoryDone::bytes);
        let long = self.long.as_ref().map_or(0, |long| long.bytes_held());
        queued.sum::<usize>() + of_events(&self.batch.events) + self.mailbox.bytes() + done + long
    }
}

impl Watcher {
    /// True if the watcher has received all its events up to `revision`, and does not start later.
    fn is_at(&self, revision: i64) -> bool {
        self.phase == Phase::Live && self.start <= revision
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.hub.send(HubEvent::Close { stream: self.id });
    }
}

fn refused(reason: &str) -> Fields<'_> {
    Fields {
        watch_id: NO_WATCH_ID,
        created: true,
        canceled: true,
        cancel_reason: reason,
        ..Fields::default()
    }
}

fn created(watch_id: i64) -> Fields<'static> {
    Fields {
        watch_id,
        created: true,
        ..Fields::default()
    }
}

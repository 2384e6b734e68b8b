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
//! history, and [`super::OUT_BYTES`].

mod respond;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{WatchCreateRequest, WatchRequest};
use storage::mvcc::Reader;

use super::HISTORY_REVISIONS;
use super::event::{Event, Wants};
use super::history::{HistoryDone, HistoryRead, Outcome, ReadFor};
use super::inbox::{Ask, HubEvent, HubHandle, Join, StreamId};
use super::index::Span;
use super::mailbox::{Delivery, Item, Mailbox};
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
        !self.asking && self.ended.is_none()
    }

    /// True while the mailbox waits for a read of history.
    pub fn waits_for_history(&self) -> bool {
        self.gap.is_some()
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
            if self.gap_is_open() {
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
        let (slots, through) = match &self.gap {
            Some((slots, through)) => (slots.clone(), Some(*through)),
            None => (self.next_group(), None),
        };
        let watchers: Vec<ReadFor> = slots
            .into_iter()
            .filter_map(|slot| {
                let watcher = self.slots[slot as usize].as_ref()?;
                Some(ReadFor {
                    slot,
                    serial: watcher.serial,
                    span: watcher.span.clone(),
                    next: watcher.next,
                    wants: watcher.wants,
                })
            })
            .collect();
        let from = watchers.iter().map(|watcher| watcher.next).min()?;
        self.reading = true;
        Some(HistoryRead {
            reader: self.reader.clone(),
            watchers,
            from,
            through,
        })
    }

    pub fn read_done(&mut self, done: HistoryDone) {
        assert!(std::mem::take(&mut self.reading), "no read was out");
        self.done = Some(done);
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

/// Requests.
impl WatchStream {
    fn create(&mut self, request: &WatchCreateRequest, out: &mut Out) {
        let current = self.reader.view().revision();
        let refuse = |out: &mut Out, reason: &str| out.control(current, &refused(reason));
        if request.start_revision < 0 {
            return refuse(out, COMPACTED);
        }
        let Some(span) = Span::from_wire(&request.key, &request.range_end) else {
            return refuse(out, EMPTY_RANGE);
        };
        let id = match request.watch_id {
            0 => self.free_id(),
            taken if self.by_id.contains_key(&taken) => return refuse(out, DUPLICATE_ID),
            id => id,
        };
        let is_past = request.start_revision > 0 && request.start_revision <= current;
        self.next_serial += 1;
        let watcher = Watcher {
            id,
            serial: self.next_serial,
            span,
            wants: Wants {
                no_put: request.filters.contains(&FILTER_NO_PUT),
                no_delete: request.filters.contains(&FILTER_NO_DELETE),
                prev_kv: request.prev_kv,
            },
            phase: if is_past {
                Phase::Behind
            } else {
                Phase::Creating
            },
            next: request.start_revision,
            start: request.start_revision,
            fragment: request.fragment,
            progress_notify: request.progress_notify,
            idle: true,
            pending: Vec::new(),
            sent: 0,
        };
        let slot = self.place(watcher);
        self.by_id.insert(id, slot);
        if is_past {
            self.behind.push_back(slot);
            out.control(current, &created(id));
        } else {
            self.asking = true;
            self.join(vec![slot]);
        }
    }

    fn free_id(&mut self) -> i64 {
        while self.by_id.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    fn place(&mut self, watcher: Watcher) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(watcher);
                slot
            }
            None => {
                self.slots.push(Some(watcher));
                (self.slots.len() - 1) as u32
            }
        }
    }

    fn cancel(&mut self, id: i64, out: &mut Out) {
        let Some(slot) = self.by_id.remove(&id) else {
            return;
        };
        let watcher = self.watcher(slot);
        watcher.phase = Phase::Leaving;
        watcher.progress_notify = false;
        watcher.pending.clear();
        watcher.sent = 0;
        let stream = self.id;
        self.hub.send(HubEvent::Leave { stream, slot });
        let fields = Fields {
            watch_id: id,
            canceled: true,
            ..Fields::default()
        };
        out.control(self.reader.view().revision(), &fields);
    }

    /// Asks the hub to accept these watchers, from their `next` on.
    fn join(&mut self, slots: Vec<u32>) {
        let joins = slots.into_iter().map(|slot| {
            let watcher = self.slots[slot as usize].as_ref().expect("is in use");
            Join {
                slot,
                span: watcher.span.clone(),
                next: watcher.next,
                wants: watcher.wants,
            }
        });
        let joins = joins.collect();
        let stream = self.id;
        self.hub.send(HubEvent::Join { stream, joins });
    }

    fn watcher(&mut self, slot: u32) -> &mut Watcher {
        self.slots[slot as usize].as_mut().expect("is in use")
    }
}

/// The mailbox.
impl WatchStream {
    fn take_item(&mut self, item: Item, out: &mut Out) {
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
    fn add_hit(&mut self, slot: u32, event: u32, phase: Phase) {
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

/// History.
impl WatchStream {
    /// The longest waiting watcher, and those at nearly the same revision: one read serves all of
    /// them. They take turns, so that a watcher far behind does not delay the others.
    fn next_group(&mut self) -> Vec<u32> {
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

    fn take_history(&mut self, done: HistoryDone, out: &mut Out) {
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
                    self.move_gap(through);
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

    /// True if a watcher still needs the gap. Canceled watchers do not: waiting for them would
    /// block the whole stream for ever.
    fn gap_is_open(&mut self) -> bool {
        let watchers = &self.slots;
        self.gap.take_if(|(slots, _)| {
            slots.retain(|slot| {
                let watcher = watchers[*slot as usize].as_ref();
                watcher.is_some_and(|watcher| watcher.phase == Phase::Filling)
            });
            slots.is_empty()
        });
        self.gap.is_some()
    }

    /// Ends the gap if the read has reached its end.
    fn move_gap(&mut self, through: i64) {
        let is_filled = |(_, end): &mut (Vec<u32>, i64)| *end <= through;
        if let Some((slots, _)) = self.gap.take_if(is_filled) {
            for slot in slots {
                if let Some(watcher) = &mut self.slots[slot as usize]
                    && watcher.phase == Phase::Filling
                {
                    watcher.phase = Phase::Live;
                }
            }
        }
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
        // Compacted watchers need no gap; the other watchers continue.
        let slots = &self.slots;
        let is_over = |(gap, _): &mut (Vec<u32>, i64)| {
            gap.retain(|slot| {
                slots[*slot as usize]
                    .as_ref()
                    .is_some_and(|watcher| watcher.phase == Phase::Filling)
            });
            gap.is_empty()
        };
        self.gap.take_if(is_over);
    }

    fn is_still(&self, of: &ReadFor, phase: Phase) -> bool {
        self.slots[of.slot as usize]
            .as_ref()
            .is_some_and(|watcher| watcher.serial == of.serial && watcher.phase == phase)
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

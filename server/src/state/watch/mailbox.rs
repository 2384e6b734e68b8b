//! The hub's messages for one stream, in order: events, and answers to the stream's requests.
//!
//! The order is the whole protocol. An answer comes after all events that the hub delivered before
//! it, so a stream that reads its mailbox in order knows at each item what it has seen.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use super::event::Event;
use super::{MAILBOX_BYTES, MAILBOX_HITS};

/// Events for several watchers of one stream.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    pub(super) events: Vec<Event>,
    /// For each watcher in revision order.
    pub(super) hits: Vec<Hit>,
    /// Bytes of `events`.
    pub(super) bytes: usize,
    /// The store's revision when the hub read the events.
    pub(super) store_revision: i64,
}

/// Assigns one event of the delivery to one watcher.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) slot: u32,
    pub(super) event: u32,
}

/// Who gets a progress response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// The client's request: one response for the stream.
    Stream,
    /// The interval has passed: one response for each idle watcher that asked for progress.
    Idle,
}

#[derive(Debug)]
pub(super) enum Item {
    Events(Delivery),
    /// From here on, these watchers get the events after `through`.
    Joined {
        slots: Vec<u32>,
        through: i64,
    },
    /// These watchers are too far behind to be accepted.
    Behind {
        slots: Vec<u32>,
    },
    /// This watcher gets nothing more: its slot is free.
    Left {
        slot: u32,
    },
    /// The mailbox was full, or the next revision has too many events. Every joined watcher has
    /// received its events up to `through`, and gets no more until it joins again.
    Detached {
        through: i64,
    },
    /// All events up to `revision` for joined watchers come before this item.
    Progress {
        revision: i64,
        ask: Ask,
    },
    /// The server is stopping.
    Closed,
}

#[derive(Debug)]
pub struct Mailbox {
    state: Mutex<State>,
    /// Events waiting in all mailboxes of the server, counted per watcher.
    pending: Arc<AtomicI64>,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    /// Size of the deliveries in `items`.
    bytes: usize,
    hits: usize,
    waker: Option<Waker>,
}

impl Mailbox {
    pub(super) fn new(pending: Arc<AtomicI64>) -> Mailbox {
        Mailbox {
            state: Mutex::default(),
            pending,
        }
    }

    /// Adds a delivery if there is room; returns it otherwise. An empty mailbox accepts any
    /// delivery: one revision may exceed these limits, though not the hub's for a revision, and must
    /// not be split.
    pub(super) fn deliver(&self, delivery: Delivery) -> Result<Option<Waker>, Delivery> {
        let mut state = self.state.lock();
        let is_empty = state.bytes == 0 && state.hits == 0;
        if !is_empty
            && (state.bytes + delivery.bytes > MAILBOX_BYTES
                || state.hits + delivery.hits.len() > MAILBOX_HITS)
        {
            return Err(delivery);
        }
        state.bytes += delivery.bytes;
        state.hits += delivery.hits.len();
        self.note(delivery.hits.len() as i64);
        state.items.push_back(Item::Events(delivery));
        Ok(state.waker.take())
    }

    /// Adds an answer. There are at most as many as the stream's open requests, plus one `Detached`
    /// between two joins.
    pub(super) fn answer(&self, item: Item) -> Option<Waker> {
        let mut state = self.state.lock();
        state.items.push_back(item);
        state.waker.take()
    }

    /// Takes all items; `into` must be empty.
    pub(super) fn take(&self, into: &mut VecDeque<Item>) {
        let mut state = self.state.lock();
        std::mem::swap(&mut state.items, into);
        state.bytes = 0;
        let taken = std::mem::take(&mut state.hits);
        self.note(-(taken as i64));
    }

    /// Registers `waker` for the next item. Returns false if there are items already.
    pub fn arm(&self, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        if !state.items.is_empty() {
            return false;
        }
        match &mut state.waker {
            Some(armed) => armed.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        true
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    fn note(&self, events: i64) {
        if events != 0 {
            self.pending.fetch_add(events, Ordering::Relaxed);
        }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let left = self.state.get_mut().hits;
        self.note(-(left as i64));
    }
}

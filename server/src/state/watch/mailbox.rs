//! What the hub has for one stream, in order: events, and answers to what the stream asked.
//!
//! The order is the whole protocol. An answer stands behind all events the hub handed over before
//! it, so a stream that takes the mailbox in order knows at each item what it has seen.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use super::event::Event;
use super::inbox::Ask;
use super::{MAILBOX_BYTES, MAILBOX_HITS};

/// Events for several watchers of one stream.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    pub(super) events: Vec<Event>,
    /// In the order of revisions for each watcher.
    pub(super) hits: Vec<Hit>,
    /// Bytes of `events`.
    pub(super) bytes: usize,
    /// The store's revision when the hub read these.
    pub(super) store_revision: i64,
}

/// This watcher gets this event of the delivery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) slot: u32,
    pub(super) event: u32,
}

#[derive(Debug)]
pub(super) enum Item {
    Events(Delivery),
    /// These watchers get the events after `through` from here on.
    Joined {
        slots: Vec<u32>,
        through: i64,
    },
    /// These are too far behind to be taken in.
    Behind {
        slots: Vec<u32>,
    },
    /// Nothing more comes for this watcher: its slot is free.
    Left {
        slot: u32,
    },
    /// The mailbox was full. Every joined watcher has been given what concerns it up to
    /// `through`, and gets nothing from here on until it joins again.
    Detached {
        through: i64,
    },
    /// All events up to `revision` for joined watchers stand before this item.
    Progress {
        revision: i64,
        ask: Ask,
    },
    /// The server stops.
    Closed,
}

#[derive(Debug)]
pub struct Mailbox {
    state: Mutex<State>,
    /// Events for watchers in all mailboxes of the server.
    pending: Arc<AtomicI64>,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    /// Of the deliveries in `items`.
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

    /// Puts a delivery in if there is room; gives it back if not. An empty mailbox takes any: one
    /// revision may be larger than the bounds, and must stay whole.
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

    /// Puts an answer in. There are never more than the stream asked for, and one `Detached`
    /// between two joins.
    pub(super) fn answer(&self, item: Item) -> Option<Waker> {
        let mut state = self.state.lock();
        state.items.push_back(item);
        state.waker.take()
    }

    /// Takes everything out; `into` is empty before.
    pub(super) fn take(&self, into: &mut VecDeque<Item>) {
        let mut state = self.state.lock();
        std::mem::swap(&mut state.items, into);
        state.bytes = 0;
        let taken = std::mem::take(&mut state.hits);
        self.note(-(taken as i64));
    }

    /// Asks to be woken when something is put in. False when something is in already.
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

//! The way to the hub: what may be asked of it, and the queue in front of it.
//!
//! The queue has no limit of its own because nobody can fill it: "the store has advanced" is one
//! number however often it is said, and a stream has at most a few questions open
//! ([`super::stream`]) and does not ask the next before it has room for the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::event::Wants;
use super::index::Span;
use super::mailbox::Mailbox;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StreamId(u64);

/// A watcher that wants to be told of new events.
#[derive(Clone, Debug)]
pub(super) struct Join {
    /// The stream's own number for it.
    pub slot: u32,
    pub span: Span,
    /// The first revision it has not seen; zero for "from now on".
    pub next: i64,
    pub wants: Wants,
}

/// Who gets a progress response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// The client asked: one response for the stream.
    Stream,
    /// The interval has passed: one response for each watcher that wants it and was idle.
    Idle,
}

#[derive(Debug)]
pub(super) enum HubEvent {
    /// A root with this revision was published.
    Advanced {
        revision: i64,
    },
    /// A new stream and where its answers go.
    Open {
        stream: StreamId,
        mailbox: Arc<Mailbox>,
    },
    /// All or none of them are taken in.
    Join {
        stream: StreamId,
        joins: Vec<Join>,
    },
    Leave {
        stream: StreamId,
        slot: u32,
    },
    Progress {
        stream: StreamId,
        ask: Ask,
    },
    Close {
        stream: StreamId,
    },
    /// The server stops: every stream is told, and nothing is done after it.
    Stop,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    /// See [`HubHandle::seen`].
    seen: AtomicI64,
    streams: AtomicU64,
    /// See [`HubHandle::pending_events`].
    pending: Arc<AtomicI64>,
}

#[derive(Debug, Default)]
struct Queue {
    events: Vec<HubEvent>,
    /// The newest revision said and not taken yet.
    advanced: Option<i64>,
    /// The hub looks for new events by itself, soon.
    resting: bool,
}

/// Anyone's end of the queue.
#[derive(Clone, Debug, Default)]
pub struct HubHandle {
    shared: Arc<Shared>,
}

/// The hub's end of the queue.
#[derive(Debug)]
pub(super) struct HubInbox {
    shared: Arc<Shared>,
}

impl HubHandle {
    pub(super) fn new() -> (HubHandle, HubInbox) {
        let handle = HubHandle::default();
        let inbox = HubInbox {
            shared: handle.shared.clone(),
        };
        (handle, inbox)
    }

    /// To be called after every publishing of a root with a new revision that
    /// [`super::Hub::advance_if_brief`] has not handed over. Never waits.
    pub fn advanced(&self, revision: i64) {
        let mut queue = self.shared.queue.lock();
        queue.advanced = queue.advanced.max(Some(revision));
        let resting = queue.resting;
        drop(queue);
        if !resting {
            self.shared.filled.notify_one();
        }
    }

    /// The hub has read all changes up to this revision. Rows a compaction has made invisible may
    /// be removed from the store once this is not below the compacted revision: before, a watcher
    /// that was never behind would lose them.
    pub fn seen(&self) -> i64 {
        self.shared.seen.load(Ordering::Acquire)
    }

    /// Events that wait for clients to take them, counted once for each watcher.
    pub fn pending_events(&self) -> i64 {
        self.shared.pending.load(Ordering::Relaxed)
    }

    pub(super) fn new_mailbox(&self) -> Mailbox {
        Mailbox::new(Arc::clone(&self.shared.pending))
    }

    pub fn stop(&self) {
        self.send(HubEvent::Stop);
    }

    /// Waits until the hub has something to do; for the hub's thread.
    pub fn wait(&self) {
        let mut queue = self.shared.queue.lock();
        while queue.events.is_empty() && queue.advanced.is_none() {
            self.shared.filled.wait(&mut queue);
        }
    }

    /// Waits until the hub is asked for something, but not for new events, at most so long.
    pub fn rest(&self, longest: Duration) {
        let mut queue = self.shared.queue.lock();
        if longest.is_zero() {
            return;
        }
        queue.resting = true;
        let idle = |queue: &mut Queue| queue.events.is_empty();
        let _ = self.shared.filled.wait_while_for(&mut queue, idle, longest);
        queue.resting = false;
    }

    pub(super) fn open(&self, mailbox: Arc<Mailbox>) -> StreamId {
        let stream = StreamId(self.shared.streams.fetch_add(1, Ordering::Relaxed));
        self.send(HubEvent::Open { stream, mailbox });
        stream
    }

    pub(super) fn send(&self, event: HubEvent) {
        self.shared.queue.lock().events.push(event);
        self.shared.filled.notify_one();
    }
}

impl HubInbox {
    /// Takes what there is.
    pub(super) fn take(&self, events: &mut Vec<HubEvent>) {
        self.shared.queue.lock().take(events);
    }

    /// Says how far the hub has read.
    pub(super) fn set_seen(&self, revision: i64) {
        self.shared.seen.store(revision, Ordering::Release);
    }
}

impl Queue {
    fn take(&mut self, events: &mut Vec<HubEvent>) {
        // In front of what was asked before it, which is no harm: the hub reads the newest view
        // whenever it is turned.
        if let Some(revision) = self.advanced.take() {
            events.push(HubEvent::Advanced { revision });
        }
        events.append(&mut self.events);
    }
}

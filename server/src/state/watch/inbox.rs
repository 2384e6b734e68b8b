//! The hub's queue: what can be asked of the hub.
//!
//! The queue needs no limit, because its length is bounded by its senders: the newest published
//! revision is a single number, and a stream has only a few requests open ([`super::stream`]) and
//! sends no further one before it has room for the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::RevisionLimits;
use super::event::Wants;
use super::index::Span;
use super::mailbox::{Ask, Mailbox};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StreamId(u64);

/// A watcher that wants new events.
#[derive(Clone, Debug)]
pub(super) struct Join {
    /// The stream's number for the watcher.
    pub slot: u32,
    pub span: Span,
    /// The first revision that it has not seen; zero means "from now on".
    pub next: i64,
    pub wants: Wants,
}

#[derive(Debug)]
pub(super) enum HubEvent {
    /// A root with this revision was published.
    Advanced {
        revision: i64,
    },
    /// A new stream, and the mailbox for its answers.
    Open {
        stream: StreamId,
        mailbox: Arc<Mailbox>,
    },
    /// All of these watchers are accepted, or none.
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
    /// The server stops: every stream is told, and later requests are ignored.
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
    limits: RevisionLimits,
}

#[derive(Debug, Default)]
struct Queue {
    events: Vec<HubEvent>,
    /// The newest published revision not taken yet.
    advanced: Option<i64>,
    /// The hub rests and will look for new events by itself soon.
    resting: bool,
}

/// The senders' end of the queue. Cheap to clone.
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
    pub(super) fn new(limits: RevisionLimits) -> (HubHandle, HubInbox) {
        let shared = Arc::new(Shared {
            limits,
            ..Shared::default()
        });
        let inbox = HubInbox {
            shared: Arc::clone(&shared),
        };
        (HubHandle { shared }, inbox)
    }

    /// Must be called after each publication of a root with a new revision, unless
    /// [`super::Hub::advance_if_brief`] has delivered it. Never waits.
    pub fn advanced(&self, revision: i64) {
        let mut queue = self.shared.queue.lock();
        queue.advanced = queue.advanced.max(Some(revision));
        let resting = queue.resting;
        drop(queue);
        if !resting {
            self.shared.filled.notify_one();
        }
    }

    /// The hub has read all changes up to this revision. Rows that a compaction made invisible may
    /// be removed only when this is at least the compacted revision; otherwise a watcher that was
    /// never behind would lose them.
    pub fn seen(&self) -> i64 {
        self.shared.seen.load(Ordering::Acquire)
    }

    /// Events waiting for clients to take them, counted once per watcher.
    pub fn pending_events(&self) -> i64 {
        self.shared.pending.load(Ordering::Relaxed)
    }

    /// For the streams of this hub.
    pub(super) fn limits(&self) -> RevisionLimits {
        self.shared.limits
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

    /// Waits up to `longest` for a request to the hub; new revisions do not end the wait.
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
    /// Takes everything queued.
    pub(super) fn take(&self, events: &mut Vec<HubEvent>) {
        self.shared.queue.lock().take(events);
    }

    /// Publishes how far the hub has read.
    pub(super) fn set_seen(&self, revision: i64) {
        self.shared.seen.store(revision, Ordering::Release);
    }
}

impl Queue {
    fn take(&mut self, events: &mut Vec<HubEvent>) {
        // This comes before earlier requests, which is harmless: the hub reads the newest view in
        // any case.
        if let Some(revision) = self.advanced.take() {
            events.push(HubEvent::Advanced { revision });
        }
        events.append(&mut self.events);
    }
}

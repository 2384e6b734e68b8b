//! What can happen, and in which order: the earliest first, and at the same time what was scheduled
//! first.

use std::cmp::Ordering;

use raft::Message;
use server::state::snapshot::Form;

use crate::host::process::Actor;

#[derive(Debug)]
pub(crate) enum Event {
    /// An actor of the host's `life`th process.
    Turn {
        host: usize,
        life: u64,
        actor: Actor,
    },
    Deliver(Box<Message>),
    /// A member's state comes to another one, or as much of it as does.
    Snapshot(Box<Transfer>),
    /// The sender's `life`th process hears how that ended.
    SnapshotSent {
        host: usize,
        life: u64,
        to: u64,
        ok: bool,
    },
    /// The connection of `peer` to `host` was closed by the peer's end.
    Closed {
        host: usize,
        peer: u64,
    },
    /// The client has something to do or to look at.
    Client(usize),
    Watcher(usize),
    Nemesis,
    /// The host's process begins again, unless it has.
    Start(usize),
    /// Somebody takes away a member that lost its log.
    Operator(usize),
    /// Disks are inspected.
    Inspect,
    /// Its pause ends.
    Resume(usize),
    /// The disk has room again, unless the host's `life`th process has ended.
    Room {
        host: usize,
        life: u64,
    },
    /// A process that was told that it is a member no more ends.
    Leave {
        host: usize,
        life: u64,
    },
}

#[derive(Debug)]
pub(crate) struct Transfer {
    pub from: usize,
    pub life: u64,
    pub to: u64,
    pub form: Form,
    pub bytes: Vec<u8>,
}

pub(super) struct Scheduled {
    pub(super) at: u64,
    pub(super) order: u64,
    pub(super) event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    /// The earliest is the greatest: what the heap gives first.
    fn cmp(&self, other: &Scheduled) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

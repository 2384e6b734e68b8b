//! Detects a stalled disk of the log, by how long its writes are pending. It has no disk: it is
//! told about writes, and when they are durable.

use std::collections::VecDeque;
use std::time::Duration;

use raft::{Index, NodeId, Now, PeerStatus, Ticket, Write};

/// A sync that takes this long is not ordinary. With the election, a leader with a stalled disk is
/// replaced within half a second.
const STALL: Duration = Duration::from_millis(350);
/// Pause after a look that found no heir, or after a transfer was started.
const PAUSE: Duration = Duration::from_millis(50);

/// Writes of entries that are not durable yet.
#[derive(Default)]
pub(super) struct Stall {
    writes: VecDeque<Pending>,
    not_before: Now,
}

struct Pending {
    ticket: Ticket,
    last: Index,
    since: Now,
}

impl Stall {
    pub(super) fn wrote(&mut self, now: Now, write: &Write) {
        if let Some(entry) = write.entries.last() {
            self.writes.push_back(Pending {
                ticket: write.ticket,
                last: entry.index,
                since: now,
            });
        }
    }

    pub(super) fn durable(&mut self, ticket: Ticket) {
        while self
            .writes
            .pop_front_if(|write| write.ticket <= ticket)
            .is_some()
        {}
    }

    /// Time of the next look for an heir.
    pub(super) fn due_at(&self) -> Option<Now> {
        let oldest = self.writes.front()?;
        Some((oldest.since + STALL).max(self.not_before))
    }

    /// The voter whose disk is most advanced, if it has the entries that this member's disk has
    /// not. `None` if all disks stall: then a transfer does not help.
    pub(super) fn heir(&mut self, now: Now, peers: &[PeerStatus]) -> Option<NodeId> {
        self.not_before = now + PAUSE;
        let oldest = self.writes.front()?;
        let able = peers
            .iter()
            .filter(|peer| !peer.learner && peer.matched >= oldest.last);
        able.max_by_key(|peer| peer.matched).map(|peer| peer.id)
    }
}

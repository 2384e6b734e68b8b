//! Notices that the log's disk stands still: which write it has had for how long. Knows no disk;
//! it sees writes go and hears when they are durable.

use std::collections::VecDeque;
use std::time::Duration;

use raft::{Index, NodeId, Now, PeerStatus, Ticket, Write};

/// A sync that takes so long is no ordinary one: with the election a leader whose disk stands still
/// has been replaced within half a second.
const STALL: Duration = Duration::from_millis(350);
/// While no other member is ahead of this one, or has just been asked to take over.
const PAUSE: Duration = Duration::from_millis(50);

/// Writes that bring entries and are not durable yet.
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

    /// When to look for somebody else.
    pub(super) fn due_at(&self) -> Option<Now> {
        let oldest = self.writes.front()?;
        Some((oldest.since + STALL).max(self.not_before))
    }

    /// Who has on disk what this member waits for, and most of what comes after it. Nobody, when
    /// all disks stand still: then it is not this one's fault, and moving helps nobody.
    pub(super) fn heir(&mut self, now: Now, peers: &[PeerStatus]) -> Option<NodeId> {
        self.not_before = now + PAUSE;
        let oldest = self.writes.front()?;
        let able = peers
            .iter()
            .filter(|peer| !peer.learner && peer.matched >= oldest.last);
        able.max_by_key(|peer| peer.matched).map(|peer| peer.id)
    }
}

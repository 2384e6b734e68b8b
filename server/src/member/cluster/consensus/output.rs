//! Raft's output, with the clients and the states that belong to it.

use raft::{Body, EntryKind, Message, NOBODY};

use super::{Carried, Consensus, ConsensusEffects, take_waiting};
use crate::member::event::Committed;

impl Consensus {
    pub(super) fn collect(&mut self, carried: Carried, effects: &mut ConsensusEffects) {
        effects.writes.extend(self.output.write.take());
        if let Some(change) = self.output.role_change.take() {
            self.has_new_leader |= change.leader != NOBODY;
            effects.role_change = Some(change);
        }
        self.collect_snapshots(carried, effects);
        effects.fetches.append(&mut self.output.fetches);
        effects.complaints.append(&mut self.output.complaints);
        effects.messages.append(&mut self.output.messages);
        for read in self.output.reads.drain(..) {
            // A refused read is asked again after [`READ_RETRY`].
            if let Ok(index) = read.outcome
                && let Some(reading) = self.reads.remove(&read.context)
            {
                effects.reads.push((index, reading.slots));
            }
        }
        for entry in std::mem::take(&mut self.output.committed) {
            self.replays.is_news(&entry);
            if entry.kind != EntryKind::Normal {
                // Clients of such a change wait by its id, at whatever position it is.
                let _ = take_waiting(&mut self.waiting, entry.position(), effects);
                effects.committed.push(Committed {
                    reply: self.changes.take(&entry),
                    request: None,
                    entry,
                });
                continue;
            }
            let (request, reply) = match take_waiting(&mut self.waiting, entry.position(), effects)
            {
                Some(waiting) => (Some(waiting.request), waiting.reply),
                None => match self.forwarded.take(&entry) {
                    Some((request, reply)) => (Some(request), reply),
                    None => (None, None),
                },
            };
            effects.committed.push(Committed {
                entry,
                request,
                reply,
            });
        }
    }

    /// Matches snapshots with their states. Drops unneeded views: they keep pages from reuse.
    fn collect_snapshots(&mut self, carried: Carried, effects: &mut ConsensusEffects) {
        effects
            .snapshots_wanted
            .append(&mut self.output.snapshots_wanted);
        let (mut ready, came) = match carried {
            Carried::Nothing => (None, None),
            Carried::Out { to, view } => (Some((to, view)), None),
            Carried::In(received) => (None, Some(received)),
        };
        if self.output.install.take().is_some() {
            effects.install = came;
        } else {
            effects.unwanted.extend(came);
        }
        let is_snapshot = |message: &mut Message| matches!(message.body, Body::Snapshot(_));
        for message in self.output.messages.extract_if(.., is_snapshot) {
            match ready.take_if(|(to, _)| *to == message.to) {
                Some((_, view)) => effects.transfers.push((message, view)),
                // The message waited for the disk until its view was gone.
                None => self.not_sent.push(message.to),
            }
        }
    }
}

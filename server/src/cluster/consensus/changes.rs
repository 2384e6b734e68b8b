//! Changes of the members on their way: each waits until none is under way that its leader knows
//! of, and its client until it is applied. Knows nothing of what a change does.

use std::collections::{BTreeMap, VecDeque};

use raft::{ConfChange, EntryKind, Now, Proposal};

use super::PATIENCE;
use crate::event::ReplySlot;

/// Changes that wait for others; etcd would drop them all but the first.
const WAITING_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Changes {
    waiting: VecDeque<(Now, ConfChange, ReplySlot)>,
    /// In the log, or sent to the leader; by the id of the change, until its clients lose patience.
    asked: BTreeMap<u64, (Now, ReplySlot)>,
}

impl Changes {
    /// Gives the slot back when there is no room.
    pub(super) fn push(
        &mut self,
        now: Now,
        change: ConfChange,
        reply: ReplySlot,
    ) -> Result<(), ReplySlot> {
        if self.waiting.len() + self.asked.len() >= WAITING_MAX {
            return Err(reply);
        }
        self.waiting.push_back((now + PATIENCE, change, reply));
        Ok(())
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next one, for the log. It is `asked` from now on.
    pub(super) fn next(&mut self) -> Option<Proposal> {
        let (until, change, reply) = self.waiting.pop_front()?;
        let data = raft::wire::encode_conf_change(&change);
        self.asked.insert(change.id, (until, reply));
        Some(Proposal {
            kind: EntryKind::ConfChange,
            data,
        })
    }

    /// Who waits for the change in this entry.
    pub(super) fn take(&mut self, entry: &raft::Entry) -> Option<ReplySlot> {
        if self.asked.is_empty() {
            return None;
        }
        let change = raft::wire::decode_conf_change(&entry.data).ok()?;
        self.asked.remove(&change.id).map(|(_, reply)| reply)
    }

    /// Nobody waits for what is older; its client has been told that time is up.
    pub(super) fn forget(&mut self, now: Now) {
        while self
            .waiting
            .pop_front_if(|(until, ..)| *until <= now)
            .is_some()
        {}
        self.asked.retain(|_, (until, _)| *until > now);
    }
}

//! Changes of the members in flight. Each waits until its leader knows of no other unfinished
//! change; its client waits until it is applied. Knows nothing of what a change does.

use std::collections::{BTreeMap, VecDeque};

use raft::{ConfChange, EntryKind, Now, Proposal};

use crate::member::event::ReplySlot;

/// Most changes in flight. etcd would drop all but the first.
const WAITING_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Changes {
    waiting: VecDeque<(Now, ConfChange, ReplySlot)>,
    /// Proposed changes by id, until they are applied or their clients give up.
    asked: BTreeMap<u64, (Now, ReplySlot)>,
}

impl Changes {
    /// Its client waits `until` then. Returns the slot if there is no room.
    pub(super) fn push(
        &mut self,
        until: Now,
        change: ConfChange,
        reply: ReplySlot,
    ) -> Result<(), ReplySlot> {
        if self.waiting.len() + self.asked.len() >= WAITING_MAX {
            return Err(reply);
        }
        self.waiting.push_back((until, change, reply));
        Ok(())
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the next change for the log, and moves it to `asked`.
    pub(super) fn next(&mut self) -> Option<Proposal> {
        let (until, change, reply) = self.waiting.pop_front()?;
        let data = raft::wire::encode_conf_change(&change);
        self.asked.insert(change.id, (until, reply));
        Some(Proposal {
            kind: EntryKind::ConfChange,
            data,
        })
    }

    /// The client that waits for the change in this entry.
    pub(super) fn take(&mut self, entry: &raft::Entry) -> Option<ReplySlot> {
        if self.asked.is_empty() {
            return None;
        }
        let change = raft::wire::decode_conf_change(&entry.data).ok()?;
        self.asked.remove(&change.id).map(|(_, reply)| reply)
    }

    /// Drops changes whose clients have given up; those have got a timeout.
    pub(super) fn forget(&mut self, now: Now) {
        while self
            .waiting
            .pop_front_if(|(until, ..)| *until <= now)
            .is_some()
        {}
        self.asked.retain(|_, (until, _)| *until > now);
    }
}

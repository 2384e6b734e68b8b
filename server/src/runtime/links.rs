//! The actors' queues, and the other parts of the server that their threads use.

mod jobs;

use std::sync::Arc;

use raft::Message;
use storage::mvcc::{Reader, View};

use super::budget::Budget;
use super::deliveries::Deliveries;
use super::notes::Notes;
use crate::basics::clock::{Clock, Now};
use crate::member::cluster::peer::Peers;
use crate::member::driver::{Job, Note, Ports, Replies};
use crate::member::event::inbox::Sender;
use crate::member::event::{ApplyEvent, ConsensusEvent, LogEvent};
use crate::state::MemberInfo;
use crate::state::hashes::{Compacted, HashJob, Hashes};
use crate::telemetry::metrics::Metrics;

/// What a thread needs to carry out the effects of its actor.
#[derive(Clone)]
pub(super) struct Links {
    pub(super) clock: Clock,
    pub(super) consensus: Sender<ConsensusEvent>,
    pub(super) log: Sender<LogEvent>,
    pub(super) apply: Sender<ApplyEvent>,
    pub(super) replies: Deliveries,
    pub(super) hashes: Arc<Hashes>,
    pub(super) budget: Arc<Budget>,
    pub(super) reader: Reader,
    pub(super) metrics: Arc<Metrics>,
    pub(super) peers: Peers,
    /// For the actor on this thread.
    pub(super) notes: Notes,
}

/// Failed sends are ignored: a closed inbox means that its actor has ended, as during a stop.
impl Ports for Links {
    fn now(&self) -> Now {
        self.clock.now()
    }

    fn to_consensus(&mut self, event: ConsensusEvent) {
        let _ = self.consensus.send(event);
    }

    fn to_consensus_quietly(&mut self, event: ConsensusEvent) {
        let _ = self.consensus.send_quietly(event);
    }

    fn to_log(&mut self, event: LogEvent) {
        let _ = self.log.send(event);
    }

    fn to_apply(&mut self, event: ApplyEvent) {
        let _ = self.apply.send(event);
    }

    fn answer(&mut self, replies: &mut Replies) {
        self.replies.send(replies);
    }

    fn send(&mut self, messages: &mut Vec<Message>) {
        if !messages.is_empty() {
            self.notes.sending(self.clock.now(), messages);
            self.peers.send(messages);
        }
    }

    fn send_snapshot(&mut self, message: Message, view: View) {
        self.peers.send_snapshot(message, view);
    }

    fn set_members(&mut self, members: &[MemberInfo], removed: &[u64]) {
        self.peers.set_members(members, removed);
    }

    fn start(&mut self, job: Job) {
        jobs::start(job, self.clone());
    }

    fn digest(&mut self, job: HashJob) {
        self.hashes.announce(job);
    }

    fn compaction_ended(&mut self, compacted: Compacted) {
        self.hashes.ended(compacted);
    }

    fn note(&mut self, note: Note<'_>) {
        self.notes.note(note);
    }
}

//! What a member has in every role: term, vote, log, members, and outgoing messages. Does not know
//! what the roles do with it.

pub(crate) mod rng;

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use crate::io::{Complaint, Config, Now, Output, Read, Recovered, Ticket, Write};
use crate::log::Log;
use crate::membership::Membership;
use crate::message::{Body, HardState, Index, Message, NOBODY, NodeId, Position, Snapshot, Term};
use rng::Rng;

/// Upper bound of messages that wait for a sync. If the disk stalls for longer, the oldest are
/// dropped; any network may lose them, too.
const HELD_MAX: usize = 8192;

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) term: Term,
    pub(crate) vote: NodeId,
    pub(crate) leader: NodeId,
    pub(crate) log: Log,
    pub(crate) members: Membership,
    /// The newest conf change entry that the server reported.
    pub(crate) conf_applied: Index,
    /// This member was removed in this run. The others may not know it, and may be unable to elect
    /// anybody with a shorter log than ours. Until they do, this member may lead to hand over.
    pub(crate) removed: bool,
    /// The commit index must become durable even if nothing else must.
    pub(crate) save_commit: bool,
    /// A snapshot that the server is installing. Until the server reports the end nothing moves the
    /// log: the snapshot counts as a message that has not arrived yet.
    pub(crate) installing: Option<Snapshot>,
    /// The newest entry that a leader says this member acknowledged, if that is more than the log
    /// held: the disk lost what it promised to keep.
    promised: Index,
    /// The newest entry that another member is known to have: it got this member's vote with it, or
    /// called it committed. See [`State::may_campaign`].
    pub(crate) known_elsewhere: Index,
    /// Candidacies since a leader was last heard.
    pub(crate) attempts: u32,
    /// Read rounds begun here so far. A number is never used twice.
    pub(crate) rounds: u64,
    pub(crate) rng: Rng,
    /// The output of this step; swapped with the caller's.
    pub(crate) out: Output,
    fresh: Vec<(Message, Index)>,
    held: VecDeque<(Ticket, Message)>,
    ticket: Ticket,
    durable_ticket: Ticket,
    /// The newest write that changed term or vote. No message leaves before it is durable: after a
    /// crash this member would not know the term that the message named.
    term_ticket: Ticket,
    /// The hard state last given to the log writer.
    saved: HardState,
}

impl State {
    pub(crate) fn new(config: Config, recovered: Recovered) -> State {
        let Recovered {
            hard_state,
            base,
            entries,
            applied,
        } = recovered;
        // The stored commit index is a lower bound: everything applied was committed.
        let commit = hard_state.commit.max(applied);
        let log = Log::new(base, entries, applied, commit);
        assert!(
            hard_state.term >= log.last().term,
            "the log is of term {}, the hard state of {}: a record is missing",
            log.last().term,
            hard_state.term
        );
        State {
            term: hard_state.term,
            vote: hard_state.vote,
            leader: NOBODY,
            log,
            members: Membership::new(&config.voters, &config.learners),
            conf_applied: applied,
            removed: false,
            save_commit: false,
            installing: None,
            promised: 0,
            known_elsewhere: 0,
            attempts: 0,
            rounds: 0,
            rng: Rng::new(config.seed ^ config.id.rotate_left(32)),
            out: Output::default(),
            fresh: Vec::new(),
            held: VecDeque::new(),
            ticket: 0,
            durable_ticket: 0,
            term_ticket: 0,
            saved: hard_state,
            config,
        }
    }

    pub(crate) fn id(&self) -> NodeId {
        self.config.id
    }

    /// A random time, one to two election timeouts from now.
    pub(crate) fn election_deadline(&mut self, now: Now) -> Now {
        let timeout = self.config.election_timeout;
        now + timeout + self.rng.duration(timeout)
    }

    /// The configured suspicion, at most the election timeout. `None` where it could do harm.
    pub(crate) fn suspicion(&self) -> Option<Duration> {
        let config = &self.config;
        let suspicion = config.suspicion?.min(config.election_timeout);
        (config.pre_vote && config.check_quorum).then_some(suspicion)
    }

    /// For how long after hearing its leader a member helps nobody against it. A little shorter
    /// than its own suspicion, so that the first member to ask finds the others ready.
    pub(crate) fn shield(&self) -> Duration {
        match self.suspicion() {
            Some(suspicion) => suspicion * 5 / 6,
            None => self.config.election_timeout,
        }
    }

    /// When to suspect a leader that is heard now and then falls silent.
    pub(crate) fn silence_deadline(&mut self, now: Now) -> Now {
        match self.suspicion() {
            Some(suspicion) => now + suspicion + self.turn_to_ask(self.leader),
            None => self.election_deadline(now),
        }
    }

    /// Delay before this member asks for votes after the leader `gone` fell silent. Members ask one
    /// after the other, by rank and with some randomness: two that campaign at once split the
    /// votes.
    pub(crate) fn turn_to_ask(&mut self, gone: NodeId) -> Duration {
        let voters = self.members.voters().iter();
        let before_us = voters
            .filter(|id| **id < self.config.id && **id != gone)
            .count() as u32;
        let slot = self.config.heartbeat / 4;
        slot * before_us + self.rng.duration(slot / 2)
    }

    /// When a candidacy that begins now has failed. With suspicion, a split or premature vote is
    /// not waited out for a whole election timeout either. Each further attempt waits longer, in
    /// case disks or links are slow.
    pub(crate) fn candidacy_deadline(&mut self, now: Now) -> Now {
        let longest = self.config.election_timeout;
        if self.suspicion().is_none() {
            return self.election_deadline(now);
        }
        self.attempts = self.attempts.saturating_add(1);
        let doubled = 1u32.checked_shl(self.attempts).unwrap_or(u32::MAX);
        let wait = self.config.heartbeat.saturating_mul(doubled).min(longest);
        now + wait + self.rng.duration(wait)
    }

    pub(crate) fn is_sole_voter(&self) -> bool {
        self.members.voters() == [self.config.id]
    }

    /// May this member ask for votes? Not if it is no voter, if a snapshot is about to replace its
    /// log, if its log lost acknowledged entries, or if it knows of a committed membership change
    /// that it has not applied: it would count the wrong majority. A sole voter needs nobody's vote,
    /// so nobody would stop it if its membership were an old one, as it is for a while when an old
    /// disk catches up: then others know entries that its log does not hold yet.
    pub(crate) fn may_campaign(&self) -> bool {
        (self.members.is_voter(self.config.id) || self.removed)
            && self.installing.is_none()
            && !self.owes_log()
            && !(self.is_sole_voter() && self.log.last().index < self.known_elsewhere)
            && !self
                .log
                .has_committed_conf_change_after(self.conf_applied_through())
    }

    /// Every conf change up to this index has been applied.
    pub(crate) fn conf_applied_through(&self) -> Index {
        self.conf_applied.max(self.log.applied())
    }

    /// A leader counts on this member for everything up to `promised`, but the log ends earlier.
    pub(crate) fn owe_log(&mut self, promised: Index) {
        if !self.owes_log() {
            self.complain(Complaint::OwnLogLost {
                acknowledged: promised,
                holds: self.log.last().index,
            });
        }
        self.promised = self.promised.max(promised);
    }

    /// True if this log lost what it promised to keep. A vote by this member could elect a leader
    /// without entries that others count as committed.
    pub(crate) fn owes_log(&self) -> bool {
        self.log.last().index < self.promised
    }

    pub(crate) fn complain(&mut self, complaint: Complaint) {
        self.out.complaints.push(complaint);
    }

    pub(crate) fn enter_term(&mut self, term: Term) {
        assert!(term >= self.term, "terms never go back");
        if term > self.term {
            self.term = term;
            self.vote = NOBODY;
        }
    }

    pub(crate) fn send(&mut self, to: NodeId, body: Body) {
        let term = self.term;
        self.send_in_term(to, term, body);
    }

    pub(crate) fn send_in_term(&mut self, to: NodeId, term: Term, body: Body) {
        self.post(self.message(to, term, body), 0);
    }

    /// The message claims that everything up to `index` is durable here.
    pub(crate) fn send_when_durable(&mut self, to: NodeId, body: Body, index: Index) {
        self.post(self.message(to, self.term, body), index);
    }

    /// Sends a message on unchanged, with its original sender.
    pub(crate) fn forward(&mut self, message: Message) {
        self.post(message, 0);
    }

    fn message(&self, to: NodeId, term: Term, body: Body) -> Message {
        Message {
            from: self.config.id,
            to,
            term,
            body,
        }
    }

    fn post(&mut self, message: Message, needs: Index) {
        assert!(
            message.to != self.config.id && message.to != NOBODY,
            "{message:?}"
        );
        self.fresh.push((message, needs));
    }

    /// The newest position that may match the leader's log, if this log has something else (or
    /// nothing) at `prev`.
    pub(crate) fn hint_for(&self, prev: Position) -> Position {
        self.log.newest_possible_match(prev.index, prev.term)
    }

    pub(crate) fn answer_read(&mut self, read: Read) {
        self.out.reads.push(read);
    }

    pub(crate) fn saved_through(&mut self, ticket: Ticket) {
        assert!(ticket <= self.ticket, "ticket {ticket} was never issued");
        self.durable_ticket = self.durable_ticket.max(ticket);
        self.log.saved(ticket);
    }

    pub(crate) fn term_is_durable(&self) -> bool {
        let saved = (self.saved.term, self.saved.vote) == (self.term, self.vote);
        saved && self.term_ticket <= self.durable_ticket
    }

    /// Ends a step: forms the write, hands out what is committed, and releases the messages for
    /// which everything is durable, oldest first.
    pub(crate) fn finish(&mut self) {
        self.out.write = self.form_write();
        self.log.take_committed(&mut self.out.committed);
        for (message, needs) in mem::take(&mut self.fresh) {
            let ticket = self.term_ticket.max(self.log.ticket_of(needs));
            self.held.push_back((ticket, message));
        }
        let durable = self.durable_ticket;
        let ready = self
            .held
            .iter()
            .filter(|(ticket, _)| *ticket <= durable)
            .count();
        if ready == self.held.len() {
            for (_, message) in self.held.drain(..) {
                let_go(message, &mut self.out.messages);
            }
        } else if ready > 0 {
            for (ticket, message) in mem::take(&mut self.held) {
                if ticket <= durable {
                    let_go(message, &mut self.out.messages);
                } else {
                    self.held.push_back((ticket, message));
                }
            }
        }
        let excess = self.held.len().saturating_sub(HELD_MAX);
        self.held.drain(..excess);
    }

    fn form_write(&mut self) -> Option<Write> {
        let mut write = Write::default();
        let filled = self.log.fill(&mut write);
        let hard_state = HardState {
            term: self.term,
            vote: self.vote,
            commit: self.log.commit(),
        };
        let term_changed = (hard_state.term, hard_state.vote) != (self.saved.term, self.saved.vote);
        // The commit index is written with entries, or if `save_commit` asks for it. A member that
        // holds the second of two conf changes then knows, even after a crash, that the first was
        // committed, and never campaigns two memberships behind.
        let asked = mem::take(&mut self.save_commit);
        if term_changed || ((filled || asked) && hard_state != self.saved) {
            write.hard_state = Some(hard_state);
            self.saved = hard_state;
        }
        if !filled && write.hard_state.is_none() {
            return None;
        }
        self.ticket += 1;
        write.ticket = self.ticket;
        if term_changed {
            self.term_ticket = self.ticket;
        }
        self.log.issue(&write);
        Some(write)
    }
}

/// Of several acknowledgements in one output only the highest matters.
fn let_go(message: Message, out: &mut Vec<Message>) {
    if is_acknowledgement(&message)
        && let Some(earlier) = out.iter_mut().find(|earlier| {
            (earlier.to, earlier.term) == (message.to, message.term) && is_acknowledgement(earlier)
        })
    {
        // Messages may have waited for the disk in another order than the log's. An acknowledgement
        // that only repeats what is committed comes later and says less.
        if acknowledged(&message) > acknowledged(earlier) {
            *earlier = message;
        }
        return;
    }
    out.push(message);
}

fn is_acknowledgement(message: &Message) -> bool {
    acknowledged(message).is_some()
}

fn acknowledged(message: &Message) -> Option<Index> {
    match message.body {
        Body::AppendReply {
            index,
            rejected: None,
        } => Some(index),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

//! Actor 1: the member of the cluster. Owns [`Raft`] and remembers who waits for which entry.
//! Plain values in and out; the shell runs it on a thread of its own.

use std::collections::VecDeque;

use raft::{Input, Now, Output, Position, Proposed, Raft, Refused, RoleChange};

use crate::error::Error;
use crate::event::{Committed, MemberEvent, Proposal, Reply, ReplySlot};
use crate::request::Request;

/// Entries of a write that is not worth a thread of its own.
const LONE_ENTRIES: usize = 4;

pub struct Member {
    raft: Raft,
    /// Proposals in the log and not yet committed, by position.
    waiting: VecDeque<Waiting>,
    output: Output,
}

/// What a turn asks of the world.
#[derive(Default)]
pub struct MemberEffects {
    /// For the log, in this order.
    pub writes: Vec<raft::Write>,
    /// For the apply actor, in this order.
    pub committed: Vec<Committed>,
    pub replies: Vec<(ReplySlot, Reply)>,
    pub role_change: Option<RoleChange>,
    pub stop: bool,
}

struct Waiting {
    position: Position,
    request: Request,
    reply: Option<ReplySlot>,
}

impl Member {
    pub fn new(raft: Raft) -> Member {
        Member {
            raft,
            waiting: VecDeque::new(),
            output: Output::default(),
        }
    }

    pub fn wake_at(&self) -> Option<Now> {
        self.raft.wake_at()
    }

    pub fn status(&self) -> raft::Status {
        self.raft.status()
    }

    /// Whether so little is to be written, and nothing under way, that a hand-over to the log's
    /// thread would take longer than it saves. With others in the cluster, never: their messages
    /// must not wait for a sync.
    pub fn is_lone(&self, write: &raft::Write) -> bool {
        let status = self.raft.status();
        let entries = write.entries.len();
        let all_else_durable = status.durable + entries as u64 == status.last;
        (1..=LONE_ENTRIES).contains(&entries) && all_else_durable && {
            let conf = self.raft.conf();
            conf.voters.len() == 1 && conf.learners.is_empty()
        }
    }

    /// Takes all of `events`. Proposals that arrived together enter the log together.
    pub fn turn(&mut self, now: Now, events: &mut Vec<MemberEvent>, effects: &mut MemberEffects) {
        let mut proposals = Vec::new();
        for event in events.drain(..) {
            let input = match event {
                MemberEvent::Propose(proposal) => {
                    proposals.push(proposal);
                    continue;
                }
                MemberEvent::Durable { ticket } => Input::Durable { ticket },
                MemberEvent::Applied { index } => Input::Applied { index },
                MemberEvent::ConfChanged { index, change } => Input::ConfChanged {
                    index,
                    change: Some(change),
                },
                MemberEvent::Stop => {
                    effects.stop = true;
                    continue;
                }
            };
            self.step(now, input, effects);
        }
        if !proposals.is_empty() {
            self.propose(now, proposals, effects);
        }
        if self.raft.wake_at().is_some_and(|at| at <= now) {
            self.step(now, Input::Tick, effects);
        }
    }

    fn propose(&mut self, now: Now, proposals: Vec<Proposal>, effects: &mut MemberEffects) {
        let data = proposals
            .iter()
            .map(|p| raft::Proposal::normal(p.data.clone()))
            .collect();
        // Not through `step`: an entry may be committed in the very step that appends it, and
        // then those who wait must be known before the committed entries are looked at.
        self.output.clear();
        self.raft.step(now, Input::Propose(data), &mut self.output);
        let proposed = self
            .output
            .proposed
            .take()
            .expect("raft answers every proposal");
        match proposed {
            Proposed::Appended { first } => {
                for (offset, proposal) in proposals.into_iter().enumerate() {
                    let position = Position {
                        term: first.term,
                        index: first.index + offset as u64,
                    };
                    let Proposal { request, reply, .. } = proposal;
                    self.waiting.push_back(Waiting {
                        position,
                        request,
                        reply,
                    });
                }
            }
            Proposed::Refused(refused) => {
                let error = match refused {
                    Refused::NotLeader { .. } => Error::NoLeader,
                    Refused::Busy => Error::TooManyRequests,
                };
                let slots = proposals.into_iter().filter_map(|proposal| proposal.reply);
                effects
                    .replies
                    .extend(slots.map(|slot| (slot, Err(error.clone()))));
            }
            Proposed::Forwarded { .. } => {
                unreachable!("a cluster of one has nobody to forward to")
            }
        }
        self.collect(effects);
    }

    fn step(&mut self, now: Now, input: Input, effects: &mut MemberEffects) {
        self.output.clear();
        self.raft.step(now, input, &mut self.output);
        self.collect(effects);
    }

    fn collect(&mut self, effects: &mut MemberEffects) {
        effects.writes.extend(self.output.write.take());
        if let Some(change) = self.output.role_change.take() {
            effects.role_change = Some(change);
        }
        for entry in self.output.committed.drain(..) {
            let (request, reply) = match take_waiting(&mut self.waiting, entry.position(), effects)
            {
                Some(waiting) => (Some(waiting.request), waiting.reply),
                None => (None, None),
            };
            effects.committed.push(Committed {
                entry,
                request,
                reply,
            });
        }
    }
}

/// Who waits for the entry at `position`. Those who wait for an earlier place, or for this place
/// in another term, lost it to a new leader: they are told.
fn take_waiting(
    waiting: &mut VecDeque<Waiting>,
    position: Position,
    effects: &mut MemberEffects,
) -> Option<Waiting> {
    while waiting
        .front()
        .is_some_and(|front| front.position.index <= position.index)
    {
        let front = waiting.pop_front()?;
        if front.position == position {
            return Some(front);
        }
        if let Some(slot) = front.reply {
            effects.replies.push((slot, Err(Error::Timeout)));
        }
    }
    None
}

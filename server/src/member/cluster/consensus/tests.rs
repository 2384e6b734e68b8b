use std::time::Duration;

use etcd_api::etcdserverpb::PutRequest;
use raft::{Config, Position, Recovered, Ticket};
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use super::*;
use crate::member::event::admission::{Admission, Limits};
use crate::request::Request;

const MS: Duration = Duration::from_millis(1);

/// Consensus 1 of three. The tests play the others.
struct Stage {
    consensus: Consensus,
    effects: ConsensusEffects,
    now: Now,
    /// The newest write that the disk got; `synced` is how far it is.
    written: Ticket,
    synced: Ticket,
    sent: Vec<Message>,
}

impl Stage {
    fn new() -> Stage {
        Stage::with(1000 * MS)
    }

    fn with(election_timeout: Duration) -> Stage {
        let config = Config {
            suspicion: Some(300 * MS),
            election_timeout,
            ..Config::new(1, vec![1, 2, 3], 1)
        };
        let raft = Raft::new(config, Recovered::default(), Now::ZERO);
        Stage {
            consensus: Consensus::new(raft, 1),
            effects: ConsensusEffects::default(),
            now: Now::ZERO,
            written: 0,
            synced: 0,
            sent: Vec::new(),
        }
    }

    /// Leads term 1. Its first entry is committed.
    fn leading() -> Stage {
        let mut stage = Stage::new();
        while stage.status().role == RoleKind::Follower {
            stage.wake();
        }
        stage.hear(2, 1, Body::PreVoteReply { granted: true });
        stage.sync();
        stage.hear(2, 1, Body::VoteReply { granted: true });
        stage.sync();
        stage.acknowledge(2, 1);
        assert_eq!(stage.status().commit, 1);
        stage.sent.clear();
        stage
    }

    /// Follows member 2 in term 1.
    fn following() -> Stage {
        let mut stage = Stage::new();
        stage.lead(2, 1);
        stage.sync();
        stage
    }

    fn status(&self) -> raft::Status {
        self.consensus.status()
    }

    fn turn(&mut self, event: Option<ConsensusEvent>) {
        let mut events: Vec<ConsensusEvent> = event.into_iter().collect();
        self.consensus
            .turn(self.now, &mut events, &mut self.effects);
        let writes = self.effects.writes.drain(..);
        self.written = writes
            .map(|write| write.ticket)
            .next_back()
            .unwrap_or(self.written);
        self.sent.append(&mut self.effects.messages);
    }

    /// Moves time to the next wake-up.
    fn wake(&mut self) {
        self.now = self.consensus.wake_at().unwrap().max(self.now);
        self.turn(None);
    }

    fn hear(&mut self, from: u64, term: u64, body: Body) {
        let to = 1;
        let message = Message {
            from,
            to,
            term,
            body,
        };
        self.turn(Some(ConsensusEvent::Receive(message)));
    }

    fn lead(&mut self, from: u64, term: u64) {
        let (commit, context) = (0, Default::default());
        self.hear(from, term, Body::Heartbeat { commit, context });
    }

    fn acknowledge(&mut self, from: u64, index: u64) {
        let rejected = None;
        self.hear(from, 1, Body::AppendReply { index, rejected });
    }

    /// Both others answer the heartbeats that were sent since the last call.
    fn answer_heartbeats(&mut self) {
        for message in std::mem::take(&mut self.sent) {
            match message.body {
                Body::Heartbeat { context, .. } => {
                    self.hear(message.to, 1, Body::HeartbeatReply { context });
                }
                body => self.sent.push(Message { body, ..message }),
            }
        }
    }

    fn sync(&mut self) {
        while self.synced < self.written {
            self.synced = self.written;
            let ticket = self.written;
            self.turn(Some(ConsensusEvent::Durable { ticket }));
        }
    }

    fn slot() -> (ReplySlot, Receiver<Reply>) {
        ReplySlot::new(
            Admission::new(Limits {
                requests: 9,
                bytes: 1 << 20,
            })
            .admit(0)
            .unwrap(),
        )
    }

    fn put(&mut self, id: u64) -> Receiver<Reply> {
        let (slot, answer) = Stage::slot();
        let request = Request::Put(PutRequest::default());
        let proposal = Proposal {
            data: request.encode(id),
            request,
            reply: Some(slot),
            term: None,
        };
        self.turn(Some(ConsensusEvent::Propose(proposal)));
        answer
    }

    fn was_summoned(&self) -> Option<u64> {
        let summons = self.sent.iter().find(|m| m.body == Body::TimeoutNow);
        summons.map(|message| message.to)
    }
}

#[test]
fn a_leader_whose_disk_stands_still_hands_over_within_half_a_second() {
    let mut stage = Stage::leading();
    let began = stage.now;
    stage.put(7);
    stage.acknowledge(3, 2);
    assert_eq!(stage.status().durable, 1);
    while stage.was_summoned().is_none() {
        stage.wake();
        assert!(stage.now < began + 450 * MS, "{:?}", stage.now - began);
        stage.answer_heartbeats();
    }
    // Consensus 2's disk has no more than this member's.
    assert_eq!(stage.was_summoned(), Some(3));
}

#[test]
fn what_comes_during_a_stall_goes_with_the_leadership() {
    let mut stage = Stage::leading();
    stage.put(7);
    stage.acknowledge(3, 2);
    while stage.status().transferring_to == NOBODY {
        stage.wake();
        stage.answer_heartbeats();
    }
    stage.put(8);
    stage.lead(3, 2);
    let sent_on = |m: &Message| m.to == 3 && matches!(m.body, Body::Propose { .. });
    // The new term is not durable here, so no message may leave before the disk recovers.
    assert!(!stage.sent.iter().any(sent_on));
    stage.sync();
    assert!(stage.sent.iter().any(sent_on));
}

#[test]
fn nobody_takes_over_when_every_disk_stands_still_or_none_does() {
    for is_fast in [false, true] {
        let mut stage = Stage::leading();
        stage.put(7);
        if is_fast {
            stage.acknowledge(2, 2);
            stage.sync();
        }
        let began = stage.now;
        let mut turns = 0;
        while stage.now < began + 3000 * MS {
            stage.wake();
            stage.answer_heartbeats();
            turns += 1;
        }
        assert_eq!(stage.was_summoned(), None);
        assert_eq!(stage.status().role, RoleKind::Leader);
        assert!(turns < 200, "{turns} turns in three seconds");
    }
}

#[test]
fn a_write_is_sent_and_given_to_the_disk_in_the_same_turn() {
    let mut stage = Stage::leading();
    let before = stage.written;
    stage.put(7);
    assert_eq!(stage.written, before + 1);
    let appends =
        |m: &&Message| matches!(&m.body, Body::Append { entries, .. } if entries.len() == 1);
    // Goes to the member that acknowledged. The other has not answered its first append.
    assert_eq!(stage.sent.iter().filter(appends).count(), 1);
    // With this member's disk, one acknowledgement of the others commits it.
    stage.sync();
    assert_eq!(stage.status().commit, 1);
    stage.acknowledge(2, 2);
    assert_eq!(stage.status().commit, 2);
}

#[test]
fn writes_heartbeats_and_reads_do_not_wait_for_a_sync() {
    let mut stage = Stage::leading();
    let _answer = stage.put(7);
    assert!(stage.synced < stage.written);
    // The others are faster, and they are a majority.
    stage.acknowledge(2, 2);
    assert_eq!(stage.status().commit, 1);
    stage.acknowledge(3, 2);
    assert_eq!((stage.status().commit, stage.status().durable), (2, 1));
    let committed = stage.effects.committed.last().unwrap();
    assert!(committed.entry.index == 2 && committed.reply.is_some());
    stage.sent.clear();
    let (slot, _answer) = Stage::slot();
    stage.turn(Some(ConsensusEvent::Read(slot)));
    assert_eq!(stage.sent.len(), 2, "{:?}", stage.sent);
    stage.answer_heartbeats();
    let (index, slots) = stage.effects.reads.pop().unwrap();
    assert_eq!((index, slots.len()), (2, 1));
    stage.sent.clear();
    let heard = stage.now;
    stage.wake();
    let beats = |m: &&Message| matches!(m.body, Body::Heartbeat { .. });
    assert_eq!(stage.sent.iter().filter(beats).count(), 2);
    assert!(stage.now <= heard + 100 * MS);
}

#[test]
fn what_was_sent_to_a_leader_that_is_no_more_comes_back_soon() {
    let mut stage = Stage::following();
    let mut answer = stage.put(7);
    assert!(stage.sent.iter().any(|m| m.to == 2));
    stage.lead(3, 2);
    stage.sync();
    let elected = stage.now;
    assert!(stage.effects.replies.is_empty());
    while stage.effects.replies.is_empty() {
        stage.lead(3, 2);
        stage.wake();
        assert!(stage.now <= elected + 100 * MS);
    }
    let (slot, reply) = stage.effects.replies.pop().unwrap();
    slot.send(reply);
    assert!(matches!(answer.try_recv(), Ok(Err(Error::Timeout))));
}

#[test]
fn a_client_of_a_former_leader_gets_an_answer_though_nothing_is_committed_after_it() {
    let mut stage = Stage::leading();
    let mut answer = stage.put(7);
    let asked = stage.now;
    stage.lead(3, 2);
    stage.sync();
    assert_eq!(stage.status().leader, 3);
    assert!(stage.effects.replies.is_empty(), "it may yet be committed");
    while stage.effects.replies.is_empty() {
        stage.lead(3, 2);
        stage.wake();
        assert!(stage.now <= asked + stage.consensus.patience);
    }
    let (slot, reply) = stage.effects.replies.pop().unwrap();
    slot.send(reply);
    assert!(matches!(answer.try_recv(), Ok(Err(Error::Timeout))));
}

#[test]
fn what_was_sent_to_the_former_leader_may_still_be_committed_by_the_next() {
    let mut stage = Stage::following();
    let _answer = stage.put(7);
    let data = Request::Put(PutRequest::default()).encode(7);
    let first = raft::Entry {
        term: 1,
        index: 1,
        data,
        ..Default::default()
    };
    let second = raft::Entry {
        term: 2,
        index: 2,
        ..Default::default()
    };
    let append = Body::Append {
        prev: Position::default(),
        entries: vec![first, second],
        commit: 2,
    };
    stage.hear(3, 2, append);
    stage.sync();
    let answered = stage.effects.committed.iter().find(|c| c.entry.index == 1);
    assert!(answered.unwrap().reply.is_some());
}

#[test]
fn what_was_asked_of_the_former_leader_is_asked_of_the_next_at_once() {
    let mut stage = Stage::following();
    let (slot, _answer) = Stage::slot();
    stage.turn(Some(ConsensusEvent::Read(slot)));
    let asks = |to: u64| move |m: &Message| m.to == to && matches!(m.body, Body::ReadIndex { .. });
    assert!(stage.sent.iter().any(asks(2)));
    stage.lead(3, 2);
    stage.sync();
    assert!(stage.sent.iter().any(asks(3)));
}

#[test]
fn a_request_is_kept_for_as_long_as_its_client_waits_for_a_leader() {
    for election_timeout in [1000 * MS, 10_000 * MS] {
        let mut stage = Stage::with(election_timeout);
        let (slot, mut read) = Stage::slot();
        stage.turn(Some(ConsensusEvent::Read(slot)));
        let _put = stage.put(7);
        let clients_leave = stage.now + 5000 * MS + 2 * election_timeout;
        while stage.now < clients_leave {
            assert!(matches!(read.try_recv(), Err(TryRecvError::Empty)));
            assert!(stage.effects.replies.is_empty());
            stage.wake();
        }
        while stage.now < clients_leave + 2000 * MS {
            stage.wake();
        }
        assert!(matches!(read.try_recv(), Err(TryRecvError::Closed)));
        assert_eq!(stage.effects.replies.len(), 1);
    }
}

/// A proposal for another member's client: a put, or a change of the members.
fn proposal(kind: EntryKind, id: u64) -> Body {
    let change = raft::ConfChange {
        id,
        ..Default::default()
    };
    let data = match kind {
        EntryKind::Normal => Request::Put(PutRequest::default()).encode(id),
        _ => raft::wire::encode_conf_change(&change),
    };
    let entry = raft::Entry {
        kind,
        data,
        ..Default::default()
    };
    let entries = vec![entry];
    Body::Propose { entries }
}

#[test]
fn a_place_that_another_leader_took_keeps_nobody_from_an_answer() {
    let mut stage = Stage::leading();
    let _lost: Vec<_> = (7..10).map(|id| stage.put(id)).collect();
    stage.sync();
    // The next leader has one entry where this member had three, and is gone again.
    let taken = raft::Entry {
        term: 2,
        index: 2,
        ..Default::default()
    };
    let append = Body::Append {
        prev: Position { term: 1, index: 1 },
        entries: vec![taken],
        commit: 1,
    };
    stage.hear(3, 2, append);
    stage.sync();
    while stage.status().role == RoleKind::Follower {
        stage.wake();
    }
    stage.hear(2, 3, Body::PreVoteReply { granted: true });
    stage.sync();
    stage.hear(2, 3, Body::VoteReply { granted: true });
    stage.sync();
    assert_eq!(stage.status().role, RoleKind::Leader);
    let _answer = stage.put(11);
    stage.sync();
    let index = stage.status().last;
    assert_eq!(index, 4, "where the last one of the three was");
    let rejected = None;
    stage.hear(2, 3, Body::AppendReply { index, rejected });
    let mut committed = stage.effects.committed.iter();
    let own = committed.find(|committed| committed.entry.index == index);
    assert!(own.unwrap().reply.is_some(), "its client waits in vain");
    assert_eq!(stage.effects.replies.len(), 3, "the others are told");
}

#[test]
fn a_proposal_is_taken_once_however_often_it_comes() {
    let mut stage = Stage::leading();
    // Otherwise raft would not accept a change of the members yet.
    stage.turn(Some(ConsensusEvent::Applied { index: 1 }));
    for kind in [EntryKind::Normal, EntryKind::ConfChange] {
        let last = stage.status().last;
        for _ in 0..3 {
            stage.hear(2, 0, proposal(kind, 77 + last));
        }
        assert_eq!(stage.status().last, last + 1);
    }
    let why = "a proposal came a second time";
    let from = 2;
    assert!(!stage.effects.complaints.is_empty());
    for complaint in &stage.effects.complaints {
        assert_eq!(*complaint, Complaint::Refused { from, why });
    }
}

#[test]
fn a_change_that_waited_for_longer_than_its_client_is_forgotten() {
    for late in [false, true] {
        let mut stage = Stage::leading();
        stage.turn(Some(ConsensusEvent::Applied { index: 1 }));
        stage.hear(2, 0, proposal(EntryKind::ConfChange, 5));
        stage.hear(3, 0, proposal(EntryKind::ConfChange, 6));
        assert_eq!(stage.status().last, 2, "one at a time");
        let until = stage.now + stage.consensus.patience * if late { 2 } else { 0 };
        while stage.now < until {
            stage.wake();
            stage.answer_heartbeats();
        }
        stage.sync();
        stage.acknowledge(2, 2);
        let (index, change) = (2, None);
        stage.turn(Some(ConsensusEvent::ConfChanged { index, change }));
        stage.turn(None);
        assert_eq!(stage.status().last, if late { 2 } else { 3 });
    }
}

//! One test for each rule of the Raft paper ("In search of an understandable consensus algorithm",
//! extended version) and of Ongaro's thesis that this core relies on, named by its section.

mod own_disk;
mod snapshots;

use std::time::Duration;

use super::cluster::{Cluster, REFUSED};
use crate::message::{
    Body, ConfChange, ConfChangeKind, Entry, HardState, Message, NodeId, Position,
};
use crate::{EntryKind, Input, Proposed, Refused, RoleKind};

fn message(from: NodeId, to: NodeId, term: u64, body: Body) -> Input {
    Input::Receive(Message {
        from,
        to,
        term,
        body,
    })
}

fn at(term: u64, index: u64) -> Position {
    Position { term, index }
}

fn entry(term: u64, index: u64) -> Entry {
    Entry {
        term,
        index,
        ..Entry::default()
    }
}

/// Members 1, 2, 3 with these terms in the log of member 1, all in `term`.
fn with_log(terms: &[u64], term: u64) -> Cluster {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    let disk = &mut cluster.node(1).disk;
    disk.entries = terms
        .iter()
        .zip(1..)
        .map(|(term, index)| entry(*term, index))
        .collect();
    disk.hard_state = HardState {
        term,
        vote: 0,
        commit: 0,
    };
    cluster.start(1);
    cluster
}

/// The messages that member 1 sent since the last call.
fn sent(cluster: &mut Cluster) -> Vec<Message> {
    std::mem::take(&mut cluster.network)
}

fn vote(last: Position) -> Body {
    Body::Vote {
        last,
        transfer: false,
    }
}

fn votes(cluster: &mut Cluster, from: NodeId, term: u64, last: Position) -> bool {
    cluster.step(1, message(from, 1, term, vote(last)));
    let answer = sent(cluster).pop().expect("an answer");
    answer.body == Body::VoteReply { granted: true }
}

fn append(prev: Position, entries: Vec<Entry>, commit: u64) -> Body {
    Body::Append {
        prev,
        entries,
        commit,
    }
}

#[test]
fn sec_5_1_a_higher_term_makes_anybody_a_follower() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.step(1, message(2, 1, 7, Body::VoteReply { granted: false }));
    let status = cluster.raft(1).status();
    assert_eq!(
        (status.role, status.term, status.vote),
        (RoleKind::Follower, 7, 0)
    );
}

#[test]
fn sec_5_1_a_lower_term_is_only_told_ours() {
    let mut cluster = with_log(&[1], 5);
    cluster.step(1, message(2, 1, 4, append(at(0, 0), vec![entry(1, 1)], 1)));
    let answers = sent(&mut cluster);
    assert_eq!(answers[0].term, 5);
    assert_eq!(cluster.raft(1).status().commit, 0);
    assert_eq!(cluster.raft(1).status().leader, 0);
}

#[test]
fn sec_5_2_one_vote_a_term_first_come_first_served() {
    let mut cluster = with_log(&[], 1);
    assert!(votes(&mut cluster, 2, 2, at(0, 0)));
    assert!(!votes(&mut cluster, 3, 2, at(0, 0)));
    assert!(
        votes(&mut cluster, 2, 2, at(0, 0)),
        "the same answer to the same candidate"
    );
    assert!(votes(&mut cluster, 3, 3, at(0, 0)));
}

#[test]
fn sec_5_2_a_vote_survives_a_restart() {
    let mut cluster = with_log(&[], 1);
    assert!(votes(&mut cluster, 2, 2, at(0, 0)));
    cluster.crash(1);
    cluster.start(1);
    assert!(!votes(&mut cluster, 3, 2, at(0, 0)));
}

#[test]
fn sec_5_2_a_vote_leaves_only_when_it_is_durable() {
    let mut cluster = with_log(&[], 1);
    cluster.node(1).fast_disk = false;
    cluster.step(1, message(2, 1, 2, vote(at(0, 0))));
    assert_eq!(sent(&mut cluster), []);
    cluster.sync(1);
    assert_eq!(
        sent(&mut cluster)[0].body,
        Body::VoteReply { granted: true }
    );
}

#[test]
fn sec_5_2_a_candidate_asks_and_counts_itself_only_when_its_vote_is_durable() {
    let mut cluster = Cluster::new(&[1]);
    cluster.node(1).fast_disk = false;
    cluster.step(1, Input::Campaign);
    assert_eq!(cluster.raft(1).status().role, RoleKind::Candidate);
    cluster.sync(1);
    assert_eq!(cluster.raft(1).status().role, RoleKind::Leader);
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.node(1).fast_disk = false;
    cluster.step(1, Input::Campaign);
    cluster.settle();
    assert_eq!(sent(&mut cluster), []);
    assert_eq!(cluster.raft(1).status().role, RoleKind::Candidate);
    cluster.sync(1);
    cluster.settle();
    assert_eq!(cluster.leader(), Some(1));
}

#[test]
fn sec_5_2_a_candidate_yields_to_the_leader_of_its_term() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.step(1, Input::Campaign);
    cluster.step(1, message(2, 1, 1, Body::PreVoteReply { granted: true }));
    assert_eq!(cluster.raft(1).status().role, RoleKind::Candidate);
    cluster.step(1, message(3, 1, 1, append(at(0, 0), vec![], 0)));
    let status = cluster.raft(1).status();
    assert_eq!(
        (status.role, status.leader, status.term),
        (RoleKind::Follower, 3, 1)
    );
}

#[test]
fn sec_5_2_timeouts_are_spread_over_one_to_two_election_timeouts() {
    let timeout = Duration::from_millis(1000);
    let mut seen = Vec::new();
    for id in 1..=40 {
        let mut cluster = Cluster::default();
        cluster.add(crate::Config::new(id, vec![id, 99], 5));
        seen.push(cluster.raft(id).wake_at().unwrap());
    }
    assert!(seen.iter().all(|at| *at >= timeout && *at < 2 * timeout));
    seen.sort();
    seen.dedup();
    assert!(seen.len() > 35, "{seen:?}");
}

#[test]
fn sec_5_3_an_append_matches_only_after_the_same_entry() {
    let mut cluster = with_log(&[1, 1, 2], 3);
    cluster.step(1, message(2, 1, 3, append(at(3, 3), vec![entry(3, 4)], 0)));
    let refusal = Body::AppendReply {
        index: 3,
        rejected: Some(at(2, 3)),
    };
    assert_eq!(sent(&mut cluster)[0].body, refusal);
    cluster.step(1, message(2, 1, 3, append(at(1, 2), vec![entry(3, 3)], 0)));
    let taken = Body::AppendReply {
        index: 3,
        rejected: None,
    };
    assert_eq!(sent(&mut cluster)[0].body, taken);
    assert_eq!(cluster.raft(1).term_at(3), Some(3));
}

#[test]
fn sec_5_3_an_acknowledgement_leaves_only_when_the_entries_are_durable() {
    let mut cluster = with_log(&[1], 1);
    cluster.node(1).fast_disk = false;
    cluster.step(1, message(2, 1, 1, append(at(1, 1), vec![entry(1, 2)], 0)));
    // A copy of it brings nothing to write, but promises as much.
    cluster.step(1, message(2, 1, 1, append(at(1, 1), vec![entry(1, 2)], 0)));
    assert_eq!(sent(&mut cluster), []);
    cluster.sync(1);
    // One answer for both.
    assert_eq!(sent(&mut cluster).len(), 1);
}

#[test]
fn sec_5_3_a_follower_commits_no_further_than_what_it_was_shown_to_match() {
    // Entries 2 and 3 come from an old leader; the append speaks of entry 1 only.
    let mut cluster = with_log(&[1, 1, 1], 2);
    cluster.step(1, message(2, 1, 2, append(at(1, 1), vec![], 3)));
    assert_eq!(cluster.raft(1).status().commit, 1);
}

#[test]
fn sec_5_4_1_no_vote_for_a_log_that_is_behind() {
    for (last, granted) in [
        (at(2, 9), false),
        (at(3, 2), false),
        (at(3, 3), true),
        (at(3, 4), true),
        (at(4, 1), true),
    ] {
        let mut cluster = with_log(&[1, 3, 3], 4);
        assert_eq!(votes(&mut cluster, 2, 5, last), granted, "{last:?}");
    }
}

#[test]
fn sec_5_4_2_old_term_entries_commit_only_by_counting_current_term() {
    // Figure 8: a majority holds an entry of term 2; the leader of term 4 must not count it.
    let mut cluster = with_log(&[1, 2], 3);
    cluster.step(1, Input::Campaign);
    cluster.step(1, message(2, 1, 4, Body::PreVoteReply { granted: true }));
    cluster.step(1, message(2, 1, 4, Body::VoteReply { granted: true }));
    assert_eq!(cluster.raft(1).status().role, RoleKind::Leader);
    let ack = |index| Body::AppendReply {
        index,
        rejected: None,
    };
    cluster.step(1, message(2, 1, 4, ack(2)));
    assert_eq!(cluster.raft(1).status().commit, 0);
    cluster.step(1, message(2, 1, 4, ack(3)));
    assert_eq!(cluster.raft(1).status().commit, 3);
}

#[test]
fn thesis_10_2_1_a_leader_replicates_while_it_writes_and_counts_itself_only_when_durable() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.node(1).fast_disk = false;
    cluster.propose(1, "x");
    let others = |m: &Message| m.to == 2 || m.from == 2;
    cluster.deliver(others);
    cluster.deliver(others);
    assert_eq!(
        cluster.raft(1).status().commit,
        1,
        "one of three is no majority"
    );
    cluster.sync(1);
    assert_eq!(cluster.raft(1).status().commit, 2, "two are");
}

fn change(kind: ConfChangeKind, node: NodeId) -> ConfChange {
    ConfChange {
        kind,
        node,
        ..ConfChange::default()
    }
}

#[test]
fn thesis_4_1_one_membership_change_at_a_time() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.propose_change(1, &change(ConfChangeKind::AddLearnerNode, 4));
    cluster.propose_change(1, &change(ConfChangeKind::AddLearnerNode, 5));
    let kinds: Vec<EntryKind> = cluster.log(1).values().map(|entry| entry.kind).collect();
    assert_eq!(
        kinds,
        [EntryKind::Normal, EntryKind::ConfChange, EntryKind::Normal]
    );
    cluster.settle();
    assert_eq!(cluster.raft(1).conf().learners, [4]);
    cluster.propose_change(1, &change(ConfChangeKind::AddLearnerNode, 5));
    cluster.settle();
    assert_eq!(cluster.raft(2).conf().learners, [4, 5]);
}

#[test]
fn thesis_4_1_a_new_leader_changes_no_member_before_an_entry_of_its_own_is_applied() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.step(1, Input::Transfer { to: 2 });
    cluster.deliver(|m| matches!(m.body, Body::TimeoutNow));
    cluster.deliver(|m| matches!(m.body, Body::Vote { .. }));
    cluster.deliver(|m| matches!(m.body, Body::VoteReply { .. }));
    assert_eq!(cluster.leader(), Some(2));
    assert!(cluster.raft(2).conf_pending());
    cluster.propose_change(2, &change(ConfChangeKind::AddLearnerNode, 4));
    cluster.settle();
    assert!(cluster.raft(2).conf().learners.is_empty());
    assert!(!cluster.raft(2).conf_pending());
    cluster.propose_change(2, &change(ConfChangeKind::AddLearnerNode, 4));
    cluster.settle();
    assert_eq!(cluster.raft(3).conf().learners, [4]);
}

#[test]
fn thesis_4_1_a_new_voter_counts_once_it_is_applied_and_not_before() {
    let mut cluster = Cluster::bootstrapped(&[1]);
    cluster.pass(Duration::ZERO);
    cluster.propose_change(1, &change(ConfChangeKind::AddNode, 2));
    // The old majority is enough for the change itself, but for nothing after it.
    assert_eq!(cluster.raft(1).conf().voters, [1, 2]);
    let before = cluster.raft(1).status().commit;
    cluster.propose(1, "waits for 2");
    assert_eq!(cluster.raft(1).status().commit, before);
    cluster.step(1, Input::ReadIndex { context: 7 });
    assert!(cluster.node(1).reads.is_empty());
    cluster.add(crate::Config::new(2, vec![], 1));
    cluster.pass(Duration::from_millis(100));
    cluster.settle();
    assert_eq!(cluster.raft(1).status().commit, before + 1);
    assert_eq!(cluster.node(1).reads.len(), 1);
    assert_eq!(cluster.nodes[&2].machine, cluster.nodes[&1].machine);
}

#[test]
fn thesis_4_1_what_waited_for_a_removed_voter_is_committed_without_it() {
    let mut cluster = Cluster::new(&[1, 2, 3, 4]);
    cluster.elect(1);
    cluster.crash(4);
    cluster.propose_change(1, &change(ConfChangeKind::RemoveNode, 4));
    cluster.settle_among(&[1, 2, 3]);
    assert_eq!(cluster.raft(1).conf().voters, [1, 2, 3]);
    cluster.crash(3);
    cluster.propose(1, "two of three hold it");
    cluster.settle_among(&[1, 2]);
    let status = cluster.raft(1).status();
    assert_eq!(status.commit, status.last);
}

#[test]
fn thesis_4_1_a_change_that_is_refused_leaves_room_for_the_next() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    let refused = ConfChange {
        id: REFUSED,
        ..change(ConfChangeKind::RemoveNode, 3)
    };
    cluster.propose_change(1, &refused);
    assert!(cluster.raft(1).conf_pending());
    cluster.settle();
    assert_eq!(cluster.raft(2).conf().voters, [1, 2, 3]);
    assert!(!cluster.raft(1).conf_pending());
    cluster.propose_change(1, &change(ConfChangeKind::RemoveNode, 3));
    cluster.settle();
    assert_eq!(cluster.raft(2).conf().voters, [1, 2]);
}

#[test]
fn thesis_4_2_2_a_leader_that_was_removed_is_followed_at_once() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.propose_change(1, &change(ConfChangeKind::RemoveNode, 1));
    cluster.settle();
    cluster.pass(cluster.nodes[&2].config.heartbeat);
    cluster.settle();
    assert!(matches!(cluster.leader(), Some(2 | 3)));
}

#[test]
fn thesis_4_2_3_a_removed_member_deposes_nobody() {
    let mut cluster = Cluster::new(&[1, 2, 3, 4]);
    cluster.elect(1);
    // It does not hear that it was removed.
    cluster.propose_change(1, &change(ConfChangeKind::RemoveNode, 4));
    cluster.settle_among(&[1, 2, 3]);
    let term = cluster.raft(1).status().term;
    for _ in 0..50 {
        cluster.pass(Duration::from_millis(100));
        cluster.settle();
    }
    assert_eq!(cluster.leader(), Some(1));
    assert_eq!(cluster.raft(1).status().term, term);
}

#[test]
fn thesis_4_2_1_a_learner_is_in_no_majority() {
    let mut cluster = Cluster::bootstrapped(&[1]);
    cluster.pass(Duration::ZERO);
    cluster.propose_change(1, &change(ConfChangeKind::AddLearnerNode, 2));
    cluster.propose(1, "committed without it");
    assert_eq!(cluster.raft(1).status().commit, 4);
    cluster.add(crate::Config::new(2, vec![], 1));
    cluster.settle();
    cluster.pass(Duration::from_millis(200));
    cluster.settle();
    assert_eq!(cluster.nodes[&2].machine.applied.index, 4);
    cluster.step(2, Input::Campaign);
    assert_eq!(cluster.raft(2).status().role, RoleKind::Follower);
}

#[test]
fn thesis_4_2_2_a_removed_leader_steps_down_once_that_is_committed() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.propose_change(1, &change(ConfChangeKind::RemoveNode, 1));
    assert_eq!(cluster.leader(), Some(1));
    cluster.settle();
    assert_eq!(cluster.raft(2).conf().voters, [2, 3]);
    assert!(matches!(cluster.leader(), Some(2 | 3)));
    // It learns of its successor when it next says that it leads.
    cluster.pass(Duration::from_millis(100));
    cluster.settle();
    assert_eq!(cluster.raft(1).status().role, RoleKind::Follower);
}

#[test]
fn thesis_4_2_2_a_removed_leader_leads_until_somebody_else_can() {
    let mut cluster = Cluster::new(&[1, 2]);
    cluster.elect(1);
    cluster.propose_change(1, &change(ConfChangeKind::RemoveNode, 1));
    cluster.deliver(|m| m.to == 2);
    cluster.deliver(|m| m.to == 1);
    assert_eq!(cluster.raft(1).conf().voters, [2]);
    // Nobody told 2, which cannot win without 1, whose log is longer now.
    cluster.network.clear();
    cluster.step(1, Input::Unreachable { peer: 2 });
    for _ in 0..40 {
        cluster.pass(Duration::from_millis(100));
        cluster.network.clear();
    }
    assert_eq!(cluster.leader(), None);
    for _ in 0..60 {
        cluster.pass(Duration::from_millis(100));
        cluster.settle();
    }
    assert_eq!(cluster.leader(), Some(2));
    assert_eq!(cluster.raft(2).conf().voters, [2]);
}

#[test]
fn a_change_of_the_members_survives_a_crash_right_after_it() {
    let mut cluster = Cluster::new(&[1, 2]);
    cluster.elect(1);
    cluster.propose_change(1, &change(ConfChangeKind::RemoveNode, 2));
    cluster.settle();
    cluster.crash(2);
    // It has only its log, and must not wait for the vote of 2.
    cluster.crash(1);
    cluster.start(1);
    cluster.pass(Duration::from_secs(3));
    assert_eq!(cluster.leader(), Some(1));
}

#[test]
fn thesis_4_1_a_change_known_to_be_committed_stays_so_with_the_entries_after_it() {
    // If the next change became durable without that, its holder could campaign with the majority
    // of two changes ago, which need not overlap the newest.
    let mut cluster = with_log(&[1, 1], 1);
    cluster.step(1, message(2, 1, 1, append(at(1, 2), vec![entry(1, 3)], 2)));
    assert_eq!(cluster.nodes[&1].disk.hard_state.commit, 2);
    cluster.crash(1);
    cluster.start(1);
    assert_eq!(cluster.raft(1).status().commit, 2);
}

#[test]
fn thesis_4_2_3_nobody_deposes_a_leader_who_is_heard() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.step(2, message(3, 2, 9, vote(at(9, 99))));
    assert_eq!(cluster.raft(2).status().term, 1);
    assert_eq!(sent(&mut cluster), []);
    // Unless the leader asks for it, or its process is known to be gone.
    cluster.step(2, Input::Disconnected { peer: 1 });
    cluster.step(2, message(3, 2, 9, vote(at(9, 99))));
    assert_eq!(cluster.raft(2).status().vote, 3);
}

#[test]
fn thesis_3_10_a_transfer_that_waits_for_a_change_is_void_once_the_leader_gave_it_up() {
    for (rounds, expected) in [(20, 1), (0, 2)] {
        let mut cluster = Cluster::new(&[1, 2, 3]);
        cluster.elect(1);
        cluster.node(2).fast_apply = false;
        let mut refused = change(ConfChangeKind::AddLearnerNode, 4);
        refused.id = REFUSED;
        cluster.propose_change(1, &refused);
        cluster.settle();
        cluster.step(1, Input::Transfer { to: 2 });
        cluster.settle();
        for _ in 0..rounds {
            cluster.pass(Duration::from_millis(100));
            cluster.settle();
        }
        assert_eq!(cluster.leader(), Some(1), "2 has not applied the change");
        cluster.apply_all(2);
        cluster.node(2).fast_apply = true;
        cluster.settle();
        cluster.propose_change(1, &change(ConfChangeKind::AddLearnerNode, 4));
        cluster.settle();
        assert_eq!(cluster.leader(), Some(expected), "after {rounds} rounds");
    }
}

#[test]
fn thesis_3_10_leadership_goes_to_a_successor_with_the_whole_log() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.propose(1, "not yet on 3");
    cluster.network.clear();
    cluster.step(1, Input::Transfer { to: 3 });
    assert_eq!(
        cluster.propose(1, "x"),
        Some(Proposed::Refused(Refused::Busy))
    );
    assert!(cluster.network.iter().all(|m| m.body != Body::TimeoutNow));
    cluster.pass(Duration::from_millis(200));
    cluster.settle();
    assert_eq!(cluster.leader(), Some(3));
    assert_eq!(cluster.raft(3).status().term, 2);
}

#[test]
fn thesis_3_10_a_transfer_that_fails_ends_after_an_election_timeout() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.crash(3);
    cluster.step(1, Input::Transfer { to: 3 });
    for _ in 0..15 {
        cluster.pass(Duration::from_millis(100));
        cluster.settle();
    }
    assert_eq!(cluster.leader(), Some(1));
    assert!(matches!(
        cluster.propose(1, "x"),
        Some(Proposed::Appended { .. })
    ));
}

#[test]
fn thesis_6_2_a_leader_that_hears_no_majority_steps_down() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.crash(2);
    cluster.crash(3);
    cluster.pass(Duration::from_millis(2100));
    assert_ne!(cluster.raft(1).status().role, RoleKind::Leader);
}

#[test]
fn thesis_6_4_a_read_waits_for_an_entry_of_the_leaders_own_term() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.step(1, Input::Campaign);
    cluster.step(1, message(2, 1, 1, Body::PreVoteReply { granted: true }));
    cluster.step(1, message(2, 1, 1, Body::VoteReply { granted: true }));
    cluster.network.clear();
    cluster.step(1, Input::ReadIndex { context: 1 });
    for peer in [2, 3] {
        let context = 1u64.to_le_bytes().to_vec().into();
        cluster.step(1, message(peer, 1, 1, Body::HeartbeatReply { context }));
    }
    assert_eq!(cluster.nodes[&1].reads, []);
    cluster.step(
        1,
        message(
            2,
            1,
            1,
            Body::AppendReply {
                index: 1,
                rejected: None,
            },
        ),
    );
    cluster.settle();
    assert_eq!(cluster.nodes[&1].reads[0].outcome, Ok(1));
}

#[test]
fn thesis_6_4_a_read_needs_a_heartbeat_answered_after_it_was_asked() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    // A round for an earlier read; its answers are still in flight when the next read comes.
    cluster.step(1, Input::ReadIndex { context: 1 });
    cluster.deliver(|m| matches!(m.body, Body::Heartbeat { .. }));
    cluster.step(1, Input::ReadIndex { context: 2 });
    cluster.deliver(|m| matches!(m.body, Body::HeartbeatReply { .. }));
    let answered = |cluster: &Cluster| cluster.nodes[&1].reads.iter().map(|r| r.context).collect();
    let first: Vec<u64> = answered(&cluster);
    assert_eq!(first, [1]);
    cluster.settle();
    let both: Vec<u64> = answered(&cluster);
    assert_eq!(both, [1, 2]);
}

#[test]
fn thesis_6_4_a_follower_reads_through_the_leader_and_a_lost_leader_answers_nothing() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.step(2, Input::ReadIndex { context: 7 });
    cluster.settle();
    assert_eq!(cluster.nodes[&2].reads[0].outcome, Ok(1));
    // The deposed leader does not know it yet: its read gets no majority.
    cluster.step(1, Input::ReadIndex { context: 8 });
    cluster.network.clear();
    cluster.step(1, message(3, 1, 5, Body::VoteReply { granted: false }));
    assert_eq!(
        cluster.nodes[&1].reads[0].outcome,
        Err(Refused::NotLeader { leader: 0 })
    );
}

#[test]
fn thesis_9_6_a_pre_vote_changes_nothing() {
    let mut cluster = with_log(&[1], 4);
    cluster.step(
        1,
        message(
            2,
            1,
            9,
            Body::PreVote {
                last: at(1, 1),
                transfer: false,
            },
        ),
    );
    let answer = sent(&mut cluster).pop().unwrap();
    assert_eq!(
        (answer.term, answer.body),
        (9, Body::PreVoteReply { granted: true })
    );
    let status = cluster.raft(1).status();
    assert_eq!((status.term, status.vote), (4, 0));
    cluster.step(
        1,
        message(
            3,
            1,
            9,
            Body::PreVote {
                last: at(0, 0),
                transfer: false,
            },
        ),
    );
    let answer = sent(&mut cluster).pop().unwrap();
    assert_eq!(
        (answer.term, answer.body),
        (4, Body::PreVoteReply { granted: false })
    );
}

#[test]
fn sec_7_a_follower_too_far_behind_gets_the_state_and_then_the_log() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.node(1).config.limits.kept_entries = 2;
    cluster.start(1);
    cluster.elect(1);
    cluster.crash(3);
    // Everything is kept for it until it counts as silent.
    for _ in 0..20 {
        cluster.pass(Duration::from_millis(100));
        cluster.settle();
    }
    for _ in 0..10 {
        cluster.propose(1, "x");
        cluster.settle();
    }
    cluster.start(3);
    for _ in 0..5 {
        cluster.pass(Duration::from_millis(100));
        cluster.settle();
    }
    assert_eq!(cluster.installs, 1);
    cluster.propose(1, "after");
    cluster.settle();
    assert_eq!(cluster.nodes[&3].machine, cluster.nodes[&1].machine);
    // Entries that came after the snapshot survive a restart.
    cluster.crash(3);
    cluster.start(3);
    cluster.pass(Duration::from_millis(200));
    cluster.settle();
    assert_eq!(cluster.nodes[&3].machine, cluster.nodes[&1].machine);
}

#[test]
fn sec_5_2_a_leader_keeps_its_followers_by_heartbeats() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    let roles_before = cluster.trace.len();
    for _ in 0..50 {
        cluster.pass(Duration::from_millis(100));
        cluster.settle();
    }
    assert_eq!(cluster.leader(), Some(1));
    assert_eq!(cluster.trace.len(), roles_before, "{:?}", cluster.trace);
}

#[test]
fn sec_5_2_a_split_vote_is_followed_by_another_election() {
    let mut cluster = Cluster::new(&[1, 2, 3, 4]);
    for id in 1..=4 {
        let config = &mut cluster.node(id).config;
        config.pre_vote = false;
        config.seed = id;
        cluster.start(id);
    }
    cluster.step(1, Input::Campaign);
    cluster.step(2, Input::Campaign);
    // Two votes each, including their own; three make a majority.
    cluster.deliver(|m| (m.from, m.to) == (1, 3) || (m.from, m.to) == (2, 4));
    cluster.settle();
    assert_eq!(cluster.leader(), None);
    for _ in 0..100 {
        cluster.pass(Duration::from_millis(50));
        cluster.settle();
    }
    let leader = cluster
        .leader()
        .expect("timeouts differ, so somebody is first");
    assert!(cluster.raft(leader).status().term > 1);
}

#[test]
fn sec_5_3_what_conflicts_goes_and_what_lies_before_it_stays() {
    let mut cluster = with_log(&[1, 1, 1], 1);
    let newer = append(at(1, 1), vec![entry(2, 2)], 0);
    cluster.step(1, message(2, 1, 2, newer));
    let log: Vec<Position> = cluster.log(1).values().map(Entry::position).collect();
    assert_eq!(log, [at(1, 1), at(2, 2)]);
}

#[test]
fn sec_5_3_a_leader_only_appends_to_its_own_log() {
    let mut cluster = with_log(&[1, 1, 2], 2);
    cluster.elect(1);
    let held = cluster.log(1);
    let refused = Body::AppendReply {
        index: 3,
        rejected: Some(at(0, 0)),
    };
    cluster.step(1, message(2, 1, 3, refused));
    cluster.propose(1, "more");
    let now = cluster.log(1);
    assert!(now.len() == held.len() + 1 && held.iter().all(|(i, e)| now[i] == *e));
}

#[test]
fn sec_5_5_a_repeated_append_changes_nothing_and_is_answered_again() {
    let mut cluster = with_log(&[1], 1);
    let again = || message(2, 1, 1, append(at(1, 1), vec![entry(1, 2)], 1));
    cluster.step(1, again());
    let (first, log) = (sent(&mut cluster), cluster.log(1));
    cluster.step(1, again());
    assert_eq!(sent(&mut cluster), first);
    assert_eq!(cluster.log(1), log);
}

#[test]
fn sec_8_a_new_leader_appends_an_entry_of_its_own_term_at_once() {
    let mut cluster = with_log(&[1], 1);
    cluster.elect(1);
    let status = cluster.raft(1).status();
    assert_eq!((status.term, status.last, status.commit), (2, 2, 2));
    assert!(cluster.log(1)[&2].data.is_empty());
}

#[test]
fn thesis_10_2_1_appends_follow_each_other_without_waiting_for_answers() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    for data in ["a", "b", "c"] {
        cluster.propose(1, data);
    }
    let to_2 = sent(&mut cluster).into_iter().filter(|m| m.to == 2);
    let firsts: Vec<Position> = to_2
        .map(|m| match m.body {
            Body::Append { entries, .. } => entries[0].position(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(firsts, [at(1, 2), at(1, 3), at(1, 4)]);
}

//! Messages that no correct member sends, and disks that lost durable data: nothing of it enters a
//! log, stops a member or elects anybody.

use std::time::Duration;

use bytes::Bytes;

use super::cluster::{Cluster, Disk};
use crate::message::{
    Body, ConfState, ENTRY_BYTES_MAX, Entry, Index, Message, NodeId, Position, Snapshot, Term,
};
use crate::{Complaint, Input, RoleKind};

const STEP: Duration = Duration::from_millis(100);

/// Member 1 leads and has committed something.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.is_unsound = true;
    cluster.elect(1);
    for data in ["a", "b", "c"] {
        cluster.propose(1, data);
        cluster.settle();
    }
    cluster
}

fn send(cluster: &mut Cluster, from: NodeId, to: NodeId, term: Term, body: Body) {
    let message = Message {
        from,
        to,
        term,
        body,
    };
    cluster.step(to, Input::Receive(message));
}

fn entry(term: Term, index: Index) -> Entry {
    Entry {
        term,
        index,
        data: Bytes::from_static(b"foreign"),
        ..Entry::default()
    }
}

/// Appends entries of these terms to the log of `to`, committed at once.
fn append(cluster: &mut Cluster, from: NodeId, to: NodeId, term: Term, terms: &[Term]) {
    let last = cluster.raft(to).status().last;
    let prev = Position {
        term: cluster.raft(to).term_at(last).unwrap(),
        index: last,
    };
    let entries = terms.iter().zip(last + 1..);
    let body = Body::Append {
        prev,
        entries: entries.map(|(term, index)| entry(*term, index)).collect(),
        commit: last + terms.len() as Index,
    };
    send(cluster, from, to, term, body);
}

#[test]
fn appends_whose_terms_cannot_be_change_nothing() {
    let mut cluster = cluster();
    let term = cluster.raft(2).status().term;
    let before = cluster.raft(2).status();
    // Later than the leader's term; later after one that is not; going back.
    for terms in [&[term + 1][..], &[term, term + 9], &[term, term - 1]] {
        append(&mut cluster, 1, 2, term, terms);
        assert_eq!(cluster.raft(2).status(), before, "{terms:?}");
    }
    assert_eq!(cluster.node(2).complaints.len(), 3);
    assert!(cluster.log(2).values().all(|entry| entry.data != "foreign"));
}

#[test]
fn entries_that_no_log_takes_are_refused() {
    let mut cluster = cluster();
    let before = [1, 2].map(|id| cluster.raft(id).status());
    let (term, index) = (before[1].term, before[1].last);
    let large = || {
        let data = vec![0; ENTRY_BYTES_MAX + 1].into();
        vec![Entry {
            data,
            ..entry(term, index + 1)
        }]
    };
    let body = Body::Append {
        prev: Position { term, index },
        entries: large(),
        commit: 0,
    };
    send(&mut cluster, 1, 2, term, body);
    let body = Body::Propose { entries: large() };
    send(&mut cluster, 2, 1, 0, body);
    assert_eq!([1, 2].map(|id| cluster.raft(id).status()), before);
    assert_eq!([1, 2].map(|id| cluster.node(id).complaints.len()), [1, 1]);
}

#[test]
fn a_term_has_one_leader_whoever_else_says_so() {
    let mut cluster = cluster();
    let before = cluster.raft(2).status();
    append(&mut cluster, 3, 2, before.term, &[before.term]);
    let (commit, context) = (0, Bytes::new());
    send(
        &mut cluster,
        3,
        2,
        before.term,
        Body::Heartbeat { commit, context },
    );
    send(&mut cluster, 3, 2, before.term, Body::TimeoutNow);
    assert_eq!(cluster.raft(2).status(), before);
    let from = 3;
    let why = "a second leader of one term";
    assert_eq!(
        cluster.node(2).complaints,
        [Complaint::Refused { from, why }; 3]
    );
}

#[test]
fn terms_are_not_used_up() {
    let mut cluster = cluster();
    let before = cluster.raft(2).status();
    for term in [Term::MAX, Term::MAX / 2, 1 << 40] {
        let last = Position { term, index: 99 };
        let transfer = true;
        send(&mut cluster, 3, 2, term, Body::Vote { last, transfer });
        send(&mut cluster, 3, 2, term, Body::VoteReply { granted: false });
        append(&mut cluster, 3, 2, term, &[term]);
        assert_eq!(cluster.raft(2).status(), before);
    }
    // The cluster still elects.
    cluster.crash(1);
    for _ in 0..50 {
        cluster.pass(STEP);
        cluster.settle();
    }
    assert!(cluster.leader().is_some());
}

#[test]
fn snapshots_of_absurd_indexes_are_refused() {
    let mut cluster = cluster();
    let before = cluster.raft(2).status();
    let term = before.term;
    for index in [Index::MAX, Index::MAX - 1, Index::MAX / 2 + 1] {
        let snapshot = Snapshot {
            position: Position { term, index },
            conf: cluster.raft(2).conf(),
            ..Snapshot::default()
        };
        send(&mut cluster, 1, 2, term, Body::Snapshot(snapshot));
        assert_eq!(cluster.raft(2).status(), before);
    }
    assert_eq!(cluster.node(2).complaints.len(), 3);
}

#[test]
fn snapshots_of_members_that_no_cluster_has_are_refused() {
    let mut cluster = cluster();
    let before = cluster.raft(2).status();
    let position = Position {
        term: before.term,
        index: before.last + 10,
    };
    let confs: [(&[NodeId], &[NodeId]); 4] = [
        (&[1, 2, 3], &[2]),
        (&[1, 2, 3], &[0]),
        (&[0, 1, 2], &[]),
        (&[], &[1, 2, 3]),
    ];
    for (voters, learners) in confs {
        let conf = ConfState {
            voters: voters.to_vec(),
            learners: learners.to_vec(),
            ..ConfState::default()
        };
        let snapshot = Snapshot {
            position,
            conf,
            ..Snapshot::default()
        };
        send(&mut cluster, 1, 2, before.term, Body::Snapshot(snapshot));
        if cluster.node(2).install.take().is_some() {
            cluster.step(2, Input::SnapshotInstalled { ok: true });
        }
        cluster.pass(STEP);
        cluster.settle();
    }
    assert_eq!(cluster.raft(2).conf().voters, [1, 2, 3]);
    assert_eq!(cluster.node(2).complaints.len(), 4);
    assert_eq!(cluster.raft(2).status().last, before.last);
}

#[test]
fn hints_of_any_size_are_survived() {
    let mut cluster = cluster();
    let status = cluster.raft(1).status();
    cluster.step(1, Input::Unreachable { peer: 2 });
    for index in 0..=status.last {
        for hint in [0, 1, Index::MAX] {
            for term in [0, 1, Term::MAX] {
                let rejected = Some(Position { term, index: hint });
                send(
                    &mut cluster,
                    2,
                    1,
                    status.term,
                    Body::AppendReply { index, rejected },
                );
            }
        }
    }
    cluster.settle();
    cluster.propose(1, "d");
    cluster.settle();
    assert_eq!(cluster.raft(2).status().last, cluster.raft(1).status().last);
}

/// Restarts the member with its log up to `through`.
fn roll_back(cluster: &mut Cluster, id: NodeId, through: Index) {
    cluster.crash(id);
    let node = cluster.node(id);
    let hard_state = node.disk.hard_state;
    node.disk = Disk {
        entries: node.disk.entries[..through as usize].to_vec(),
        hard_state,
        ..Disk::default()
    };
    node.disk.hard_state.commit = node.disk.hard_state.commit.min(through);
    cluster.start(id);
}

#[test]
fn a_lost_log_is_told_once_on_both_sides_and_fed_no_more() {
    for through in [0, 2] {
        let mut cluster = cluster();
        let acknowledged = cluster.raft(1).status().last;
        roll_back(&mut cluster, 2, through);
        let mut messages = 0;
        // The others continue without it.
        cluster.propose(1, "more");
        for _ in 0..50 {
            cluster.pass(STEP);
            // It reports the loss and falls quiet: `settle` gives up on a cluster that does not.
            messages += cluster.network.len();
            cluster.settle();
        }
        assert!(messages < 50 * 20, "{messages}");
        let peer = 2;
        let lost = Complaint::PeerLostLog { peer, acknowledged };
        assert_eq!(cluster.node(1).complaints, [lost]);
        let holds = through;
        let own = Complaint::OwnLogLost {
            acknowledged,
            holds,
        };
        assert_eq!(cluster.node(2).complaints, [own]);
        assert_eq!(cluster.raft(2).status().last, through, "it gets nothing");
        assert_eq!(cluster.raft(3).status().commit, acknowledged + 1);
    }
}

#[test]
fn a_log_that_lost_its_promise_elects_nobody() {
    let mut cluster = cluster();
    // 1 and 2 commit what 3 never had.
    cluster.propose(1, "d");
    cluster.settle_among(&[1, 2]);
    let committed = cluster.raft(1).status().commit;
    roll_back(&mut cluster, 2, 2);
    cluster.pass(STEP);
    cluster.settle_among(&[1, 2]);
    cluster.crash(1);
    for _ in 0..100 {
        cluster.pass(STEP);
        cluster.settle();
        assert_eq!(
            cluster.leader(),
            None,
            "it would overwrite what was committed"
        );
    }
    // With the leader's log back everything works again, and nothing is lost.
    cluster.start(1);
    for _ in 0..100 {
        cluster.pass(STEP);
        cluster.settle();
    }
    let leader = cluster.leader().unwrap();
    assert_eq!(cluster.raft(leader).status().role, RoleKind::Leader);
    for id in [1, 2, 3] {
        assert!(cluster.raft(id).status().commit > committed, "{id}");
    }
    cluster.check_logs();
}

#[test]
fn a_refusal_that_was_long_on_its_way_is_not_taken_for_a_loss() {
    let mut cluster = cluster();
    let last = cluster.raft(1).status().last;
    let term = cluster.raft(1).status().term;
    cluster.step(1, Input::Unreachable { peer: 2 });
    let rejected = Some(Position { term: 0, index: 0 });
    let body = Body::AppendReply {
        index: last,
        rejected,
    };
    send(&mut cluster, 2, 1, term, body.clone());
    send(&mut cluster, 2, 1, term, body);
    for _ in 0..10 {
        cluster.pass(STEP);
        cluster.settle();
    }
    cluster.propose(1, "d");
    cluster.settle();
    assert_eq!(cluster.raft(2).status().commit, last + 1);
    assert_eq!(cluster.node(1).complaints, []);
}

//! A cluster of one member: the path every server takes first.

use std::time::Duration;

use bytes::Bytes;

use super::cluster::Cluster;
use crate::message::{Body, ConfChange, ConfChangeKind, Entry, EntryKind, Message, Position};
use crate::{
    Config, Input, Output, Proposal, Proposed, Raft, Read, Recovered, RoleKind, bootstrap, wire,
};

/// Steps and answers each write at once; returns what was committed.
fn drive(raft: &mut Raft, input: Input, out: &mut Output) -> Vec<(u64, u64, EntryKind)> {
    let mut inputs = vec![input];
    let mut committed = Vec::new();
    while let Some(input) = inputs.pop() {
        raft.step(Duration::ZERO, input, out);
        for entry in out.committed.drain(..) {
            committed.push((entry.term, entry.index, entry.kind));
            let change = match entry.kind {
                EntryKind::ConfChange => Some(wire::decode_conf_change(&entry.data).unwrap()),
                _ => None,
            };
            let index = entry.index;
            inputs.insert(0, Input::Applied { index });
            inputs.insert(1, Input::ConfChanged { index, change });
        }
        if let Some(write) = &out.write {
            inputs.insert(
                0,
                Input::Durable {
                    ticket: write.ticket,
                },
            );
        }
    }
    committed
}

#[test]
fn a_new_single_member_leads_at_once_in_term_2() {
    let recovered = bootstrap(&[(7, Bytes::from_static(b"{}"))]);
    let mut raft = Raft::new(Config::new(7, vec![7], 1), recovered, Duration::ZERO);
    let mut out = Output::default();
    assert_eq!(raft.wake_at(), Some(Duration::ZERO));
    let committed = drive(&mut raft, Input::Tick, &mut out);
    assert_eq!(committed, [(1, 1, EntryKind::ConfChange)]);
    assert_eq!(raft.wake_at(), Some(Duration::ZERO));
    let committed = drive(&mut raft, Input::Tick, &mut out);
    assert_eq!(committed, [(2, 2, EntryKind::Normal)]);
    let status = raft.status();
    assert_eq!(
        (status.role, status.term, status.leader),
        (RoleKind::Leader, 2, 7)
    );
    assert_eq!((status.applied, status.commit, status.durable), (2, 2, 2));
}

#[test]
fn a_single_member_commits_only_what_its_disk_holds() {
    let mut cluster = Cluster::new(&[1]);
    cluster.pass(Duration::ZERO);
    assert_eq!(cluster.leader(), Some(1));
    cluster.node(1).fast_disk = false;
    let proposals = ["a", "b"].map(Proposal::normal).to_vec();
    cluster.step(1, Input::Propose(proposals));
    let first = Position { term: 1, index: 2 };
    assert_eq!(cluster.node(1).proposed, Some(Proposed::Appended { first }));
    assert_eq!(cluster.raft(1).status().commit, 1);
    cluster.sync(1);
    assert_eq!(cluster.raft(1).status().commit, 3);
    assert_eq!(cluster.nodes[&1].machine.applied.index, 3);
}

#[test]
fn a_single_member_reads_without_asking_anybody() {
    let mut cluster = Cluster::new(&[1]);
    cluster.pass(Duration::ZERO);
    cluster.step(1, Input::ReadIndex { context: 42 });
    let read = Read {
        context: 42,
        outcome: Ok(1),
    };
    assert_eq!(cluster.node(1).reads, [read]);
    assert!(cluster.network.is_empty());
}

#[test]
fn a_single_member_restarts_with_everything_it_synced() {
    let mut cluster = Cluster::new(&[1]);
    cluster.pass(Duration::ZERO);
    cluster.propose(1, "kept");
    cluster.checkpoint(1);
    cluster.propose(1, "kept too, by the log alone");
    cluster.node(1).fast_disk = false;
    cluster.propose(1, "lost");
    cluster.crash(1);
    cluster.start(1);
    cluster.node(1).fast_disk = true;
    cluster.pass(Duration::ZERO);
    // The no-op of term 2 follows entry 3 and commits it.
    assert_eq!(
        cluster.nodes[&1].machine.applied,
        Position { term: 2, index: 4 }
    );
}

/// Member 1 with a disk of the time when the cluster was 1 and 2. Since then 2 left, and others came;
/// `first` comes from them, then 3 as the leader of term 4 sends the removal of 2, and no more yet.
/// Whether member 1 campaigns at once, and whether it does when it hears no more for long.
fn campaigns_with_an_old_disk(first: Option<Body>, commit: u64) -> (bool, bool) {
    let recovered = Recovered {
        applied: 2,
        ..bootstrap(&[1, 2].map(|id| (id, Bytes::new())))
    };
    let mut raft = Raft::new(Config::new(1, vec![1, 2], 1), recovered, Duration::ZERO);
    let removal = Entry {
        term: 2,
        index: 3,
        kind: EntryKind::ConfChange,
        data: wire::encode_conf_change(&ConfChange {
            kind: ConfChangeKind::RemoveNode,
            node: 2,
            ..ConfChange::default()
        }),
    };
    let append = Body::Append {
        prev: Position { term: 1, index: 2 },
        entries: vec![removal],
        commit,
    };
    let mut out = Output::default();
    for body in first.into_iter().chain([append]) {
        let message = Message {
            from: 3,
            to: 1,
            term: 4,
            body,
        };
        drive(&mut raft, Input::Receive(message), &mut out);
    }
    assert_eq!(raft.conf().voters, [1]);
    let mut campaigns_at = |now| {
        raft.step(now, Input::Tick, &mut out);
        raft.status().role != RoleKind::Follower
    };
    (
        campaigns_at(Duration::ZERO),
        campaigns_at(Duration::from_secs(60)),
    )
}

#[test]
fn an_old_disk_that_catches_up_does_not_lead_by_an_old_membership() {
    // All that is committed has arrived: the others are gone for good.
    assert_eq!(campaigns_with_an_old_disk(None, 3), (false, true));
    // More is committed.
    assert_eq!(campaigns_with_an_old_disk(None, 9), (false, false));
    // The leader does not know yet what is committed, but it was elected with more.
    let last = Position { term: 3, index: 9 };
    let vote = Body::Vote {
        last,
        transfer: false,
    };
    assert_eq!(campaigns_with_an_old_disk(Some(vote), 3), (false, false));
}

#[test]
fn the_only_voter_waits_for_the_changes_it_knows_to_be_committed() {
    // Three members are bootstrapped and one restarts before it applied anything. After the first
    // of the three changes it seems to be alone, but must not lead.
    let members = [1, 2, 3].map(|id| (id, Bytes::new()));
    let Recovered {
        hard_state,
        base,
        entries,
        applied,
    } = bootstrap(&members);
    let recovered = Recovered {
        hard_state,
        base,
        entries: entries.clone(),
        applied,
    };
    let mut raft = Raft::new(Config::new(1, vec![], 1), recovered, Duration::ZERO);
    let mut out = Output::default();
    raft.step(Duration::ZERO, Input::Tick, &mut out);
    assert_eq!(out.committed, entries);
    for (entry, voters) in entries.iter().zip([vec![1], vec![1, 2], vec![1, 2, 3]]) {
        let index = entry.index;
        let change = Some(wire::decode_conf_change(&entry.data).unwrap());
        raft.step(
            Duration::ZERO,
            Input::ConfChanged { index, change },
            &mut out,
        );
        assert_eq!(raft.conf().voters, voters);
        assert!(raft.wake_at() > Some(Duration::ZERO));
        raft.step(Duration::ZERO, Input::Campaign, &mut out);
        if index < 3 {
            assert_eq!(raft.status().role, RoleKind::Follower);
        }
    }
    assert_eq!(raft.status().role, RoleKind::PreCandidate);
}

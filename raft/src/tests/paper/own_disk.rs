//! What a majority commits before this member's own disk has it.

use std::time::Duration;

use super::{change, message};
use crate::message::{Body, ConfChangeKind};
use crate::tests::cluster::Cluster;
use crate::{Config, Input};

#[test]
fn thesis_10_2_1_a_majority_without_the_leaders_disk_commits() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.node(1).fast_disk = false;
    cluster.propose(1, "x");
    cluster.settle();
    let leader = cluster.raft(1).status();
    assert_eq!((leader.durable, leader.commit), (1, 2));
    assert_eq!(leader.applied, 2, "its clients wait for the others only");
    assert_eq!(cluster.raft(2).status().commit, 2);
    // A read needs what it applied already.
    cluster.step(1, Input::ReadIndex { context: 7 });
    cluster.settle();
    let read = cluster.node(1).reads.pop().unwrap();
    assert_eq!((read.context, read.outcome), (7, Ok(2)));
}

#[test]
fn thesis_10_2_1_the_disks_of_two_voters_are_both_needed_and_so_is_a_sole_voters() {
    for voters in [&[1, 2][..], &[1]] {
        let mut cluster = Cluster::new(voters);
        cluster.elect(1);
        cluster.node(1).fast_disk = false;
        cluster.propose(1, "x");
        cluster.settle();
        assert_eq!(cluster.raft(1).status().commit, 1);
        cluster.sync(1);
        assert_eq!(cluster.raft(1).status().applied, 2);
    }
}

#[test]
fn thesis_10_2_1_a_leader_that_loses_what_it_applied_gets_it_from_the_others() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.propose(1, "durable everywhere");
    cluster.settle();
    cluster.checkpoint(1);
    cluster.node(1).fast_disk = false;
    cluster.propose(1, "lost at member 1");
    cluster.settle();
    assert_eq!(cluster.raft(1).status().applied, 3);
    // The log on disk ends at 2, so the checkpoint stays there.
    cluster.checkpoint(1);
    cluster.crash(1);
    cluster.start(1);
    let back = cluster.raft(1).status();
    assert_eq!((back.applied, back.last), (2, 2));
    // It cannot win: a majority has more than it.
    cluster.node(1).fast_disk = true;
    cluster.pass(Duration::from_millis(400));
    cluster.step(1, Input::Campaign);
    cluster.settle();
    assert_ne!(cluster.leader(), Some(1));
    for _ in 0..30 {
        cluster.pass(Duration::from_millis(100));
        cluster.settle();
        assert_ne!(cluster.leader(), Some(1));
    }
    assert!(cluster.leader().is_some());
    assert_eq!(cluster.nodes[&1].machine, cluster.nodes[&2].machine);
}

#[test]
fn thesis_10_2_1_a_leader_that_loses_a_change_it_applied_does_not_lead_by_the_old_members() {
    // 1. Members 2 and 3 hold the removal of 3, so it is committed. Member 1 applies it, and counts
    //    itself and 2.
    // 2. Member 1 crashes without it. It would count member 3 again.
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.node(1).fast_disk = false;
    cluster.propose_change(1, &change(ConfChangeKind::RemoveNode, 3));
    cluster.settle();
    assert_eq!(cluster.raft(1).conf().voters, [1, 2]);
    assert_eq!(cluster.raft(1).status().durable, 1);
    // The next entry needs both disks that are left.
    cluster.propose(1, "x");
    cluster.settle_among(&[1, 2]);
    assert_eq!(cluster.raft(1).status().commit, 2);
    cluster.crash(1);
    cluster.start(1);
    cluster.node(1).fast_disk = true;
    assert_eq!(cluster.raft(1).conf().voters, [1, 2, 3]);
    cluster.pass(Duration::from_millis(400));
    cluster.step(1, Input::Campaign);
    cluster.settle();
    assert_ne!(cluster.leader(), Some(1));
    for _ in 0..5 {
        cluster.pass(Duration::from_millis(1000));
        cluster.settle_among(&[1, 2]);
    }
    assert_eq!(cluster.leader(), Some(2));
    assert_eq!(cluster.raft(1).conf().voters, [1, 2]);
    assert_eq!(cluster.nodes[&1].machine, cluster.nodes[&2].machine);
}

#[test]
fn thesis_10_2_1_a_deposed_leader_keeps_what_others_committed_and_its_disk_lacks() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    cluster.elect(1);
    cluster.node(1).fast_disk = false;
    cluster.propose(1, "x");
    cluster.settle();
    assert_eq!(cluster.raft(1).status().applied, 2);
    cluster.propose(1, "uncommitted");
    // Member 2 takes over before that entry reaches anybody.
    cluster.network.clear();
    cluster.pass(Duration::from_millis(400));
    cluster.step(1, Input::Transfer { to: 2 });
    cluster.network.clear();
    cluster.step(
        2,
        message(1, 2, cluster.raft(2).status().term, Body::TimeoutNow),
    );
    cluster.settle();
    assert_eq!(cluster.leader(), Some(2));
    let deposed = cluster.raft(1).status();
    assert_eq!((deposed.durable, deposed.applied, deposed.last), (1, 2, 3));
    cluster.node(1).fast_disk = true;
    cluster.sync(1);
    cluster.pass(Duration::from_millis(100));
    cluster.settle();
    let (one, two) = (cluster.raft(1).status(), cluster.raft(2).status());
    assert_eq!((one.durable, one.last), (two.last, two.last));
    assert_eq!(cluster.raft(1).term_at(3), Some(2), "the tail was replaced");
    assert_eq!(cluster.nodes[&1].machine, cluster.nodes[&2].machine);
    cluster.check_logs();
}

#[test]
fn thesis_10_2_1_a_snapshot_may_hold_what_the_disk_of_its_sender_lacks() {
    let mut cluster = Cluster::new(&[1, 2, 3]);
    for id in [1, 2, 3] {
        cluster.node(id).config.limits.kept_entries = 0;
        cluster.start(id);
    }
    cluster.elect(1);
    cluster.propose(1, "durable everywhere");
    cluster.settle();
    cluster.checkpoint(1);
    cluster.node(1).fast_disk = false;
    // A member with an empty log joins: it gets the state, which is ahead of the leader's disk.
    cluster.add(Config::new(4, vec![], 1));
    cluster.propose_change(1, &change(ConfChangeKind::AddLearnerNode, 4));
    cluster.settle();
    cluster.pass(Duration::from_millis(100));
    cluster.settle();
    assert_eq!(cluster.installs, 1);
    let leader = cluster.raft(1).status();
    assert!(leader.durable < leader.applied, "{leader:?}");
    assert_eq!(cluster.nodes[&4].machine, cluster.nodes[&1].machine);
    assert_eq!(cluster.raft(4).status().durable, leader.applied);

    cluster.crash(1);
    cluster.start(1);
    assert!(cluster.raft(1).status().last < cluster.raft(4).status().last);
    cluster.node(1).fast_disk = true;
    for _ in 0..30 {
        cluster.pass(Duration::from_millis(100));
        cluster.settle();
    }
    let leader = cluster.leader().unwrap();
    assert!(leader == 2 || leader == 3, "{leader} leads");
    cluster.propose(leader, "after");
    cluster.settle();
    for id in 1..=4 {
        assert_eq!(cluster.nodes[&id].machine, cluster.nodes[&leader].machine);
    }
}

//! State machines slower than the log: entries that wait for them are bounded; none is lost.

use std::time::Duration;

use super::cluster::Cluster;
use crate::message::Body;
use crate::{Limits, Proposed, Refused};

const HEARTBEAT: Duration = Duration::from_millis(100);
const DATA: &str =
    "one of many entries, a hundred bytes of which would be a little long for a line";
const LIMITS: Limits = Limits {
    append_bytes: 300,
    inflight_messages: 4,
    inflight_bytes: 1200,
    uncommitted_bytes: 256 << 20,
    unapplied_bytes: 2000,
    unsaved_bytes: 2000,
    kept_entries: 5000,
    kept_bytes: 256 << 20,
    fetch_bytes: 600,
    fetches: 1,
    pending_reads: 100,
};

/// Member 1 leads; member `slow` does not apply by itself.
fn cluster(voters: &[u64], slow: u64) -> Cluster {
    let mut cluster = Cluster::new(voters);
    for id in voters {
        cluster.node(*id).config.limits = LIMITS;
        cluster.start(*id);
    }
    cluster.elect(1);
    cluster.node(slow).fast_apply = false;
    cluster
}

#[test]
fn a_follower_that_applies_slowly_takes_no_more_than_it_may_hold() {
    let mut cluster = cluster(&[1, 2, 3], 2);
    for _ in 0..200 {
        cluster.propose(1, DATA);
        cluster.settle();
        cluster.pass(HEARTBEAT / 4);
        cluster.settle();
    }
    let held: usize = cluster.node(2).to_apply.iter().map(|e| e.data.len()).sum();
    assert!(held > LIMITS.unapplied_bytes / 2, "{held}");
    assert!(
        held <= LIMITS.unapplied_bytes + LIMITS.append_bytes,
        "{held}"
    );
    // The others continued without it, and it is still a member.
    assert_eq!(cluster.leader(), Some(1));
    assert_eq!(
        cluster.raft(1).status().commit,
        cluster.raft(3).status().applied
    );

    cluster.node(2).fast_apply = true;
    cluster.apply_all(2);
    for _ in 0..20 {
        cluster.pass(HEARTBEAT);
        cluster.settle();
    }
    assert_eq!(
        cluster.raft(2).status().applied,
        cluster.raft(1).status().commit
    );
}

#[test]
fn a_leader_that_applies_slowly_takes_proposals_again_when_it_has_caught_up() {
    let mut cluster = cluster(&[1], 1);
    let busy = Some(Proposed::Refused(Refused::Busy));
    let mut taken = 0;
    while cluster.propose(1, DATA) != busy {
        taken += 1;
        assert!(taken < 100, "it is never full");
    }
    assert!(taken > 10, "{taken}");
    cluster.apply_all(1);
    assert_ne!(cluster.propose(1, DATA), busy);
}

#[test]
fn a_leader_whose_disk_falls_behind_takes_no_more_than_it_may_hold() {
    let mut cluster = cluster(&[1, 2, 3], 1);
    cluster.node(1).fast_apply = true;
    cluster.node(1).fast_disk = false;
    let busy = Some(Proposed::Refused(Refused::Busy));
    let mut taken = 0;
    while cluster.propose(1, DATA) != busy {
        taken += 1;
        assert!(taken < 100, "it is never full");
        cluster.settle();
    }
    assert!(taken > 10, "{taken}");
    // All of it is committed and applied: only the leader's own disk is behind.
    let status = cluster.raft(1).status();
    assert_eq!((status.applied, status.commit), (status.last, status.last));
    cluster.sync(1);
    assert_ne!(cluster.propose(1, DATA), busy);
}

#[test]
fn a_member_that_does_not_answer_gets_no_more_than_its_window() {
    let mut cluster = cluster(&[1, 2, 3], 1);
    cluster.node(1).fast_apply = true;
    for _ in 0..50 {
        cluster.propose(1, DATA);
        // What is meant for member 3 stays under way.
        while cluster.deliver(|m| m.to != 3) > 0 {}
    }
    assert_eq!(
        cluster.raft(1).status().commit,
        cluster.raft(2).status().commit
    );
    let appends = cluster.network.iter();
    let appends = appends.filter(|m| m.to == 3 && matches!(m.body, Body::Append { .. }));
    let appends = appends.count();
    // Until the window is full, an empty append may tell of each commit.
    assert!(appends <= 2 * LIMITS.inflight_messages, "{appends}");

    cluster.settle();
    cluster.pass(HEARTBEAT);
    cluster.settle();
    let (leader, follower) = (cluster.raft(1).status(), cluster.raft(3).status());
    assert_eq!(follower.applied, leader.commit);
}

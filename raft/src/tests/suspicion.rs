//! A silent leader is replaced before the election timeout; a live one stays.

use std::time::Duration;

use super::cluster::Cluster;
use crate::message::Body;
use crate::{Config, RoleKind};

const SUSPICION: Duration = Duration::from_millis(300);
const STEP: Duration = Duration::from_millis(5);

/// Member 1 leads.
fn cluster(members: &[u64]) -> Cluster {
    let mut cluster = Cluster::default();
    for id in members {
        cluster.add(Config {
            suspicion: Some(SUSPICION),
            ..Config::new(*id, members.to_vec(), 1)
        });
    }
    cluster.elect(1);
    cluster.settle();
    cluster
}

/// Time that the others need for a new leader while `gone` is silent.
fn take_over(cluster: &mut Cluster, gone: u64) -> Duration {
    let began = cluster.now;
    let others: Vec<u64> = cluster.up().into_iter().filter(|id| *id != gone).collect();
    while !others
        .iter()
        .any(|id| cluster.raft(*id).status().role == RoleKind::Leader)
    {
        assert!(cluster.now < began + Duration::from_secs(20));
        cluster.pass(STEP);
        cluster.settle_among(&others);
    }
    cluster.now - began
}

#[test]
fn a_silent_leader_is_replaced_in_half_an_election_timeout() {
    for members in [vec![1, 2, 3], vec![1, 2, 3, 4, 5]] {
        let mut cluster = cluster(&members);
        let took = take_over(&mut cluster, 1);
        assert!(took >= SUSPICION, "{took:?}");
        assert!(took < Duration::from_millis(500), "{took:?}");
    }
}

#[test]
fn one_who_misses_the_leader_alone_is_refused_and_reassured() {
    let mut cluster = cluster(&[1, 2, 3]);
    let term = cluster.raft(1).status().term;
    for _ in 0..400 {
        cluster.pass(STEP);
        // Nothing that the leader sends by itself reaches member 3.
        let reaches = |m: &crate::Message| {
            m.to != 3
                || m.from != 1
                || !matches!(m.body, Body::Append { .. } | Body::Heartbeat { .. })
        };
        cluster.network.retain(reaches);
        let asked = cluster
            .network
            .iter()
            .any(|m| matches!(m.body, Body::PreVote { .. }));
        cluster.settle();
        if asked {
            let status = cluster.raft(3).status();
            assert_eq!((status.leader, status.role), (1, RoleKind::Follower));
        }
    }
    assert_eq!(cluster.leader(), Some(1));
    assert_eq!(cluster.raft(3).status().term, term);
}

#[test]
fn votes_that_were_split_are_cast_again_soon_and_then_later() {
    let mut cluster = cluster(&[1, 2, 3]);
    cluster.crash(1);
    // No message arrives for long: the wait between attempts grows to election timeouts.
    let mut attempts = Vec::new();
    let began = cluster.now;
    while cluster.now < began + Duration::from_secs(8) {
        cluster.pass(STEP);
        if cluster
            .network
            .iter()
            .any(|m| m.from == 2 && matches!(m.body, Body::PreVote { .. }))
        {
            attempts.push(cluster.now);
        }
        cluster.network.clear();
    }
    let waits: Vec<Duration> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits[0] <= Duration::from_millis(400 + 5), "{waits:?}");
    assert!(
        waits[3..]
            .iter()
            .all(|wait| *wait >= Duration::from_millis(1000)),
        "{waits:?}"
    );
    // Once messages arrive, nobody waits for longer than the last attempt takes.
    assert!(take_over(&mut cluster, 1) <= Duration::from_millis(2050));
}

#[test]
fn without_pre_votes_the_election_timeout_is_waited_out() {
    let mut cluster = Cluster::default();
    for id in 1..=3 {
        cluster.add(Config {
            suspicion: Some(SUSPICION),
            pre_vote: false,
            ..Config::new(id, vec![1, 2, 3], 1)
        });
    }
    cluster.elect(1);
    cluster.settle();
    assert!(take_over(&mut cluster, 1) >= Duration::from_millis(1000));
}

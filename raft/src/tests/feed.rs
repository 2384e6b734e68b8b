//! Followers that were away for longer than memory reaches back: they are fed from the log on disk.

use std::time::Duration;

use super::cluster::Cluster;
use crate::message::{Body, ConfChange, ConfChangeKind, Index, NodeId};
use crate::{Complaint, Fetch, Input, Limits, LogPart};

const HEARTBEAT: Duration = Duration::from_millis(100);
const AWAY: Index = 60;

fn limits() -> Limits {
    Limits {
        append_bytes: 250,
        inflight_messages: 3,
        inflight_bytes: 2000,
        kept_entries: 4,
        kept_bytes: 500,
        fetch_bytes: 1000,
        fetches: 1,
        ..Limits::default()
    }
}

/// Member 1 leads. It keeps its log on disk, and little of it in memory.
fn cluster(voters: &[NodeId]) -> Cluster {
    let mut cluster = Cluster::new(voters);
    for id in voters {
        let node = cluster.node(*id);
        node.config.limits = limits();
        node.keeps_log = true;
        cluster.start(*id);
    }
    cluster.elect(1);
    cluster.propose(1, "before");
    cluster.settle();
    cluster
}

/// Entries are written while `away` are down; then they are back.
fn return_of(cluster: &mut Cluster, away: &[NodeId]) {
    away.iter().for_each(|id| cluster.crash(*id));
    let up = cluster.up();
    for _ in 0..AWAY {
        cluster.propose(1, "meanwhile");
        cluster.settle_among(&up);
    }
    away.iter().for_each(|id| cluster.start(*id));
}

fn catch_up(cluster: &mut Cluster) {
    for _ in 0..10 {
        cluster.pass(HEARTBEAT);
        cluster.settle();
    }
}

fn applied(cluster: &Cluster, id: NodeId) -> Index {
    cluster.raft(id).status().applied
}

/// Lets the leader ask, and takes what it asks for.
fn fetch(cluster: &mut Cluster) -> Fetch {
    for _ in 0..20 {
        if let Some(fetch) = cluster.node(1).fetches.pop_front() {
            return fetch;
        }
        cluster.pass(HEARTBEAT / 2);
        cluster.deliver(|_| true);
    }
    panic!("the leader asks for nothing");
}

#[test]
fn a_follower_that_was_away_is_fed_from_the_disk_and_then_from_memory() {
    let mut cluster = cluster(&[1, 2, 3]);
    return_of(&mut cluster, &[3]);
    catch_up(&mut cluster);
    assert_eq!(applied(&cluster, 3), applied(&cluster, 1));
    assert_eq!(cluster.nodes[&3].machine, cluster.nodes[&1].machine);
    assert_eq!(cluster.installs, 0);
    // An entry takes some 70 bytes.
    let least = AWAY as usize * 70 / limits().fetch_bytes;
    assert!(cluster.fetched >= least, "{} fetches", cluster.fetched);
    let before = cluster.fetched;
    cluster.propose(1, "now");
    cluster.settle();
    assert_eq!(applied(&cluster, 3), applied(&cluster, 1));
    assert_eq!(cluster.fetched, before, "memory holds what is new");
}

#[test]
fn what_the_disk_no_longer_has_is_sent_as_a_snapshot() {
    let mut cluster = cluster(&[1, 2, 3]);
    return_of(&mut cluster, &[3]);
    let disk = &mut cluster.node(1).disk;
    let gone: Vec<_> = disk.entries.drain(..30).collect();
    disk.base = gone.last().unwrap().position();
    catch_up(&mut cluster);
    assert_eq!(applied(&cluster, 3), applied(&cluster, 1));
    assert_eq!((cluster.installs, cluster.fetched), (1, 0));
}

#[test]
fn fetches_and_appends_from_them_are_bounded() {
    let mut cluster = cluster(&[1, 2, 3, 4, 5]);
    return_of(&mut cluster, &[4, 5]);
    let mut seen = 0;
    for _ in 0..400 {
        let fetches = &cluster.node(1).fetches;
        assert!(fetches.len() <= 1, "one at a time: {fetches:?}");
        seen += fetches.len();
        for id in [4, 5] {
            let to_it = |m: &&crate::Message| m.to == id && matches!(m.body, Body::Append { .. });
            let appends = cluster.network.iter().filter(to_it).count();
            assert!(
                appends <= limits().inflight_messages + 1,
                "{appends} to {id}"
            );
        }
        cluster.serve_fetch(1);
        cluster.deliver(|_| true);
        cluster.pass(HEARTBEAT / 10);
    }
    assert!(seen > 2, "{seen}");
    for id in [4, 5] {
        assert_eq!(applied(&cluster, id), applied(&cluster, 1));
    }
    assert_eq!(cluster.installs, 0);
}

#[test]
fn an_answer_counts_once_in_its_term_and_where_the_follower_stands() {
    let mut cluster = cluster(&[1, 2, 3]);
    return_of(&mut cluster, &[3]);
    let fetch = fetch(&mut cluster);
    assert_eq!((fetch.peer, fetch.term), (3, cluster.raft(1).status().term));
    let found = cluster.nodes[&1].disk.find(&fetch);
    assert!(found.is_some());
    cluster.network.clear();
    let appends = |cluster: &Cluster| {
        let appends = cluster.network.iter();
        appends
            .filter(|m| m.to == 3 && matches!(m.body, Body::Append { .. }))
            .count()
    };
    let earlier = Fetch {
        term: fetch.term - 1,
        ..fetch
    };
    let other = Fetch {
        from: fetch.from + 1,
        ..fetch
    };
    let stranger = Fetch { peer: 9, ..fetch };
    for wrong in [earlier, other, stranger] {
        let found = found.clone();
        cluster.step(
            1,
            Input::Fetched {
                fetch: wrong,
                found,
            },
        );
        assert_eq!(appends(&cluster), 0, "{wrong:?}");
    }
    let answer = Input::Fetched { fetch, found };
    cluster.step(1, answer.clone());
    assert_eq!(appends(&cluster), 1);
    cluster.step(1, answer);
    assert_eq!(appends(&cluster), 1, "a second answer is none");
    catch_up(&mut cluster);
    assert_eq!(applied(&cluster, 3), applied(&cluster, 1));
}

#[test]
fn an_answer_after_the_end_of_leadership_has_no_effect() {
    let mut cluster = cluster(&[1, 2, 3]);
    return_of(&mut cluster, &[3]);
    let fetch = fetch(&mut cluster);
    let found = cluster.nodes[&1].disk.find(&fetch);
    cluster.step(1, Input::Transfer { to: 2 });
    cluster.settle_among(&[1, 2]);
    assert_eq!(cluster.leader(), Some(2));
    cluster.step(1, Input::Fetched { fetch, found });
    assert!(cluster.network.is_empty());
    // And the next leader feeds it.
    catch_up(&mut cluster);
    assert_eq!(applied(&cluster, 3), applied(&cluster, 2));
    assert_eq!(cluster.installs, 0);
}

#[test]
fn a_tail_of_another_leader_is_replaced_from_the_disk() {
    let mut cluster = cluster(&[1, 2, 3]);
    // Member 3 leads, and what it appends reaches nobody.
    cluster.step(1, Input::Transfer { to: 3 });
    cluster.settle();
    assert_eq!(cluster.leader(), Some(3));
    for _ in 0..10 {
        cluster.step(3, Input::Propose(vec![crate::Proposal::normal("lost")]));
        cluster.network.clear();
    }
    cluster.crash(3);
    cluster.pass(HEARTBEAT * 30);
    cluster.settle_among(&[1, 2]);
    cluster.step(1, Input::Campaign);
    cluster.settle_among(&[1, 2]);
    assert_eq!(cluster.leader(), Some(1));
    return_of(&mut cluster, &[3]);
    catch_up(&mut cluster);
    assert_eq!(cluster.nodes[&3].machine, cluster.nodes[&1].machine);
    assert_eq!(cluster.installs, 0);
    assert!(cluster.fetched > 0);
}

#[test]
fn what_cannot_have_been_written_is_not_sent_but_reported() {
    let spoils: [fn(&mut LogPart); 4] = [
        |part| drop(part.entries.remove(0)),
        |part| part.prev.index += 1,
        |part| part.entries[0].term += 5,
        |part| part.entries.clear(),
    ];
    for spoil in spoils {
        let mut cluster = cluster(&[1, 2, 3]);
        return_of(&mut cluster, &[3]);
        let fetch = fetch(&mut cluster);
        let mut part = cluster.nodes[&1].disk.find(&fetch).unwrap();
        spoil(&mut part);
        cluster.is_unsound = true;
        cluster.network.clear();
        let found = Some(part);
        cluster.step(1, Input::Fetched { fetch, found });
        let complaints = &cluster.nodes[&1].complaints[..];
        assert!(
            matches!(complaints, [Complaint::Misread { .. }]),
            "{complaints:?}"
        );
        assert!(cluster.network.is_empty(), "{:?}", cluster.network);
        // The state takes its place.
        catch_up(&mut cluster);
        assert_eq!(applied(&cluster, 3), applied(&cluster, 1));
        assert_eq!(cluster.installs, 1);
    }
}

#[test]
fn a_follower_without_a_log_gets_the_state_however_much_is_on_disk() {
    let mut cluster = cluster(&[1, 2, 3]);
    return_of(&mut cluster, &[3]);
    let node = cluster.node(3);
    assert!(!node.disk.entries.is_empty());
    let mut config = node.config.clone();
    config.id = 4;
    cluster.nodes.remove(&3);
    cluster.propose_change(1, &add(4));
    cluster.settle();
    config.voters.clear();
    cluster.add(config);
    catch_up(&mut cluster);
    assert_eq!(applied(&cluster, 4), applied(&cluster, 1));
    assert_eq!((cluster.installs, cluster.fetched), (1, 0));
}

#[test]
fn nothing_is_fetched_where_no_fetch_is_allowed() {
    let mut cluster = cluster(&[1, 2, 3]);
    for id in [1, 2, 3] {
        cluster.node(id).config.limits.fetches = 0;
        cluster.crash(id);
        cluster.start(id);
    }
    cluster.elect(1);
    return_of(&mut cluster, &[3]);
    catch_up(&mut cluster);
    assert_eq!(applied(&cluster, 3), applied(&cluster, 1));
    assert_eq!((cluster.installs, cluster.fetched), (1, 0));
}

fn add(node: NodeId) -> ConfChange {
    ConfChange {
        kind: ConfChangeKind::AddLearnerNode,
        node,
        ..ConfChange::default()
    }
}

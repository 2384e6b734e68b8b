use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use raft::{Entry, EntryKind, Position};

use super::*;
use crate::request::Request;

const ME: u64 = 1;

fn message(from: u64, term: u64, body: Body) -> Message {
    Message {
        from,
        to: ME,
        term,
        body,
    }
}

/// 2 is a member, 3 was removed, all others are unknown.
fn standing(id: u64) -> Standing {
    match id {
        2 => Standing::Member,
        3 => Standing::Removed,
        _ => Standing::Unknown,
    }
}

fn refused(message: &Message, speaker: u64) -> Option<Refusal> {
    refusal(message, ME, Some(speaker), standing)
}

fn proposal(kind: EntryKind, data: impl Into<Bytes>) -> Message {
    let entry = Entry {
        kind,
        data: data.into(),
        ..Entry::default()
    };
    let entries = vec![entry];
    message(2, 0, Body::Propose { entries })
}

fn heartbeat(context: usize) -> Body {
    Body::Heartbeat {
        commit: 0,
        context: vec![0; context].into(),
    }
}

#[test]
fn members_speak_for_themselves_and_to_us() {
    assert_eq!(refused(&message(2, 1, heartbeat(8)), 2), None);
    let other = |message: &Message, speaker| {
        let refusal = refused(message, speaker);
        assert!(matches!(refusal, Some(Refusal::Other(_))), "{refusal:?}");
    };
    other(&message(2, 1, heartbeat(8)), 4);
    other(&message(2, 0, heartbeat(8)), 2);
    other(&message(2, 1, heartbeat(1 << 20)), 2);
    other(&message(ME, 1, heartbeat(8)), ME);
    other(&message(0, 1, heartbeat(8)), 0);
    assert_eq!(
        refused(&message(3, 1, heartbeat(8)), 3),
        Some(Refusal::Removed)
    );
    let astray = Message {
        to: 9,
        ..message(2, 1, heartbeat(8))
    };
    assert_eq!(refused(&astray, 2), Some(Refusal::NotForUs));
    // A follower forwards a request of another follower's client.
    assert_eq!(refused(&message(2, 1, Body::TransferLeader), 4), None);
}

#[test]
fn of_members_that_the_log_does_not_know_only_leaders_and_candidates_are_heard() {
    let last = Position::default();
    let transfer = false;
    for body in [
        heartbeat(0),
        Body::Vote { last, transfer },
        Body::PreVote { last, transfer },
    ] {
        assert_eq!(refused(&message(9, 1, body), 9), None);
    }
    let rejected = None;
    let context = Bytes::new();
    for body in [
        Body::AppendReply { index: 1, rejected },
        Body::HeartbeatReply {
            context: context.clone(),
        },
        Body::VoteReply { granted: true },
        Body::ReadIndex { context },
        Body::TransferLeader,
        Body::Propose {
            entries: Vec::new(),
        },
    ] {
        let refusal = refused(&message(9, 1, body), 9);
        assert!(matches!(refusal, Some(Refusal::Other(_))), "{refusal:?}");
    }
}

#[test]
fn only_what_every_member_can_apply_may_be_proposed() {
    let put = |key: &'static str| {
        let put = pb::PutRequest {
            key: key.into(),
            ..Default::default()
        };
        Request::Put(put).encode(7)
    };
    let add = |node: u64, context: &'static str| {
        raft::wire::encode_conf_change(&raft::ConfChange {
            node,
            context: context.into(),
            ..Default::default()
        })
    };
    for good in [
        proposal(EntryKind::Normal, put("k")),
        proposal(EntryKind::Normal, ""),
        proposal(
            EntryKind::ConfChange,
            add(5, r#"{"id":5,"peerURLs":["http://a:1"]}"#),
        ),
        // A promotion.
        proposal(
            EntryKind::ConfChange,
            add(5, r#"{"id":5,"peerURLs":null,"isPromote":true}"#),
        ),
    ] {
        assert_eq!(refused(&good, 2), None);
    }
    for bad in [
        proposal(EntryKind::Normal, "\u{1}garbage"),
        proposal(EntryKind::Normal, put("")),
        proposal(EntryKind::Normal, Request::Txn(twice("k")).encode(7)),
        proposal(EntryKind::ConfChange, "garbage"),
        proposal(EntryKind::ConfChange, add(5, "{")),
        proposal(
            EntryKind::ConfChange,
            add(5, r#"{"id":6,"peerURLs":["http://a:1"]}"#),
        ),
        proposal(
            EntryKind::ConfChange,
            add(0, r#"{"id":0,"peerURLs":["http://a:1"]}"#),
        ),
        // Nobody could reach it.
        proposal(EntryKind::ConfChange, add(5, r#"{"id":5,"peerURLs":[]}"#)),
        proposal(EntryKind::ConfChange, add(5, r#"{"id":5,"peerURLs":null}"#)),
        proposal(EntryKind::ConfChangeV2, ""),
    ] {
        let refusal = refused(&bad, 2);
        assert!(
            matches!(refusal, Some(Refusal::Other(_))),
            "{bad:?}: {refusal:?}"
        );
    }
}

/// A transaction that puts the same key twice.
fn twice(key: &'static str) -> pb::TxnRequest {
    let put = pb::PutRequest {
        key: key.into(),
        ..Default::default()
    };
    let request = Some(pb::request_op::Request::RequestPut(put));
    let op = pb::RequestOp { request };
    pb::TxnRequest {
        success: vec![op.clone(), op],
        ..Default::default()
    }
}

#[test]
fn a_refusal_is_told_once_and_not_for_ever_of_everybody() {
    let logged = LogOnce::default();
    assert!(logged.first("a", "why"));
    assert!(!logged.first("a", "why"));
    assert!(logged.first("b", "why"));
    let news = (0..2 * LOGGED_MAX).filter(|n| logged.first("c", &n.to_string()));
    assert_eq!(news.count(), LOGGED_MAX - 2);
}

#[test]
fn a_name_as_long_as_a_stranger_likes_is_not_kept() {
    let logged = LogOnce::default();
    assert!(logged.first(&"é".repeat(100_000), "why"));
    let kept = logged.0.lock();
    assert!(kept.iter().all(|(who, _)| who.len() <= 2 * WHO_CHARS_MAX));
}

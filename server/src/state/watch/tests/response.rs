use bytes::Bytes;
use etcd_api::etcdserverpb::{ResponseHeader, WatchResponse};
use etcd_api::mvccpb;
use prost::Message;
use storage::mvcc::{Change, Item, Revision};

use super::rig::messages;
use crate::state::watch::event::{Event, encode};
use crate::state::watch::response::{Fields, Head, Out};
use crate::state::watch::{OUT_BYTES, SHARE_BYTES};

const HEAD: Head = Head {
    cluster_id: u64::MAX,
    member_id: 7,
    raft_term: 3,
};

fn item<'a>(key: &'a [u8], value: &'a [u8]) -> Item<'a> {
    Item {
        key,
        value,
        create_revision: 5,
        mod_revision: 300,
        version: 9,
        lease: -1,
    }
}

fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Change<'a> {
    Change::Put {
        revision: Revision { main: 300, sub: 0 },
        item: item(key, value),
    }
}

/// As a client decodes it, without the tag and length.
fn decoded(event: &Event) -> mvccpb::Event {
    let response = WatchResponse::decode(event.bytes.clone()).unwrap();
    response.events.into_iter().next().unwrap()
}

fn kv(key: &[u8], value: &[u8]) -> mvccpb::KeyValue {
    mvccpb::KeyValue {
        key: Bytes::copy_from_slice(key),
        value: Bytes::copy_from_slice(value),
        create_revision: 5,
        mod_revision: 300,
        version: 9,
        lease: -1,
    }
}

#[test]
fn a_put_tells_everything_of_the_key_and_what_it_replaced() {
    let large = vec![7; 20_000];
    let previous = item(b"k", &large);
    let event = decoded(&encode(&put(b"k", b"v"), Some(&previous)));
    assert_eq!(event.r#type, 0);
    assert_eq!(event.kv, Some(kv(b"k", b"v")));
    assert_eq!(event.prev_kv, Some(kv(b"k", &large)));
}

#[test]
fn a_deletion_tells_key_and_revision_only() {
    let change = Change::Delete {
        revision: Revision { main: 4, sub: 1 },
        key: b"k",
    };
    let event = decoded(&encode(&change, None));
    assert_eq!(event.r#type, 1);
    let kv = mvccpb::KeyValue {
        key: Bytes::from_static(b"k"),
        mod_revision: 4,
        ..Default::default()
    };
    assert_eq!(event.kv, Some(kv));
    assert_eq!(event.prev_kv, None);
}

#[test]
fn an_empty_value_is_a_put_and_not_a_deletion() {
    let event = decoded(&encode(&put(b"k", b""), None));
    assert_eq!(event.r#type, 0);
    assert_eq!(event.kv, Some(kv(b"k", b"")));
}

#[test]
fn responses_are_what_prost_would_have_encoded() {
    let mut out = Out::default();
    out.set_head(HEAD);
    let small = encode(&put(b"k", b"v"), None);
    let large = encode(&put(b"k", &vec![1; SHARE_BYTES]), None);
    let fields = Fields {
        watch_id: -1,
        created: true,
        canceled: true,
        compact_revision: 70_000,
        cancel_reason: "because",
        fragment: true,
    };
    out.control(0, &fields);
    let of_same = Fields {
        watch_id: -1,
        ..Fields::default()
    };
    let added = out.events(1 << 40, &of_same, [&small, &large, &small].into_iter());
    assert_eq!(added, Ok(()));
    let responses = messages(&mut out);
    let header = |revision| ResponseHeader {
        cluster_id: HEAD.cluster_id,
        member_id: HEAD.member_id,
        raft_term: HEAD.raft_term,
        revision,
    };
    let expected = [
        WatchResponse {
            header: Some(header(0)),
            watch_id: -1,
            created: true,
            canceled: true,
            compact_revision: 70_000,
            cancel_reason: "because".into(),
            fragment: true,
            events: vec![],
        },
        WatchResponse {
            header: Some(header(1 << 40)),
            watch_id: -1,
            events: [&small, &large, &small].map(decoded).into(),
            ..Default::default()
        },
    ];
    assert_eq!(responses, expected);
    assert_eq!(out.next_frame(), None);
}

#[test]
fn a_large_event_is_shared_and_not_copied() {
    let mut out = Out::default();
    let large = encode(&put(b"k", &vec![1; OUT_BYTES]), None);
    let added = out.events(300, &Fields::default(), [&large].into_iter());
    assert_eq!(added, Ok(()));
    assert!(out.is_full());
    out.next_frame().unwrap();
    assert_eq!(out.next_frame().unwrap().as_ptr(), large.bytes.as_ptr());
    assert!(!out.is_full());
}

#[test]
fn events_that_come_in_pieces_make_the_message_that_they_make_at_once() {
    let (small, large) = (
        encode(&put(b"k", b"v"), None),
        encode(&put(b"k", &vec![1; SHARE_BYTES]), None),
    );
    let fields = Fields {
        watch_id: 4,
        ..Fields::default()
    };
    let (mut at_once, mut in_pieces) = (Out::default(), Out::default());
    let added = at_once.events(300, &fields, [&small, &large, &small].into_iter());
    assert_eq!(added, Ok(()));
    in_pieces.begin(300, &fields, 2 * small.bytes.len() + large.bytes.len());
    for event in [&small, &large, &small] {
        assert!(!in_pieces.is_whole());
        in_pieces.piece(event.bytes.clone(), 1);
    }
    assert!(in_pieces.is_whole());
    assert_eq!(in_pieces.take_events(), 3);
    assert_eq!(messages(&mut in_pieces), messages(&mut at_once));
}

#[test]
#[should_panic(expected = "a response within another")]
fn nothing_comes_between_the_pieces_of_a_message() {
    let mut out = Out::default();
    out.begin(300, &Fields::default(), 100);
    out.piece(Bytes::from_static(b"the beginning"), 1);
    out.control(300, &Fields::default());
}

#[test]
#[should_panic(expected = "a response between fragments of another")]
fn nothing_comes_between_fragments() {
    let mut out = Out::default();
    let part = Fields {
        watch_id: 1,
        fragment: true,
        ..Fields::default()
    };
    out.control(300, &part);
    assert!(!out.is_whole());
    out.control(300, &Fields::default());
}

/// One deletion may change that much; its values are shown to those who ask for them.
#[test]
fn events_of_more_bytes_than_a_message_may_have_are_refused() {
    const GIB: usize = 1 << 30;
    // Never touched, so it takes no memory.
    let event = Event {
        revision: 300,
        bytes: Bytes::from(vec![0; GIB]),
    };
    let mut out = Out::default();
    for times in [2, 5] {
        let added = out.events(
            300,
            &Fields::default(),
            [&event; 5][..times].iter().copied(),
        );
        assert!(added.unwrap_err().bytes > times * GIB);
        assert_eq!(out.waiting_bytes(), 0);
    }
    let added = out.events(300, &Fields::default(), [&event].into_iter());
    assert_eq!(added, Ok(()));
}

//! What the messages look like on the wire, byte by byte, where a slip in a field number or a
//! type would go unseen by our own client and server.

use bytes::Bytes;
use etcd_api::etcdserverpb::compare::TargetUnion;
use etcd_api::etcdserverpb::response_op::Response;
use etcd_api::etcdserverpb::{
    Compare, InternalRaftRequest, LeaseGrantRequest, Member, PutRequest, RangeRequest,
    RangeResponse, RequestHeader, ResponseHeader, ResponseOp, TxnResponse, WatchCreateRequest,
    WatchResponse,
};
use etcd_api::mvccpb::{Event, KeyValue, event::EventType};
use etcd_api::raw;
use prost::Message;

fn header() -> Option<ResponseHeader> {
    Some(ResponseHeader {
        cluster_id: 1,
        member_id: 2,
        revision: 300,
        raft_term: 4,
    })
}

const HEADER: &[u8] = &[0x08, 1, 0x10, 2, 0x18, 0xac, 0x02, 0x20, 4];

fn key_value() -> KeyValue {
    KeyValue {
        key: Bytes::from_static(b"k"),
        create_revision: 2,
        mod_revision: 3,
        version: 2,
        value: Bytes::from_static(b"\x00v"),
        lease: -1,
    }
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn key_value_writes_fields_in_number_order_and_leaves_zeros_out() {
    let expected = joined(&[
        &[0x0a, 1, b'k', 0x10, 2, 0x18, 3, 0x20, 2, 0x2a, 2, 0, b'v'],
        &[
            0x30, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        ],
    ]);
    assert_eq!(key_value().encode_to_vec(), expected);
    let tombstone = KeyValue {
        key: Bytes::from_static(b"k"),
        ..KeyValue::default()
    };
    assert_eq!(tombstone.encode_to_vec(), [0x0a, 1, b'k']);
}

#[test]
fn compare_carries_its_range_end_in_field_64() {
    let compare = Compare {
        result: 3,
        target: 4,
        key: Bytes::from_static(b"a"),
        range_end: Bytes::from_static(b"b"),
        target_union: Some(TargetUnion::Lease(0)),
    };
    // A chosen member of a oneof is written even when it is zero.
    let expected = [
        0x08, 3, 0x10, 4, 0x1a, 1, b'a', 0x40, 0, 0x82, 0x04, 1, b'b',
    ];
    assert_eq!(compare.encode_to_vec(), expected);
}

#[test]
fn log_entry_carries_its_header_in_field_100() {
    let entry = InternalRaftRequest {
        header: Some(RequestHeader {
            id: 7,
            username: "u".into(),
            auth_revision: 1,
        }),
        put: Some(PutRequest {
            key: Bytes::from_static(b"k"),
            value: Bytes::from_static(b"v"),
            ..PutRequest::default()
        }),
        ..InternalRaftRequest::default()
    };
    let encoded = entry.encode_to_vec();
    let put = [0x22, 6, 0x0a, 1, b'k', 0x12, 1, b'v'];
    let header = [0xa2, 0x06, 7, 0x08, 7, 0x12, 1, b'u', 0x18, 1];
    assert_eq!(encoded.len(), put.len() + header.len());
    for part in [&put[..], &header[..]] {
        assert!(encoded.windows(part.len()).any(|window| window == part));
    }
    assert_eq!(InternalRaftRequest::decode(&encoded[..]).unwrap(), entry);

    let other_order = joined(&[&header, &put]);
    assert_eq!(
        InternalRaftRequest::decode(&other_order[..]).unwrap(),
        entry
    );
}

#[test]
fn high_numbered_log_entries_have_the_tags_of_etcd() {
    let tag = |entry: InternalRaftRequest| {
        let bytes = entry.encode_to_vec();
        prost::encoding::decode_key(&mut &bytes[..]).unwrap().0
    };
    let empty = InternalRaftRequest::default;
    macro_rules! tag_of {
        ($field:ident) => {
            tag(InternalRaftRequest {
                $field: Some(Default::default()),
                ..empty()
            })
        };
    }
    assert_eq!(tag_of!(range), 3);
    assert_eq!(tag_of!(put), 4);
    assert_eq!(tag_of!(delete_range), 5);
    assert_eq!(tag_of!(txn), 6);
    assert_eq!(tag_of!(compaction), 7);
    assert_eq!(tag_of!(lease_grant), 8);
    assert_eq!(tag_of!(lease_revoke), 9);
    assert_eq!(tag_of!(alarm), 10);
    assert_eq!(tag_of!(lease_checkpoint), 11);
    assert_eq!(tag_of!(auth_enable), 1000);
    assert_eq!(tag_of!(auth_disable), 1011);
    assert_eq!(tag_of!(authenticate), 1012);
    assert_eq!(tag_of!(auth_status), 1013);
    assert_eq!(tag_of!(auth_user_add), 1100);
    assert_eq!(tag_of!(auth_user_delete), 1101);
    assert_eq!(tag_of!(auth_user_get), 1102);
    assert_eq!(tag_of!(auth_user_change_password), 1103);
    assert_eq!(tag_of!(auth_user_grant_role), 1104);
    assert_eq!(tag_of!(auth_user_revoke_role), 1105);
    assert_eq!(tag_of!(auth_user_list), 1106);
    assert_eq!(tag_of!(auth_role_list), 1107);
    assert_eq!(tag_of!(auth_role_add), 1200);
    assert_eq!(tag_of!(auth_role_delete), 1201);
    assert_eq!(tag_of!(auth_role_get), 1202);
    assert_eq!(tag_of!(auth_role_grant_permission), 1203);
    assert_eq!(tag_of!(auth_role_revoke_permission), 1204);
    assert_eq!(tag_of!(cluster_version_set), 1300);
    assert_eq!(tag_of!(cluster_member_attr_set), 1301);
    assert_eq!(tag_of!(downgrade_info_set), 1302);
    assert_eq!(tag_of!(downgrade_version_test), 9900);
}

#[test]
fn small_requests_have_their_golden_bytes() {
    let range = RangeRequest {
        key: Bytes::from_static(b"\0"),
        range_end: Bytes::from_static(b"\0"),
        limit: 1,
        revision: 2,
        sort_order: 2,
        sort_target: 4,
        serializable: true,
        keys_only: true,
        count_only: true,
        min_mod_revision: 3,
        max_mod_revision: 4,
        min_create_revision: 5,
        max_create_revision: 6,
    };
    let expected = [
        0x0a, 1, 0, 0x12, 1, 0, 0x18, 1, 0x20, 2, 0x28, 2, 0x30, 4, 0x38, 1, 0x40, 1, 0x48, 1,
        0x50, 3, 0x58, 4, 0x60, 5, 0x68, 6,
    ];
    assert_eq!(range.encode_to_vec(), expected);

    let grant = LeaseGrantRequest { ttl: 60, id: 9 };
    assert_eq!(grant.encode_to_vec(), [0x08, 60, 0x10, 9]);

    // Repeated enums are packed.
    let watch = WatchCreateRequest {
        filters: vec![0, 1],
        fragment: true,
        ..WatchCreateRequest::default()
    };
    assert_eq!(watch.encode_to_vec(), [0x2a, 2, 0, 1, 0x40, 1]);

    let member = Member {
        id: 1,
        name: "n".into(),
        peer_urls: vec!["p".into()],
        client_urls: vec!["c".into()],
        is_learner: true,
    };
    let expected = [
        0x08, 1, 0x12, 1, b'n', 0x1a, 1, b'p', 0x22, 1, b'c', 0x28, 1,
    ];
    assert_eq!(member.encode_to_vec(), expected);
}

#[test]
fn watch_responses_are_the_same_bytes_raw_and_typed() {
    let events = vec![
        Event {
            kv: Some(key_value()),
            ..Event::default()
        },
        Event {
            r#type: EventType::Delete.into(),
            kv: Some(KeyValue {
                key: Bytes::from_static(b"gone"),
                mod_revision: 9,
                ..KeyValue::default()
            }),
            prev_kv: Some(key_value()),
        },
    ];
    let encoded = events.iter().map(|event| event.encode_to_vec().into());
    let raw = raw::WatchResponse {
        header: header(),
        watch_id: 5,
        events: encoded.collect(),
        ..raw::WatchResponse::default()
    };
    let first = events[0].encode_to_vec();
    let typed = WatchResponse {
        header: header(),
        watch_id: 5,
        events,
        ..WatchResponse::default()
    };
    assert_eq!(raw.encode_to_vec(), typed.encode_to_vec());

    let one = raw::WatchResponse {
        header: header(),
        events: vec![first.clone().into()],
        ..raw::WatchResponse::default()
    };
    let expected = joined(&[&[0x0a, 9], HEADER, &[0x5a, first.len() as u8], &first]);
    assert_eq!(one.encode_to_vec(), expected);
}

#[test]
fn range_responses_are_the_same_bytes_raw_and_typed_also_inside_a_transaction() {
    let typed = RangeResponse {
        header: header(),
        kvs: vec![key_value(), KeyValue::default()],
        more: true,
        count: 7,
    };
    let raw = raw::RangeResponse {
        header: header(),
        kvs: [key_value().encode_to_vec().into(), Bytes::new()]
            .into_iter()
            .collect(),
        more: true,
        count: 7,
    };
    assert_eq!(raw.encode_to_vec(), typed.encode_to_vec());

    let typed = TxnResponse {
        header: header(),
        succeeded: true,
        responses: vec![ResponseOp {
            response: Some(Response::ResponseRange(typed)),
        }],
    };
    let raw = raw::TxnResponse {
        header: header(),
        succeeded: true,
        responses: vec![raw::ResponseOp {
            response: Some(raw::response_op::Response::ResponseRange(raw)),
        }],
    };
    assert_eq!(raw.encode_to_vec(), typed.encode_to_vec());
}

#[test]
fn raw_services_keep_their_names_on_the_wire() {
    assert_eq!(raw::kv_server::SERVICE_NAME, "etcdserverpb.KV");
    assert_eq!(raw::watch_server::SERVICE_NAME, "etcdserverpb.Watch");
}

use super::encoded::next_field;
use super::*;

#[test]
fn a_request_survives_the_log() {
    let requests = [
        Request::Put(pb::PutRequest {
            key: Bytes::from_static(b"k"),
            value: Bytes::from_static(b""),
            lease: -7,
            ..Default::default()
        }),
        Request::LeaseRevoke(pb::LeaseRevokeRequest { id: 99 }),
        Request::Compaction(pb::CompactionRequest {
            revision: 5,
            physical: true,
        }),
    ];
    for request in requests {
        assert_eq!(Request::decode(&request.encode(1)).unwrap(), request);
    }
}

/// A transaction in a transaction, and so on, around a put.
fn nested(depth: usize) -> Request {
    use pb::request_op::Request as Op;
    let around = |request| pb::TxnRequest {
        success: vec![pb::RequestOp {
            request: Some(request),
        }],
        ..Default::default()
    };
    let put = Op::RequestPut(pb::PutRequest {
        key: Bytes::from_static(b"k"),
        ..Default::default()
    });
    let outer = (0..depth).fold(around(put), |inner, _| around(Op::RequestTxn(inner)));
    Request::Txn(outer)
}

/// In an entry it is one level deeper than in its call; and etcd's members take deeper ones.
#[test]
fn a_transaction_as_deep_as_clients_may_send_it_survives_the_log() {
    for depth in [0, 1, 48, 49, 50, 128] {
        let request = nested(depth);
        let by = AuthInfo {
            user: "alice".to_owned(),
            revision: 7,
        };
        let data = request.encode_by(9, &by);
        assert!(Request::decode(&data) == Ok(request), "{depth}");
        assert_eq!(Request::auth_info_of(&data), by);
    }
    assert!(Request::decode(&nested(1_000).encode(9)).is_err());
}

#[test]
fn a_put_that_only_writes_is_read_where_it_lies_and_no_other_is() {
    let put = pb::PutRequest {
        key: Bytes::from_static(b"k"),
        value: Bytes::from_static(b"v"),
        ..Default::default()
    };
    let encoded = |change: fn(&mut pb::PutRequest)| {
        let mut put = put.clone();
        change(&mut put);
        Request::Put(put).encode(u64::MAX)
    };
    let read = |data: &Bytes| {
        let put = Request::lone_put(data)?;
        Some((put.key.to_vec(), put.value.to_vec(), put.by.reads))
    };
    let (key, value) = (b"k".to_vec(), b"v".to_vec());
    let plain = encoded(|_| {});
    assert_eq!(read(&plain), Some((key.clone(), value.clone(), false)));
    let before = encoded(|put| put.prev_kv = true);
    assert_eq!(read(&before), Some((key.clone(), value, true)));
    let empty = encoded(|put| put.value.clear());
    assert_eq!(read(&empty), Some((key, Vec::new(), false)));
    let changes: [fn(&mut pb::PutRequest); 3] = [
        |put| put.lease = 7,
        |put| put.ignore_value = true,
        |put| put.ignore_lease = true,
    ];
    for change in changes {
        assert_eq!(Request::lone_put(&encoded(change)), None);
    }
    let twice = [&plain[..], &plain].concat();
    assert_eq!(Request::lone_put(&twice), None);
    for end in 0..plain.len() {
        assert_eq!(Request::lone_put(&plain[..end]), None, "{end} bytes of it");
    }
    let deletion = Request::DeleteRange(pb::DeleteRangeRequest::default());
    assert_eq!(Request::lone_put(&deletion.encode(1)), None);
}

#[test]
fn an_alarm_says_whether_its_member_raised_it_and_means_the_same_to_etcd() {
    let alarm = pb::AlarmRequest {
        action: pb::alarm_request::AlarmAction::Activate as i32,
        member_id: u64::MAX,
        alarm: pb::AlarmType::Nospace as i32,
    };
    let request = Request::Alarm(alarm);
    let (own, other) = (Request::encode_own_alarm(&alarm, 9), request.encode(9));
    assert!(Request::is_own_alarm(&own) && !Request::is_own_alarm(&other));
    assert!(!Request::is_own_alarm(b"") && !Request::is_own_alarm(&own[..own.len() - 1]));
    assert_eq!(Request::decode(&own), Ok(request));
    let etcd = |data: &[u8]| pb::InternalRaftRequest::decode(data).unwrap();
    assert_eq!(etcd(&own), etcd(&other));
}

#[test]
fn an_entry_names_its_user() {
    let by = AuthInfo {
        user: "alice".to_owned(),
        revision: 7,
    };
    let put = Request::Put(pb::PutRequest {
        key: Bytes::from_static(b"k"),
        ..Default::default()
    });
    let data = put.encode_by(1, &by);
    assert_eq!(Request::auth_info_of(&data), by);
    let lone = Request::lone_put(&data).unwrap();
    assert_eq!(auth_info(lone.by.header), by);
    // etcd writes the header after the request.
    let raft = pb::InternalRaftRequest::decode(&data[..]).unwrap();
    assert_eq!(Request::auth_info_of(&raft.encode_to_vec()), by);
    assert_eq!(Request::auth_info_of(&put.encode(1)), AuthInfo::default());
    let headless = pb::InternalRaftRequest {
        header: None,
        ..raft
    };
    let nobody = AuthInfo::default();
    assert_eq!(Request::auth_info_of(&headless.encode_to_vec()), nobody);
}

/// etcd stops for ever at a kind of request that it does not know.
#[test]
fn every_request_of_ours_is_known_to_etcd_35() {
    let known: Vec<u32> = (4..=11)
        .chain([HEADER_FIELD, 1000, 1011, 1012])
        .chain([1100, 1101, 1103, 1104, 1105, 1200, 1201, 1203, 1204])
        .chain([1300, 1301, 1302])
        .collect();
    let auth = [
        AuthRequest::Enable,
        AuthRequest::Disable,
        AuthRequest::UserAdd(pb::AuthUserAddRequest::default()),
        AuthRequest::UserDelete(pb::AuthUserDeleteRequest::default()),
        AuthRequest::UserChangePassword(pb::AuthUserChangePasswordRequest::default()),
        AuthRequest::UserGrantRole(pb::AuthUserGrantRoleRequest::default()),
        AuthRequest::UserRevokeRole(pb::AuthUserRevokeRoleRequest::default()),
        AuthRequest::RoleAdd(pb::AuthRoleAddRequest::default()),
        AuthRequest::RoleDelete(pb::AuthRoleDeleteRequest::default()),
        AuthRequest::RoleGrantPermission(pb::AuthRoleGrantPermissionRequest::default()),
        AuthRequest::RoleRevokePermission(pb::AuthRoleRevokePermissionRequest::default()),
    ];
    let others = [
        Request::Put(pb::PutRequest::default()),
        Request::DeleteRange(pb::DeleteRangeRequest::default()),
        Request::Txn(pb::TxnRequest::default()),
        Request::Compaction(pb::CompactionRequest::default()),
        Request::LeaseGrant(pb::LeaseGrantRequest::default()),
        Request::LeaseRevoke(pb::LeaseRevokeRequest::default()),
        Request::LeaseCheckpoint(pb::LeaseCheckpointRequest::default()),
        Request::Alarm(pb::AlarmRequest::default()),
        Request::ClusterVersionSet(Default::default()),
        Request::ClusterMemberAttrSet(Default::default()),
        Request::DowngradeInfoSet(Default::default()),
        Request::Authenticate(pb::InternalAuthenticateRequest::default()),
    ];
    for request in others.into_iter().chain(auth.map(Request::Auth)) {
        // Whoever adds a kind, adds it above.
        match &request {
            Request::Put(_)
            | Request::DeleteRange(_)
            | Request::Txn(_)
            | Request::Compaction(_)
            | Request::LeaseGrant(_)
            | Request::LeaseRevoke(_)
            | Request::LeaseCheckpoint(_)
            | Request::Alarm(_)
            | Request::ClusterVersionSet(_)
            | Request::ClusterMemberAttrSet(_)
            | Request::DowngradeInfoSet(_)
            | Request::Authenticate(_)
            | Request::Auth(_)
            | Request::Read => {}
        }
        let data = request.encode(1);
        let (mut rest, mut numbers) = (&data[..], Vec::new());
        while !rest.is_empty() {
            numbers.push(next_field(&mut rest).unwrap().0);
        }
        assert_eq!(numbers.len(), 2, "{request:?}");
        assert!(
            numbers.iter().all(|number| known.contains(number)),
            "{request:?}: {numbers:?}"
        );
    }
}

/// All kinds of requests that etcd writes into its log, one after the other.
#[test]
fn every_kind_of_etcds_log_is_known() {
    let empty = pb::InternalRaftRequest::default();
    let kinds: Vec<u32> = (3..=11)
        .chain([1000, 1011, 1012, 1013])
        .chain(1100..=1107)
        .chain(1200..=1204)
        .chain([1300, 1301, 1302, 9900])
        .collect();
    for kind in kinds {
        let mut data = BytesMut::from(&empty.encode_to_vec()[..]);
        message::encode(kind, &pb::AuthEnableRequest {}, &mut data);
        let request = Request::decode(&data);
        assert!(request.is_ok(), "kind {kind}: {request:?}");
        // Encoding it again preserves its meaning.
        if let Ok(request) = request
            && request != Request::Read
        {
            assert_eq!(Request::decode(&request.encode(1)), Ok(request));
        }
    }
}

#[test]
fn an_unknown_request_is_an_error() {
    let header = pb::InternalRaftRequest {
        header: Some(pb::RequestHeader::default()),
        ..Default::default()
    };
    assert!(Request::decode(&header.encode_to_vec()).is_err());
    assert!(Request::decode(b"\xff\xff").is_err());
}

#[test]
fn the_keys_of_a_request_are_those_of_both_branches_and_comparisons_but_of_no_range() {
    use pb::request_op::Request as Op;
    let key = |key: &'static str| Bytes::from_static(key.as_bytes());
    let delete = |from, to| pb::DeleteRangeRequest {
        key: key(from),
        range_end: key(to),
        ..Default::default()
    };
    let compare = |from, to| pb::Compare {
        key: key(from),
        range_end: key(to),
        ..Default::default()
    };
    let range = |from, to| pb::RangeRequest {
        key: key(from),
        range_end: key(to),
        ..Default::default()
    };
    let put = |of| pb::PutRequest {
        key: key(of),
        ..Default::default()
    };
    let ops = |ops: Vec<Op>| -> Vec<pb::RequestOp> {
        let op = |op| pb::RequestOp { request: Some(op) };
        ops.into_iter().map(op).collect()
    };
    let nested = pb::TxnRequest {
        failure: ops(vec![Op::RequestPut(put("f"))]),
        ..Default::default()
    };
    let txn = pb::TxnRequest {
        compare: vec![compare("a", ""), compare("a", "z")],
        success: ops(vec![
            Op::RequestPut(put("b")),
            Op::RequestDeleteRange(delete("c", "")),
            Op::RequestDeleteRange(delete("c", "z")),
        ]),
        failure: ops(vec![
            Op::RequestRange(range("d", "")),
            Op::RequestRange(range("d", "\0")),
            Op::RequestPut(put("e")),
            Op::RequestTxn(nested),
        ]),
    };
    let keys = |request: Request| {
        let mut keys = Vec::new();
        request.each_key(&mut |key| keys.push(String::from_utf8_lossy(key).into_owned()));
        keys.concat()
    };
    assert_eq!(keys(Request::Txn(txn)), "abcdef");
    assert_eq!(keys(Request::Put(put("k"))), "k");
    assert_eq!(keys(Request::DeleteRange(delete("k", ""))), "k");
    assert_eq!(keys(Request::DeleteRange(delete("k", "l"))), "");
    assert_eq!(keys(Request::Read), "");
}

//! The requests that go through the log, and their encoding: etcd's `InternalRaftRequest`, so that
//! a log entry of ours means the same to an etcd member.

pub(crate) mod check;
pub(crate) mod nesting;
mod v2;

use bytes::{Bytes, BytesMut};
use etcd_api::etcdserverpb as pb;
use prost::Message;
use prost::encoding::{self, WireType, message};

/// Field numbers of `InternalRaftRequest`.
const HEADER_FIELD: u32 = 100;
const PUT_FIELD: u32 = 4;
/// Stele's own field, a number: 1 if a member raised its space alarm by itself, without a client.
/// etcd skips fields that it does not know, and uses none near this number.
const OWN_ALARM_FIELD: u32 = 359_966;

/// The user a request is made for, as in the header of its log entry: the user's name, and the auth
/// revision at which the user was authenticated. The default is no user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthInfo {
    pub user: String,
    /// 0 if there is no user: auth revisions begin at 1.
    pub revision: u64,
}

/// One decoded request. On the proposing member the value is kept beside its bytes, so only replay
/// and other members decode it.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Put(pb::PutRequest),
    DeleteRange(pb::DeleteRangeRequest),
    Txn(pb::TxnRequest),
    Compaction(pb::CompactionRequest),
    LeaseGrant(pb::LeaseGrantRequest),
    LeaseRevoke(pb::LeaseRevokeRequest),
    LeaseCheckpoint(pb::LeaseCheckpointRequest),
    Alarm(pb::AlarmRequest),
    ClusterVersionSet(etcd_api::membershippb::ClusterVersionSetRequest),
    ClusterMemberAttrSet(etcd_api::membershippb::ClusterMemberAttrSetRequest),
    DowngradeInfoSet(etcd_api::membershippb::DowngradeInfoSetRequest),
    /// A token for a user whose password was verified.
    Authenticate(pb::InternalAuthenticateRequest),
    /// A change of users, roles or permissions.
    Auth(AuthRequest),
    /// A read that a member sent through the log: it only advances the applied index.
    Read,
}

/// Changes of users, roles and permissions; they need the root role.
#[derive(Clone, Debug, PartialEq)]
pub enum AuthRequest {
    Enable,
    Disable,
    UserAdd(pb::AuthUserAddRequest),
    UserDelete(pb::AuthUserDeleteRequest),
    UserChangePassword(pb::AuthUserChangePasswordRequest),
    UserGrantRole(pb::AuthUserGrantRoleRequest),
    UserRevokeRole(pb::AuthUserRevokeRoleRequest),
    RoleAdd(pb::AuthRoleAddRequest),
    RoleDelete(pb::AuthRoleDeleteRequest),
    RoleGrantPermission(pb::AuthRoleGrantPermissionRequest),
    RoleRevokePermission(pb::AuthRoleRevokePermissionRequest),
}

impl AuthRequest {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            AuthRequest::Enable => message::encode(1000, &pb::AuthEnableRequest {}, out),
            AuthRequest::Disable => message::encode(1011, &pb::AuthDisableRequest {}, out),
            AuthRequest::UserAdd(r) => message::encode(1100, r, out),
            AuthRequest::UserDelete(r) => message::encode(1101, r, out),
            AuthRequest::UserChangePassword(r) => message::encode(1103, r, out),
            AuthRequest::UserGrantRole(r) => message::encode(1104, r, out),
            AuthRequest::UserRevokeRole(r) => message::encode(1105, r, out),
            AuthRequest::RoleAdd(r) => message::encode(1200, r, out),
            AuthRequest::RoleDelete(r) => message::encode(1201, r, out),
            AuthRequest::RoleGrantPermission(r) => message::encode(1203, r, out),
            AuthRequest::RoleRevokePermission(r) => message::encode(1204, r, out),
        }
    }

    fn take(raft: &mut pb::InternalRaftRequest) -> Option<AuthRequest> {
        if raft.auth_enable.is_some() {
            return Some(AuthRequest::Enable);
        }
        if raft.auth_disable.is_some() {
            return Some(AuthRequest::Disable);
        }
        let user_add = raft.auth_user_add.take().map(AuthRequest::UserAdd);
        user_add
            .or_else(|| raft.auth_user_delete.take().map(AuthRequest::UserDelete))
            .or_else(|| {
                let change = raft.auth_user_change_password.take();
                change.map(AuthRequest::UserChangePassword)
            })
            .or_else(|| {
                let grant = raft.auth_user_grant_role.take();
                grant.map(AuthRequest::UserGrantRole)
            })
            .or_else(|| {
                let revoke = raft.auth_user_revoke_role.take();
                revoke.map(AuthRequest::UserRevokeRole)
            })
            .or_else(|| raft.auth_role_add.take().map(AuthRequest::RoleAdd))
            .or_else(|| {
                let grant = raft.auth_role_grant_permission.take();
                grant.map(AuthRequest::RoleGrantPermission)
            })
            .or_else(|| {
                let revoke = raft.auth_role_revoke_permission.take();
                revoke.map(AuthRequest::RoleRevokePermission)
            })
            .or_else(|| raft.auth_role_delete.take().map(AuthRequest::RoleDelete))
    }
}

/// A put that only writes its key, borrowed from the bytes of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LonePut<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub by: PutBy<'a>,
}

/// What authorizes a lone put, if auth is enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutBy<'a> {
    /// The header's bytes; empty if there is no header.
    pub header: &'a [u8],
    /// The put also reads the previous value.
    pub reads: bool,
}

/// The user in an entry's header.
pub fn auth_info(header: &[u8]) -> AuthInfo {
    // An unreadable header means no user; the entry itself was decoded before.
    let header = pb::RequestHeader::decode(header).unwrap_or_default();
    AuthInfo {
        user: header.username,
        revision: header.auth_revision,
    }
}

impl Request {
    /// The entry payload under the proposer's request `id`, without a user.
    pub fn encode(&self, id: u64) -> Bytes {
        self.encode_by(id, &AuthInfo::default())
    }

    /// The entry payload for the space alarm that a member raises or clears by itself.
    pub fn encode_own_alarm(alarm: &pb::AlarmRequest, id: u64) -> Bytes {
        let mut data = BytesMut::from(&Request::Alarm(*alarm).encode(id)[..]);
        encoding::uint32::encode(OWN_ALARM_FIELD, &1, &mut data);
        data.freeze()
    }

    /// True for the payload of [`Request::encode_own_alarm`].
    pub fn is_own_alarm(data: &[u8]) -> bool {
        let mut rest = data;
        while let Some((number, field)) = next_field(&mut rest) {
            if number == OWN_ALARM_FIELD {
                return matches!(field, Field::Number(1));
            }
        }
        false
    }

    /// The entry payload for a request of the user `by`.
    pub fn encode_by(&self, id: u64, by: &AuthInfo) -> Bytes {
        let header = pb::RequestHeader {
            id,
            username: by.user.clone(),
            auth_revision: by.revision,
        };
        let mut out = BytesMut::with_capacity(self.encoded_len_hint() + 24);
        message::encode(HEADER_FIELD, &header, &mut out);
        match self {
            Request::Put(r) => message::encode(PUT_FIELD, r, &mut out),
            Request::DeleteRange(r) => message::encode(5, r, &mut out),
            Request::Txn(r) => message::encode(6, r, &mut out),
            Request::Compaction(r) => message::encode(7, r, &mut out),
            Request::LeaseGrant(r) => message::encode(8, r, &mut out),
            Request::LeaseRevoke(r) => message::encode(9, r, &mut out),
            Request::Alarm(r) => message::encode(10, r, &mut out),
            Request::LeaseCheckpoint(r) => message::encode(11, r, &mut out),
            Request::ClusterVersionSet(r) => message::encode(1300, r, &mut out),
            Request::ClusterMemberAttrSet(r) => message::encode(1301, r, &mut out),
            Request::DowngradeInfoSet(r) => message::encode(1302, r, &mut out),
            Request::Authenticate(r) => message::encode(1012, r, &mut out),
            Request::Auth(r) => r.encode(&mut out),
            Request::Read => unreachable!("reads are not proposed"),
        }
        out.freeze()
    }

    /// The id that `encode` wrote; payloads of other members may have it elsewhere.
    pub fn id_of(data: &[u8]) -> Option<u64> {
        let mut data = data;
        let Some((HEADER_FIELD, Field::Bytes(header))) = next_field(&mut data) else {
            return None;
        };
        Some(pb::RequestHeader::decode(header).ok()?.id)
    }

    /// The user an entry was written for.
    pub fn auth_info_of(data: &[u8]) -> AuthInfo {
        let mut rest = data;
        while !rest.is_empty() {
            match next_field(&mut rest) {
                Some((HEADER_FIELD, Field::Bytes(header))) => return auth_info(header),
                Some(_) => {}
                // Not in our usual form: decode the whole message.
                None => {
                    let raft = pb::InternalRaftRequest::decode(data).unwrap_or_default();
                    let header = raft.header.unwrap_or_default();
                    return AuthInfo {
                        user: header.username,
                        revision: header.auth_revision,
                    };
                }
            }
        }
        AuthInfo::default()
    }

    /// Recognizes a payload that is a put which only writes its key, in any state that has space
    /// and authorizes its user. Key and value are borrowed. Most log entries are such puts. `None`
    /// has no meaning by itself: use [`Request::decode`].
    pub fn lone_put(data: &[u8]) -> Option<LonePut<'_>> {
        let (mut request, mut put, mut by) = (data, None, PutBy::default());
        let mut has_header = false;
        while !request.is_empty() {
            match next_field(&mut request)? {
                (HEADER_FIELD, Field::Bytes(bytes)) if !has_header => {
                    (by.header, has_header) = (bytes, true);
                }
                (PUT_FIELD, Field::Bytes(bytes)) if put.is_none() => put = Some(bytes),
                _ => return None,
            }
        }
        let mut put = put?;
        let (mut key, mut value): (Option<&[u8]>, Option<&[u8]>) = (None, None);
        while !put.is_empty() {
            match next_field(&mut put)? {
                (1, Field::Bytes(bytes)) if key.is_none() => key = Some(bytes),
                (2, Field::Bytes(bytes)) if value.is_none() => value = Some(bytes),
                // `prev_kv`.
                (4, Field::Number(reads)) => by.reads = reads != 0,
                _ => return None,
            }
        }
        Some(LonePut {
            key: key?,
            value: value.unwrap_or_default(),
            by,
        })
    }

    /// Decodes an entry payload; the error says what is wrong. A request kind unknown to this
    /// version is an error too: if one member skipped it, members would diverge.
    pub fn decode(data: &[u8]) -> Result<Request, String> {
        if let Some(old) = v2::decode(data) {
            return old;
        }
        let mut raft = pb::InternalRaftRequest::decode(data).map_err(|e| e.to_string())?;
        if let Some(r) = AuthRequest::take(&mut raft) {
            return Ok(Request::Auth(r));
        }
        if let Some(r) = raft.put {
            return Ok(Request::Put(r));
        }
        if let Some(r) = raft.txn {
            return Ok(Request::Txn(r));
        }
        if let Some(r) = raft.delete_range {
            return Ok(Request::DeleteRange(r));
        }
        if let Some(r) = raft.compaction {
            return Ok(Request::Compaction(r));
        }
        if let Some(r) = raft.lease_grant {
            return Ok(Request::LeaseGrant(r));
        }
        if let Some(r) = raft.lease_revoke {
            return Ok(Request::LeaseRevoke(r));
        }
        if let Some(r) = raft.lease_checkpoint {
            return Ok(Request::LeaseCheckpoint(r));
        }
        if let Some(r) = raft.alarm {
            return Ok(Request::Alarm(r));
        }
        if let Some(r) = raft.cluster_version_set {
            return Ok(Request::ClusterVersionSet(r));
        }
        if let Some(r) = raft.cluster_member_attr_set {
            return Ok(Request::ClusterMemberAttrSet(r));
        }
        if let Some(r) = raft.downgrade_info_set {
            return Ok(Request::DowngradeInfoSet(r));
        }
        if let Some(r) = raft.authenticate {
            return Ok(Request::Authenticate(r));
        }
        // The `test` request is for etcd's own tests; like a read, it changes nothing.
        if raft.range.is_some()
            || raft.auth_status.is_some()
            || raft.auth_user_get.is_some()
            || raft.auth_user_list.is_some()
            || raft.auth_role_get.is_some()
            || raft.auth_role_list.is_some()
            || raft.downgrade_version_test.is_some()
        {
            return Ok(Request::Read);
        }
        Err("a request of a kind this version does not know".to_owned())
    }

    fn encoded_len_hint(&self) -> usize {
        match self {
            Request::Put(r) => r.key.len() + r.value.len() + 32,
            Request::Txn(r) => r.encoded_len() + 8,
            _ => 64,
        }
    }
}

/// One field of an encoded message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Takes the first field off a message: its number and content. `None`: it has another wire type,
/// or is malformed.
fn next_field<'a>(data: &mut &'a [u8]) -> Option<(u32, Field<'a>)> {
    let (number, wire) = encoding::decode_key(data).ok()?;
    let length = encoding::decode_varint(data).ok()?;
    match wire {
        WireType::Varint => Some((number, Field::Number(length))),
        WireType::LengthDelimited => {
            let (bytes, rest) = data.split_at_checked(usize::try_from(length).ok()?)?;
            *data = rest;
            Some((number, Field::Bytes(bytes)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
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
}

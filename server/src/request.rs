//! The requests that go through the log, and their encoding: etcd's `InternalRaftRequest`, so that
//! a log entry of ours means the same to an etcd member.

pub(crate) mod check;
mod deep;
mod encoded;
pub(crate) mod keys;
pub(crate) mod nesting;
#[cfg(test)]
mod tests;
mod v2;

use bytes::{Bytes, BytesMut};
use etcd_api::etcdserverpb as pb;
use prost::Message;
use prost::encoding::{self, message};

pub use encoded::{LonePut, PutBy, auth_info};

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

    /// Decodes an entry payload; the error says what is wrong. A request kind unknown to this
    /// version is an error too: if one member skipped it, members would diverge.
    pub fn decode(data: &[u8]) -> Result<Request, String> {
        if let Some(old) = v2::decode(data) {
            return old;
        }
        let mut raft = match pb::InternalRaftRequest::decode(data) {
            Ok(raft) => raft,
            Err(error) => {
                let txn = deep::decode(data).map(Request::Txn);
                return txn.ok_or_else(|| error.to_string());
            }
        };
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

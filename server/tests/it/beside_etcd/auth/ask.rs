//! One request to one server, on behalf of a user.

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use tonic::{Request as Call, Status};

/// What is asked. The name tells the kind in the tally.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Enable,
    Disable,
    AuthStatus,
    Authenticate(pb::AuthenticateRequest),
    UserAdd(pb::AuthUserAddRequest),
    UserDelete(pb::AuthUserDeleteRequest),
    UserChangePassword(pb::AuthUserChangePasswordRequest),
    UserGrantRole(pb::AuthUserGrantRoleRequest),
    UserRevokeRole(pb::AuthUserRevokeRoleRequest),
    UserGet(pb::AuthUserGetRequest),
    UserList,
    RoleAdd(pb::AuthRoleAddRequest),
    RoleDelete(pb::AuthRoleDeleteRequest),
    RoleGrantPermission(pb::AuthRoleGrantPermissionRequest),
    RoleRevokePermission(pb::AuthRoleRevokePermissionRequest),
    RoleGet(pb::AuthRoleGetRequest),
    RoleList,
    Put(pb::PutRequest),
    Range(pb::RangeRequest),
    RangeStream(pb::RangeRequest),
    Delete(pb::DeleteRangeRequest),
    Txn(pb::TxnRequest),
    Compact(pb::CompactionRequest),
    Watch(pb::WatchCreateRequest),
    LeaseGrant(pb::LeaseGrantRequest),
    LeaseRevoke(pb::LeaseRevokeRequest),
    KeepAlive(i64),
    TimeToLive(pb::LeaseTimeToLiveRequest),
    Leases,
    MemberList,
    MemberAdd(pb::MemberAddRequest),
    MemberRemove(pb::MemberRemoveRequest),
    MemberPromote(pb::MemberPromoteRequest),
    MemberUpdate(pb::MemberUpdateRequest),
    Alarm(pb::AlarmRequest),
    Status,
    HashKv,
    Hash,
    Defragment,
    Snapshot,
    Downgrade(pb::DowngradeRequest),
    MoveLeader(pb::MoveLeaderRequest),
}

impl Request {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Request::Put(_) => "put",
            Request::Range(_) | Request::RangeStream(_) => "range",
            Request::Delete(_) => "delete",
            Request::Txn(_) => "txn",
            Request::Watch(_) => "watch",
            Request::Authenticate(_) => "login",
            Request::LeaseGrant(_) | Request::LeaseRevoke(_) => "lease",
            Request::KeepAlive(_) | Request::TimeToLive(_) | Request::Leases => "lease",
            Request::Enable | Request::Disable | Request::AuthStatus => "auth",
            Request::UserAdd(_)
            | Request::UserDelete(_)
            | Request::UserChangePassword(_)
            | Request::UserGrantRole(_)
            | Request::UserRevokeRole(_)
            | Request::UserGet(_)
            | Request::UserList => "user",
            Request::RoleAdd(_)
            | Request::RoleDelete(_)
            | Request::RoleGrantPermission(_)
            | Request::RoleRevokePermission(_)
            | Request::RoleGet(_)
            | Request::RoleList => "role",
            _ => "cluster",
        }
    }
}

/// What came back: all of an answer that must be the same, or the code and text of an error.
pub(crate) struct Asked {
    pub(crate) shown: Result<String, (i32, String)>,
    pub(crate) token: Option<String>,
}

impl Asked {
    pub(crate) fn outcome(&self) -> String {
        match &self.shown {
            Ok(text) if text.contains("cancel_reason: \"rpc") => {
                let reason = text.split("desc = ").nth(1).unwrap_or_default();
                reason.split('"').next().unwrap_or_default().to_owned()
            }
            Ok(_) => "ok".to_owned(),
            Err((code, text)) => format!("{code} {text}"),
        }
    }
}

pub(crate) async fn ask(client: &Client, request: &Request, token: Option<&str>) -> Asked {
    let mut given = None;
    let answered = answer(client, request, token, &mut given).await;
    let shown = answered.map_err(|status| (status.code() as i32, status.message().to_owned()));
    Asked {
        shown,
        token: given,
    }
}

pub(crate) fn call<T>(message: T, token: Option<&str>) -> Call<T> {
    let mut call = Call::new(message);
    if let Some(token) = token {
        call.metadata_mut().insert("token", token.parse().unwrap());
    }
    call
}

fn shown<T: std::fmt::Debug>(answer: tonic::Response<T>) -> Result<String, Status> {
    Ok(format!("{:?}", answer.into_inner()))
}

async fn answer(
    client: &Client,
    request: &Request,
    token: Option<&str>,
    given: &mut Option<String>,
) -> Result<String, Status> {
    match request {
        Request::Put(r) => shown(client.kv().put(call(r.clone(), token)).await?),
        Request::Range(r) => shown(client.kv().range(call(r.clone(), token)).await?),
        Request::RangeStream(r) => {
            let stream = client.kv().range_stream(call(r.clone(), token)).await?;
            let (mut stream, mut all) = (stream.into_inner(), Vec::new());
            while let Some(part) = stream.message().await? {
                all.extend(part.range_response.unwrap_or_default().kvs);
            }
            Ok(format!("{all:?}"))
        }
        Request::Delete(r) => shown(client.kv().delete_range(call(r.clone(), token)).await?),
        Request::Txn(r) => shown(client.kv().txn(call(r.clone(), token)).await?),
        Request::Compact(r) => shown(client.kv().compact(call(*r, token)).await?),
        Request::Watch(r) => watch(client, r.clone(), token).await,
        Request::LeaseGrant(r) => shown(client.lease().lease_grant(call(*r, token)).await?),
        Request::LeaseRevoke(r) => shown(client.lease().lease_revoke(call(*r, token)).await?),
        Request::KeepAlive(id) => {
            let requests = tokio_stream::iter([pb::LeaseKeepAliveRequest { id: *id }]);
            let stream = client
                .lease()
                .lease_keep_alive(call(requests, token))
                .await?;
            Ok(format!("{:?}", stream.into_inner().message().await?))
        }
        Request::TimeToLive(r) => {
            let answer = client.lease().lease_time_to_live(call(*r, token)).await?;
            let mut answer = answer.into_inner();
            answer.ttl = answer.ttl.min(1); // Seconds pass.
            answer.keys.sort();
            Ok(format!("{answer:?}"))
        }
        Request::Leases => {
            let request = call(pb::LeaseLeasesRequest {}, token);
            let mut answer = client.lease().lease_leases(request).await?.into_inner();
            answer.leases.sort_by_key(|lease| lease.id);
            Ok(format!("{answer:?}"))
        }
        Request::MemberList
        | Request::MemberAdd(_)
        | Request::MemberRemove(_)
        | Request::MemberPromote(_)
        | Request::MemberUpdate(_) => members(client, request, token).await,
        Request::Alarm(_)
        | Request::Status
        | Request::HashKv
        | Request::Hash
        | Request::Defragment
        | Request::Snapshot
        | Request::Downgrade(_)
        | Request::MoveLeader(_) => maintenance(client, request, token).await,
        _ => auth(client, request, token, given).await,
    }
}

async fn watch(
    client: &Client,
    create: pb::WatchCreateRequest,
    token: Option<&str>,
) -> Result<String, Status> {
    let union = pb::watch_request::RequestUnion::CreateRequest(create);
    let request = pb::WatchRequest {
        request_union: Some(union),
    };
    let stream = client
        .watch()
        .watch(call(tokio_stream::iter([request]), token))
        .await?;
    Ok(format!("{:?}", stream.into_inner().message().await?))
}

async fn members(
    client: &Client,
    request: &Request,
    token: Option<&str>,
) -> Result<String, Status> {
    let mut cluster = client.cluster();
    match request {
        Request::MemberAdd(r) => shown(cluster.member_add(call(r.clone(), token)).await?),
        Request::MemberRemove(r) => shown(cluster.member_remove(call(*r, token)).await?),
        Request::MemberPromote(r) => shown(cluster.member_promote(call(*r, token)).await?),
        Request::MemberUpdate(r) => shown(cluster.member_update(call(r.clone(), token)).await?),
        _ => {
            let request = pb::MemberListRequest { linearizable: true };
            shown(cluster.member_list(call(request, token)).await?)
        }
    }
}

async fn maintenance(
    client: &Client,
    request: &Request,
    token: Option<&str>,
) -> Result<String, Status> {
    let mut maintenance = client.maintenance();
    match request {
        Request::Alarm(r) => shown(maintenance.alarm(call(*r, token)).await?),
        Request::HashKv => {
            let request = pb::HashKvRequest { revision: 0 };
            shown(maintenance.hash_kv(call(request, token)).await?)
        }
        Request::Downgrade(r) => shown(maintenance.downgrade(call(r.clone(), token)).await?),
        Request::MoveLeader(r) => shown(maintenance.move_leader(call(*r, token)).await?),
        Request::Defragment => shown(
            maintenance
                .defragment(call(pb::DefragmentRequest {}, token))
                .await?,
        ),
        // The answers of these are each server's own.
        Request::Hash => {
            maintenance.hash(call(pb::HashRequest {}, token)).await?;
            Ok(String::new())
        }
        Request::Snapshot => {
            let stream = maintenance
                .snapshot(call(pb::SnapshotRequest {}, token))
                .await?;
            stream.into_inner().message().await?;
            Ok(String::new())
        }
        _ => {
            maintenance
                .status(call(pb::StatusRequest {}, token))
                .await?;
            Ok(String::new())
        }
    }
}

async fn auth(
    client: &Client,
    request: &Request,
    token: Option<&str>,
    given: &mut Option<String>,
) -> Result<String, Status> {
    let mut auth = client.auth();
    match request {
        Request::Authenticate(r) => {
            let mut answer = auth
                .authenticate(call(r.clone(), token))
                .await?
                .into_inner();
            *given = Some(std::mem::take(&mut answer.token));
            Ok(format!("{answer:?}"))
        }
        Request::Enable => shown(
            auth.auth_enable(call(pb::AuthEnableRequest {}, token))
                .await?,
        ),
        Request::Disable => shown(
            auth.auth_disable(call(pb::AuthDisableRequest {}, token))
                .await?,
        ),
        Request::UserAdd(r) => shown(auth.user_add(call(r.clone(), token)).await?),
        Request::UserDelete(r) => shown(auth.user_delete(call(r.clone(), token)).await?),
        Request::UserChangePassword(r) => {
            shown(auth.user_change_password(call(r.clone(), token)).await?)
        }
        Request::UserGrantRole(r) => shown(auth.user_grant_role(call(r.clone(), token)).await?),
        Request::UserRevokeRole(r) => shown(auth.user_revoke_role(call(r.clone(), token)).await?),
        Request::UserGet(r) => shown(auth.user_get(call(r.clone(), token)).await?),
        Request::UserList => shown(
            auth.user_list(call(pb::AuthUserListRequest {}, token))
                .await?,
        ),
        Request::RoleAdd(r) => shown(auth.role_add(call(r.clone(), token)).await?),
        Request::RoleDelete(r) => shown(auth.role_delete(call(r.clone(), token)).await?),
        Request::RoleGrantPermission(r) => {
            shown(auth.role_grant_permission(call(r.clone(), token)).await?)
        }
        Request::RoleRevokePermission(r) => {
            shown(auth.role_revoke_permission(call(r.clone(), token)).await?)
        }
        Request::RoleGet(r) => shown(auth.role_get(call(r.clone(), token)).await?),
        Request::RoleList => shown(
            auth.role_list(call(pb::AuthRoleListRequest {}, token))
                .await?,
        ),
        _ => shown(
            auth.auth_status(call(pb::AuthStatusRequest {}, token))
                .await?,
        ),
    }
}

//! `etcdserverpb.Auth`: logins, users, roles and permissions. Changes go through the log; queries
//! are answered from the applied state.

use etcd_api::authpb;
use etcd_api::etcdserverpb as pb;
use tonic::{Request as Call, Response, Status};

use super::caller_of;
use crate::auth::ROOT;
use crate::basics::error::Error;
use crate::request::AuthRequest;
use crate::runtime::etcd_server::EtcdServer;

pub(crate) struct AuthService {
    server: EtcdServer,
}

impl AuthService {
    pub(crate) fn new(server: EtcdServer) -> AuthService {
        AuthService { server }
    }
}

/// The methods that change something, by name and types. Each answers with a header only.
macro_rules! service {
    ($($method:ident($request:ident) -> $response:ident = $change:expr;)*) => {
        #[tonic::async_trait]
        impl pb::auth_server::Auth for AuthService {
            $(
                async fn $method(
                    &self,
                    call: Call<pb::$request>,
                ) -> Result<Response<pb::$response>, Status> {
                    let who = caller_of(&call);
                    let change = $change(call.into_inner());
                    let applied = self.server.change_auth(&who, change).await?;
                    let header = Some(self.server.header(applied.revision));
                    Ok(Response::new(pb::$response { header }))
                }
            )*

            async fn authenticate(
                &self,
                call: Call<pb::AuthenticateRequest>,
            ) -> Result<Response<pb::AuthenticateResponse>, Status> {
                let pb::AuthenticateRequest { name, password } = call.into_inner();
                let (token, revision) = self.server.authenticate(name, password).await?;
                let header = Some(self.server.header(revision));
                Ok(Response::new(pb::AuthenticateResponse { header, token }))
            }

            async fn auth_status(
                &self,
                call: Call<pb::AuthStatusRequest>,
            ) -> Result<Response<pb::AuthStatusResponse>, Status> {
                let (_, image) = self.server.auth_question(&caller_of(&call)).await?;
                Ok(Response::new(pb::AuthStatusResponse {
                    header: Some(self.server.header_now()),
                    enabled: image.enabled,
                    auth_revision: image.revision,
                }))
            }

            /// Every user may query itself.
            async fn user_get(
                &self,
                call: Call<pb::AuthUserGetRequest>,
            ) -> Result<Response<pb::AuthUserGetResponse>, Status> {
                let (by, image) = self.server.auth_question(&caller_of(&call)).await?;
                let name = call.into_inner().name;
                match image.check_admin(Some(&by)) {
                    Err(denied) if name != by.user => return Err(denied.into()),
                    _ => {}
                }
                let user = image.user(&name).ok_or(Error::UserNotFound)?;
                Ok(Response::new(pb::AuthUserGetResponse {
                    header: Some(self.server.header_now()),
                    roles: user.row.roles.clone(),
                }))
            }

            async fn user_list(
                &self,
                call: Call<pb::AuthUserListRequest>,
            ) -> Result<Response<pb::AuthUserListResponse>, Status> {
                let (by, image) = self.server.auth_question(&caller_of(&call)).await?;
                image.check_admin(Some(&by))?;
                Ok(Response::new(pb::AuthUserListResponse {
                    header: Some(self.server.header_now()),
                    users: image.user_names(),
                }))
            }

            /// Every user may query its own roles.
            async fn role_get(
                &self,
                call: Call<pb::AuthRoleGetRequest>,
            ) -> Result<Response<pb::AuthRoleGetResponse>, Status> {
                let (by, image) = self.server.auth_question(&caller_of(&call)).await?;
                let name = call.into_inner().role;
                if let Err(denied) = image.check_admin(Some(&by)) {
                    let own = image.user(&by.user).is_some_and(|user| user.has_role(&name));
                    if !own {
                        return Err(denied.into());
                    }
                }
                let role = image.role(&name).ok_or(Error::RoleNotFound)?;
                let perm = if name == ROOT {
                    vec![everything()]
                } else {
                    role.key_permission.clone()
                };
                let header = Some(self.server.header_now());
                Ok(Response::new(pb::AuthRoleGetResponse { header, perm }))
            }

            async fn role_list(
                &self,
                call: Call<pb::AuthRoleListRequest>,
            ) -> Result<Response<pb::AuthRoleListResponse>, Status> {
                let (by, image) = self.server.auth_question(&caller_of(&call)).await?;
                image.check_admin(Some(&by))?;
                Ok(Response::new(pb::AuthRoleListResponse {
                    header: Some(self.server.header_now()),
                    roles: image.role_names(),
                }))
            }
        }
    };
}

service! {
    auth_enable(AuthEnableRequest) -> AuthEnableResponse = (|_| AuthRequest::Enable);
    auth_disable(AuthDisableRequest) -> AuthDisableResponse = (|_| AuthRequest::Disable);
    user_add(AuthUserAddRequest) -> AuthUserAddResponse = AuthRequest::UserAdd;
    user_delete(AuthUserDeleteRequest) -> AuthUserDeleteResponse = AuthRequest::UserDelete;
    user_change_password(AuthUserChangePasswordRequest) -> AuthUserChangePasswordResponse
        = AuthRequest::UserChangePassword;
    user_grant_role(AuthUserGrantRoleRequest) -> AuthUserGrantRoleResponse
        = AuthRequest::UserGrantRole;
    user_revoke_role(AuthUserRevokeRoleRequest) -> AuthUserRevokeRoleResponse
        = AuthRequest::UserRevokeRole;
    role_add(AuthRoleAddRequest) -> AuthRoleAddResponse = AuthRequest::RoleAdd;
    role_delete(AuthRoleDeleteRequest) -> AuthRoleDeleteResponse = AuthRequest::RoleDelete;
    role_grant_permission(AuthRoleGrantPermissionRequest) -> AuthRoleGrantPermissionResponse
        = AuthRequest::RoleGrantPermission;
    role_revoke_permission(AuthRoleRevokePermissionRequest) -> AuthRoleRevokePermissionResponse
        = AuthRequest::RoleRevokePermission;
}

/// The permission shown for the root role, which may do everything.
fn everything() -> authpb::Permission {
    authpb::Permission {
        perm_type: authpb::permission::Type::Readwrite as i32,
        key: bytes::Bytes::new(),
        range_end: bytes::Bytes::from_static(b"\0"),
    }
}

//! `etcdserverpb.Auth`: says truly that authentication is off; everything else is missing so far.

use etcd_api::etcdserverpb as pb;
use tonic::{Request as Call, Response, Status};

use crate::node::Node;

/// What a store without users is at.
const AUTH_REVISION: u64 = 1;

pub struct AuthService {
    node: Node,
}

impl AuthService {
    pub fn new(node: Node) -> AuthService {
        AuthService { node }
    }
}

/// Methods that are not there, by name and types.
macro_rules! service {
    ($($method:ident($request:ident) -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl pb::auth_server::Auth for AuthService {
            async fn auth_status(
                &self,
                _: Call<pb::AuthStatusRequest>,
            ) -> Result<Response<pb::AuthStatusResponse>, Status> {
                Ok(Response::new(pb::AuthStatusResponse {
                    header: Some(self.node.header_now()),
                    enabled: false,
                    auth_revision: AUTH_REVISION,
                }))
            }

            $(
                async fn $method(
                    &self,
                    _: Call<pb::$request>,
                ) -> Result<Response<pb::$response>, Status> {
                    Err(Status::unimplemented(
                        "etcdserver: authentication is not supported by Stele yet",
                    ))
                }
            )*
        }
    };
}

service! {
    auth_enable(AuthEnableRequest) -> AuthEnableResponse;
    auth_disable(AuthDisableRequest) -> AuthDisableResponse;
    authenticate(AuthenticateRequest) -> AuthenticateResponse;
    user_add(AuthUserAddRequest) -> AuthUserAddResponse;
    user_get(AuthUserGetRequest) -> AuthUserGetResponse;
    user_list(AuthUserListRequest) -> AuthUserListResponse;
    user_delete(AuthUserDeleteRequest) -> AuthUserDeleteResponse;
    user_change_password(AuthUserChangePasswordRequest) -> AuthUserChangePasswordResponse;
    user_grant_role(AuthUserGrantRoleRequest) -> AuthUserGrantRoleResponse;
    user_revoke_role(AuthUserRevokeRoleRequest) -> AuthUserRevokeRoleResponse;
    role_add(AuthRoleAddRequest) -> AuthRoleAddResponse;
    role_get(AuthRoleGetRequest) -> AuthRoleGetResponse;
    role_list(AuthRoleListRequest) -> AuthRoleListResponse;
    role_delete(AuthRoleDeleteRequest) -> AuthRoleDeleteResponse;
    role_grant_permission(AuthRoleGrantPermissionRequest) -> AuthRoleGrantPermissionResponse;
    role_revoke_permission(AuthRoleRevokePermissionRequest) -> AuthRoleRevokePermissionResponse;
}

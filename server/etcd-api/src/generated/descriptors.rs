// @generated from proto/ by tests/codegen.rs

/// Every method of etcd's services, and of Stele's own.
pub static METHODS: &[Method] = &[
    Method { path: "/etcdserverpb.KV/Range", input: &ETCDSERVERPB_RANGEREQUEST, output: &ETCDSERVERPB_RANGERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.KV/RangeStream", input: &ETCDSERVERPB_RANGEREQUEST, output: &ETCDSERVERPB_RANGESTREAMRESPONSE, client_streaming: false, server_streaming: true },
    Method { path: "/etcdserverpb.KV/Put", input: &ETCDSERVERPB_PUTREQUEST, output: &ETCDSERVERPB_PUTRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.KV/DeleteRange", input: &ETCDSERVERPB_DELETERANGEREQUEST, output: &ETCDSERVERPB_DELETERANGERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.KV/Txn", input: &ETCDSERVERPB_TXNREQUEST, output: &ETCDSERVERPB_TXNRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.KV/Compact", input: &ETCDSERVERPB_COMPACTIONREQUEST, output: &ETCDSERVERPB_COMPACTIONRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Watch/Watch", input: &ETCDSERVERPB_WATCHREQUEST, output: &ETCDSERVERPB_WATCHRESPONSE, client_streaming: true, server_streaming: true },
    Method { path: "/etcdserverpb.Lease/LeaseGrant", input: &ETCDSERVERPB_LEASEGRANTREQUEST, output: &ETCDSERVERPB_LEASEGRANTRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Lease/LeaseRevoke", input: &ETCDSERVERPB_LEASEREVOKEREQUEST, output: &ETCDSERVERPB_LEASEREVOKERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Lease/LeaseKeepAlive", input: &ETCDSERVERPB_LEASEKEEPALIVEREQUEST, output: &ETCDSERVERPB_LEASEKEEPALIVERESPONSE, client_streaming: true, server_streaming: true },
    Method { path: "/etcdserverpb.Lease/LeaseTimeToLive", input: &ETCDSERVERPB_LEASETIMETOLIVEREQUEST, output: &ETCDSERVERPB_LEASETIMETOLIVERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Lease/LeaseLeases", input: &ETCDSERVERPB_LEASELEASESREQUEST, output: &ETCDSERVERPB_LEASELEASESRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Cluster/MemberAdd", input: &ETCDSERVERPB_MEMBERADDREQUEST, output: &ETCDSERVERPB_MEMBERADDRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Cluster/MemberRemove", input: &ETCDSERVERPB_MEMBERREMOVEREQUEST, output: &ETCDSERVERPB_MEMBERREMOVERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Cluster/MemberUpdate", input: &ETCDSERVERPB_MEMBERUPDATEREQUEST, output: &ETCDSERVERPB_MEMBERUPDATERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Cluster/MemberList", input: &ETCDSERVERPB_MEMBERLISTREQUEST, output: &ETCDSERVERPB_MEMBERLISTRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Cluster/MemberPromote", input: &ETCDSERVERPB_MEMBERPROMOTEREQUEST, output: &ETCDSERVERPB_MEMBERPROMOTERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Maintenance/Alarm", input: &ETCDSERVERPB_ALARMREQUEST, output: &ETCDSERVERPB_ALARMRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Maintenance/Status", input: &ETCDSERVERPB_STATUSREQUEST, output: &ETCDSERVERPB_STATUSRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Maintenance/Defragment", input: &ETCDSERVERPB_DEFRAGMENTREQUEST, output: &ETCDSERVERPB_DEFRAGMENTRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Maintenance/Hash", input: &ETCDSERVERPB_HASHREQUEST, output: &ETCDSERVERPB_HASHRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Maintenance/HashKV", input: &ETCDSERVERPB_HASHKVREQUEST, output: &ETCDSERVERPB_HASHKVRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Maintenance/Snapshot", input: &ETCDSERVERPB_SNAPSHOTREQUEST, output: &ETCDSERVERPB_SNAPSHOTRESPONSE, client_streaming: false, server_streaming: true },
    Method { path: "/etcdserverpb.Maintenance/MoveLeader", input: &ETCDSERVERPB_MOVELEADERREQUEST, output: &ETCDSERVERPB_MOVELEADERRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Maintenance/Downgrade", input: &ETCDSERVERPB_DOWNGRADEREQUEST, output: &ETCDSERVERPB_DOWNGRADERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/AuthEnable", input: &ETCDSERVERPB_AUTHENABLEREQUEST, output: &ETCDSERVERPB_AUTHENABLERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/AuthDisable", input: &ETCDSERVERPB_AUTHDISABLEREQUEST, output: &ETCDSERVERPB_AUTHDISABLERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/AuthStatus", input: &ETCDSERVERPB_AUTHSTATUSREQUEST, output: &ETCDSERVERPB_AUTHSTATUSRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/Authenticate", input: &ETCDSERVERPB_AUTHENTICATEREQUEST, output: &ETCDSERVERPB_AUTHENTICATERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/UserAdd", input: &ETCDSERVERPB_AUTHUSERADDREQUEST, output: &ETCDSERVERPB_AUTHUSERADDRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/UserGet", input: &ETCDSERVERPB_AUTHUSERGETREQUEST, output: &ETCDSERVERPB_AUTHUSERGETRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/UserList", input: &ETCDSERVERPB_AUTHUSERLISTREQUEST, output: &ETCDSERVERPB_AUTHUSERLISTRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/UserDelete", input: &ETCDSERVERPB_AUTHUSERDELETEREQUEST, output: &ETCDSERVERPB_AUTHUSERDELETERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/UserChangePassword", input: &ETCDSERVERPB_AUTHUSERCHANGEPASSWORDREQUEST, output: &ETCDSERVERPB_AUTHUSERCHANGEPASSWORDRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/UserGrantRole", input: &ETCDSERVERPB_AUTHUSERGRANTROLEREQUEST, output: &ETCDSERVERPB_AUTHUSERGRANTROLERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/UserRevokeRole", input: &ETCDSERVERPB_AUTHUSERREVOKEROLEREQUEST, output: &ETCDSERVERPB_AUTHUSERREVOKEROLERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/RoleAdd", input: &ETCDSERVERPB_AUTHROLEADDREQUEST, output: &ETCDSERVERPB_AUTHROLEADDRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/RoleGet", input: &ETCDSERVERPB_AUTHROLEGETREQUEST, output: &ETCDSERVERPB_AUTHROLEGETRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/RoleList", input: &ETCDSERVERPB_AUTHROLELISTREQUEST, output: &ETCDSERVERPB_AUTHROLELISTRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/RoleDelete", input: &ETCDSERVERPB_AUTHROLEDELETEREQUEST, output: &ETCDSERVERPB_AUTHROLEDELETERESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/RoleGrantPermission", input: &ETCDSERVERPB_AUTHROLEGRANTPERMISSIONREQUEST, output: &ETCDSERVERPB_AUTHROLEGRANTPERMISSIONRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/etcdserverpb.Auth/RoleRevokePermission", input: &ETCDSERVERPB_AUTHROLEREVOKEPERMISSIONREQUEST, output: &ETCDSERVERPB_AUTHROLEREVOKEPERMISSIONRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/v3electionpb.Election/Campaign", input: &V3ELECTIONPB_CAMPAIGNREQUEST, output: &V3ELECTIONPB_CAMPAIGNRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/v3electionpb.Election/Proclaim", input: &V3ELECTIONPB_PROCLAIMREQUEST, output: &V3ELECTIONPB_PROCLAIMRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/v3electionpb.Election/Leader", input: &V3ELECTIONPB_LEADERREQUEST, output: &V3ELECTIONPB_LEADERRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/v3electionpb.Election/Observe", input: &V3ELECTIONPB_LEADERREQUEST, output: &V3ELECTIONPB_LEADERRESPONSE, client_streaming: false, server_streaming: true },
    Method { path: "/v3electionpb.Election/Resign", input: &V3ELECTIONPB_RESIGNREQUEST, output: &V3ELECTIONPB_RESIGNRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/v3lockpb.Lock/Lock", input: &V3LOCKPB_LOCKREQUEST, output: &V3LOCKPB_LOCKRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/v3lockpb.Lock/Unlock", input: &V3LOCKPB_UNLOCKREQUEST, output: &V3LOCKPB_UNLOCKRESPONSE, client_streaming: false, server_streaming: false },
    Method { path: "/stele.Usage/Prefix", input: &STELE_PREFIXREQUEST, output: &STELE_PREFIXRESPONSE, client_streaming: false, server_streaming: false },
];

static AUTHPB_PERMISSION: Message = Message { name: "authpb.Permission", fields: &[
    Field { name: "permType", json_name: "permType", number: 1, kind: Kind::Enum(&AUTHPB_PERMISSION_TYPE), repeated: false, oneof: None },
    Field { name: "key", json_name: "key", number: 2, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "range_end", json_name: "rangeEnd", number: 3, kind: Kind::Bytes, repeated: false, oneof: None },
] };

static AUTHPB_USERADDOPTIONS: Message = Message { name: "authpb.UserAddOptions", fields: &[
    Field { name: "no_password", json_name: "noPassword", number: 1, kind: Kind::Bool, repeated: false, oneof: None },
] };

static ETCDSERVERPB_ALARMMEMBER: Message = Message { name: "etcdserverpb.AlarmMember", fields: &[
    Field { name: "memberID", json_name: "memberID", number: 1, kind: Kind::Uint64, repeated: false, oneof: None },
    Field { name: "alarm", json_name: "alarm", number: 2, kind: Kind::Enum(&ETCDSERVERPB_ALARMTYPE), repeated: false, oneof: None },
] };

static ETCDSERVERPB_ALARMREQUEST: Message = Message { name: "etcdserverpb.AlarmRequest", fields: &[
    Field { name: "action", json_name: "action", number: 1, kind: Kind::Enum(&ETCDSERVERPB_ALARMREQUEST_ALARMACTION), repeated: false, oneof: None },
    Field { name: "memberID", json_name: "memberID", number: 2, kind: Kind::Uint64, repeated: false, oneof: None },
    Field { name: "alarm", json_name: "alarm", number: 3, kind: Kind::Enum(&ETCDSERVERPB_ALARMTYPE), repeated: false, oneof: None },
] };

static ETCDSERVERPB_ALARMRESPONSE: Message = Message { name: "etcdserverpb.AlarmResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "alarms", json_name: "alarms", number: 2, kind: Kind::Message(&ETCDSERVERPB_ALARMMEMBER), repeated: true, oneof: None },
] };

static ETCDSERVERPB_AUTHDISABLEREQUEST: Message = Message { name: "etcdserverpb.AuthDisableRequest", fields: &[
] };

static ETCDSERVERPB_AUTHDISABLERESPONSE: Message = Message { name: "etcdserverpb.AuthDisableResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHENABLEREQUEST: Message = Message { name: "etcdserverpb.AuthEnableRequest", fields: &[
] };

static ETCDSERVERPB_AUTHENABLERESPONSE: Message = Message { name: "etcdserverpb.AuthEnableResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHROLEADDREQUEST: Message = Message { name: "etcdserverpb.AuthRoleAddRequest", fields: &[
    Field { name: "name", json_name: "name", number: 1, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHROLEADDRESPONSE: Message = Message { name: "etcdserverpb.AuthRoleAddResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHROLEDELETEREQUEST: Message = Message { name: "etcdserverpb.AuthRoleDeleteRequest", fields: &[
    Field { name: "role", json_name: "role", number: 1, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHROLEDELETERESPONSE: Message = Message { name: "etcdserverpb.AuthRoleDeleteResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHROLEGETREQUEST: Message = Message { name: "etcdserverpb.AuthRoleGetRequest", fields: &[
    Field { name: "role", json_name: "role", number: 1, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHROLEGETRESPONSE: Message = Message { name: "etcdserverpb.AuthRoleGetResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "perm", json_name: "perm", number: 2, kind: Kind::Message(&AUTHPB_PERMISSION), repeated: true, oneof: None },
] };

static ETCDSERVERPB_AUTHROLEGRANTPERMISSIONREQUEST: Message = Message { name: "etcdserverpb.AuthRoleGrantPermissionRequest", fields: &[
    Field { name: "name", json_name: "name", number: 1, kind: Kind::String, repeated: false, oneof: None },
    Field { name: "perm", json_name: "perm", number: 2, kind: Kind::Message(&AUTHPB_PERMISSION), repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHROLEGRANTPERMISSIONRESPONSE: Message = Message { name: "etcdserverpb.AuthRoleGrantPermissionResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHROLELISTREQUEST: Message = Message { name: "etcdserverpb.AuthRoleListRequest", fields: &[
] };

static ETCDSERVERPB_AUTHROLELISTRESPONSE: Message = Message { name: "etcdserverpb.AuthRoleListResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "roles", json_name: "roles", number: 2, kind: Kind::String, repeated: true, oneof: None },
] };

static ETCDSERVERPB_AUTHROLEREVOKEPERMISSIONREQUEST: Message = Message { name: "etcdserverpb.AuthRoleRevokePermissionRequest", fields: &[
    Field { name: "role", json_name: "role", number: 1, kind: Kind::String, repeated: false, oneof: None },
    Field { name: "key", json_name: "key", number: 2, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "range_end", json_name: "rangeEnd", number: 3, kind: Kind::Bytes, repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHROLEREVOKEPERMISSIONRESPONSE: Message = Message { name: "etcdserverpb.AuthRoleRevokePermissionResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHSTATUSREQUEST: Message = Message { name: "etcdserverpb.AuthStatusRequest", fields: &[
] };

static ETCDSERVERPB_AUTHSTATUSRESPONSE: Message = Message { name: "etcdserverpb.AuthStatusResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "enabled", json_name: "enabled", number: 2, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "authRevision", json_name: "authRevision", number: 3, kind: Kind::Uint64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHUSERADDREQUEST: Message = Message { name: "etcdserverpb.AuthUserAddRequest", fields: &[
    Field { name: "name", json_name: "name", number: 1, kind: Kind::String, repeated: false, oneof: None },
    Field { name: "password", json_name: "password", number: 2, kind: Kind::String, repeated: false, oneof: None },
    Field { name: "options", json_name: "options", number: 3, kind: Kind::Message(&AUTHPB_USERADDOPTIONS), repeated: false, oneof: None },
    Field { name: "hashedPassword", json_name: "hashedPassword", number: 4, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHUSERADDRESPONSE: Message = Message { name: "etcdserverpb.AuthUserAddResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHUSERCHANGEPASSWORDREQUEST: Message = Message { name: "etcdserverpb.AuthUserChangePasswordRequest", fields: &[
    Field { name: "name", json_name: "name", number: 1, kind: Kind::String, repeated: false, oneof: None },
    Field { name: "password", json_name: "password", number: 2, kind: Kind::String, repeated: false, oneof: None },
    Field { name: "hashedPassword", json_name: "hashedPassword", number: 3, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHUSERCHANGEPASSWORDRESPONSE: Message = Message { name: "etcdserverpb.AuthUserChangePasswordResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHUSERDELETEREQUEST: Message = Message { name: "etcdserverpb.AuthUserDeleteRequest", fields: &[
    Field { name: "name", json_name: "name", number: 1, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHUSERDELETERESPONSE: Message = Message { name: "etcdserverpb.AuthUserDeleteResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHUSERGETREQUEST: Message = Message { name: "etcdserverpb.AuthUserGetRequest", fields: &[
    Field { name: "name", json_name: "name", number: 1, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHUSERGETRESPONSE: Message = Message { name: "etcdserverpb.AuthUserGetResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "roles", json_name: "roles", number: 2, kind: Kind::String, repeated: true, oneof: None },
] };

static ETCDSERVERPB_AUTHUSERGRANTROLEREQUEST: Message = Message { name: "etcdserverpb.AuthUserGrantRoleRequest", fields: &[
    Field { name: "user", json_name: "user", number: 1, kind: Kind::String, repeated: false, oneof: None },
    Field { name: "role", json_name: "role", number: 2, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHUSERGRANTROLERESPONSE: Message = Message { name: "etcdserverpb.AuthUserGrantRoleResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHUSERLISTREQUEST: Message = Message { name: "etcdserverpb.AuthUserListRequest", fields: &[
] };

static ETCDSERVERPB_AUTHUSERLISTRESPONSE: Message = Message { name: "etcdserverpb.AuthUserListResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "users", json_name: "users", number: 2, kind: Kind::String, repeated: true, oneof: None },
] };

static ETCDSERVERPB_AUTHUSERREVOKEROLEREQUEST: Message = Message { name: "etcdserverpb.AuthUserRevokeRoleRequest", fields: &[
    Field { name: "name", json_name: "name", number: 1, kind: Kind::String, repeated: false, oneof: None },
    Field { name: "role", json_name: "role", number: 2, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHUSERREVOKEROLERESPONSE: Message = Message { name: "etcdserverpb.AuthUserRevokeRoleResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHENTICATEREQUEST: Message = Message { name: "etcdserverpb.AuthenticateRequest", fields: &[
    Field { name: "name", json_name: "name", number: 1, kind: Kind::String, repeated: false, oneof: None },
    Field { name: "password", json_name: "password", number: 2, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_AUTHENTICATERESPONSE: Message = Message { name: "etcdserverpb.AuthenticateResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "token", json_name: "token", number: 2, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_COMPACTIONREQUEST: Message = Message { name: "etcdserverpb.CompactionRequest", fields: &[
    Field { name: "revision", json_name: "revision", number: 1, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "physical", json_name: "physical", number: 2, kind: Kind::Bool, repeated: false, oneof: None },
] };

static ETCDSERVERPB_COMPACTIONRESPONSE: Message = Message { name: "etcdserverpb.CompactionResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_COMPARE: Message = Message { name: "etcdserverpb.Compare", fields: &[
    Field { name: "result", json_name: "result", number: 1, kind: Kind::Enum(&ETCDSERVERPB_COMPARE_COMPARERESULT), repeated: false, oneof: None },
    Field { name: "target", json_name: "target", number: 2, kind: Kind::Enum(&ETCDSERVERPB_COMPARE_COMPARETARGET), repeated: false, oneof: None },
    Field { name: "key", json_name: "key", number: 3, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "version", json_name: "version", number: 4, kind: Kind::Int64, repeated: false, oneof: Some("etcdserverpb.Compare.target_union") },
    Field { name: "create_revision", json_name: "createRevision", number: 5, kind: Kind::Int64, repeated: false, oneof: Some("etcdserverpb.Compare.target_union") },
    Field { name: "mod_revision", json_name: "modRevision", number: 6, kind: Kind::Int64, repeated: false, oneof: Some("etcdserverpb.Compare.target_union") },
    Field { name: "value", json_name: "value", number: 7, kind: Kind::Bytes, repeated: false, oneof: Some("etcdserverpb.Compare.target_union") },
    Field { name: "lease", json_name: "lease", number: 8, kind: Kind::Int64, repeated: false, oneof: Some("etcdserverpb.Compare.target_union") },
    Field { name: "range_end", json_name: "rangeEnd", number: 64, kind: Kind::Bytes, repeated: false, oneof: None },
] };

static ETCDSERVERPB_DEFRAGMENTREQUEST: Message = Message { name: "etcdserverpb.DefragmentRequest", fields: &[
] };

static ETCDSERVERPB_DEFRAGMENTRESPONSE: Message = Message { name: "etcdserverpb.DefragmentResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_DELETERANGEREQUEST: Message = Message { name: "etcdserverpb.DeleteRangeRequest", fields: &[
    Field { name: "key", json_name: "key", number: 1, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "range_end", json_name: "rangeEnd", number: 2, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "prev_kv", json_name: "prevKv", number: 3, kind: Kind::Bool, repeated: false, oneof: None },
] };

static ETCDSERVERPB_DELETERANGERESPONSE: Message = Message { name: "etcdserverpb.DeleteRangeResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "deleted", json_name: "deleted", number: 2, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "prev_kvs", json_name: "prevKvs", number: 3, kind: Kind::Message(&MVCCPB_KEYVALUE), repeated: true, oneof: None },
] };

static ETCDSERVERPB_DOWNGRADEINFO: Message = Message { name: "etcdserverpb.DowngradeInfo", fields: &[
    Field { name: "enabled", json_name: "enabled", number: 1, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "targetVersion", json_name: "targetVersion", number: 2, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_DOWNGRADEREQUEST: Message = Message { name: "etcdserverpb.DowngradeRequest", fields: &[
    Field { name: "action", json_name: "action", number: 1, kind: Kind::Enum(&ETCDSERVERPB_DOWNGRADEREQUEST_DOWNGRADEACTION), repeated: false, oneof: None },
    Field { name: "version", json_name: "version", number: 2, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_DOWNGRADERESPONSE: Message = Message { name: "etcdserverpb.DowngradeResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "version", json_name: "version", number: 2, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_HASHKVREQUEST: Message = Message { name: "etcdserverpb.HashKVRequest", fields: &[
    Field { name: "revision", json_name: "revision", number: 1, kind: Kind::Int64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_HASHKVRESPONSE: Message = Message { name: "etcdserverpb.HashKVResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "hash", json_name: "hash", number: 2, kind: Kind::Uint32, repeated: false, oneof: None },
    Field { name: "compact_revision", json_name: "compactRevision", number: 3, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "hash_revision", json_name: "hashRevision", number: 4, kind: Kind::Int64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_HASHREQUEST: Message = Message { name: "etcdserverpb.HashRequest", fields: &[
] };

static ETCDSERVERPB_HASHRESPONSE: Message = Message { name: "etcdserverpb.HashResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "hash", json_name: "hash", number: 2, kind: Kind::Uint32, repeated: false, oneof: None },
] };

static ETCDSERVERPB_LEASEGRANTREQUEST: Message = Message { name: "etcdserverpb.LeaseGrantRequest", fields: &[
    Field { name: "TTL", json_name: "TTL", number: 1, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "ID", json_name: "ID", number: 2, kind: Kind::Int64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_LEASEGRANTRESPONSE: Message = Message { name: "etcdserverpb.LeaseGrantResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "ID", json_name: "ID", number: 2, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "TTL", json_name: "TTL", number: 3, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "error", json_name: "error", number: 4, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_LEASEKEEPALIVEREQUEST: Message = Message { name: "etcdserverpb.LeaseKeepAliveRequest", fields: &[
    Field { name: "ID", json_name: "ID", number: 1, kind: Kind::Int64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_LEASEKEEPALIVERESPONSE: Message = Message { name: "etcdserverpb.LeaseKeepAliveResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "ID", json_name: "ID", number: 2, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "TTL", json_name: "TTL", number: 3, kind: Kind::Int64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_LEASELEASESREQUEST: Message = Message { name: "etcdserverpb.LeaseLeasesRequest", fields: &[
] };

static ETCDSERVERPB_LEASELEASESRESPONSE: Message = Message { name: "etcdserverpb.LeaseLeasesResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "leases", json_name: "leases", number: 2, kind: Kind::Message(&ETCDSERVERPB_LEASESTATUS), repeated: true, oneof: None },
] };

static ETCDSERVERPB_LEASEREVOKEREQUEST: Message = Message { name: "etcdserverpb.LeaseRevokeRequest", fields: &[
    Field { name: "ID", json_name: "ID", number: 1, kind: Kind::Int64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_LEASEREVOKERESPONSE: Message = Message { name: "etcdserverpb.LeaseRevokeResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_LEASESTATUS: Message = Message { name: "etcdserverpb.LeaseStatus", fields: &[
    Field { name: "ID", json_name: "ID", number: 1, kind: Kind::Int64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_LEASETIMETOLIVEREQUEST: Message = Message { name: "etcdserverpb.LeaseTimeToLiveRequest", fields: &[
    Field { name: "ID", json_name: "ID", number: 1, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "keys", json_name: "keys", number: 2, kind: Kind::Bool, repeated: false, oneof: None },
] };

static ETCDSERVERPB_LEASETIMETOLIVERESPONSE: Message = Message { name: "etcdserverpb.LeaseTimeToLiveResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "ID", json_name: "ID", number: 2, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "TTL", json_name: "TTL", number: 3, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "grantedTTL", json_name: "grantedTTL", number: 4, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "keys", json_name: "keys", number: 5, kind: Kind::Bytes, repeated: true, oneof: None },
] };

static ETCDSERVERPB_MEMBER: Message = Message { name: "etcdserverpb.Member", fields: &[
    Field { name: "ID", json_name: "ID", number: 1, kind: Kind::Uint64, repeated: false, oneof: None },
    Field { name: "name", json_name: "name", number: 2, kind: Kind::String, repeated: false, oneof: None },
    Field { name: "peerURLs", json_name: "peerURLs", number: 3, kind: Kind::String, repeated: true, oneof: None },
    Field { name: "clientURLs", json_name: "clientURLs", number: 4, kind: Kind::String, repeated: true, oneof: None },
    Field { name: "isLearner", json_name: "isLearner", number: 5, kind: Kind::Bool, repeated: false, oneof: None },
] };

static ETCDSERVERPB_MEMBERADDREQUEST: Message = Message { name: "etcdserverpb.MemberAddRequest", fields: &[
    Field { name: "peerURLs", json_name: "peerURLs", number: 1, kind: Kind::String, repeated: true, oneof: None },
    Field { name: "isLearner", json_name: "isLearner", number: 2, kind: Kind::Bool, repeated: false, oneof: None },
] };

static ETCDSERVERPB_MEMBERADDRESPONSE: Message = Message { name: "etcdserverpb.MemberAddResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "member", json_name: "member", number: 2, kind: Kind::Message(&ETCDSERVERPB_MEMBER), repeated: false, oneof: None },
    Field { name: "members", json_name: "members", number: 3, kind: Kind::Message(&ETCDSERVERPB_MEMBER), repeated: true, oneof: None },
] };

static ETCDSERVERPB_MEMBERLISTREQUEST: Message = Message { name: "etcdserverpb.MemberListRequest", fields: &[
    Field { name: "linearizable", json_name: "linearizable", number: 1, kind: Kind::Bool, repeated: false, oneof: None },
] };

static ETCDSERVERPB_MEMBERLISTRESPONSE: Message = Message { name: "etcdserverpb.MemberListResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "members", json_name: "members", number: 2, kind: Kind::Message(&ETCDSERVERPB_MEMBER), repeated: true, oneof: None },
] };

static ETCDSERVERPB_MEMBERPROMOTEREQUEST: Message = Message { name: "etcdserverpb.MemberPromoteRequest", fields: &[
    Field { name: "ID", json_name: "ID", number: 1, kind: Kind::Uint64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_MEMBERPROMOTERESPONSE: Message = Message { name: "etcdserverpb.MemberPromoteResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "members", json_name: "members", number: 2, kind: Kind::Message(&ETCDSERVERPB_MEMBER), repeated: true, oneof: None },
] };

static ETCDSERVERPB_MEMBERREMOVEREQUEST: Message = Message { name: "etcdserverpb.MemberRemoveRequest", fields: &[
    Field { name: "ID", json_name: "ID", number: 1, kind: Kind::Uint64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_MEMBERREMOVERESPONSE: Message = Message { name: "etcdserverpb.MemberRemoveResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "members", json_name: "members", number: 2, kind: Kind::Message(&ETCDSERVERPB_MEMBER), repeated: true, oneof: None },
] };

static ETCDSERVERPB_MEMBERUPDATEREQUEST: Message = Message { name: "etcdserverpb.MemberUpdateRequest", fields: &[
    Field { name: "ID", json_name: "ID", number: 1, kind: Kind::Uint64, repeated: false, oneof: None },
    Field { name: "peerURLs", json_name: "peerURLs", number: 2, kind: Kind::String, repeated: true, oneof: None },
] };

static ETCDSERVERPB_MEMBERUPDATERESPONSE: Message = Message { name: "etcdserverpb.MemberUpdateResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "members", json_name: "members", number: 2, kind: Kind::Message(&ETCDSERVERPB_MEMBER), repeated: true, oneof: None },
] };

static ETCDSERVERPB_MOVELEADERREQUEST: Message = Message { name: "etcdserverpb.MoveLeaderRequest", fields: &[
    Field { name: "targetID", json_name: "targetID", number: 1, kind: Kind::Uint64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_MOVELEADERRESPONSE: Message = Message { name: "etcdserverpb.MoveLeaderResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static ETCDSERVERPB_PUTREQUEST: Message = Message { name: "etcdserverpb.PutRequest", fields: &[
    Field { name: "key", json_name: "key", number: 1, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "value", json_name: "value", number: 2, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "lease", json_name: "lease", number: 3, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "prev_kv", json_name: "prevKv", number: 4, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "ignore_value", json_name: "ignoreValue", number: 5, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "ignore_lease", json_name: "ignoreLease", number: 6, kind: Kind::Bool, repeated: false, oneof: None },
] };

static ETCDSERVERPB_PUTRESPONSE: Message = Message { name: "etcdserverpb.PutResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "prev_kv", json_name: "prevKv", number: 2, kind: Kind::Message(&MVCCPB_KEYVALUE), repeated: false, oneof: None },
] };

static ETCDSERVERPB_RANGEREQUEST: Message = Message { name: "etcdserverpb.RangeRequest", fields: &[
    Field { name: "key", json_name: "key", number: 1, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "range_end", json_name: "rangeEnd", number: 2, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "limit", json_name: "limit", number: 3, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "revision", json_name: "revision", number: 4, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "sort_order", json_name: "sortOrder", number: 5, kind: Kind::Enum(&ETCDSERVERPB_RANGEREQUEST_SORTORDER), repeated: false, oneof: None },
    Field { name: "sort_target", json_name: "sortTarget", number: 6, kind: Kind::Enum(&ETCDSERVERPB_RANGEREQUEST_SORTTARGET), repeated: false, oneof: None },
    Field { name: "serializable", json_name: "serializable", number: 7, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "keys_only", json_name: "keysOnly", number: 8, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "count_only", json_name: "countOnly", number: 9, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "min_mod_revision", json_name: "minModRevision", number: 10, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "max_mod_revision", json_name: "maxModRevision", number: 11, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "min_create_revision", json_name: "minCreateRevision", number: 12, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "max_create_revision", json_name: "maxCreateRevision", number: 13, kind: Kind::Int64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_RANGERESPONSE: Message = Message { name: "etcdserverpb.RangeResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "kvs", json_name: "kvs", number: 2, kind: Kind::Message(&MVCCPB_KEYVALUE), repeated: true, oneof: None },
    Field { name: "more", json_name: "more", number: 3, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "count", json_name: "count", number: 4, kind: Kind::Int64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_RANGESTREAMRESPONSE: Message = Message { name: "etcdserverpb.RangeStreamResponse", fields: &[
    Field { name: "range_response", json_name: "rangeResponse", number: 1, kind: Kind::Message(&ETCDSERVERPB_RANGERESPONSE), repeated: false, oneof: None },
] };

static ETCDSERVERPB_REQUESTOP: Message = Message { name: "etcdserverpb.RequestOp", fields: &[
    Field { name: "request_range", json_name: "requestRange", number: 1, kind: Kind::Message(&ETCDSERVERPB_RANGEREQUEST), repeated: false, oneof: Some("etcdserverpb.RequestOp.request") },
    Field { name: "request_put", json_name: "requestPut", number: 2, kind: Kind::Message(&ETCDSERVERPB_PUTREQUEST), repeated: false, oneof: Some("etcdserverpb.RequestOp.request") },
    Field { name: "request_delete_range", json_name: "requestDeleteRange", number: 3, kind: Kind::Message(&ETCDSERVERPB_DELETERANGEREQUEST), repeated: false, oneof: Some("etcdserverpb.RequestOp.request") },
    Field { name: "request_txn", json_name: "requestTxn", number: 4, kind: Kind::Message(&ETCDSERVERPB_TXNREQUEST), repeated: false, oneof: Some("etcdserverpb.RequestOp.request") },
] };

static ETCDSERVERPB_RESPONSEHEADER: Message = Message { name: "etcdserverpb.ResponseHeader", fields: &[
    Field { name: "cluster_id", json_name: "clusterId", number: 1, kind: Kind::Uint64, repeated: false, oneof: None },
    Field { name: "member_id", json_name: "memberId", number: 2, kind: Kind::Uint64, repeated: false, oneof: None },
    Field { name: "revision", json_name: "revision", number: 3, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "raft_term", json_name: "raftTerm", number: 4, kind: Kind::Uint64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_RESPONSEOP: Message = Message { name: "etcdserverpb.ResponseOp", fields: &[
    Field { name: "response_range", json_name: "responseRange", number: 1, kind: Kind::Message(&ETCDSERVERPB_RANGERESPONSE), repeated: false, oneof: Some("etcdserverpb.ResponseOp.response") },
    Field { name: "response_put", json_name: "responsePut", number: 2, kind: Kind::Message(&ETCDSERVERPB_PUTRESPONSE), repeated: false, oneof: Some("etcdserverpb.ResponseOp.response") },
    Field { name: "response_delete_range", json_name: "responseDeleteRange", number: 3, kind: Kind::Message(&ETCDSERVERPB_DELETERANGERESPONSE), repeated: false, oneof: Some("etcdserverpb.ResponseOp.response") },
    Field { name: "response_txn", json_name: "responseTxn", number: 4, kind: Kind::Message(&ETCDSERVERPB_TXNRESPONSE), repeated: false, oneof: Some("etcdserverpb.ResponseOp.response") },
] };

static ETCDSERVERPB_SNAPSHOTREQUEST: Message = Message { name: "etcdserverpb.SnapshotRequest", fields: &[
] };

static ETCDSERVERPB_SNAPSHOTRESPONSE: Message = Message { name: "etcdserverpb.SnapshotResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "remaining_bytes", json_name: "remainingBytes", number: 2, kind: Kind::Uint64, repeated: false, oneof: None },
    Field { name: "blob", json_name: "blob", number: 3, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "version", json_name: "version", number: 4, kind: Kind::String, repeated: false, oneof: None },
] };

static ETCDSERVERPB_STATUSREQUEST: Message = Message { name: "etcdserverpb.StatusRequest", fields: &[
] };

static ETCDSERVERPB_STATUSRESPONSE: Message = Message { name: "etcdserverpb.StatusResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "version", json_name: "version", number: 2, kind: Kind::String, repeated: false, oneof: None },
    Field { name: "dbSize", json_name: "dbSize", number: 3, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "leader", json_name: "leader", number: 4, kind: Kind::Uint64, repeated: false, oneof: None },
    Field { name: "raftIndex", json_name: "raftIndex", number: 5, kind: Kind::Uint64, repeated: false, oneof: None },
    Field { name: "raftTerm", json_name: "raftTerm", number: 6, kind: Kind::Uint64, repeated: false, oneof: None },
    Field { name: "raftAppliedIndex", json_name: "raftAppliedIndex", number: 7, kind: Kind::Uint64, repeated: false, oneof: None },
    Field { name: "errors", json_name: "errors", number: 8, kind: Kind::String, repeated: true, oneof: None },
    Field { name: "dbSizeInUse", json_name: "dbSizeInUse", number: 9, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "isLearner", json_name: "isLearner", number: 10, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "storageVersion", json_name: "storageVersion", number: 11, kind: Kind::String, repeated: false, oneof: None },
    Field { name: "dbSizeQuota", json_name: "dbSizeQuota", number: 12, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "downgradeInfo", json_name: "downgradeInfo", number: 13, kind: Kind::Message(&ETCDSERVERPB_DOWNGRADEINFO), repeated: false, oneof: None },
] };

static ETCDSERVERPB_TXNREQUEST: Message = Message { name: "etcdserverpb.TxnRequest", fields: &[
    Field { name: "compare", json_name: "compare", number: 1, kind: Kind::Message(&ETCDSERVERPB_COMPARE), repeated: true, oneof: None },
    Field { name: "success", json_name: "success", number: 2, kind: Kind::Message(&ETCDSERVERPB_REQUESTOP), repeated: true, oneof: None },
    Field { name: "failure", json_name: "failure", number: 3, kind: Kind::Message(&ETCDSERVERPB_REQUESTOP), repeated: true, oneof: None },
] };

static ETCDSERVERPB_TXNRESPONSE: Message = Message { name: "etcdserverpb.TxnResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "succeeded", json_name: "succeeded", number: 2, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "responses", json_name: "responses", number: 3, kind: Kind::Message(&ETCDSERVERPB_RESPONSEOP), repeated: true, oneof: None },
] };

static ETCDSERVERPB_WATCHCANCELREQUEST: Message = Message { name: "etcdserverpb.WatchCancelRequest", fields: &[
    Field { name: "watch_id", json_name: "watchId", number: 1, kind: Kind::Int64, repeated: false, oneof: None },
] };

static ETCDSERVERPB_WATCHCREATEREQUEST: Message = Message { name: "etcdserverpb.WatchCreateRequest", fields: &[
    Field { name: "key", json_name: "key", number: 1, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "range_end", json_name: "rangeEnd", number: 2, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "start_revision", json_name: "startRevision", number: 3, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "progress_notify", json_name: "progressNotify", number: 4, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "filters", json_name: "filters", number: 5, kind: Kind::Enum(&ETCDSERVERPB_WATCHCREATEREQUEST_FILTERTYPE), repeated: true, oneof: None },
    Field { name: "prev_kv", json_name: "prevKv", number: 6, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "watch_id", json_name: "watchId", number: 7, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "fragment", json_name: "fragment", number: 8, kind: Kind::Bool, repeated: false, oneof: None },
] };

static ETCDSERVERPB_WATCHPROGRESSREQUEST: Message = Message { name: "etcdserverpb.WatchProgressRequest", fields: &[
] };

static ETCDSERVERPB_WATCHREQUEST: Message = Message { name: "etcdserverpb.WatchRequest", fields: &[
    Field { name: "create_request", json_name: "createRequest", number: 1, kind: Kind::Message(&ETCDSERVERPB_WATCHCREATEREQUEST), repeated: false, oneof: Some("etcdserverpb.WatchRequest.request_union") },
    Field { name: "cancel_request", json_name: "cancelRequest", number: 2, kind: Kind::Message(&ETCDSERVERPB_WATCHCANCELREQUEST), repeated: false, oneof: Some("etcdserverpb.WatchRequest.request_union") },
    Field { name: "progress_request", json_name: "progressRequest", number: 3, kind: Kind::Message(&ETCDSERVERPB_WATCHPROGRESSREQUEST), repeated: false, oneof: Some("etcdserverpb.WatchRequest.request_union") },
] };

static ETCDSERVERPB_WATCHRESPONSE: Message = Message { name: "etcdserverpb.WatchResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "watch_id", json_name: "watchId", number: 2, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "created", json_name: "created", number: 3, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "canceled", json_name: "canceled", number: 4, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "compact_revision", json_name: "compactRevision", number: 5, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "cancel_reason", json_name: "cancelReason", number: 6, kind: Kind::String, repeated: false, oneof: None },
    Field { name: "fragment", json_name: "fragment", number: 7, kind: Kind::Bool, repeated: false, oneof: None },
    Field { name: "events", json_name: "events", number: 11, kind: Kind::Message(&MVCCPB_EVENT), repeated: true, oneof: None },
] };

static MVCCPB_EVENT: Message = Message { name: "mvccpb.Event", fields: &[
    Field { name: "type", json_name: "type", number: 1, kind: Kind::Enum(&MVCCPB_EVENT_EVENTTYPE), repeated: false, oneof: None },
    Field { name: "kv", json_name: "kv", number: 2, kind: Kind::Message(&MVCCPB_KEYVALUE), repeated: false, oneof: None },
    Field { name: "prev_kv", json_name: "prevKv", number: 3, kind: Kind::Message(&MVCCPB_KEYVALUE), repeated: false, oneof: None },
] };

static MVCCPB_KEYVALUE: Message = Message { name: "mvccpb.KeyValue", fields: &[
    Field { name: "key", json_name: "key", number: 1, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "create_revision", json_name: "createRevision", number: 2, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "mod_revision", json_name: "modRevision", number: 3, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "version", json_name: "version", number: 4, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "value", json_name: "value", number: 5, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "lease", json_name: "lease", number: 6, kind: Kind::Int64, repeated: false, oneof: None },
] };

static STELE_PREFIXREQUEST: Message = Message { name: "stele.PrefixRequest", fields: &[
    Field { name: "prefix", json_name: "prefix", number: 1, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "serializable", json_name: "serializable", number: 2, kind: Kind::Bool, repeated: false, oneof: None },
] };

static STELE_PREFIXRESPONSE: Message = Message { name: "stele.PrefixResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "keys", json_name: "keys", number: 2, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "bytes", json_name: "bytes", number: 3, kind: Kind::Int64, repeated: false, oneof: None },
] };

static V3ELECTIONPB_CAMPAIGNREQUEST: Message = Message { name: "v3electionpb.CampaignRequest", fields: &[
    Field { name: "name", json_name: "name", number: 1, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "lease", json_name: "lease", number: 2, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "value", json_name: "value", number: 3, kind: Kind::Bytes, repeated: false, oneof: None },
] };

static V3ELECTIONPB_CAMPAIGNRESPONSE: Message = Message { name: "v3electionpb.CampaignResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "leader", json_name: "leader", number: 2, kind: Kind::Message(&V3ELECTIONPB_LEADERKEY), repeated: false, oneof: None },
] };

static V3ELECTIONPB_LEADERKEY: Message = Message { name: "v3electionpb.LeaderKey", fields: &[
    Field { name: "name", json_name: "name", number: 1, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "key", json_name: "key", number: 2, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "rev", json_name: "rev", number: 3, kind: Kind::Int64, repeated: false, oneof: None },
    Field { name: "lease", json_name: "lease", number: 4, kind: Kind::Int64, repeated: false, oneof: None },
] };

static V3ELECTIONPB_LEADERREQUEST: Message = Message { name: "v3electionpb.LeaderRequest", fields: &[
    Field { name: "name", json_name: "name", number: 1, kind: Kind::Bytes, repeated: false, oneof: None },
] };

static V3ELECTIONPB_LEADERRESPONSE: Message = Message { name: "v3electionpb.LeaderResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "kv", json_name: "kv", number: 2, kind: Kind::Message(&MVCCPB_KEYVALUE), repeated: false, oneof: None },
] };

static V3ELECTIONPB_PROCLAIMREQUEST: Message = Message { name: "v3electionpb.ProclaimRequest", fields: &[
    Field { name: "leader", json_name: "leader", number: 1, kind: Kind::Message(&V3ELECTIONPB_LEADERKEY), repeated: false, oneof: None },
    Field { name: "value", json_name: "value", number: 2, kind: Kind::Bytes, repeated: false, oneof: None },
] };

static V3ELECTIONPB_PROCLAIMRESPONSE: Message = Message { name: "v3electionpb.ProclaimResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static V3ELECTIONPB_RESIGNREQUEST: Message = Message { name: "v3electionpb.ResignRequest", fields: &[
    Field { name: "leader", json_name: "leader", number: 1, kind: Kind::Message(&V3ELECTIONPB_LEADERKEY), repeated: false, oneof: None },
] };

static V3ELECTIONPB_RESIGNRESPONSE: Message = Message { name: "v3electionpb.ResignResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static V3LOCKPB_LOCKREQUEST: Message = Message { name: "v3lockpb.LockRequest", fields: &[
    Field { name: "name", json_name: "name", number: 1, kind: Kind::Bytes, repeated: false, oneof: None },
    Field { name: "lease", json_name: "lease", number: 2, kind: Kind::Int64, repeated: false, oneof: None },
] };

static V3LOCKPB_LOCKRESPONSE: Message = Message { name: "v3lockpb.LockResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
    Field { name: "key", json_name: "key", number: 2, kind: Kind::Bytes, repeated: false, oneof: None },
] };

static V3LOCKPB_UNLOCKREQUEST: Message = Message { name: "v3lockpb.UnlockRequest", fields: &[
    Field { name: "key", json_name: "key", number: 1, kind: Kind::Bytes, repeated: false, oneof: None },
] };

static V3LOCKPB_UNLOCKRESPONSE: Message = Message { name: "v3lockpb.UnlockResponse", fields: &[
    Field { name: "header", json_name: "header", number: 1, kind: Kind::Message(&ETCDSERVERPB_RESPONSEHEADER), repeated: false, oneof: None },
] };

static AUTHPB_PERMISSION_TYPE: Enum = Enum { values: &[
    ("READ", 0),
    ("WRITE", 1),
    ("READWRITE", 2),
] };

static ETCDSERVERPB_ALARMREQUEST_ALARMACTION: Enum = Enum { values: &[
    ("GET", 0),
    ("ACTIVATE", 1),
    ("DEACTIVATE", 2),
] };

static ETCDSERVERPB_ALARMTYPE: Enum = Enum { values: &[
    ("NONE", 0),
    ("NOSPACE", 1),
    ("CORRUPT", 2),
] };

static ETCDSERVERPB_COMPARE_COMPARERESULT: Enum = Enum { values: &[
    ("EQUAL", 0),
    ("GREATER", 1),
    ("LESS", 2),
    ("NOT_EQUAL", 3),
] };

static ETCDSERVERPB_COMPARE_COMPARETARGET: Enum = Enum { values: &[
    ("VERSION", 0),
    ("CREATE", 1),
    ("MOD", 2),
    ("VALUE", 3),
    ("LEASE", 4),
] };

static ETCDSERVERPB_DOWNGRADEREQUEST_DOWNGRADEACTION: Enum = Enum { values: &[
    ("VALIDATE", 0),
    ("ENABLE", 1),
    ("CANCEL", 2),
] };

static ETCDSERVERPB_RANGEREQUEST_SORTORDER: Enum = Enum { values: &[
    ("NONE", 0),
    ("ASCEND", 1),
    ("DESCEND", 2),
] };

static ETCDSERVERPB_RANGEREQUEST_SORTTARGET: Enum = Enum { values: &[
    ("KEY", 0),
    ("VERSION", 1),
    ("CREATE", 2),
    ("MOD", 3),
    ("VALUE", 4),
] };

static ETCDSERVERPB_WATCHCREATEREQUEST_FILTERTYPE: Enum = Enum { values: &[
    ("NOPUT", 0),
    ("NODELETE", 1),
] };

static MVCCPB_EVENT_EVENTTYPE: Enum = Enum { values: &[
    ("PUT", 0),
    ("DELETE", 1),
] };

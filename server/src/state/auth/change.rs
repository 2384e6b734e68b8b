//! The changes of users, roles and permissions: each checks its request completely, then writes its
//! rows and changes its copy of the image.

use aws_lc_rs::digest;
use bytes::Bytes;
use etcd_api::authpb;
use etcd_api::etcdserverpb as pb;
use prost::Message;
use storage::mvcc::{Bucket, Write};

use super::{ENABLED, REVISION, order};
use crate::auth::{self, Image, ROOT};
use crate::basics::error::Error;
use crate::request::AuthRequest;

/// bcrypt cost for passwords in very old logs: etcd's default.
const OLD_LOG_COST: u32 = 10;

/// The change of one entry: its rows, and the resulting image.
pub(super) struct Change<'a, 'b> {
    pub(super) image: Image,
    pub(super) write: &'a mut Write<'b>,
    pub(super) index: u64,
}

impl Change<'_, '_> {
    pub(super) fn run(&mut self, request: &AuthRequest) -> Result<(), Error> {
        match request {
            AuthRequest::Enable => self.enable(),
            AuthRequest::Disable => self.disable(),
            AuthRequest::UserAdd(r) => self.user_add(r),
            AuthRequest::UserDelete(r) => self.user_delete(&r.name),
            AuthRequest::UserChangePassword(r) => self.user_change_password(r),
            AuthRequest::UserGrantRole(r) => self.user_grant_role(&r.user, &r.role),
            AuthRequest::UserRevokeRole(r) => self.user_revoke_role(&r.name, &r.role),
            AuthRequest::RoleAdd(r) => self.role_add(&r.name),
            AuthRequest::RoleDelete(r) => self.role_delete(&r.role),
            AuthRequest::RoleGrantPermission(r) => self.role_grant(&r.name, r.perm.as_ref()),
            AuthRequest::RoleRevokePermission(r) => self.role_revoke(&r.role, &r.key, &r.range_end),
        }
    }

    fn enable(&mut self) -> Result<(), Error> {
        if self.image.enabled {
            tracing::info!("authentication is already enabled; ignored auth enable request");
            return Ok(());
        }
        let root = self.image.user(ROOT).ok_or(Error::RootUserNotFound)?;
        if !root.has_role(ROOT) {
            return Err(Error::RootRoleNotGranted);
        }
        self.write.set(Bucket::Auth, ENABLED, &[1])?;
        self.image.enabled = true;
        tracing::info!("enabled authentication");
        Ok(())
    }

    fn disable(&mut self) -> Result<(), Error> {
        if !self.image.enabled {
            return Ok(());
        }
        self.write.set(Bucket::Auth, ENABLED, &[0])?;
        self.image.enabled = false;
        tracing::info!("disabled authentication");
        self.next_revision()
    }

    fn user_add(&mut self, request: &pb::AuthUserAddRequest) -> Result<(), Error> {
        if request.name.is_empty() {
            return Err(Error::UserEmpty);
        }
        if self.image.user(&request.name).is_some() {
            return Err(Error::UserExists);
        }
        let options = request.options.unwrap_or_default();
        let password = if options.no_password {
            Bytes::new()
        } else {
            self.password(&request.name, &request.password, &request.hashed_password)?
        };
        self.set_user(authpb::User {
            name: Bytes::copy_from_slice(request.name.as_bytes()),
            password,
            roles: Vec::new(),
            options: Some(options),
        })?;
        tracing::info!("user-name" = request.name, "added a user");
        self.next_revision()
    }

    fn user_delete(&mut self, name: &str) -> Result<(), Error> {
        if self.image.enabled && name == ROOT {
            tracing::error!("user-name" = name, "cannot delete 'root' user");
            return Err(Error::InvalidAuthManagement);
        }
        self.user(name)?;
        self.write.remove(Bucket::AuthUsers, name.as_bytes())?;
        self.image.remove_user(name);
        tracing::info!("user-name" = name, "deleted a user");
        self.next_revision()
    }

    fn user_change_password(
        &mut self,
        request: &pb::AuthUserChangePasswordRequest,
    ) -> Result<(), Error> {
        let user = self.user(&request.name)?;
        let has_none = user.options.is_some_and(|options| options.no_password);
        let password = if has_none {
            Bytes::new()
        } else {
            self.password(&request.name, &request.password, &request.hashed_password)?
        };
        self.set_user(authpb::User { password, ..user })?;
        tracing::info!("user-name" = request.name, "changed a password of a user");
        self.next_revision()
    }

    fn user_grant_role(&mut self, name: &str, role: &str) -> Result<(), Error> {
        let mut user = self.user(name)?;
        if role != ROOT {
            self.role(role)?;
        }
        let Err(place) = user.roles.binary_search_by(|held| held.as_str().cmp(role)) else {
            tracing::warn!(
                "user-name" = name,
                "duplicate-role-name" = role,
                "ignored grant role request to a user"
            );
            return Ok(());
        };
        user.roles.insert(place, role.to_owned());
        self.set_user(user)?;
        tracing::info!(
            "user-name" = name,
            "added-role-name" = role,
            "granted a role to a user"
        );
        self.next_revision()
    }

    fn user_revoke_role(&mut self, name: &str, role: &str) -> Result<(), Error> {
        if self.image.enabled && name == ROOT && role == ROOT {
            tracing::error!(
                "user-name" = name,
                "role-name" = role,
                "'root' user cannot revoke 'root' role"
            );
            return Err(Error::InvalidAuthManagement);
        }
        let mut user = self.user(name)?;
        let held = user.roles.len();
        user.roles.retain(|held| held != role);
        if user.roles.len() == held {
            return Err(Error::RoleNotGranted);
        }
        self.set_user(user)?;
        tracing::info!(
            "user-name" = name,
            "revoked-role-name" = role,
            "revoked a role from a user"
        );
        self.next_revision()
    }

    fn role_add(&mut self, name: &str) -> Result<(), Error> {
        if name.is_empty() {
            return Err(Error::RoleEmpty);
        }
        if self.image.role(name).is_some() {
            return Err(Error::RoleExists);
        }
        self.set_role(authpb::Role {
            name: Bytes::copy_from_slice(name.as_bytes()),
            key_permission: Vec::new(),
        })?;
        tracing::info!("role-name" = name, "created a role");
        self.next_revision()
    }

    fn role_delete(&mut self, name: &str) -> Result<(), Error> {
        if self.image.enabled && name == ROOT {
            tracing::error!("role-name" = name, "cannot delete 'root' role");
            return Err(Error::InvalidAuthManagement);
        }
        self.role(name)?;
        self.write.remove(Bucket::AuthRoles, name.as_bytes())?;
        self.image.remove_role(name);
        let holders = self.image.users().filter(|user| user.has_role(name));
        let holders: Vec<authpb::User> = holders.map(|user| user.row.clone()).collect();
        for mut user in holders {
            user.roles.retain(|held| held != name);
            self.set_user(user)?;
        }
        tracing::info!("role-name" = name, "deleted a role");
        self.next_revision()
    }

    fn role_grant(
        &mut self,
        name: &str,
        permission: Option<&authpb::Permission>,
    ) -> Result<(), Error> {
        let permission = permission.ok_or(Error::PermissionNotGiven)?;
        let (key, end) = (&permission.key, &permission.range_end);
        let is_range = end.is_empty() || &end[..] == b"\0" || key < end;
        if key.is_empty() || !is_range {
            return Err(Error::InvalidAuthManagement);
        }
        let mut role = self.role(name)?;
        let held = &mut role.key_permission;
        // As in etcd, only the first permission with this key is compared. So granting the second
        // of two ranges with the same key again stores it twice, on every member.
        let place = held.partition_point(|held| held.key < *key);
        match held.get_mut(place) {
            Some(same) if same.key == *key && same.range_end == *end => {
                same.perm_type = permission.perm_type;
            }
            _ => {
                held.push(permission.clone());
                order::sort(held);
            }
        }
        self.set_role(role)?;
        tracing::info!(
            "user-name" = name,
            key = %key.escape_ascii(),
            "range-end" = %end.escape_ascii(),
            "granted/updated a permission to a user"
        );
        self.next_revision()
    }

    fn role_revoke(&mut self, name: &str, key: &[u8], end: &[u8]) -> Result<(), Error> {
        let mut role = self.role(name)?;
        let held = role.key_permission.len();
        role.key_permission
            .retain(|held| held.key != key || held.range_end != end);
        if role.key_permission.len() == held {
            return Err(Error::PermissionNotGranted);
        }
        self.set_role(role)?;
        tracing::info!(
            "role-name" = name,
            key = %key.escape_ascii(),
            "range-end" = %end.escape_ascii(),
            "revoked a permission on range"
        );
        self.next_revision()
    }

    fn user(&self, name: &str) -> Result<authpb::User, Error> {
        let user = self.image.user(name).ok_or(Error::UserNotFound)?;
        Ok(user.row.clone())
    }

    fn role(&self, name: &str) -> Result<authpb::Role, Error> {
        self.image.role(name).cloned().ok_or(Error::RoleNotFound)
    }

    fn set_user(&mut self, user: authpb::User) -> Result<(), Error> {
        self.write
            .set(Bucket::AuthUsers, &user.name, &user.encode_to_vec())?;
        self.image.set_user(user);
        Ok(())
    }

    fn set_role(&mut self, role: authpb::Role) -> Result<(), Error> {
        self.write
            .set(Bucket::AuthRoles, &role.name, &role.encode_to_vec())?;
        self.image.set_role(role);
        Ok(())
    }

    fn next_revision(&mut self) -> Result<(), Error> {
        self.image.revision += 1;
        let row = self.image.revision.to_be_bytes();
        self.write.set(Bucket::Auth, REVISION, &row)?;
        Ok(())
    }

    /// The hash computed by the proposer. Logs from before etcd 3.5 hold the password itself; then
    /// the salt is derived from the entry, so that every replay makes the same row.
    fn password(&self, name: &str, password: &str, hashed: &str) -> Result<Bytes, Error> {
        if password.is_empty() || !hashed.is_empty() {
            let hash = auth::decode_base64(hashed).ok_or_else(Error::no_password_user)?;
            return Ok(hash.into());
        }
        let mut digest = digest::Context::new(&digest::SHA256);
        digest.update(&self.index.to_be_bytes());
        digest.update(name.as_bytes());
        let digest = digest.finish();
        let (salt, _) = digest.as_ref().split_first_chunk().expect("32 bytes");
        let hash = bcrypt::hash_with_salt(password, OLD_LOG_COST, *salt);
        let hash = hash.map_err(|_| Error::no_password_user())?;
        Ok(hash.format_for_version(bcrypt::Version::TwoA).into())
    }
}

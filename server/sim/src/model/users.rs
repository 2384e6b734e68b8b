//! Users, roles and permissions, and who may do what. Permissions are plain lists that are searched
//! from end to end. Only ranges that end after they begin are asked about here, and no two
//! permissions of a role begin with the same key: what etcd makes of others depends on the shape of
//! its trees, and the differential tests compare that.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use etcd_api::authpb::permission::Type;
use etcd_api::etcdserverpb as pb;
use pb::request_op::Request as Op;
use server::request::{AuthInfo, AuthRequest, Request};

use super::Refusal;

/// The user that must exist, and the role that permits everything.
pub const ROOT: &str = "root";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The hash; empty if there is none.
    pub password: Vec<u8>,
    pub has_no_password: bool,
    pub roles: BTreeSet<String>,
}

/// Permissions by their first key: the end of the range, and the kind.
pub type Permissions = BTreeMap<Vec<u8>, (Vec<u8>, i32)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Users {
    pub enabled: bool,
    /// Grows with every change but the switching on.
    pub revision: u64,
    pub users: BTreeMap<String, User>,
    pub roles: BTreeMap<String, Permissions>,
}

impl Default for Users {
    fn default() -> Users {
        Users {
            enabled: false,
            revision: 1,
            users: BTreeMap::new(),
            roles: BTreeMap::new(),
        }
    }
}

/// What an entry does to tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenEvent {
    Begins {
        token: String,
        user: String,
    },
    /// All of this user's.
    End {
        user: String,
    },
    EndAll,
}

impl Users {
    pub fn may(&self, by: &AuthInfo, access: Access, key: &[u8], end: &[u8]) -> Verdict {
        if !self.enabled {
            return Ok(());
        }
        if by.revision == 0 {
            return Err(Refusal::UserEmpty);
        }
        if by.revision < self.revision {
            return Err(Refusal::AuthOldRevision);
        }
        let user = self.users.get(&by.user).ok_or(Refusal::PermissionDenied)?;
        if user.roles.contains(ROOT) || self.covers(user, access, key, end) {
            Ok(())
        } else {
            Err(Refusal::PermissionDenied)
        }
    }

    /// Whether the user has the root role. How old its token is does not matter.
    pub fn may_administer(&self, by: Option<&AuthInfo>) -> Verdict {
        if !self.enabled {
            return Ok(());
        }
        let name = by.map_or("", |by| by.user.as_str());
        if name.is_empty() {
            return Err(Refusal::UserEmpty);
        }
        let user = self.users.get(name).ok_or(Refusal::UserNotFound)?;
        if user.roles.contains(ROOT) {
            Ok(())
        } else {
            Err(Refusal::PermissionDenied)
        }
    }

    /// Whether the call names anybody.
    pub fn may_call(&self, by: Option<&AuthInfo>) -> Verdict {
        if self.enabled && by.is_none() {
            Err(Refusal::UserEmpty)
        } else {
            Ok(())
        }
    }

    pub fn may_use_lease(&self, by: &AuthInfo, access: Access, keys: &[Vec<u8>]) -> Verdict {
        if self.may_administer(Some(by)).is_ok() {
            return Ok(());
        }
        let mut keys = keys.iter();
        keys.try_for_each(|key| self.may(by, access, key, b""))
    }

    /// Both branches of every transaction count, whichever is taken.
    pub fn may_transact(
        &self,
        by: &AuthInfo,
        txn: &pb::TxnRequest,
        held: &LeaseKeys<'_>,
    ) -> Verdict {
        for compare in &txn.compare {
            self.may(by, Access::Read, &compare.key, &compare.range_end)?;
        }
        for op in txn.success.iter().chain(&txn.failure) {
            match &op.request {
                Some(Op::RequestRange(range)) => {
                    self.may(by, Access::Read, &range.key, &range.range_end)?;
                }
                Some(Op::RequestPut(put)) => self.may_put(by, put, held)?,
                Some(Op::RequestDeleteRange(delete)) => {
                    let (key, end) = (&delete.key, &delete.range_end);
                    if delete.prev_kv {
                        self.may(by, Access::Read, key, end)?;
                    }
                    self.may(by, Access::Write, key, end)?;
                }
                Some(Op::RequestTxn(nested)) => self.may_transact(by, nested, held)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Whether an entry has an effect. `held`: the keys of a lease, before the entry.
    pub(super) fn authorize(
        &self,
        by: &AuthInfo,
        request: &Request,
        held: &LeaseKeys<'_>,
    ) -> Verdict {
        if !self.enabled {
            return Ok(());
        }
        match request {
            Request::Put(put) => self.may_put(by, put, held),
            Request::DeleteRange(delete) => {
                let (key, end) = (&delete.key, &delete.range_end);
                self.may(by, Access::Write, key, end)?;
                if delete.prev_kv {
                    self.may(by, Access::Read, key, end)?;
                }
                Ok(())
            }
            Request::Txn(txn) => self.may_transact(by, txn, held),
            Request::LeaseRevoke(revoke) => self.may_use_lease(by, Access::Write, &held(revoke.id)),
            Request::Auth(_) => self.may_administer(Some(by)),
            // Who may ask for these is decided where the request comes.
            _ => Ok(()),
        }
    }

    fn may_put(&self, by: &AuthInfo, put: &pb::PutRequest, held: &LeaseKeys<'_>) -> Verdict {
        self.may(by, Access::Write, &put.key, b"")?;
        if put.lease != 0 {
            self.may_use_lease(by, Access::Write, &held(put.lease))?;
        }
        if put.prev_kv {
            self.may(by, Access::Read, &put.key, b"")?;
        }
        Ok(())
    }

    /// Whether all of the user's permissions together leave no gap.
    fn covers(&self, user: &User, access: Access, key: &[u8], end: &[u8]) -> bool {
        let held = user.roles.iter().filter_map(|role| self.roles.get(role));
        let mut held: Vec<_> = held.flatten().collect();
        held.sort();
        let mut covered = key.to_vec();
        for (begin, (to, kind)) in held {
            if !permits(*kind, access) || *begin > covered {
                continue;
            }
            match end_of(begin, to) {
                None => return true,
                Some(to) => covered = covered.max(to),
            }
        }
        end_of(key, end).is_some_and(|end| covered >= end)
    }

    pub(super) fn change(&mut self, request: &AuthRequest) -> Result<Option<TokenEvent>, Refusal> {
        let mut ends = None;
        match request {
            AuthRequest::Enable => return self.enable().map(|()| None),
            AuthRequest::Disable => {
                ends = Some(TokenEvent::EndAll);
                if !std::mem::take(&mut self.enabled) {
                    return Ok(ends);
                }
            }
            AuthRequest::UserAdd(add) => self.add_user(add)?,
            AuthRequest::UserDelete(delete) => {
                if self.enabled && delete.name == ROOT {
                    return Err(Refusal::InvalidAuthManagement);
                }
                let removed = self.users.remove(&delete.name);
                removed.ok_or(Refusal::UserNotFound)?;
                let user = delete.name.clone();
                ends = Some(TokenEvent::End { user });
            }
            AuthRequest::UserChangePassword(change) => {
                let user = self.user(&change.name)?;
                user.password = if user.has_no_password {
                    Vec::new()
                } else {
                    hash(&change.hashed_password)
                };
                let user = change.name.clone();
                ends = Some(TokenEvent::End { user });
            }
            AuthRequest::UserGrantRole(grant) => {
                self.user(&grant.user)?;
                if grant.role != ROOT && !self.roles.contains_key(&grant.role) {
                    return Err(Refusal::RoleNotFound);
                }
                // Granted again: that is no change.
                if !self.user(&grant.user)?.roles.insert(grant.role.clone()) {
                    return Ok(None);
                }
            }
            AuthRequest::UserRevokeRole(revoke) => {
                if self.enabled && revoke.name == ROOT && revoke.role == ROOT {
                    return Err(Refusal::InvalidAuthManagement);
                }
                if !self.user(&revoke.name)?.roles.remove(&revoke.role) {
                    return Err(Refusal::RoleNotGranted);
                }
            }
            role => self.change_role(role)?,
        }
        self.revision += 1;
        Ok(ends)
    }

    fn change_role(&mut self, request: &AuthRequest) -> Verdict {
        match request {
            AuthRequest::RoleAdd(add) => {
                if add.name.is_empty() {
                    return Err(Refusal::RoleEmpty);
                }
                if self.roles.contains_key(&add.name) {
                    return Err(Refusal::RoleExists);
                }
                self.roles.insert(add.name.clone(), Permissions::new());
            }
            AuthRequest::RoleDelete(delete) => {
                if self.enabled && delete.role == ROOT {
                    return Err(Refusal::InvalidAuthManagement);
                }
                let removed = self.roles.remove(&delete.role);
                removed.ok_or(Refusal::RoleNotFound)?;
                for user in self.users.values_mut() {
                    user.roles.remove(&delete.role);
                }
            }
            AuthRequest::RoleGrantPermission(grant) => {
                let given = grant.perm.as_ref().ok_or(Refusal::PermissionNotGiven)?;
                let (key, end) = (given.key.to_vec(), given.range_end.to_vec());
                let is_range = end_of(&key, &end).is_none_or(|end| key < end);
                if key.is_empty() || !is_range {
                    return Err(Refusal::InvalidAuthManagement);
                }
                let role = self.roles.get_mut(&grant.name);
                let role = role.ok_or(Refusal::RoleNotFound)?;
                role.insert(key, (end, given.perm_type));
            }
            AuthRequest::RoleRevokePermission(revoke) => {
                let role = self.roles.get_mut(&revoke.role);
                let role = role.ok_or(Refusal::RoleNotFound)?;
                let held = role.get(&revoke.key[..]);
                if held.is_none_or(|(end, _)| *end != revoke.range_end) {
                    return Err(Refusal::PermissionNotGranted);
                }
                role.remove(&revoke.key[..]);
            }
            other => unreachable!("{other:?} is not about a role"),
        }
        Ok(())
    }

    fn enable(&mut self) -> Verdict {
        if !self.enabled {
            let root = self.users.get(ROOT).ok_or(Refusal::RootUserNotFound)?;
            if !root.roles.contains(ROOT) {
                return Err(Refusal::RootRoleNotGranted);
            }
            self.enabled = true;
        }
        Ok(())
    }

    fn add_user(&mut self, add: &pb::AuthUserAddRequest) -> Verdict {
        if add.name.is_empty() {
            return Err(Refusal::UserEmpty);
        }
        if self.users.contains_key(&add.name) {
            return Err(Refusal::UserExists);
        }
        let has_no_password = add.options.is_some_and(|options| options.no_password);
        let user = User {
            password: if has_no_password {
                Vec::new()
            } else {
                hash(&add.hashed_password)
            },
            has_no_password,
            roles: BTreeSet::new(),
        };
        self.users.insert(add.name.clone(), user);
        Ok(())
    }

    fn user(&mut self, name: &str) -> Result<&mut User, Refusal> {
        self.users.get_mut(name).ok_or(Refusal::UserNotFound)
    }

    /// Whether an entry for a login gets a token: the password was compared before.
    pub(super) fn may_log_in(&self, name: &str) -> Verdict {
        if !self.enabled {
            return Err(Refusal::AuthNotEnabled);
        }
        match self.users.get(name) {
            Some(user) if !user.has_no_password => Ok(()),
            _ => Err(Refusal::AuthFailed),
        }
    }

    /// Whether a login with this password comes so far.
    pub fn knows_password(&self, name: &str, is_right: impl Fn(&[u8]) -> bool) -> Verdict {
        if !self.enabled {
            return Err(Refusal::AuthNotEnabled);
        }
        match self.users.get(name) {
            Some(user) if user.has_no_password => Err(Refusal::NoPasswordUser),
            Some(user) if is_right(&user.password) => Ok(()),
            _ => Err(Refusal::AuthFailed),
        }
    }
}

type Verdict = Result<(), Refusal>;

/// The keys of a lease.
pub type LeaseKeys<'a> = dyn Fn(i64) -> Vec<Vec<u8>> + 'a;

fn permits(kind: i32, access: Access) -> bool {
    match Type::try_from(kind) {
        Ok(Type::Readwrite) => true,
        Ok(Type::Read) => access == Access::Read,
        Ok(Type::Write) => access == Access::Write,
        Err(_) => false,
    }
}

/// `None`: no key is behind it.
fn end_of(key: &[u8], end: &[u8]) -> Option<Vec<u8>> {
    match end {
        [] => Some([key, &[0]].concat()),
        [0] => None,
        end => Some(end.to_vec()),
    }
}

fn hash(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap_or_default()
}

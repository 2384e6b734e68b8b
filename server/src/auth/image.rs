//! Users, roles and permissions in memory, for the check before each request. An image is complete
//! and immutable; a change makes a new image.

use std::collections::BTreeMap;
use std::sync::Arc;

use etcd_api::authpb;
use prost::Message;

use super::intervals::{Interval, Intervals};
use crate::basics::error::Error;
use crate::request::AuthInfo;

/// The name of the user that must exist, and of the role that permits everything.
pub(crate) const ROOT: &str = "root";

/// The kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
}

#[derive(Clone, Debug)]
pub struct User {
    pub row: authpb::User,
    reads: Intervals,
    writes: Intervals,
}

impl User {
    pub fn has_no_password(&self) -> bool {
        self.row.options.is_some_and(|options| options.no_password)
    }

    pub fn has_role(&self, role: &str) -> bool {
        self.row.roles.iter().any(|held| held == role)
    }

    fn new(row: authpb::User, roles: &BTreeMap<String, authpb::Role>) -> User {
        let (mut reads, mut writes) = (Intervals::default(), Intervals::default());
        let held = row.roles.iter().filter_map(|name| roles.get(name));
        for permission in held.flat_map(|role| &role.key_permission) {
            use authpb::permission::Type;
            let interval = Interval::of(&permission.key, &permission.range_end);
            match Type::try_from(permission.perm_type) {
                Ok(Type::Read) => reads.insert(interval),
                Ok(Type::Write) => writes.insert(interval),
                Ok(Type::Readwrite) => {
                    reads.insert(interval.clone());
                    writes.insert(interval);
                }
                // An unknown kind of permission permits nothing.
                Err(_) => {}
            }
        }
        User { row, reads, writes }
    }

    fn may(&self, kind: Kind, key: &[u8], range_end: &[u8]) -> bool {
        let intervals = self.intervals(kind);
        if range_end.is_empty() {
            intervals.end_from(key).is_some()
        } else {
            intervals.contains(&Interval::of(key, range_end))
        }
    }

    fn intervals(&self, kind: Kind) -> &Intervals {
        match kind {
            Kind::Read => &self.reads,
            Kind::Write => &self.writes,
        }
    }
}

/// Everything that authorization needs, at one auth revision.
#[derive(Clone, Debug)]
pub struct Image {
    pub enabled: bool,
    /// Grows with every change of users, roles or permissions.
    pub revision: u64,
    users: BTreeMap<String, Arc<User>>,
    roles: BTreeMap<String, authpb::Role>,
}

impl Default for Image {
    fn default() -> Image {
        Image {
            enabled: false,
            revision: 1,
            users: BTreeMap::new(),
            roles: BTreeMap::new(),
        }
    }
}

impl Image {
    /// Builds an image from the stored rows.
    pub fn new(
        enabled: bool,
        revision: u64,
        users: Vec<authpb::User>,
        roles: Vec<authpb::Role>,
    ) -> Image {
        let roles = roles.into_iter().map(|role| (text(&role.name), role));
        let roles: BTreeMap<_, _> = roles.collect();
        let users = users.into_iter();
        let users = users.map(|row| (text(&row.name), Arc::new(User::new(row, &roles))));
        Image {
            enabled,
            revision,
            users: users.collect(),
            roles,
        }
    }

    pub fn user(&self, name: &str) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// Sorted by name, like the rows.
    pub fn users(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }

    pub fn user_names(&self) -> Vec<String> {
        self.users.keys().cloned().collect()
    }

    pub fn role(&self, name: &str) -> Option<&authpb::Role> {
        self.roles.get(name)
    }

    pub fn role_names(&self) -> Vec<String> {
        self.roles.keys().cloned().collect()
    }

    pub fn set_user(&mut self, row: authpb::User) {
        let user = User::new(row, &self.roles);
        self.users.insert(text(&user.row.name), Arc::new(user));
    }

    pub fn remove_user(&mut self, name: &str) {
        self.users.remove(name);
    }

    /// Takes effect at once for all users with this role.
    pub fn set_role(&mut self, role: authpb::Role) {
        let name = text(&role.name);
        self.roles.insert(name.clone(), role);
        for user in self.users.values_mut().filter(|user| user.has_role(&name)) {
            *user = Arc::new(User::new(user.row.clone(), &self.roles));
        }
    }

    /// The caller must update users with this role by [`Image::set_user`].
    pub fn remove_role(&mut self, name: &str) {
        self.roles.remove(name);
    }

    /// Checks that `by` may access these keys. Always succeeds while auth is disabled.
    pub fn check(
        &self,
        by: &AuthInfo,
        kind: Kind,
        key: &[u8],
        range_end: &[u8],
    ) -> Result<(), Error> {
        let may = |user: &User| user.may(kind, key, range_end).then_some(());
        self.judge(by, (), may)
    }

    /// The same for one key. Returns up to where `by` may access all keys from this one on; the
    /// empty end is no bound.
    pub(super) fn check_from(&self, by: &AuthInfo, kind: Kind, key: &[u8]) -> Result<&[u8], Error> {
        self.judge(by, &b""[..], |user| user.intervals(kind).end_from(key))
    }

    /// Checks that `by` has the root role.
    pub fn check_admin(&self, by: Option<&AuthInfo>) -> Result<(), Error> {
        if !self.enabled {
            return Ok(());
        }
        let name = by.map_or("", |by| &by.user);
        if name.is_empty() {
            return Err(Error::UserEmpty);
        }
        match self.users.get(name) {
            None => Err(Error::UserNotFound),
            Some(user) if user.has_role(ROOT) => Ok(()),
            Some(_) => Err(Error::PermissionDenied),
        }
    }

    /// Checks that there is a user at all.
    pub fn check_any(&self, by: Option<&AuthInfo>) -> Result<(), Error> {
        if self.enabled && by.is_none() {
            Err(Error::UserEmpty)
        } else {
            Ok(())
        }
    }

    /// What `by` is permitted: `all` if nothing is refused, else what the user's permissions say.
    fn judge<'a, P>(
        &'a self,
        by: &AuthInfo,
        all: P,
        permitted: impl FnOnce(&'a User) -> Option<P>,
    ) -> Result<P, Error> {
        if !self.enabled {
            return Ok(all);
        }
        if by.revision == 0 {
            return Err(Error::UserEmpty);
        }
        if by.revision < self.revision {
            return Err(Error::AuthOldRevision);
        }
        match self.users.get(&by.user) {
            Some(user) if user.has_role(ROOT) => Ok(all),
            Some(user) => permitted(user).ok_or(Error::PermissionDenied),
            None => Err(Error::PermissionDenied),
        }
    }
}

/// Names are UTF-8 text, even where rows keep them as bytes.
fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// A stored user or role; `None` if the row is damaged.
pub(crate) fn decode_row<M: Message + Default>(value: &[u8]) -> Option<M> {
    M::decode(value).ok()
}

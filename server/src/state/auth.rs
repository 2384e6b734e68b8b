//! Users, roles and permissions in the store: etcd's own rows, and the image that authorizes. Every
//! change is checked completely before the first row changes.

mod change;
mod order;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;

use etcd_api::etcdserverpb as pb;
use prost::Message;
use storage::mvcc::{Bucket, Root, Write};

use crate::auth::{self, Authenticated, CurrentAuth, Image, Kind};
use crate::basics::error::Error;
use crate::request::{self, AuthInfo, AuthRequest, PutBy, Request};
use change::Change;

const ENABLED: &[u8] = b"authEnabled";
const REVISION: &[u8] = b"authRevision";
/// Revision of a store that never had users.
const FIRST_REVISION: u64 = 1;

/// The image in force, and the copy shared with other threads.
pub struct Auth {
    image: Arc<Image>,
    shared: Arc<CurrentAuth>,
}

impl Auth {
    pub(super) fn load(root: &Root) -> Result<Auth, Error> {
        let image = Arc::new(load(root)?);
        let shared = Arc::new(CurrentAuth::new(Arc::clone(&image)));
        Ok(Auth { image, shared })
    }

    /// Loads the image again after another member's state has replaced ours.
    pub(super) fn reload(&mut self, root: &Root) -> Result<(), Error> {
        let image = load(root)?;
        let before = Arc::clone(&self.image);
        self.put_in_force(image);
        // The other members dropped a user's tokens when its password changed; do the same for the
        // changes in between.
        self.shared.tokens.lock().retain(|name| {
            let password = |image: &Image| image.user(name).map(|user| user.row.password.clone());
            password(&before) == password(&self.image)
        });
        Ok(())
    }

    pub fn image(&self) -> &Image {
        &self.image
    }

    pub fn shared(&self) -> &Arc<CurrentAuth> {
        &self.shared
    }

    /// Checks that an entry's user may make its request. All members must reach the same result.
    pub(super) fn check(&self, root: &Root, by: &AuthInfo, request: &Request) -> Result<(), Error> {
        auth::authorize(&self.image, by, request, &|lease, from| {
            super::first_lease_key(root, lease, from)
        })
    }

    /// The same check for a [lone put](Request::lone_put), which has no lease.
    pub(super) fn may_put(&self, key: &[u8], put: &PutBy<'_>) -> bool {
        let by = request::auth_info(put.header);
        let may = |kind| self.image.check(&by, kind, key, b"").is_ok();
        may(Kind::Write) && (!put.reads || may(Kind::Read))
    }

    pub(super) fn authenticate(
        &self,
        index: u64,
        request: &pb::InternalAuthenticateRequest,
    ) -> Result<Authenticated, Error> {
        if !self.image.enabled {
            return Err(Error::AuthNotEnabled);
        }
        // The password was verified just before this entry was proposed.
        match self.image.user(&request.name) {
            Some(user) if !user.has_no_password() => Ok(Authenticated {
                user: request.name.clone(),
                // etcd members use the index applied before this entry.
                token: format!("{}.{}", request.simple_token, index - 1),
                auth_revision: self.image.revision,
            }),
            _ => Err(Error::AuthFailed),
        }
    }

    pub(super) fn change(
        &mut self,
        write: &mut Write<'_>,
        index: u64,
        request: &AuthRequest,
    ) -> Result<(), Error> {
        let mut change = Change {
            image: Image::clone(&self.image),
            write,
            index,
        };
        change.run(request)?;
        let image = change.image;
        self.put_in_force(image);
        match request {
            AuthRequest::Disable if !self.image.enabled => self.shared.tokens.lock().clear(),
            AuthRequest::UserDelete(pb::AuthUserDeleteRequest { name })
            | AuthRequest::UserChangePassword(pb::AuthUserChangePasswordRequest { name, .. }) => {
                self.shared.tokens.lock().invalidate(name);
            }
            _ => {}
        }
        Ok(())
    }

    fn put_in_force(&mut self, image: Image) {
        self.image = Arc::new(image);
        self.shared.publish(Arc::clone(&self.image));
    }
}

/// Key and value.
type RevisionRow = (&'static [u8], [u8; 8]);

/// The row of the auth revision, if the store has none. etcd writes it when it first opens a store;
/// a member without it would count changes from a different number.
pub fn default_revision_row(root: &Root) -> Result<Option<RevisionRow>, Error> {
    let row = root.side_get(Bucket::Auth, REVISION)?;
    let missing = row.is_none();
    Ok(missing.then_some((REVISION, FIRST_REVISION.to_be_bytes())))
}

/// True for a revision row with the default value, which is equivalent to having no row.
pub fn is_default_revision(key: &[u8], value: &[u8]) -> bool {
    key == REVISION && value == FIRST_REVISION.to_be_bytes()
}

fn load(root: &Root) -> Result<Image, Error> {
    let enabled = root.side_get(Bucket::Auth, ENABLED)?;
    let revision = root.side_get(Bucket::Auth, REVISION)?;
    let revision = match revision {
        None => FIRST_REVISION,
        Some(row) => {
            let row = row.as_slice().try_into();
            let row = row.map_err(|_| damaged("the auth revision", REVISION))?;
            u64::from_be_bytes(row).max(FIRST_REVISION)
        }
    };
    let users = rows(root, Bucket::AuthUsers, "a user")?;
    let roles = rows(root, Bucket::AuthRoles, "a role")?;
    let enabled = enabled.as_deref() == Some(&[1]);
    Ok(Image::new(enabled, revision, users, roles))
}

fn rows<M: Message + Default>(root: &Root, bucket: Bucket, what: &str) -> Result<Vec<M>, Error> {
    let (mut rows, mut bad) = (Vec::new(), None);
    root.side_scan(bucket, b"", &mut |key, value| {
        match auth::decode_row(value) {
            Some(row) => rows.push(row),
            None => bad = Some(damaged(what, key)),
        }
        ControlFlow::Continue(())
    })?;
    bad.map_or(Ok(rows), Err)
}

fn damaged(what: &str, key: &[u8]) -> Error {
    Error::Damaged(format!("{what} is damaged (row {})", key.escape_ascii()))
}

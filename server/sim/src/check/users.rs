//! Users and roles of a member are those of the log: the rows that it stores, and what it judges by.

use std::ops::ControlFlow;

use etcd_api::authpb;
use prost::Message;
use server::auth::Image;
use storage::mvcc::{Bucket, Root};

use super::Verdict;
use crate::model::users::{Permissions, User, Users};

/// What a member judges requests by.
pub fn same_image(image: &Image, expected: &Users) -> Verdict {
    let names = image.role_names().into_iter();
    let roles = names.filter_map(|name| image.role(&name).cloned());
    let users = image.users().map(|user| user.row.clone());
    let shown = all(image.enabled, image.revision, users, roles);
    same("judges by", &shown, expected)
}

/// What a member stores.
pub fn same_rows(root: &Root, expected: &Users) -> Verdict {
    let unreadable = |error: storage::Error| format!("it cannot be read: {error}");
    let get = |key| root.side_get(Bucket::Auth, key).map_err(unreadable);
    let is_enabled = get(b"authEnabled")?.as_deref() == Some(&[1]);
    let revision = match get(b"authRevision")? {
        None => 1,
        Some(row) => {
            let row = row.try_into().map_err(|row| format!("a row is {row:?}"))?;
            u64::from_be_bytes(row)
        }
    };
    let users = rows::<authpb::User>(root, Bucket::AuthUsers)?.into_iter();
    let roles = rows::<authpb::Role>(root, Bucket::AuthRoles)?.into_iter();
    same("stores", &all(is_enabled, revision, users, roles), expected)
}

fn rows<M: Message + Default>(root: &Root, bucket: Bucket) -> Result<Vec<M>, String> {
    let mut rows = Vec::new();
    let read = root.side_scan(bucket, b"", &mut |_, value| {
        rows.push(M::decode(value));
        ControlFlow::Continue(())
    });
    read.map_err(|error| format!("it cannot be read: {error}"))?;
    let rows: Result<_, _> = rows.into_iter().collect();
    rows.map_err(|error| format!("a row cannot be decoded: {error}"))
}

fn all(
    enabled: bool,
    revision: u64,
    users: impl Iterator<Item = authpb::User>,
    roles: impl Iterator<Item = authpb::Role>,
) -> Users {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let users = users.map(|row| {
        let options = row.options.unwrap_or_default();
        let user = User {
            password: row.password.to_vec(),
            has_no_password: options.no_password,
            roles: row.roles.into_iter().collect(),
        };
        (text(&row.name), user)
    });
    let roles = roles.map(|row| {
        let held = row.key_permission.into_iter().map(|held| {
            let range = (held.range_end.to_vec(), held.perm_type);
            (held.key.to_vec(), range)
        });
        (text(&row.name), held.collect::<Permissions>())
    });
    Users {
        enabled,
        revision,
        users: users.collect(),
        roles: roles.collect(),
    }
}

fn same(what: &str, shown: &Users, expected: &Users) -> Verdict {
    if shown == expected {
        Ok(())
    } else {
        Err(format!(
            "it {what} {shown:?}, by the log it is {expected:?}"
        ))
    }
}

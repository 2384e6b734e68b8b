//! Bootstrap tokens, with which new nodes introduce themselves: secrets of the type
//! `bootstrap.kubernetes.io/token`, one for each token.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::object;
use machinery::time::Timestamp;
use serde_json::Value;

use super::token::Objects;
use crate::auth::User;

/// The namespace of the secrets.
const NAMESPACE: &str = "kube-system";
/// The type of the secrets.
const TYPE: &str = "bootstrap.kubernetes.io/token";
/// The lengths of the halves of a token.
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 16;
/// The group of all bearers of such tokens, and the beginning of any other group of theirs.
const GROUP: &str = "system:bootstrappers";
/// The longest name of another group, after its beginning.
const GROUP_BYTES_MAX: usize = 256;

/// Returns the user of a token; `None` if it is no bootstrap token, or not a good one. Secrets come
/// from the caches: whoever makes up tokens shall not cause requests to the store.
pub(crate) fn user<O: Objects>(objects: &O, token: &str, now: Timestamp) -> Option<User> {
    let (id, secret) = parts(token)?;
    let found = objects.cached("secrets", NAMESPACE, &format!("bootstrap-token-{id}"))?;
    match judge(&found, id, secret, now) {
        Ok(user) => Some(user),
        Err(why) => {
            tracing::debug!(id, why, "a bootstrap token is refused");
            None
        }
    }
}

/// Splits a token of the form `abcdef.0123456789abcdef`.
fn parts(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_plain = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
    };
    let fits = id.len() == ID_BYTES && secret.len() == SECRET_BYTES;
    (fits && is_plain(id) && is_plain(secret)).then_some((id, secret))
}

fn judge(found: &Value, id: &str, secret: &str, now: Timestamp) -> Result<User, String> {
    if object::deletion_timestamp(found).is_some() {
        return Err("it is deleted and awaiting removal".to_owned());
    }
    if object::text(found, &["type"]) != TYPE {
        return Err(format!("it has another type than {TYPE}"));
    }
    let data = |key: &str| {
        let bytes = STANDARD.decode(object::text(found, &["data", key]));
        bytes.unwrap_or_default()
    };
    verify_slices_are_equal(&data("token-secret"), secret.as_bytes())
        .map_err(|_| "it has another token-secret".to_owned())?;
    if data("token-id") != id.as_bytes() {
        return Err("it has another token-id".to_owned());
    }
    let end = data("expiration");
    if !end.is_empty() {
        let end = Timestamp::parse(&String::from_utf8_lossy(&end));
        let end = end.ok_or("its expiration cannot be read")?;
        if (end.seconds, end.nanos) <= (now.seconds, now.nanos) {
            return Err("it has expired".to_owned());
        }
    }
    if data("usage-bootstrap-authentication") != b"true" {
        return Err("it is not for authentication".to_owned());
    }
    Ok(User {
        name: format!("system:bootstrap:{id}"),
        groups: groups(&String::from_utf8_lossy(&data("auth-extra-groups")))?,
        ..User::default()
    })
}

/// The groups of a token; `extra` are further ones with commas between them.
fn groups(extra: &str) -> Result<Vec<String>, String> {
    let mut groups = BTreeSet::from([GROUP.to_owned()]);
    if !extra.is_empty() {
        for group in extra.split(',') {
            if !is_group(group) {
                return Err(format!("bootstrap group {group:?} is invalid"));
            }
            groups.insert(group.to_owned());
        }
    }
    Ok(groups.into_iter().collect())
}

/// True for `system:bootstrappers:` and digits, small letters, colons and hyphens, of which the
/// last is one of the former two.
fn is_group(group: &str) -> bool {
    let name = group
        .strip_prefix(GROUP)
        .and_then(|name| name.strip_prefix(':'));
    let Some(last) = name.and_then(|name| name.bytes().last()) else {
        return false;
    };
    let is_plain = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
    name.is_some_and(|name| {
        name.len() <= GROUP_BYTES_MAX
            && name
                .bytes()
                .all(|byte| is_plain(byte) || byte == b':' || byte == b'-')
    }) && is_plain(last)
}

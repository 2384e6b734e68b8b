//! Impersonation: which user the headers of a request ask for. Each part of that user must be
//! allowed by the verb `impersonate`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use http::request::Parts;
use machinery::schema::Kind;
use machinery::status::Status;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::user::{ANONYMOUS, UNAUTHENTICATED, service_account, service_account_groups};
use super::{Answer, Attributes, Authenticator, Authorizer, User};
use crate::storage::reader::Reader;

const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The user to impersonate, and the rights that takes.
#[derive(Debug, PartialEq, Eq)]
pub struct Impersonation {
    /// The user of the request once all rights are confirmed.
    pub user: User,
    /// The required rights.
    pub needed: Vec<Attributes>,
}

/// Lets users impersonate others if the authorizer allows it.
pub struct Impersonating {
    /// Authenticates the real requester.
    pub authenticator: Arc<dyn Authenticator>,
    /// Decides whom the requester may impersonate.
    pub authorizer: Arc<dyn Authorizer>,
}

impl Authenticator for Impersonating {
    fn authenticate<'a>(&'a self, reader: &'a Reader, request: &'a Parts) -> Answer<'a, User> {
        self.authenticator.authenticate(reader, request)
    }

    fn impersonate<'a>(
        &'a self,
        reader: &'a Reader,
        user: &'a User,
        request: &'a Parts,
    ) -> Answer<'a, Option<User>> {
        Box::pin(async move {
            let Some(asked) = requested(&request.headers, user)? else {
                return Ok(None);
            };
            for needed in &asked.needed {
                self.authorizer.authorize(reader, needed).await?;
            }
            Ok(Some(asked.user))
        })
    }

    fn review<'a>(
        &'a self,
        reader: &'a Reader,
        user: &'a User,
        kind: &'a Kind,
        object: Value,
    ) -> Answer<'a, Value> {
        self.authenticator.review(reader, user, kind, object)
    }
}

/// Reads the headers; `None` if they request no impersonation.
pub fn requested(headers: &HeaderMap, requester: &User) -> Result<Option<Impersonation>, Status> {
    let all = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    };
    let name = all("impersonate-user")
        .into_iter()
        .next()
        .unwrap_or_default();
    let uid = all("impersonate-uid")
        .into_iter()
        .next()
        .unwrap_or_default();
    let groups = all("impersonate-group");
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for header in headers.keys() {
        if let Some(key) = header.as_str().strip_prefix(EXTRA_PREFIX) {
            // A key that cannot be decoded stays as it is, so that the check covers it.
            let key = percent_decode_str(key).decode_utf8().unwrap_or(key.into());
            extra
                .entry(key.into_owned())
                .or_default()
                .extend(all(header.as_str()));
        }
    }
    if name.is_empty() {
        if groups.is_empty() && extra.is_empty() && uid.is_empty() {
            return Ok(None);
        }
        return Err(Status::bad_request(format!(
            "requested {} without impersonating a user name",
            as_go(&uid, &groups, &extra)
        )));
    }
    let needed = needed(requester, &name, &uid, &groups, &extra);
    let mut user = User {
        name,
        uid,
        groups,
        extra,
    };
    if user.groups.is_empty()
        && let Some((namespace, _)) = service_account(&user.name)
    {
        user.groups = service_account_groups(namespace);
    }
    let unauthenticated = user.groups.iter().any(|group| group == UNAUTHENTICATED);
    if user.name == ANONYMOUS && !unauthenticated {
        user.groups.push(UNAUTHENTICATED.into());
    }
    Ok(Some(Impersonation {
        user: user.authenticated(),
        needed,
    }))
}

/// A user without a name, as Go prints it.
fn as_go(uid: &str, groups: &[String], extra: &BTreeMap<String, Vec<String>>) -> String {
    let list = |texts: &[String]| match texts {
        [] => "[]string(nil)".to_owned(),
        texts => {
            let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
            format!("[]string{{{}}}", quoted.join(", "))
        }
    };
    let entries: Vec<String> = extra
        .iter()
        .map(|(key, values)| format!("{key:?}:{}", list(values)))
        .collect();
    let extra = match entries.as_slice() {
        [] => "map[string][]string(nil)".to_owned(),
        entries => format!("map[string][]string{{{}}}", entries.join(", ")),
    };
    let groups = list(groups);
    format!("&user.DefaultInfo{{Name:\"\", UID:{uid:?}, Groups:{groups}, Extra:{extra}}}")
}

fn needed(
    requester: &User,
    name: &str,
    uid: &str,
    groups: &[String],
    extra: &BTreeMap<String, Vec<String>>,
) -> Vec<Attributes> {
    let ask = |group: &str, resource: &str, subresource: &str, name: &str| Attributes {
        user: requester.clone(),
        verb: "impersonate".into(),
        api_group: group.into(),
        resource: resource.into(),
        subresource: subresource.into(),
        name: name.into(),
        ..Attributes::default()
    };
    let mut needed = vec![match service_account(name) {
        Some((namespace, account)) => Attributes {
            namespace: namespace.into(),
            ..ask("", "serviceaccounts", "", account)
        },
        None => ask("", "users", "", name),
    }];
    needed.extend(groups.iter().map(|group| ask("", "groups", "", group)));
    for (key, values) in extra {
        let values = values.iter();
        needed.extend(values.map(|value| ask(AUTHENTICATION, "userextras", key, value)));
    }
    if !uid.is_empty() {
        needed.push(ask(AUTHENTICATION, "uids", "", uid));
    }
    needed
}

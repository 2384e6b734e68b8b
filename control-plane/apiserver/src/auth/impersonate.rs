//! Impersonation: which user the headers of a request ask for, and whether its requester may act
//! as that user. [`modes`] says what rights that takes.

mod extra;
mod modes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use http::HeaderMap;
use http::request::Parts;
use machinery::schema::Kind;
use machinery::status::Status;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use tokio::time::Instant;

use super::metrics;
use super::notes::Notes;
use super::{Answer, Attributes, Authenticator, Authorizer, User};
use crate::storage::reader::Reader;
use modes::Mode;

const EXTRA_PREFIX: &str = "impersonate-extra-";
/// Upper bound of the requesters whose last mode is remembered.
const REMEMBERED_MAX: usize = 10_000;

/// As whom a request is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonated {
    /// The user of the request.
    pub user: User,
    /// The verb that allowed it, for the audit log; empty for the verb `impersonate`.
    pub constraint: &'static str,
}

/// Lets users impersonate others if the authorizer allows it.
pub struct Impersonating {
    /// Authenticates the real requester.
    pub authenticator: Arc<dyn Authenticator>,
    /// Decides whom the requester may impersonate.
    pub authorizer: Arc<dyn Authorizer>,
    /// The modes that requesters used.
    pub modes: Modes,
}

/// The mode by which each requester was allowed last. It is tried first: most requesters use one.
#[derive(Default)]
pub struct Modes(Mutex<HashMap<String, Mode>>);

/// Decides about single rights. The error is the refusal.
pub(crate) trait Rights: Sync {
    fn check<'a>(&'a self, asked: &'a Attributes) -> Answer<'a, ()>;
}

struct ByAuthorizer<'a> {
    reader: &'a Reader,
    authorizer: &'a dyn Authorizer,
}

impl Rights for ByAuthorizer<'_> {
    fn check<'a>(&'a self, asked: &'a Attributes) -> Answer<'a, ()> {
        Box::pin(async move {
            let begin = Instant::now();
            let checked = self.authorizer.authorize(self.reader, asked).await;
            let mode = mode_of(&asked.verb);
            metrics::checked_impersonation(mode, checked.is_ok(), begin.elapsed());
            checked
        })
    }
}

impl Authenticator for Impersonating {
    fn authenticate<'a>(
        &'a self,
        reader: &'a Reader,
        request: &'a Parts,
        notes: &'a Notes,
    ) -> Answer<'a, User> {
        self.authenticator.authenticate(reader, request, notes)
    }

    fn impersonate<'a>(
        &'a self,
        reader: &'a Reader,
        asked: &'a Attributes,
        request: &'a Parts,
    ) -> Answer<'a, Option<Impersonated>> {
        Box::pin(async move {
            let Some(wanted) = requested(&request.headers)? else {
                return Ok(None);
            };
            let rights = ByAuthorizer {
                reader,
                authorizer: &*self.authorizer,
            };
            let begin = Instant::now();
            let admitted = self.modes.admit(&rights, &wanted, asked).await;
            let mode = admitted.as_ref().map_or("", |one| mode_of(one.constraint));
            metrics::impersonated(mode, admitted.is_ok(), begin.elapsed());
            admitted.map(Some)
        })
    }

    fn review<'a>(
        &'a self,
        reader: &'a Reader,
        user: &'a User,
        kind: &'a Kind,
        object: Value,
        notes: &'a Notes,
    ) -> Answer<'a, Value> {
        self.authenticator.review(reader, user, kind, object, notes)
    }
}

impl Modes {
    /// Tries one mode after the other. The error is that of the first one that was tried.
    pub(crate) async fn admit(
        &self,
        rights: &dyn Rights,
        wanted: &User,
        asked: &Attributes,
    ) -> Result<Impersonated, Status> {
        let last = self.0.lock().get(&asked.user.name).copied();
        let others = Mode::ALL.into_iter().filter(|mode| Some(*mode) != last);
        let mut first = None;
        for mode in last.into_iter().chain(others) {
            if !mode.is_for(wanted, &asked.user) {
                continue;
            }
            match mode.check(rights, wanted, asked).await {
                Ok(user) => {
                    if Some(mode) != last {
                        self.remember(&asked.user.name, mode);
                    }
                    let constraint = mode.constraint();
                    return Ok(Impersonated { user, constraint });
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
    }

    fn remember(&self, requester: &str, mode: Mode) {
        let mut remembered = self.0.lock();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(requester.to_owned(), mode);
    }
}

/// The mode of a verb, as metrics name it.
fn mode_of(verb: &str) -> &str {
    let on = verb.strip_prefix("impersonate-on:");
    let on = on.and_then(|rest| rest.split(':').next());
    on.or_else(|| verb.strip_prefix("impersonate:"))
        .unwrap_or("legacy")
}

/// Reads the headers: the user as they name it, or `None` if they request no impersonation.
pub(crate) fn requested(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let all = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    };
    let one = |name: &str| all(name).into_iter().next().unwrap_or_default();
    let (name, uid) = (one("impersonate-user"), one("impersonate-uid"));
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
    Ok(Some(User {
        name,
        uid,
        groups,
        extra,
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

//! Authentication by the certificate of the connection, then by a bearer token, else as anonymous.
//! It does not know what users may do.

pub mod bootstrap_token;
pub mod config;
pub mod foreign_issuer;
pub mod front_proxy;
pub mod jwt;
pub mod openid;
pub mod secret_token;
#[cfg(test)]
mod tests;
pub mod token;
pub mod token_review;
mod used_secrets;
pub(crate) mod web_socket;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::ConnectInfo;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use machinery::object;
use machinery::schema::{self, Kind};
use machinery::status::Status;
use machinery::time::Timestamp;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::certificate::Peer;
use super::metrics;
use super::notes::Notes;
use super::review;
use super::{Answer, Authenticator, User};
use crate::basics::clock;
use crate::storage::reader::Reader;
use config::Anonymous;
use front_proxy::FrontProxy;
use openid::Providers;
use token::{Issuer, Objects};
use token_review::Reviewer;

/// Tokens from a file: `token,user,uid,"group,group"` in each line.
#[derive(Default)]
pub struct StaticTokens(HashMap<String, User>);

/// The user of a token, and its audiences.
#[derive(Debug)]
pub struct Known {
    /// The user.
    pub user: User,
    /// The requested audiences that the token is for.
    pub audiences: Vec<String>,
}

/// Authenticates users by certificate or token.
pub struct Credentials {
    /// Tokens from a file.
    pub tokens: StaticTokens,
    /// Tokens of service accounts.
    pub issuer: Arc<Issuer>,
    /// True if the tokens of bootstrap secrets are allowed in.
    pub bootstrap: bool,
    /// Knows the tokens of OpenID providers.
    pub openid: Providers,
    /// Knows further tokens.
    pub reviewer: Option<Reviewer>,
    /// Proxies that name users.
    pub proxies: Option<Arc<FrontProxy>>,
    /// Which requests without credentials are allowed in as `system:anonymous`.
    pub anonymous: Anonymous,
}

impl StaticTokens {
    /// Parses the text of the file.
    pub fn parse(text: &str) -> Result<StaticTokens, String> {
        let mut tokens = HashMap::new();
        for (place, record) in records(text)?.into_iter().enumerate() {
            let [token, name, uid, rest @ ..] = record.as_slice() else {
                return Err(format!(
                    "record {} has {} columns; at least 3 are needed (token, user name, user uid)",
                    place + 1,
                    record.len()
                ));
            };
            if token.is_empty() {
                continue;
            }
            // Only this process itself is a user without a name.
            if name.is_empty() {
                return Err(format!("record {} has no user name", place + 1));
            }
            let groups = rest
                .first()
                .map(|groups| groups.split(',').map(str::to_owned).collect());
            let user = User {
                name: name.clone(),
                uid: uid.clone(),
                groups: groups.unwrap_or_default(),
                ..User::default()
            };
            tokens.insert(token.clone(), user);
        }
        Ok(StaticTokens(tokens))
    }
}

impl Credentials {
    /// Returns the user of a request for a path with these headers from this peer. The error is the reason,
    /// for the log: the client learns only that it is not authenticated.
    pub async fn known<O: Objects>(
        &self,
        objects: &O,
        peer: &Peer,
        (path, headers): (&str, &HeaderMap),
        notes: &Notes,
        now: Timestamp,
    ) -> Result<User, String> {
        let mut refused = None;
        let peer = match peer {
            Peer::Proxy { not_after, own } => {
                if let Some(proxies) = &self.proxies
                    && now.seconds <= *not_after
                    && let Some(user) = proxies.user(headers)
                {
                    return Ok(user.authenticated());
                }
                own
            }
            other => other,
        };
        match peer {
            // The certificate is checked during the handshake; the connection may last longer than
            // it.
            Peer::Bearer(bearer) if now.seconds <= bearer.not_after => {
                return Ok(bearer.user.clone().authenticated());
            }
            Peer::Bearer(_) => refused = Some("the client certificate has expired".to_owned()),
            Peer::Refused(why) => refused = Some(why.clone()),
            // A proxy is no proxy within itself.
            Peer::Nobody | Peer::Proxy { .. } => {}
        }
        let shown = match bearer_token(headers) {
            Some(token) => Ok(Some(token)),
            None => web_socket::token(headers).map(|token| token.map(Cow::Owned)),
        };
        let known = match shown {
            Ok(Some(token)) => self
                .token(objects, &token, None, notes, now)
                .await
                .map(Some),
            Ok(None) => Ok(None),
            Err(why) => Err(why.to_owned()),
        };
        match (known, refused) {
            (Ok(Some(known)), _) => Ok(known.user),
            (Err(why), Some(first)) => Err(format!("[{first}, {why}]")),
            (Err(why), None) | (Ok(None), Some(why)) => Err(why),
            (Ok(None), None) if self.anonymous.is_for(path) => Ok(User::anonymous()),
            (Ok(None), None) => Err("no credentials".into()),
        }
    }

    /// Returns the user of a token. `audiences` are the requested ones; by default, this server's.
    pub async fn token<O: Objects>(
        &self,
        objects: &O,
        token: &str,
        audiences: Option<&[String]>,
        notes: &Notes,
        now: Timestamp,
    ) -> Result<Known, String> {
        let ours = self.issuer.audiences();
        let wanted = audiences.unwrap_or(ours);
        let for_us: Vec<_> = ours.iter().filter(|one| wanted.contains(one)).collect();
        let known = |user: User| Known {
            user: user.authenticated(),
            audiences: for_us.iter().copied().cloned().collect(),
        };
        // What names no audiences itself is only for this server.
        let is_for_us = !for_us.is_empty();
        if is_for_us && let Some(user) = self.tokens.0.get(token) {
            return Ok(known(user.clone()));
        }
        let mut refused = Vec::new();
        match self.of_account(objects, token, audiences, now).await {
            Ok(Some(known)) => return Ok(known),
            Ok(None) => {}
            Err(why) => refused.push(why),
        }
        if is_for_us {
            match secret_token::user(&self.issuer, objects, token, notes, now).await {
                Ok(Some(user)) => return Ok(known(user)),
                Ok(None) => {}
                Err(why) => refused.push(why),
            }
        }
        if is_for_us
            && self.bootstrap
            && let Some(user) = bootstrap_token::user(objects, token, now)
        {
            return Ok(known(user));
        }
        if is_for_us {
            match self.openid.find(token, now).await {
                Ok(Some(user)) => return Ok(known(user)),
                Ok(None) => {}
                Err(why) => refused.push(why),
            }
        }
        if let Some(reviewer) = &self.reviewer {
            match reviewer.find(token, wanted, ours).await {
                Ok(Some(found)) => {
                    return Ok(Known {
                        user: found.user.clone().authenticated(),
                        audiences: found.audiences.clone(),
                    });
                }
                Ok(None) => {}
                Err(why) => refused.push(why),
            }
        }
        Err(match refused.as_slice() {
            [] => "invalid bearer token".to_owned(),
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        })
    }

    /// Returns the service account of a token; `None` if it is no token of one.
    async fn of_account<O: Objects>(
        &self,
        objects: &O,
        token: &str,
        audiences: Option<&[String]>,
        now: Timestamp,
    ) -> Result<Option<Known>, String> {
        let Some(claims) = self.issuer.verify(token, audiences, now)? else {
            return Ok(None);
        };
        claims.check(objects, now).await?;
        metrics::VALID_TOKENS.count(&[]);
        Ok(Some(Known {
            user: claims.user().authenticated(),
            audiences: claims.audiences,
        }))
    }
}

impl Authenticator for Credentials {
    fn authenticate<'a>(
        &'a self,
        reader: &'a Reader,
        request: &'a Parts,
        notes: &'a Notes,
    ) -> Answer<'a, User> {
        Box::pin(async move {
            let peer = request.extensions.get::<ConnectInfo<Peer>>();
            let peer = peer.map_or(&Peer::Nobody, |ConnectInfo(peer)| peer);
            let path = percent_decode_str(request.uri.path()).decode_utf8_lossy();
            let asked = (&*path, &request.headers);
            let known = self.known(reader, peer, asked, notes, clock::now());
            known.await.map_err(|why| {
                tracing::debug!(why, "a request without valid credentials");
                Status::unauthorized()
            })
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
        Box::pin(async move {
            if kind.kind() == review::MYSELF {
                return Ok(review::myself(object, user, clock::now()));
            }
            let (token, audiences) = review::token_asked(&object)?;
            let audiences = audiences.as_deref();
            let known = self.token(reader, &token, audiences, notes, clock::now());
            let known = known.await;
            let known = known.map(|known| (known.user, known.audiences));
            Ok(review::token_answer(object, known))
        })
    }
}

impl Objects for Reader {
    fn cached(&self, resource: &'static str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let kind = schema::resource("", "v1", resource)?;
        Reader::cached(self, kind, namespace, name)
    }

    async fn find(
        &self,
        resource: &'static str,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
    ) -> Result<Option<Arc<Value>>, Status> {
        let kind = schema::resource("", "v1", resource).ok_or_else(Status::unknown_path)?;
        if let Some(found) = self.cached(kind, namespace, name)
            && uid == Some(object::uid(&found))
        {
            return Ok(Some(found));
        }
        match self.get(kind, namespace, name).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the token of an `Authorization: Bearer` header. One that is no text is a wrong token, and
/// not none: whoever shows one is never anonymous.
fn bearer_token(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    fn within(value: &str) -> Option<&str> {
        let (scheme, token) = value.trim().split_once(' ')?;
        let token = token.split(' ').next().unwrap_or_default();
        (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
    }
    match String::from_utf8_lossy(headers.get(AUTHORIZATION)?.as_bytes()) {
        Cow::Borrowed(value) => within(value).map(Cow::Borrowed),
        Cow::Owned(value) => within(&value).map(|token| Cow::Owned(token.to_owned())),
    }
}

/// Parses comma-separated values. A quoted field may hold commas, line ends and doubled quotes.
fn records(text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut records = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut record = Vec::new();
        loop {
            let (field, after) = field(rest)?;
            record.push(field);
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = after.strip_prefix('\r').unwrap_or(after);
                    rest = rest.strip_prefix('\n').unwrap_or(rest);
                    break;
                }
            }
        }
        if record.iter().any(|field| !field.is_empty()) {
            records.push(record);
        }
    }
    Ok(records)
}

/// Returns the first field and the rest, which begins with a comma, a line end or nothing.
fn field(text: &str) -> Result<(String, &str), String> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let end = text.find([',', '\n']).unwrap_or(text.len());
        let field = &text[..end];
        if field.contains('"') {
            return Err("bare \" in a field that is not quoted".into());
        }
        let field = field.strip_suffix('\r').unwrap_or(field);
        return Ok((field.to_owned(), &text[end..]));
    };
    let mut field = String::new();
    loop {
        let (before, after) = rest.split_once('"').ok_or("a quoted field has no end")?;
        field.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None if after.is_empty() || after.starts_with([',', '\n', '\r']) => {
                return Ok((field, after));
            }
            None => return Err("text after a quoted field".into()),
        }
    }
}

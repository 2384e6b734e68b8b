//! Tokens of an OpenID provider: whose they are, by their claims.

mod provider;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use http::Uri;
use machinery::time::Timestamp;
use serde_json::Value;

use super::jwt::foreign::{ALGORITHMS, Unchecked};
use super::jwt::unverified_issuer;
use crate::auth::User;
use crate::auth::user;
use crate::webhook::trust;
use provider::Provider;

/// Greatest assumed difference between clocks at the beginning of a token.
const LEEWAY_SECONDS: f64 = 60.0;

/// The provider, and what its claims mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The URL of the provider, as its tokens say it.
    pub issuer: String,
    /// Whom tokens have to be for.
    pub client_id: String,
    /// The claim with the name of the user.
    pub username_claim: String,
    /// What is put before names; `-` for nothing. If it is empty, the issuer and `#`, except for
    /// the claim `email`.
    pub username_prefix: String,
    /// The claim with the groups of the user, one or a list; empty if there is none.
    pub groups_claim: String,
    /// What is put before groups.
    pub groups_prefix: String,
    /// Claims that a token has to have, with their values.
    pub required_claims: Vec<(String, String)>,
    /// The algorithms that tokens may be signed with.
    pub algorithms: Vec<String>,
    /// The provider's authorities, in PEM; those of this machine if there is none.
    pub authority: Option<PathBuf>,
}

/// Knows the users of a provider's tokens.
pub struct OpenId {
    options: Options,
    prefix: String,
    provider: Provider,
}

impl Options {
    /// Checks the options. `ours` are the issuers of this server's own tokens.
    pub fn validate(&self, ours: &[String]) -> Result<(), String> {
        let refused = |what: &str| {
            let issuer = &self.issuer;
            Err(format!(
                "invalid authentication configuration: jwt[0].issuer.url: Invalid value: \
                 {issuer:?}: {what}"
            ))
        };
        if ours.contains(&self.issuer) {
            return refused(&format!(
                "URL must not overlap with disallowed issuers: [{}]",
                ours.join(" ")
            ));
        }
        let uri: Uri = match self.issuer.parse() {
            Ok(uri) => uri,
            Err(error) => return refused(&format!("{error}")),
        };
        if uri.scheme_str() != Some("https") {
            return refused("URL scheme must be https");
        }
        if uri
            .authority()
            .is_some_and(|one| one.as_str().contains('@'))
        {
            return refused("URL must not contain a username or password");
        }
        if uri.query().is_some_and(|query| !query.is_empty()) {
            return refused("URL must not contain a query");
        }
        if self.issuer.contains('#') {
            return refused("URL must not contain a fragment");
        }
        let is_known = |one: &&String| !ALGORITHMS.contains(&one.as_str());
        match self.algorithms.iter().find(is_known) {
            Some(other) => Err(format!("oidc: unsupported signing alg: {other:?}")),
            None => Ok(()),
        }
    }
}

impl OpenId {
    /// Begins to look for the provider. It needs a tokio runtime. Until the provider was found, its
    /// tokens let nobody in.
    pub fn start(options: Options) -> Result<OpenId, String> {
        let bundle = match &options.authority {
            Some(path) => Some(
                std::fs::read_to_string(path)
                    .map_err(|error| format!("{}: {error}", path.display()))?,
            ),
            None => None,
        };
        let connector = trust::connector_to(bundle.as_ref().map(String::as_bytes), None)?;
        let prefix = match options.username_prefix.as_str() {
            "-" => String::new(),
            "" if options.username_claim != "email" => format!("{}#", options.issuer),
            given => given.to_owned(),
        };
        Ok(OpenId {
            provider: Provider::start(&options.issuer, connector),
            prefix,
            options,
        })
    }

    /// Returns the user of a token; `None` if it is of another issuer, or no token at all.
    pub(crate) async fn find(&self, token: &str, now: Timestamp) -> Result<Option<User>, String> {
        let issuer = unverified_issuer(token);
        if issuer.as_deref().map(full) != Some(&self.options.issuer) {
            return Ok(None);
        }
        let Ok(token) = Unchecked::of(token) else {
            return Err("oidc: verify token: oidc: malformed jwt".to_owned());
        };
        let allowed = &self.options.algorithms;
        if !allowed.contains(&token.algorithm) {
            return Err(format!(
                "oidc: verify token: oidc: id token signed with unsupported algorithm, expected \
                 {allowed:?} got {:?}",
                token.algorithm
            ));
        }
        let claims = self.provider.verify(&token).await?;
        self.user(&claims, now).map(Some)
    }

    fn user(&self, claims: &Value, now: Timestamp) -> Result<User, String> {
        self.check(claims, now)?;
        let claim = &self.options.username_claim;
        let name = text(claims, claim);
        let name = name.map_err(|why| format!("oidc: parse username claims {claim:?}: {why}"))?;
        let is_verified = claims.get("email_verified").is_none_or(|one| *one == true);
        if claim == "email" && !is_verified {
            return Err("oidc: email not verified".to_owned());
        }
        let mut user = User {
            name: format!("{}{name}", self.prefix),
            groups: self.groups(claims)?,
            ..User::default()
        };
        // Only this process itself is a user without a name.
        if name.is_empty() {
            return Err("oidc: the token names no user".to_owned());
        }
        if let Ok(id) = text(claims, "jti")
            && !id.is_empty()
        {
            let id = vec![format!("JTI={id}")];
            user.extra.insert(user::CREDENTIAL_ID.to_owned(), id);
        }
        for (claim, wanted) in &self.options.required_claims {
            let given = match text(claims, claim) {
                Ok(given) => given,
                Err(why) => return Err(format!("oidc: parse claim {claim}: {why}")),
            };
            if given != wanted {
                return Err(format!(
                    "oidc: required claim {claim} value does not match. Got = {given}, want = \
                     {wanted}"
                ));
            }
        }
        Ok(user)
    }

    /// Checks issuer, audience and time.
    fn check(&self, claims: &Value, now: Timestamp) -> Result<(), String> {
        let Options {
            issuer, client_id, ..
        } = &self.options;
        let given = claims.get("iss").and_then(Value::as_str).unwrap_or("");
        if full(given) != issuer {
            return Err(format!(
                "oidc: id token issued by a different provider, expected {issuer:?} got {given:?}"
            ));
        }
        let is_ours = |one: &Value| one == client_id.as_str();
        let for_us = match claims.get("aud") {
            Some(Value::Array(all)) => all.iter().any(is_ours),
            Some(one) => is_ours(one),
            None => false,
        };
        if !for_us {
            let given = claims.get("aud").unwrap_or(&Value::Null);
            return Err(format!("oidc: expected audience {client_id:?} got {given}"));
        }
        let time = |key: &str| claims.get(key).and_then(Value::as_f64);
        let now = now.seconds as f64;
        if time("exp").is_none_or(|end| end < now) {
            return Err("oidc: token is expired".to_owned());
        }
        match claims.get("nbf") {
            None | Some(Value::Null) => Ok(()),
            Some(begin)
                if begin
                    .as_f64()
                    .is_some_and(|begin| begin <= now + LEEWAY_SECONDS) =>
            {
                Ok(())
            }
            Some(_) => Err("oidc: the token is not valid yet".to_owned()),
        }
    }

    fn groups(&self, claims: &Value) -> Result<Vec<String>, String> {
        let Options {
            groups_claim,
            groups_prefix,
            ..
        } = &self.options;
        if groups_claim.is_empty() {
            return Ok(Vec::new());
        }
        let refused = |what: &str| format!("oidc: parse groups claim {groups_claim:?}: {what}");
        let groups = match claims.get(groups_claim) {
            None => {
                // The groups are elsewhere, and nobody fetches them: better no user than half of one.
                let elsewhere = claims
                    .get("_claim_names")
                    .is_some_and(|names| names.get(groups_claim).is_some());
                return if elsewhere {
                    Err(refused("distributed claims are not supported"))
                } else {
                    Ok(Vec::new())
                };
            }
            Some(Value::Null) => &[][..],
            Some(Value::Array(all)) => all,
            Some(one) => std::slice::from_ref(one),
        };
        let named = groups.iter().map(|group| {
            let group = group.as_str().ok_or_else(|| refused("not a string"))?;
            Ok(format!("{groups_prefix}{group}"))
        });
        named.collect()
    }
}

/// The text of a claim.
fn text<'a>(claims: &'a Value, name: &str) -> Result<&'a str, &'static str> {
    let claim = claims.get(name).ok_or("claim not present")?;
    claim.as_str().ok_or("not a string")
}

/// One provider leaves the scheme out of its name.
fn full(issuer: &str) -> &str {
    match issuer {
        "accounts.google.com" => "https://accounts.google.com",
        issuer => issuer,
    }
}

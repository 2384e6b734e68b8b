//! Tokens of OpenID providers: whose they are, by their claims.

mod claims;
mod provider;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use machinery::status::told_together;
use machinery::time::Timestamp;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::time::Instant;

use super::config::{self, Configuration};
use super::foreign_issuer::{ClaimRule, Compiled, Issuer, Jwt, Mapping, Mappings};
use super::jwt::foreign::{ALGORITHMS, Unchecked};
use super::jwt::unverified_issuer;
use crate::auth::User;
use crate::basics::changing_file::{self, Changed};
use crate::basics::reloads;
use crate::webhook::trust;
use provider::Provider;

/// Greatest assumed difference between clocks at the beginning of a token.
const LEEWAY_SECONDS: f64 = 60.0;
/// How long the providers of a changed configuration may take to be found. Until then the old one
/// holds.
const FOUND_WITHIN: Duration = Duration::from_secs(60);
/// How often it is looked whether they were found.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One provider, and what its claims mean, as flags say it.
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
    jwt: Jwt,
    compiled: Compiled,
    /// The algorithms that tokens may be signed with.
    algorithms: Vec<String>,
    provider: Provider,
}

/// All providers. They may change with their file.
#[derive(Default)]
pub struct Providers {
    current: Arc<RwLock<Arc<Vec<OpenId>>>>,
    _changes: Option<changing_file::Watch>,
}

impl Options {
    /// Checks the options. `ours` are the issuers of this server's own tokens.
    pub fn validate(&self, ours: &[String]) -> Result<(), String> {
        let is_unknown = |one: &&String| !ALGORITHMS.contains(&one.as_str());
        if let Some(other) = self.algorithms.iter().find(is_unknown) {
            return Err(format!("oidc: unsupported signing alg: {other:?}"));
        }
        let mut causes = Vec::new();
        self.jwt(String::new()).check("jwt[0]", ours, &mut causes);
        if causes.is_empty() {
            return Ok(());
        }
        let causes = told_together(&causes);
        Err(format!("invalid authentication configuration: {causes}"))
    }

    /// The same as in a file, with these authorities in PEM.
    fn jwt(&self, certificate_authority: String) -> Jwt {
        let claim = |claim: &str, prefix: &str| match claim {
            "" => Mapping::default(),
            claim => Mapping {
                claim: claim.to_owned(),
                prefix: Some(prefix.to_owned()),
                ..Mapping::default()
            },
        };
        let prefix = match self.username_prefix.as_str() {
            "-" => String::new(),
            "" if self.username_claim != "email" => format!("{}#", self.issuer),
            given => given.to_owned(),
        };
        let required = self.required_claims.iter().map(|(claim, value)| ClaimRule {
            claim: claim.clone(),
            required_value: value.clone(),
            ..ClaimRule::default()
        });
        Jwt {
            issuer: Issuer {
                url: self.issuer.clone(),
                audiences: vec![self.client_id.clone()],
                certificate_authority,
                ..Issuer::default()
            },
            claim_validation_rules: required.collect(),
            claim_mappings: Mappings {
                username: claim(&self.username_claim, &prefix),
                groups: claim(&self.groups_claim, &self.groups_prefix),
                ..Mappings::default()
            },
            ..Jwt::default()
        }
    }
}

impl Providers {
    /// Begins to look for the provider that flags name.
    pub fn of_flags(options: &Options) -> Result<Providers, String> {
        Ok(Providers {
            current: Arc::new(RwLock::new(Arc::new(vec![OpenId::start(options)?]))),
            _changes: None,
        })
    }

    /// Begins to look for the providers of a configuration, which is in a file with this text, and
    /// follows that. `ours` are the issuers of this server's own tokens.
    pub fn of_file(
        path: PathBuf,
        text: &str,
        configuration: Configuration,
        ours: Vec<String>,
    ) -> Result<Providers, String> {
        let current = Arc::new(RwLock::new(Arc::new(all(configuration.jwt)?)));
        let (anonymous, changing) = (configuration.anonymous, Arc::clone(&current));
        let take = move |text: String| -> Result<Vec<OpenId>, Changed> {
            let newer = config::parse(&text, &ours, Some(&anonymous)).map_err(Changed::Bad)?;
            all(newer.jwt).map_err(Changed::Bad)
        };
        let changes = changing_file::watch(
            "authentication config",
            &reloads::AUTHENTICATION,
            path,
            text.to_owned(),
            move |text| {
                let (taken, changing) = (take(text), Arc::clone(&changing));
                Box::pin(async move {
                    let newer = taken?;
                    are_found(&newer).await?;
                    *changing.write() = Arc::new(newer);
                    Ok(())
                })
            },
        );
        Ok(Providers {
            current,
            _changes: Some(changes),
        })
    }

    /// Returns the user of a token; `None` if no provider has made it.
    pub(crate) async fn find(&self, token: &str, now: Timestamp) -> Result<Option<User>, String> {
        let current = Arc::clone(&self.current.read());
        for one in current.iter() {
            if let Some(user) = one.find(token, now).await? {
                return Ok(Some(user));
            }
        }
        Ok(None)
    }
}

fn all(jwt: Vec<Jwt>) -> Result<Vec<OpenId>, String> {
    let algorithms = || ALGORITHMS.map(str::to_owned).to_vec();
    let jwt = jwt.into_iter();
    jwt.map(|jwt| OpenId::open(jwt, algorithms())).collect()
}

/// Waits until all are found.
async fn are_found(providers: &[OpenId]) -> Result<(), Changed> {
    let end = Instant::now() + FOUND_WITHIN;
    for one in providers {
        while !one.provider.is_found() {
            if Instant::now() >= end {
                return Err(Changed::NotYet(format!(
                    "oidc: authenticator for issuer {:?} is not healthy: it is not initialized",
                    one.jwt.issuer.url
                )));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}

impl OpenId {
    /// Begins to look for the provider. It needs a tokio runtime. Until the provider was found, its
    /// tokens let nobody in.
    fn start(options: &Options) -> Result<OpenId, String> {
        let authority = match &options.authority {
            Some(path) => changing_file::read(path)?,
            None => String::new(),
        };
        OpenId::open(options.jwt(authority), options.algorithms.clone())
    }

    fn open(jwt: Jwt, algorithms: Vec<String>) -> Result<OpenId, String> {
        let bundle = Some(jwt.issuer.certificate_authority.as_bytes());
        let bundle = bundle.filter(|bundle| !bundle.is_empty());
        let connector = trust::connector_to(bundle, None)?;
        let mut causes = Vec::new();
        let compiled = Compiled::of(&jwt, "jwt", &mut causes);
        if !causes.is_empty() {
            return Err(told_together(&causes));
        }
        Ok(OpenId {
            provider: Provider::start(&jwt.issuer.url, &jwt.issuer.discovery_url, connector),
            compiled,
            jwt,
            algorithms,
        })
    }

    /// Returns the user of a token; `None` if it is of another issuer, or no token at all.
    async fn find(&self, token: &str, now: Timestamp) -> Result<Option<User>, String> {
        let issuer = unverified_issuer(token);
        if issuer.as_deref().map(full) != Some(&self.jwt.issuer.url) {
            return Ok(None);
        }
        let Ok(token) = Unchecked::of(token) else {
            return Err("oidc: verify token: oidc: malformed jwt".to_owned());
        };
        let allowed = &self.algorithms;
        if !allowed.contains(&token.algorithm) {
            return Err(format!(
                "oidc: verify token: oidc: id token signed with unsupported algorithm, expected \
                 {allowed:?} got {:?}",
                token.algorithm
            ));
        }
        let claims = self.provider.verify(&token).await?;
        self.check(&claims, now)?;
        claims::user(&self.jwt, &self.compiled, &claims).map(Some)
    }

    /// Checks issuer, audience and time.
    fn check(&self, claims: &Value, now: Timestamp) -> Result<(), String> {
        let issuer = &self.jwt.issuer;
        let given = claims.get("iss").and_then(Value::as_str).unwrap_or("");
        if full(given) != issuer.url {
            return Err(format!(
                "oidc: id token issued by a different provider, expected {:?} got {given:?}",
                issuer.url
            ));
        }
        let is_ours = |one: &Value| issuer.audiences.iter().any(|ours| one == ours.as_str());
        let for_us = match claims.get("aud") {
            Some(Value::Array(all)) => all.iter().any(is_ours),
            Some(one) => is_ours(one),
            None => false,
        };
        if !for_us {
            let given = claims.get("aud").unwrap_or(&Value::Null);
            return Err(match issuer.audiences.as_slice() {
                [one] => format!("oidc: expected audience {one:?} got {given}"),
                several => format!("oidc: expected audience in {several:?} got {given}"),
            });
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
}

/// One provider leaves the scheme out of its name.
fn full(issuer: &str) -> &str {
    match issuer {
        "accounts.google.com" => "https://accounts.google.com",
        issuer => issuer,
    }
}

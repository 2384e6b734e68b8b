//! Tokens of service accounts: their claims and lifetime, and whether the objects they are bound to
//! still exist. It does not know how a token arrived.

mod claims;
mod request;
#[cfg(test)]
pub(crate) mod tests;

use std::future::Future;
use std::sync::Arc;

use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use super::jwt::public::PublicKey;
use super::jwt::{self, Key, Refused};
use super::used_secrets::Used;
pub use claims::{Claims, Reference};
use claims::{audiences_of, check_time};
pub use request::{SECONDS_OF_POD, set_defaults};

/// Lookup of objects of the core group, for tokens.
pub trait Objects: Sync {
    /// Returns the object as it was a moment ago, without a request to the store.
    fn cached(&self, resource: &'static str, namespace: &str, name: &str) -> Option<Arc<Value>>;

    /// Returns the object, if it exists. `uid` is the expected one, if known: a cached object with
    /// another uid is read again.
    fn find(
        &self,
        resource: &'static str,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
    ) -> impl Future<Output = Result<Option<Arc<Value>>, Status>> + Send;
}

/// Issues tokens and verifies them.
pub struct Issuer {
    /// Signs new tokens.
    signing: Key,
    /// Check tokens; the first belongs to the key that signs.
    checking: Vec<PublicKey>,
    /// What tokens say of who made them: new ones the first, old ones any.
    names: Vec<String>,
    /// Whom tokens are for when nobody says: this server.
    audiences: Vec<String>,
    /// Tokens of secrets that were used.
    pub(crate) used: Used,
}

impl Issuer {
    /// An issuer of this name, which signs with this key.
    pub fn new(name: String, audiences: Vec<String>, key: Key) -> Issuer {
        Issuer {
            checking: vec![key.public.clone()],
            signing: key,
            names: vec![name],
            audiences,
            used: Used::default(),
        }
    }

    /// Lets tokens in, too, that were made under another name or signed with other keys.
    #[must_use]
    pub fn accepting(mut self, names: &[String], keys: Vec<PublicKey>) -> Issuer {
        self.names.extend_from_slice(names);
        for key in keys {
            if !self.checking.contains(&key) {
                self.checking.push(key);
            }
        }
        self
    }

    /// What tokens say of who made them.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What new tokens say of who made them.
    fn name(&self) -> &str {
        &self.names[0]
    }

    /// Whom tokens are for when nobody says.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// The documents that publish the public keys.
    pub fn document(&self, path: &str) -> Option<Value> {
        match path {
            "/.well-known/openid-configuration" => {
                let mut algorithms: Vec<_> =
                    self.checking.iter().map(PublicKey::algorithm).collect();
                algorithms.sort_unstable();
                algorithms.dedup();
                Some(json!({
                    "issuer": self.name(),
                    "jwks_uri": format!("{}/openid/v1/jwks", self.name().trim_end_matches('/')),
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": algorithms,
                }))
            }
            "/openid/v1/jwks" => {
                let keys: Vec<Value> = self.checking.iter().map(PublicKey::jwk).collect();
                Some(json!({ "keys": keys }))
            }
            _ => None,
        }
    }

    /// Checks everything of a token except that the objects it is bound to still exist. `None` if
    /// it is no signed token or has another issuer.
    pub fn verify(
        &self,
        token: &str,
        audiences: Option<&[String]>,
        now: Timestamp,
    ) -> Result<Option<Claims>, String> {
        let issuer = jwt::unverified_issuer(token);
        if !issuer.is_some_and(|issuer| self.names.contains(&issuer)) {
            return Ok(None);
        }
        let Some(said) = self.signed(token)? else {
            return Ok(None);
        };
        check_time(&said, now)?;
        let mut claims = Claims::of(&said)?;
        let wanted = audiences.unwrap_or(&self.audiences);
        let mut given = audiences_of(&said);
        if given.is_empty() {
            given.clone_from(&self.audiences);
        }
        claims.audiences = given
            .iter()
            .filter(|one| wanted.contains(one))
            .cloned()
            .collect();
        if claims.audiences.is_empty() {
            return Err(format!(
                "token audiences {given:?} is invalid for the target audiences {wanted:?}"
            ));
        }
        Ok(Some(claims))
    }

    /// The claims of a token that is signed with one of the keys. `None` if it is no signed token.
    pub(super) fn signed(&self, token: &str) -> Result<Option<Value>, String> {
        for key in &self.checking {
            match key.verify(token) {
                Ok(claims) => return Ok(Some(claims)),
                Err(Refused::NotOne) => return Ok(None),
                Err(Refused::Signature) => {}
            }
        }
        Err("invalid signature, no keys found".to_owned())
    }

    /// A token with any claims.
    #[cfg(test)]
    pub(super) fn sign_for_tests(&self, claims: &Value) -> String {
        self.signing.sign(claims).unwrap()
    }
}

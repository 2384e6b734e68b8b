//! The claims of a token: when it counts, what it is bound to, and which user it is.

use machinery::object;
use machinery::time::Timestamp;
use serde_json::Value;

use super::Objects;
use crate::auth::User;
use crate::auth::user::{self, service_account_groups, service_account_name};

/// Greatest assumed difference between clocks.
pub(super) const LEEWAY_SECONDS: i64 = 60;

/// An object that a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its uid; empty for a node that did not exist.
    pub uid: String,
}

/// The claims of one of our tokens, after its signature and time were checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    namespace: String,
    account: Reference,
    pod: Option<Reference>,
    secret: Option<Reference>,
    node: Option<Reference>,
    id: String,
    /// The requested audiences that the token is for.
    pub audiences: Vec<String>,
}

impl Reference {
    pub(super) fn of(object: &Value) -> Reference {
        Reference {
            name: object::name(object).to_owned(),
            uid: object::uid(object).to_owned(),
        }
    }
}

impl Claims {
    pub(super) fn of(said: &Value) -> Result<Claims, String> {
        let ours = said
            .get("kubernetes.io")
            .ok_or("the token names no service account")?;
        let reference = |key: &str| {
            ours.get(key)
                .filter(|one| one.is_object())
                .map(|one| Reference {
                    name: object::text(one, &["name"]).to_owned(),
                    uid: object::text(one, &["uid"]).to_owned(),
                })
        };
        let account = reference("serviceaccount").ok_or("the token names no service account")?;
        Ok(Claims {
            namespace: object::text(ours, &["namespace"]).to_owned(),
            account,
            pod: reference("pod"),
            secret: reference("secret"),
            node: reference("node"),
            id: object::text(said, &["jti"]).to_owned(),
            audiences: Vec::new(),
        })
    }

    /// Checks that the account, and the objects the token is bound to, still exist with the same
    /// uid. An object in deletion counts until the leeway after its deletion time is over.
    pub async fn check<O: Objects>(&self, objects: &O, now: Timestamp) -> Result<(), String> {
        let namespace = self.namespace.as_str();
        let of_node = self.node.as_ref().filter(|_| self.pod.is_none());
        let all = [
            (
                "service account",
                "serviceaccounts",
                namespace,
                Some(&self.account),
            ),
            ("secret", "secrets", namespace, self.secret.as_ref()),
            ("pod", "pods", namespace, self.pod.as_ref()),
            ("node", "nodes", "", of_node),
        ];
        for (what, resource, namespace, wanted) in all {
            let Some(Reference { name, uid }) = wanted else {
                continue;
            };
            let gone = || match resource {
                "serviceaccounts" => format!("service account {namespace}/{name} has been deleted"),
                _ => "service account token has been invalidated".to_owned(),
            };
            let found = objects.find(resource, namespace, name, Some(uid)).await;
            let found = found.map_err(|error| error.message)?.ok_or_else(gone)?;
            if object::uid(&found) != uid {
                let stored = object::uid(&found);
                return Err(format!(
                    "{what} UID ({stored}) does not match claim ({uid})"
                ));
            }
            let deleted = object::deletion_timestamp(&found).and_then(Timestamp::parse);
            if deleted.is_some_and(|at| at.seconds < now.seconds - LEEWAY_SECONDS) {
                return Err(gone());
            }
        }
        Ok(())
    }

    /// The user of the token.
    pub fn user(&self) -> User {
        let mut user = User {
            name: service_account_name(&self.namespace, &self.account.name),
            uid: self.account.uid.clone(),
            groups: service_account_groups(&self.namespace),
            ..User::default()
        };
        let mut extra = |key: &str, value: &str| {
            if !value.is_empty() {
                user.extra.insert(key.to_owned(), vec![value.to_owned()]);
            }
        };
        if !self.id.is_empty() {
            extra(user::CREDENTIAL_ID, &format!("JTI={}", self.id));
        }
        if let Some(pod) = &self.pod {
            extra("authentication.kubernetes.io/pod-name", &pod.name);
            extra("authentication.kubernetes.io/pod-uid", &pod.uid);
        }
        if let Some(node) = &self.node {
            extra(user::NODE_NAME, &node.name);
            extra("authentication.kubernetes.io/node-uid", &node.uid);
        }
        user
    }
}

pub(super) fn check_time(said: &Value, now: Timestamp) -> Result<(), String> {
    let time = |key: &str| said.get(key).and_then(Value::as_f64).map(|at| at as i64);
    let before = |at: i64| now.seconds + LEEWAY_SECONDS < at;
    if time("nbf").is_some_and(before) {
        return Err("service account token is not valid yet".into());
    }
    if time("exp").is_some_and(|at| now.seconds - LEEWAY_SECONDS > at) {
        return Err("service account token has expired".into());
    }
    if time("iat").is_some_and(before) {
        return Err("service account token is issued in the future".into());
    }
    Ok(())
}

/// Reads `aud` or `audiences`; `aud` may be a single string.
pub(super) fn audiences_of(value: &Value) -> Vec<String> {
    let given = value.get("aud").or_else(|| value.get("audiences"));
    match given {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(all)) => all
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

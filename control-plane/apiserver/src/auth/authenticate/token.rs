//! Tokens of service accounts: their claims and lifetime, and whether the objects they are bound to
//! still exist. It does not know how a token arrived.

#[cfg(test)]
pub(crate) mod tests;

use std::future::Future;
use std::sync::Arc;

use machinery::object;
use machinery::status::{Cause, Status};
use machinery::time::Timestamp;
use serde_json::{Map, Value, json};

use super::jwt::public::PublicKey;
use super::jwt::{self, Key, Refused};
use super::secret_token::Used;
use crate::auth::User;
use crate::auth::user::{self, service_account_groups, service_account_name};

/// Shortest lifetime that a request may ask for, in seconds.
const SECONDS_MIN: i64 = 600;
/// Longest lifetime that a request may ask for.
const SECONDS_MAX: i64 = 1 << 32;
/// Lifetime if a request names none.
const SECONDS_DEFAULT: i64 = 3600;
/// The lifetime that a pod's volume asks for. Such a token lives a year and only counts as stale
/// after this time, because some clients read the file once.
pub const SECONDS_OF_POD: i64 = 3607;
const SECONDS_OF_POD_EXTENDED: i64 = 365 * 24 * 3600;
/// Greatest assumed difference between clocks.
const LEEWAY_SECONDS: i64 = 60;

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
        let mut said = None;
        for key in &self.checking {
            match key.verify(token) {
                Ok(claims) => said = Some(claims),
                Err(Refused::NotOne) => return Ok(None),
                Err(Refused::Signature) => {}
            }
        }
        let said = said.ok_or("invalid signature, no keys found")?;
        Ok(Some(said))
    }

    /// A token with any claims.
    #[cfg(test)]
    pub(super) fn sign_for_tests(&self, claims: &Value) -> String {
        self.signing.sign(claims).unwrap()
    }

    /// Answers a TokenRequest for a service account. `id` is the unique id of the token.
    pub async fn issue<O: Objects>(
        &self,
        objects: &O,
        account: &Value,
        mut request: Value,
        id: String,
        now: Timestamp,
    ) -> Result<Value, Status> {
        self.complete(account, &mut request, now)?;
        let (pod, secret, node) = bound(objects, account, &request).await?;
        let asked = seconds_asked(&request);
        let audiences = audiences_of(&request["spec"]);
        let ours = audiences.iter().all(|one| self.audiences.contains(one));
        let extended = asked == SECONDS_OF_POD && pod.is_some() && ours;
        let mut kubernetes = Map::new();
        kubernetes.insert("namespace".into(), object::namespace(account).into());
        let reference = |one: &Reference| json!({ "name": one.name, "uid": one.uid });
        kubernetes.insert("serviceaccount".into(), reference(&Reference::of(account)));
        for (key, one) in [("pod", &pod), ("secret", &secret), ("node", &node)] {
            if let Some(one) = one {
                kubernetes.insert(key.into(), reference(one));
            }
        }
        let lives = if extended {
            SECONDS_OF_POD_EXTENDED
        } else {
            asked
        };
        if extended {
            kubernetes.insert("warnafter".into(), (now.seconds + asked).into());
        }
        let name = service_account_name(object::namespace(account), object::name(account));
        let token = self.signing.sign(&json!({
            "aud": audiences, "exp": now.seconds + lives, "iat": now.seconds,
            "iss": self.name(), "jti": id, "kubernetes.io": kubernetes,
            "nbf": now.seconds, "sub": name,
        }));
        let token =
            token.map_err(|why| Status::internal(&format!("failed to generate token: {why}")))?;
        let ends = Timestamp {
            seconds: now.seconds + asked,
            nanos: 0,
        };
        request["status"] = json!({
            "expirationTimestamp": ends.to_seconds(),
            "token": token,
        });
        Ok(request)
    }

    /// Fills in the defaults of a request and refuses forbidden values.
    fn complete(&self, account: &Value, request: &mut Value, now: Timestamp) -> Result<(), Status> {
        let (name, uid) = (object::name(account), object::uid(account));
        let given = |key: &str| object::text(request, &["metadata", key]).to_owned();
        let mismatch = |field: &str, what: &str, value: String| {
            let why = format!("must match the service account {what} if specified");
            let cause = Cause::invalid(field, &value.into(), &why);
            Err(Status::invalid(GROUP, KIND, name, vec![cause]))
        };
        if !["", name].contains(&given("name").as_str()) {
            return mismatch("metadata.name", "name", given("name"));
        }
        if !["", object::namespace(account)].contains(&given("namespace").as_str()) {
            return mismatch("metadata.namespace", "namespace", given("namespace"));
        }
        if !["", uid].contains(&given("uid").as_str()) {
            let why = format!(
                "the UID in the token request ({}) does not match the UID of the service account \
                 ({uid})",
                given("uid")
            );
            return Err(Status::conflict(GROUP, KIND, name, &why));
        }
        let metadata = object::metadata_mut(request);
        metadata.insert("name".into(), name.into());
        metadata.insert("namespace".into(), object::namespace(account).into());
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), now.to_seconds().into());
        if object::items(request, &["spec", "audiences"]).is_empty() {
            object::set(request, &["spec", "audiences"], json!(self.audiences));
        }
        if object::integer(request, &["spec", "expirationSeconds"]).is_none() {
            object::set(
                request,
                &["spec", "expirationSeconds"],
                SECONDS_DEFAULT.into(),
            );
        }
        let field = "spec.expirationSeconds";
        let seconds = seconds_asked(request);
        let why = if seconds < SECONDS_MIN {
            "may not specify a duration less than 10 minutes"
        } else if seconds > SECONDS_MAX {
            "may not specify a duration larger than 2^32 seconds"
        } else {
            return Ok(());
        };
        let cause = Cause::invalid(field, &seconds.into(), why);
        Err(Status::invalid(GROUP, KIND, "", vec![cause]))
    }
}

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";

type Bound = (Option<Reference>, Option<Reference>, Option<Reference>);

/// Finds the pod, secret and node that the token is bound to.
async fn bound<O: Objects>(objects: &O, account: &Value, request: &Value) -> Result<Bound, Status> {
    let Some(wanted) = object::at(request, &["spec", "boundObjectRef"]).filter(|r| !r.is_null())
    else {
        return Ok((None, None, None));
    };
    let text = |key: &str| object::text(wanted, &[key]);
    let (kind, name) = (text("kind"), text("name"));
    let (resource, namespace) = match (text("apiVersion"), kind) {
        ("v1", "Pod") => ("pods", object::namespace(account)),
        ("v1", "Secret") => ("secrets", object::namespace(account)),
        ("v1", "Node") => ("nodes", ""),
        (version, kind) => {
            let (group, version) = version.split_once('/').unwrap_or(("", version));
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(why));
        }
    };
    let found = objects.find(resource, namespace, name, None).await?;
    let found = found.ok_or_else(|| Status::not_found("", resource, name))?;
    let account = object::name(account);
    if kind == "Pod" && object::text(&found, &["spec", "serviceAccountName"]) != account {
        let why = format!(
            "cannot bind token for serviceaccount {account:?} to pod running with different \
             serviceaccount name."
        );
        return Err(Status::bad_request(why));
    }
    let uid = text("uid");
    if !uid.is_empty() && uid != object::uid(&found) {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The \
             object might have been deleted and then recreated"
        );
        return Err(Status::conflict("", kind, name, &why));
    }
    let one = Some(Reference::of(&found));
    match kind {
        "Pod" => {
            let node = object::text(&found, &["spec", "nodeName"]);
            if node.is_empty() {
                return Ok((one, None, None));
            }
            let stored = objects.find("nodes", "", node, None).await?;
            let node = Reference {
                name: node.to_owned(),
                uid: stored.map_or_else(String::new, |node| object::uid(&node).to_owned()),
            };
            Ok((one, None, Some(node)))
        }
        "Secret" => Ok((None, one, None)),
        _ => Ok((None, None, one)),
    }
}

fn seconds_asked(request: &Value) -> i64 {
    object::integer(request, &["spec", "expirationSeconds"]).unwrap_or_default()
}

/// Reads `aud` or `audiences`; `aud` may be a single string.
fn audiences_of(value: &Value) -> Vec<String> {
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

fn check_time(said: &Value, now: Timestamp) -> Result<(), String> {
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

impl Reference {
    fn of(object: &Value) -> Reference {
        Reference {
            name: object::name(object).to_owned(),
            uid: object::uid(object).to_owned(),
        }
    }
}

impl Claims {
    fn of(said: &Value) -> Result<Claims, String> {
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

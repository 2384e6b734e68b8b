//! TokenRequests: a new token for a service account, bound to a pod, a secret or a node if it asks
//! for that.

use machinery::object;
use machinery::status::{Cause, Status};
use machinery::time::Timestamp;
use serde_json::{Map, Value, json};

use super::claims::{Reference, audiences_of};
use super::{Issuer, Objects};
use crate::auth::user::service_account_name;

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
const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";

type Bound = (Option<Reference>, Option<Reference>, Option<Reference>);

impl Issuer {
    /// Answers a TokenRequest for a service account, which is [complete](Issuer::complete). `id` is
    /// the unique id of the token.
    pub async fn issue<O: Objects>(
        &self,
        objects: &O,
        account: &Value,
        mut request: Value,
        id: String,
        now: Timestamp,
    ) -> Result<Value, Status> {
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

    /// Fills in what a request leaves to the server, and refuses forbidden values.
    pub fn complete(
        &self,
        account: &Value,
        request: &mut Value,
        now: Timestamp,
    ) -> Result<(), Status> {
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
        object::remove(request, &["status"]);
        let metadata = object::metadata_mut(request);
        metadata.insert("name".into(), name.into());
        metadata.insert("namespace".into(), object::namespace(account).into());
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), now.to_seconds().into());
        if object::items(request, &["spec", "audiences"]).is_empty() {
            object::set(request, &["spec", "audiences"], json!(self.audiences));
        }
        set_defaults(request);
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

/// Fills in what any request has, whichever account it is for.
pub fn set_defaults(request: &mut Value) {
    let lifetime = ["spec", "expirationSeconds"];
    if object::integer(request, &lifetime).is_none() {
        object::set(request, &lifetime, SECONDS_DEFAULT.into());
    }
}

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

//! Reads and answers reviews: what a user may do, and who they are. A review comes in as an object
//! and goes out with its status filled in. Decisions are made elsewhere.

mod selectors;
#[cfg(test)]
mod tests;

use machinery::object;
use machinery::status::{Cause, Status};
use machinery::time::Timestamp;
use serde_json::{Map, Value, json};

use super::{Attributes, Decision, User};

const GROUP: &str = "authorization.k8s.io";
/// The review that asks who the requester is.
pub const MYSELF: &str = "SelfSubjectReview";

/// Reads and checks a review of access. `requester` sends it, `namespace` is that of the request.
pub fn access_asked(
    kind: &str,
    review: &Value,
    requester: &User,
    namespace: &str,
) -> Result<Attributes, Status> {
    let of_self = kind == "SelfSubjectAccessReview";
    let causes = access_causes(kind, review, of_self);
    if !causes.is_empty() {
        // Kubernetes leaves the kind of this error empty.
        return Err(Status::invalid(GROUP, "", "", causes));
    }
    if kind == "LocalSubjectAccessReview" && object::namespace(review) != namespace {
        let why = format!("spec.resourceAttributes.namespace must match namespace: {namespace}");
        return Err(Status::bad_request(why));
    }
    let user = if of_self {
        requester.clone()
    } else {
        let spec = &review["spec"];
        User {
            name: object::text(spec, &["user"]).to_owned(),
            uid: object::text(spec, &["uid"]).to_owned(),
            groups: texts(spec, "groups"),
            extra: spec
                .get("extra")
                .and_then(Value::as_object)
                .map(|extra| {
                    extra
                        .keys()
                        .map(|key| (key.clone(), texts(&spec["extra"], key)))
                })
                .map(Iterator::collect)
                .unwrap_or_default(),
        }
    };
    let path = |field: &str| text(review, "nonResourceAttributes", field);
    let resource = |field: &str| text(review, "resourceAttributes", field);
    if given(review, "nonResourceAttributes") {
        return Ok(Attributes {
            user,
            verb: path("verb"),
            path: path("path"),
            ..Attributes::default()
        });
    }
    Ok(Attributes {
        user,
        verb: resource("verb"),
        api_group: resource("group"),
        api_version: resource("version"),
        resource: resource("resource"),
        subresource: resource("subresource"),
        namespace: resource("namespace"),
        name: resource("name"),
        path: String::new(),
        of_resource: true,
        fields: selectors::fields(review),
        labels: selectors::labels(review),
    })
}

fn access_causes(kind: &str, review: &Value, of_self: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (resource, path) = (
        given(review, "resourceAttributes"),
        given(review, "nonResourceAttributes"),
    );
    // As Go prints it, with Go's names of the fields.
    let shown = || {
        let field = |key: &str| Value::from(text(review, "nonResourceAttributes", key));
        format!("{{\"Path\":{},\"Verb\":{}}}", field("path"), field("verb"))
    };
    if resource && path {
        causes.push(Cause::invalid_shown(
            "spec.nonResourceAttributes",
            &shown(),
            "cannot be specified in combination with resourceAttributes",
        ));
    }
    if !resource && !path {
        causes.push(Cause::invalid(
            "spec.resourceAttributes",
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ));
    }
    let nobody = object::text(review, &["spec", "user"]).is_empty()
        && object::items(review, &["spec", "groups"]).is_empty();
    if !of_self && nobody {
        let why = "at least one of user or group must be specified";
        causes.push(Cause::invalid("spec.user", &"".into(), why));
    }
    causes.extend(selectors::causes(review));
    causes.extend(not_empty(kind, review));
    if kind == "LocalSubjectAccessReview" {
        let asked = text(review, "resourceAttributes", "namespace");
        if resource && asked != object::namespace(review) {
            causes.push(Cause::invalid(
                "spec.resourceAttributes.namespace",
                &asked.into(),
                "must match metadata.namespace",
            ));
        }
        if path {
            causes.push(Cause::invalid_shown(
                "spec.nonResourceAttributes",
                &shown(),
                "disallowed on this kind of request",
            ));
        }
    }
    causes
}

/// A review is no object with a name; a local one is in a namespace.
fn not_empty(kind: &str, review: &Value) -> Option<Cause> {
    let mut metadata = object::metadata(review)?.clone();
    metadata.remove("managedFields");
    let mut why = "must be empty";
    if kind == "LocalSubjectAccessReview" {
        metadata.remove("namespace");
        why = "must be empty except for namespace";
    }
    let shown = Value::Object(metadata.clone());
    (!metadata.is_empty()).then(|| Cause::invalid("metadata", &shown, why))
}

/// Fills in the decision, and which selectors it did not depend on.
pub fn access_answer(mut review: Value, decision: &Decision) -> Value {
    let mut status = json!({ "allowed": decision.allowed });
    if decision.denied {
        status["denied"] = true.into();
    }
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.clone().into();
    }
    let errors: Vec<String> = [decision.error.clone(), selectors::ignored(&review)]
        .into_iter()
        .flatten()
        .collect();
    if !errors.is_empty() {
        status["evaluationError"] = errors.join("; ").into();
    }
    review["status"] = status;
    review
}

/// Fills in the requester. Nothing of the request comes back.
pub fn myself(mut review: Value, user: &User, now: Timestamp) -> Value {
    review["metadata"] = json!({ "creationTimestamp": now.to_seconds() });
    review["status"] = json!({ "userInfo": user_info(user) });
    review
}

/// Returns the token of a review of a token, and the requested audiences.
pub fn token_asked(review: &Value) -> Result<(String, Option<Vec<String>>), Status> {
    let token = object::text(review, &["spec", "token"]);
    if token.is_empty() {
        let why = "token is required for TokenReview in authentication";
        return Err(Status::bad_request(why));
    }
    let audiences = texts(&review["spec"], "audiences");
    Ok((
        token.to_owned(),
        (!audiences.is_empty()).then_some(audiences),
    ))
}

/// Fills in the user of the token, or why there is none.
pub fn token_answer(mut review: Value, known: Result<(User, Vec<String>), String>) -> Value {
    review["status"] = match known {
        Ok((user, audiences)) => json!({
            "audiences": audiences,
            "authenticated": true,
            "user": user_info(&user),
        }),
        Err(why) => json!({ "error": why, "user": {} }),
    };
    review
}

pub(crate) fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    if !user.extra.is_empty() {
        info.insert("extra".into(), json!(user.extra));
    }
    if !user.groups.is_empty() {
        info.insert("groups".into(), json!(user.groups));
    }
    for (key, text) in [("uid", &user.uid), ("username", &user.name)] {
        if !text.is_empty() {
            info.insert(key.into(), json!(text));
        }
    }
    Value::Object(info)
}

fn given(review: &Value, what: &str) -> bool {
    object::at(review, &["spec", what]).is_some_and(Value::is_object)
}

fn text(review: &Value, what: &str, field: &str) -> String {
    object::text(review, &["spec", what, field]).to_owned()
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    let items = object::items(value, &[key]).iter();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

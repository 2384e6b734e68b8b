//! Requests that delete, and the life of an object that a finalizer holds.

use machinery::object;
use serde_json::{Value, json};

use super::bases::Bases;
use super::changed::stored_path;
use super::reads::drawn;
use super::request::{JSON_PATCH, Like, MERGE, Request};

const UID: &str = "22222222-2222-2222-2222-222222222222";
const FINALIZER: &str = "example.com/hold";
const MINIMAL: &str = "minimal";

/// What deletions are asked: a name, a query, and options.
fn options() -> Vec<(&'static str, &'static str, Option<Value>)> {
    vec![
        ("", "", None),
        ("in the foreground", "&propagationPolicy=Foreground", None),
        (
            "orphaning",
            "",
            Some(json!({"propagationPolicy": "Orphan"})),
        ),
        ("by no policy", "&propagationPolicy=Nope", None),
        (
            "by two policies",
            "",
            Some(json!({"propagationPolicy": "Orphan", "orphanDependents": true})),
        ),
        ("after a time", "&gracePeriodSeconds=5", None),
        ("before its time", "&gracePeriodSeconds=-1", None),
        ("after nonsense", "&gracePeriodSeconds=x", None),
        (
            "another uid",
            "",
            Some(json!({"preconditions": {"uid": UID}})),
        ),
        (
            "another version",
            "",
            Some(json!({"preconditions": {"resourceVersion": "1"}})),
        ),
        (
            "with another kind of options",
            "",
            Some(json!({"kind": "Other", "apiVersion": "v1"})),
        ),
        (
            "with options of its group",
            "",
            Some(json!({"kind": "DeleteOptions", "apiVersion": "v1"})),
        ),
        (
            "ignoring nothing",
            "",
            Some(json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true})),
        ),
        ("with an unknown option", "", Some(json!({"unknown": 1}))),
        ("dryRun=Nope", "&dryRun=Nope", None),
        ("with broken options", "", Some(json!("x"))),
    ]
}

pub(super) fn requests(bases: &Bases) -> Vec<Request> {
    let mut requests = Vec::new();
    for (name, query, body) in options() {
        let name = format!("DELETE {name}").trim_end().to_owned();
        if drawn(bases, &name) {
            let path = stored_path(bases, &format!("?dryRun=All{query}"));
            let request = Request::new(name, "DELETE", &path);
            requests.push(match body {
                Some(mut body) => {
                    // Where options are in the body, those of the query do not count.
                    if body.is_object() {
                        body["dryRun"] = json!(["All"]);
                    }
                    request.json(&body)
                }
                None => request,
            });
        }
    }
    let missing = format!("{}/missing", bases.collection());
    requests.push(Request::new("DELETE missing", "DELETE", &missing));
    let selected = format!(
        "{}?dryRun=All&labelSelector=corpus={}",
        bases.collection(),
        bases.label()
    );
    requests.push(Request::new("DELETE collection", "DELETE", &selected));
    let refused = format!("{selected}&fieldSelector=spec.nope=x");
    requests.push(Request::new(
        "DELETE collection by a field",
        "DELETE",
        &refused,
    ));
    requests
}

/// What happens to an object with a finalizer that is deleted.
pub(super) fn life(bases: &Bases) -> Vec<Request> {
    const NAME: &str = "victim";
    let known = bases.objects.iter().any(|(name, _)| name == MINIMAL);
    // The apiserver itself writes the status of these when it comes to them.
    let written = ["validatingadmissionpolicies", "flowschemas"].contains(&bases.kind.plural());
    if !known || written || !bases.names_are_free() || !bases.kind.has_verb("delete") {
        return Vec::new();
    }
    let mut victim = bases.made(MINIMAL);
    object::set(&mut victim, &["metadata", "name"], NAME.into());
    object::set(&mut victim, &["metadata", "finalizers"], json!([FINALIZER]));
    let path = format!("{}/{NAME}", bases.collection());
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}}).to_string();
    let step = |name: &str, method: &'static str| {
        let request = Request::new(format!("LIFE {name}"), method, &path);
        request.like(Like::Made(MINIMAL.into()))
    };
    vec![
        Request::new("LIFE create", "POST", &bases.collection())
            .like(Like::Made(MINIMAL.into()))
            .json(&victim),
        step("delete by the body alone", "DELETE")
            .json(&json!({"gracePeriodSeconds": 7, "dryRun": ["All"]})),
        step("delete another uid", "DELETE").json(&json!({"preconditions": {"uid": UID}})),
        step("delete", "DELETE"),
        step("add a finalizer", "PATCH")
            .body(MERGE, finalizers(json!([FINALIZER, "example.com/more"]))),
        step("change a label", "PATCH").body(
            MERGE,
            json!({"metadata": {"labels": {"a": "b"}}}).to_string(),
        ),
        step("delete again", "DELETE").json(&json!({"gracePeriodSeconds": 0})),
        step("remove the finalizer", "PATCH").body(
            JSON_PATCH,
            json!([{"op": "remove", "path": "/metadata/finalizers"}]).to_string(),
        ),
        step("get", "GET"),
    ]
}

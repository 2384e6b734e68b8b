//! What a write asks for, as reviews and expressions show it.

use machinery::schema::Kind;
use serde_json::{Value, json};

use super::{Attributes, matching};
use crate::auth::review::user_info;

/// The request of a write, without its objects. `kind` is the one that a rule matched.
pub(super) fn of(attributes: &Attributes<'_>, kind: &Kind) -> Value {
    let asked = attributes.kind;
    let mut request = json!({
        "kind": kind_of(kind, attributes.subresource),
        "resource": resource_of(kind),
        "requestKind": kind_of(asked, attributes.subresource),
        "requestResource": resource_of(asked),
        "operation": attributes.operation,
        "userInfo": user_info(attributes.user),
        "dryRun": attributes.dry,
        "options": attributes.options,
    });
    for (key, text) in [
        ("name", attributes.name),
        ("namespace", matching::namespace(attributes)),
        ("subResource", attributes.subresource),
        ("requestSubResource", attributes.subresource),
    ] {
        if !text.is_empty() {
            request[key] = text.into();
        }
    }
    request
}

fn kind_of(kind: &Kind, subresource: &str) -> Value {
    match kind.subresource(subresource) {
        Some(body) => {
            json!({"group": body.group(), "version": body.version(), "kind": body.kind()})
        }
        None => json!({"group": kind.group(), "version": kind.version(), "kind": kind.kind()}),
    }
}

fn resource_of(kind: &Kind) -> Value {
    json!({"group": kind.group(), "version": kind.version(), "resource": kind.plural()})
}

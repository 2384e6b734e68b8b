//! The parts of a CertificateSigningRequest that each of its subresources may write.

#[cfg(test)]
mod tests;

use machinery::object;
use serde_json::{Map, Value, json};

use crate::auth::User;
use crate::basics::clock;
use crate::validate::access::certificate::{APPROVALS, of_type};

/// Writes the requester into a certificate request: clients cannot set it.
pub(super) fn set_requester(user: &User, object: &mut Value) {
    let spec = json!({
        "username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra,
    });
    for key in ["username", "uid", "groups", "extra"] {
        let value = &spec[key];
        let empty = match value {
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            other => other.as_object().is_none_or(Map::is_empty),
        };
        if empty {
            drop(object::remove(object, &["spec", key]))
        } else {
            object::set(object, &["spec", key], value.clone())
        }
    }
}

/// `status` changes the certificate, and the conditions except an approver's.
pub(super) fn update_status(old: &Value, new: &mut Value) {
    keep_spec(old, new);
    for approval in APPROVALS {
        let before = of_type(old, approval);
        // Validation refuses an added or a removed one.
        if before.len() != of_type(new, approval).len() {
            continue;
        }
        let mut before: Vec<Value> = before.into_iter().cloned().rev().collect();
        for condition in conditions_mut(new) {
            if condition["type"] == approval
                && let Some(kept) = before.pop()
            {
                *condition = kept;
            }
        }
    }
    set_times(old, new);
}

/// `approval` changes only conditions.
pub(super) fn update_approval(old: &Value, new: &mut Value) {
    keep_spec(old, new);
    set_times(old, new);
    let conditions = object::items(new, &["status", "conditions"]).to_vec();
    let mut status = old.get("status").cloned().unwrap_or_else(|| json!({}));
    if conditions.is_empty() {
        drop(object::remove(&mut status, &["conditions"]))
    } else {
        object::set(&mut status, &["conditions"], conditions.into())
    }
    new["status"] = status;
}

fn conditions_mut(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    let all = object.pointer_mut("/status/conditions");
    all.and_then(Value::as_array_mut).into_iter().flatten()
}

/// The spec stays as the approver saw it.
pub(super) fn keep_spec(old: &Value, new: &mut Value) {
    match old.get("spec") {
        Some(spec) => new["spec"] = spec.clone(),
        None => drop(object::remove(new, &["spec"])),
    }
}

/// A condition without times gets the current time, or the transition time of the same condition
/// before.
fn set_times(old: &Value, new: &mut Value) {
    let now = clock::now().to_seconds();
    for condition in conditions_mut(new) {
        let has = |key| !object::text(condition, &[key]).is_empty();
        let (updated, changed) = (has("lastUpdateTime"), has("lastTransitionTime"));
        if !updated {
            condition["lastUpdateTime"] = now.as_str().into();
        }
        if !changed {
            let like = object::items(old, &["status", "conditions"])
                .iter()
                .find(|one| {
                    one["type"] == condition["type"]
                        && one["status"] == condition["status"]
                        && !object::text(one, &["lastTransitionTime"]).is_empty()
                });
            condition["lastTransitionTime"] = match like {
                Some(like) => like["lastTransitionTime"].clone(),
                None => now.as_str().into(),
            };
        }
    }
}

//! Defaults of claims of devices.

use serde_json::{Value, json};

use super::{default, each, text};

pub(super) fn claim(object: &mut Value) {
    requests(object, &["spec", "devices", "requests"]);
}

pub(super) fn template(object: &mut Value) {
    requests(object, &["spec", "spec", "devices", "requests"]);
}

fn requests(object: &mut Value, path: &[&str]) {
    each(object, path, |request| {
        if let Some(exactly) = request.get_mut("exactly").filter(|one| one.is_object()) {
            wanted(exactly);
        }
        each(request, &["firstAvailable"], wanted);
    });
}

/// One device, unless the request says otherwise; and a toleration is of one value.
fn wanted(request: &mut Value) {
    default(request, "allocationMode", "ExactCount");
    let counted = text(request, "allocationMode") == "ExactCount";
    let count = request.get("count").and_then(Value::as_i64);
    if counted && count.unwrap_or(0) == 0 {
        request["count"] = json!(1);
    }
    each(request, &["tolerations"], |toleration| {
        default(toleration, "operator", "Equal");
    });
}

//! Claims of devices, and what drivers say of the devices of nodes.

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::words::causes::Causes;
use crate::validate::words::field::FieldValue;
use crate::validate::workloads::pod::node_selector;

const IMMUTABLE: &str = "field is immutable";
/// What must be the same in every state of a slice: nodes may write only their own.
const OF_SLICE: [&[&str]; 3] = [
    &["spec", "pool", "name"],
    &["spec", "driver"],
    &["spec", "nodeName"],
];
/// What says which nodes have the devices of a slice.
const PLACES: [&str; 4] = [
    "nodeName",
    "nodeSelector",
    "allNodes",
    "perDeviceNodeSelection",
];
const ONE_PLACE: &str =
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";

/// A claim.
pub(crate) fn claim(object: &Value) -> Causes {
    requests(object, &["spec", "devices"])
}

/// A template of claims.
pub(crate) fn template(object: &Value) -> Causes {
    requests(object, &["spec", "spec", "devices"])
}

/// A claim or a template after an update: quotas have counted it as it was.
pub(crate) fn unchanged(old: &Value, new: &Value) -> Causes {
    same(old, new, &["spec"])
}

/// A slice.
pub(crate) fn slice(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let set = PLACES.iter().filter(|key| spec.get(**key).is_some());
    let set: Vec<String> = set.map(|key| format!("`{key}`")).collect();
    if set.is_empty() {
        causes.push(Cause::required("spec", ONE_PLACE));
    } else if set.len() > 1 {
        let shown = format!("{{{}}}", set.join(", ")).into();
        let why = format!("{ONE_PLACE}, but multiple fields are set");
        causes.push(Cause::invalid("spec", &shown, &why));
    }
    let spec = FieldValue::new("spec", spec);
    causes.below(&spec, "nodeSelector", |causes, selector| {
        node_selector(causes, selector);
        if selector.items("nodeSelectorTerms").len() != 1 {
            let why = "must have exactly one node selector term";
            causes.wrong(selector, "nodeSelectorTerms", why);
        }
    });
    causes.each(&spec, "devices", |causes, device| {
        causes.named(device, "name", name::dns1123_label);
    });
    causes
}

/// A slice after an update.
pub(crate) fn slice_update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    for path in OF_SLICE {
        causes.extend(same(old, new, path));
    }
    causes
}

fn requests(object: &Value, path: &[&str]) -> Causes {
    let mut causes = Causes::default();
    let devices = object::at(object, path).unwrap_or(&Value::Null);
    let devices = FieldValue::new(path.join("."), devices);
    causes.each(&devices, "requests", |causes, request| {
        if let Some(exactly) = request.child("exactly") {
            count(causes, &exactly);
        }
        causes.each(request, "firstAvailable", count);
    });
    causes
}

fn count(causes: &mut Causes, request: &FieldValue) {
    let counted = request.text("allocationMode") == "ExactCount";
    if counted && request.integer("count").is_none_or(|count| count < 1) {
        causes.wrong(request, "count", "must be greater than zero");
    }
}

fn same(old: &Value, new: &Value, path: &[&str]) -> Causes {
    let mut causes = Causes::default();
    let (was, is) = (object::at(old, path), object::at(new, path));
    if was != is {
        let shown = is.cloned().unwrap_or_default();
        causes.push(Cause::invalid(&path.join("."), &shown, IMMUTABLE));
    }
    causes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn devices_have_names_and_one_term_selects_their_nodes() {
        let told = |spec: Value| Vec::from(slice(&json!({ "spec": spec }))).len();
        let device = json!({"name": "gpu-0"});
        assert_eq!(told(json!({"allNodes": true, "devices": [device]})), 0);
        assert_eq!(
            told(json!({"allNodes": true, "devices": [{"name": ""}]})),
            1
        );
        let term = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
        let selects = |terms: Value| json!({"nodeSelector": {"nodeSelectorTerms": terms}});
        assert_eq!(told(selects(json!([term]))), 0);
        assert_eq!(told(selects(json!([term, term]))), 1);
        assert_eq!(told(json!({"nodeSelector": {}})), 2);
    }
}

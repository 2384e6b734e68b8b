//! Nodes and namespaces.

use std::collections::BTreeSet;

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::words::embedded::{self, Fields};
use crate::validate::words::field::FieldValue;
use crate::validate::words::shown::{self, Field};
use crate::validate::{Causes, meta, named, words::address, words::quantity};

/// Upper bound of the name of a feature, in bytes.
const FEATURE_BYTES_MAX: usize = 253;
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";
const AVOIDED_PODS: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";
const TAINT_FIELDS: &Fields = &[
    ("key", "string"),
    ("value", "string"),
    ("effect", "core.TaintEffect"),
    ("timeAdded", "v1.Time"),
];
const TAINT: [Field; 4] = [
    ("Key", "key", "\"\""),
    ("Value", "value", "\"\""),
    ("Effect", "effect", "\"\""),
    ("TimeAdded", "timeAdded", "null"),
];

pub(crate) fn node(object: &Value) -> Causes {
    let mut causes = annotations(object);
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    // Go reports taints below `metadata`.
    taints("metadata.taints", spec.items("taints"), &mut causes);
    causes.extend(amounts(object));
    swap(object, &mut causes);
    declared_features(object, &mut causes);
    causes.each(&spec, "podCIDRs", |causes, one| {
        let text = one.value.as_str().unwrap_or_default();
        causes.extend(address::wrong_range(&one.path, text));
    });
    let ranges = spec.each("podCIDRs");
    let mut sixes = ranges.map(|one| one.value.as_str().is_some_and(|text| text.contains(':')));
    let (first, second, third) = (sixes.next(), sixes.next(), sixes.next());
    if third.is_some() || (second.is_some() && first == second) {
        let why = "may specify no more than one CIDR for each IP family";
        causes.wrong(&spec, "podCIDRs", why);
    }
    causes
}

/// Checks an update of a node, and its status.
pub(crate) fn node_update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    let mut seen = BTreeSet::new();
    let at = FieldValue::new("status", new.get("status").unwrap_or(&Value::Null));
    causes.each(&at, "addresses", |causes, one| {
        let (kind, text) = (one.text("type"), one.text("address"));
        if !seen.insert((kind, text)) {
            let fields = [("Type", "type", "\"\""), ("Address", "address", "\"\"")];
            let shown = shown::as_go(one.value, &fields);
            causes.push(Cause::duplicate_shown(&one.path, &shown, ""));
        }
    });
    let ranges = ["spec", "podCIDRs"];
    let had = object::items(old, &ranges);
    if !had.is_empty() && had != object::items(new, &ranges) {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        causes.push(Cause::forbidden("spec.podCIDRs", why));
    }
    let external = |node| object::text(node, &["spec", "externalID"]);
    if external(old) != external(new) {
        causes.push(Cause::forbidden("spec.externalID", "may not be updated"));
    }
    let id = |node| object::text(node, &["spec", "providerID"]);
    if !id(old).is_empty() && id(old) != id(new) {
        let why = "node updates may not change providerID except from \"\" to valid";
        causes.push(Cause::forbidden("spec.providerID", why));
    }
    causes
}

/// A node's status, which its agent reports.
pub(crate) fn status(object: &Value) -> Causes {
    let mut causes = annotations(object);
    causes.extend(amounts(object));
    declared_features(object, &mut causes);
    causes
}

/// The annotations that are older than the field for taints, and those about pods to avoid.
fn annotations(object: &Value) -> Causes {
    const FIELD: &str = "metadata.annotations";
    let mut causes = Causes::default();
    let given = |key| object::annotation(object, key).filter(|text| !text.is_empty());
    if let Some(text) = given(TAINTS) {
        match embedded::structs(text, "Taint", TAINT_FIELDS) {
            Ok(all) => taints(&format!("{FIELD}.{TAINTS}"), &all, &mut causes),
            Err(why) => causes.push(Cause::invalid(FIELD, &TAINTS.into(), &why)),
        }
    }
    if let Some(text) = given(AVOIDED_PODS) {
        match avoided_pods(text) {
            Ok(all) => {
                let field = format!("{FIELD}.{AVOIDED_PODS}");
                for (at, one) in all.iter().enumerate() {
                    avoided_pod(&format!("{field}[{at}].PodSignature"), one, &mut causes);
                }
            }
            Err(why) => {
                let field = format!("{FIELD}.AvoidPods");
                causes.push(Cause::invalid(&field, &AVOIDED_PODS.into(), &why));
            }
        }
    }
    causes
}

fn avoided_pods(text: &str) -> Result<Vec<Value>, String> {
    match embedded::read(text.as_bytes())? {
        Value::Null => Ok(Vec::new()),
        all @ Value::Object(_) => Ok(object::items(&all, &["preferAvoidPods"]).to_vec()),
        other => Err(embedded::misfit(&other, "value of type v1.AvoidPods")),
    }
}

/// Pods to avoid are those of a controller.
fn avoided_pod(field: &str, one: &Value, causes: &mut Causes) {
    match object::at(one, &["podSignature", "podController"]) {
        None | Some(Value::Null) => causes.push(Cause::required(field, "")),
        Some(owner) if owner.get("controller") != Some(&Value::Bool(true)) => {
            let field = format!("{field}.PodController.Controller");
            let why = "must point to a controller";
            causes.push(Cause::invalid(&field, &false.into(), why));
        }
        Some(_) => {}
    }
}

/// The quantities in a node's status.
fn amounts(object: &Value) -> Causes {
    let mut causes = Causes::default();
    for part in ["capacity", "allocatable"] {
        let amounts = object::at(object, &["status", part]).and_then(Value::as_object);
        for (resource, amount) in amounts.into_iter().flatten() {
            if causes.is_full() {
                break;
            }
            let field = format!("status.{part}.{resource}");
            quantity::of_resource(&field, resource, amount, &mut causes);
        }
    }
    causes
}

/// The memory on disk of a new node.
fn swap(object: &Value, causes: &mut Causes) {
    let capacity = object::integer(object, &["status", "nodeInfo", "swap", "capacity"]);
    if let Some(capacity) = capacity.filter(|capacity| *capacity <= 0) {
        // Kubernetes names it so.
        let field = "metadata.nodeSwapStatus.capacity";
        causes.push(Cause::invalid(
            field,
            &capacity.into(),
            "must be greater than zero",
        ));
    }
}

/// The features of a node: names in order, each once.
fn declared_features(object: &Value, causes: &mut Causes) {
    let status = FieldValue::new("status", object.get("status").unwrap_or(&Value::Null));
    let mut last = None;
    causes.each(&status, "declaredFeatures", |causes, one| {
        let feature = one.value.as_str().unwrap_or_default();
        match last.replace(feature) {
            Some(last) if last == feature => {
                causes.push(Cause::duplicate(&one.path, one.value));
            }
            Some(last) if last > feature => {
                let why = "list must be sorted alphabetically";
                causes.push(Cause::invalid(&one.path, one.value, why));
            }
            _ => {}
        }
        if let Some(why) = wrong_feature(feature) {
            let why = format!("invalid feature name {feature:?}: {why}");
            causes.push(Cause::invalid(&one.path, one.value, &why));
        }
    });
}

/// What is wrong with the name of a feature, in Kubernetes' words.
fn wrong_feature(name: &str) -> Option<String> {
    if name.len() > FEATURE_BYTES_MAX {
        let why = format!("must be no more than {FEATURE_BYTES_MAX} characters");
        return Some(why);
    }
    let is_segment = |segment: &str| {
        segment.starts_with(|c: char| c.is_ascii_alphabetic())
            && segment.chars().all(|c| c.is_ascii_alphanumeric())
    };
    let is_good =
        name.starts_with(|c: char| c.is_ascii_uppercase()) && name.split('/').all(is_segment);
    let why = "must start with an UpperCamelCase segment, with subsequent segments separated by '/' \
               (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters \
               and slashes";
    (!is_good).then(|| why.to_owned())
}

/// Taints of a list at a path.
fn taints(field: &str, taints: &[Value], causes: &mut Causes) {
    let mut seen = BTreeSet::new();
    for (at, taint) in taints.iter().enumerate() {
        if causes.is_full() {
            break;
        }
        let taint = FieldValue::new(format!("{field}[{at}]"), taint);
        causes.label_name(&taint, "key");
        let wrong = name::label_value(taint.text("value"));
        if !wrong.is_empty() {
            causes.wrong_text(&taint, "value", &wrong.join(";"));
        }
        causes.choice(&taint, "effect", &EFFECTS);
        if !seen.insert((taint.text("effect"), taint.text("key"))) {
            let shown = shown::as_go(taint.value, &TAINT);
            let why = "taints must be unique by key and effect pair";
            causes.push(Cause::duplicate_shown(&taint.path, &shown, why));
        }
    }
}

/// The finalizers of a namespace's spec.
pub(crate) fn namespace(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    causes.each(&spec, "finalizers", |causes, one| {
        finalizer("spec.finalizers", one.value, causes);
    });
    causes
}

/// Checks an update of a namespace's status and finalizers.
pub(crate) fn namespace_status(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    let finalizers = |object| object::items(object, &["spec", "finalizers"]);
    if finalizers(old) != finalizers(new) {
        let spec = FieldValue::new("spec", new.get("spec").unwrap_or(&Value::Null));
        causes.each(&spec, "finalizers", |causes, one| {
            finalizer(&one.path, one.value, causes);
        });
    }
    let (phase, when) = if object::is_deleting(new) {
        ("Terminating", "is not empty")
    } else {
        ("Active", "is empty")
    };
    let has = object::text(new, &["status", "phase"]);
    if has != phase {
        let why = format!("may only be '{phase}' if `deletionTimestamp` {when}");
        causes.push(Cause::invalid("status.Phase", &has.into(), &why));
    }
    causes
}

fn finalizer(field: &str, value: &Value, causes: &mut Causes) {
    let text = value.as_str().unwrap_or_default();
    causes.extend(named(field, text, name::qualified_name(text)));
    causes.extend(meta::standard_finalizer(field, text));
}

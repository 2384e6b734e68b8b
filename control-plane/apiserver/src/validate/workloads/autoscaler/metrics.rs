//! The metrics of an autoscaler, and what they should be.

use machinery::name;
use machinery::quantity::Quantity;
use machinery::status::Cause;
use serde_json::Value;

use super::wrong_version;
use crate::validate::Causes;
use crate::validate::words::field::FieldValue;
use crate::validate::words::quantity;

/// The types of metrics, and the required field of each.
const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];
/// The fields in the order in which Kubernetes looks at them: it checks the first that is given.
const IN_ORDER: [&str; 5] = [
    "object",
    "external",
    "pods",
    "resource",
    "containerResource",
];
const POPULATE: &str = "must populate information for the given metric source";
const AVERAGE: &str = "averageValue";
const UTILIZATION: &str = "averageUtilization";

/// True if a metric is about an object of a version that is none.
pub(super) fn has_wrong_version(spec: &FieldValue) -> bool {
    spec.each("metrics").any(|metric| {
        let object = metric.child("object");
        let object = object.filter(|_| metric.text("type") == "Object");
        object.is_some_and(|object| wrong_object_version(&object).is_some())
    })
}

/// The metrics. Objects may have any version if one had a wrong version before.
pub(super) fn check(spec: &FieldValue, any_version: bool, causes: &mut Causes) {
    let mut outside = false;
    causes.each(spec, "metrics", |causes, one| {
        metric(causes, one, any_version);
        outside |= ["Object", "External"].contains(&one.text("type"));
    });
    // Without pods, only what is outside them can be measured.
    if spec.integer("minReplicas") == Some(0) && !outside {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        causes.push(Cause::forbidden(&spec.path_of("metrics"), why));
    }
}

fn metric(causes: &mut Causes, metric: &FieldValue, any_version: bool) {
    let kind = metric.text("type");
    if kind.is_empty() {
        let why = "must specify a metric source type";
        causes.push(Cause::required(&metric.path_of("type"), why));
    }
    let expected = SOURCES.iter().find(|(one, _)| *one == kind);
    let expected = expected.map(|(_, field)| *field);
    if expected.is_none() {
        causes.unknown(metric, "type", &SOURCES.map(|(one, _)| one));
    }
    let given: Vec<&str> = IN_ORDER.into_iter().filter(|key| metric.has(key)).collect();
    if let Some(first) = given.first() {
        causes.below(metric, first, |causes, it| {
            source(causes, first, it, any_version);
        });
    }
    if let Some(expected) = expected.filter(|field| !metric.has(field)) {
        causes.push(Cause::required(&metric.path_of(expected), POPULATE));
    }
    if given.len() > 1 {
        for other in given.iter().filter(|other| Some(**other) != expected) {
            let why = "must populate the given metric source only";
            causes.forbidden(metric, other, why);
        }
    }
}

/// What is measured.
fn source(causes: &mut Causes, kind: &str, it: &FieldValue, any_version: bool) {
    match kind {
        "object" => {
            let object = part(it, "describedObject");
            for key in ["kind", "name"] {
                causes.must_be_named(&object, key, name::path_segment);
            }
            if let Some(why) = wrong_object_version(it).filter(|_| !any_version) {
                causes.wrong_text(&object, "apiVersion", &why);
            }
            identifier(causes, it);
        }
        "external" | "pods" => identifier(causes, it),
        _ => {
            if it.text("name").is_empty() {
                let why = "must specify a resource name";
                causes.push(Cause::required(&it.path_of("name"), why));
            } else if kind == "containerResource" {
                quantity::container_name(&it.path_of("name"), it.text("name"), causes);
            }
        }
    }
    if kind == "containerResource" {
        if it.text("container").is_empty() {
            let why = "must specify a container";
            causes.push(Cause::required(&it.path_of("container"), why));
        } else {
            causes.named(it, "container", name::dns1123_label);
        }
    }
    let to = part(it, "target");
    target(causes, &to);
    wanted(causes, kind, &to);
}

fn wrong_object_version(it: &FieldValue) -> Option<String> {
    wrong_version(part(it, "describedObject").text("apiVersion"), true)
}

fn identifier(causes: &mut Causes, it: &FieldValue) {
    let metric = part(it, "metric");
    if metric.text("name").is_empty() {
        let why = "must specify a metric name";
        causes.push(Cause::required(&metric.path_of("name"), why));
    } else {
        causes.named(&metric, "name", name::path_segment);
    }
}

/// What a metric should be, whatever it measures.
fn target(causes: &mut Causes, target: &FieldValue) {
    if target.text("type").is_empty() {
        let why = "must specify a metric target type";
        causes.push(Cause::required(&target.path_of("type"), why));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&target.text("type")) {
        let why = "must be either Utilization, Value, or AverageValue";
        causes.wrong_text(target, "type", why);
    }
    for key in ["value", AVERAGE] {
        let amount = target.get(key).map(quantity::read);
        if amount.is_some_and(|amount| amount <= Quantity::ZERO) {
            causes.wrong(target, key, "must be positive");
        }
    }
    if target
        .integer(UTILIZATION)
        .is_some_and(|percent| percent < 1)
    {
        causes.wrong(target, UTILIZATION, "must be greater than 0");
    }
}

/// Which targets a kind of metric has.
fn wanted(causes: &mut Causes, kind: &str, target: &FieldValue) {
    let (other, missing, both) = match kind {
        "object" => (
            Some("value"),
            "must set either a target value or averageValue",
            None,
        ),
        "external" => (
            Some("value"),
            "must set either a target value for metric or a per-pod target",
            Some("may not set both a target value for metric and a per-pod target"),
        ),
        "pods" => (None, "must specify a positive target averageValue", None),
        _ => (
            Some(UTILIZATION),
            "must set either a target raw value or a target utilization",
            Some("may not set both a target raw value and a target utilization"),
        ),
    };
    let has_other = other.is_some_and(|other| target.has(other));
    // Kubernetes reports what it would rather see.
    let (required, forbidden) = match other {
        Some(UTILIZATION) => (UTILIZATION, AVERAGE),
        _ => (AVERAGE, "value"),
    };
    match (target.has(AVERAGE), has_other) {
        (false, false) => causes.push(Cause::required(&target.path_of(required), missing)),
        (true, true) => {
            if let Some(why) = both {
                causes.push(Cause::forbidden(&target.path_of(forbidden), why));
            }
        }
        _ => {}
    }
}

/// A part that must be there; it may be empty.
pub(super) fn part<'a>(it: &FieldValue<'a>, key: &str) -> FieldValue<'a> {
    FieldValue::new(it.path_of(key), it.get(key).unwrap_or(&Value::Null))
}

//! Kinds that are served in two versions and stored in one: events and autoscalers.

use std::sync::Arc;

use machinery::object::{self, map_mut};
use serde_json::{Map, Value, json};

use crate::resources::catalogue::Resource;

/// The group of the newer events. Everything else that is not stored as it is served is an
/// autoscaler: the catalogue shares no other collection between versions.
const EVENTS: &str = "events.k8s.io";
/// Where autoscaling/v1 keeps what it has no fields for.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// (core, events.k8s.io): the same field under two names.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Whether the resource shows what is stored as it is.
pub(crate) fn is_same(resource: &Resource) -> bool {
    resource.storage.as_ref().is_none_or(|storage| {
        // The kind of a custom resource is made anew when its definition changes.
        let same_version = || storage.kind.version() == resource.kind.version();
        let as_stored = || resource.custom.as_ref().is_none_or(|one| !one.fills_in);
        Arc::ptr_eq(&storage.kind, &resource.kind)
            || storage.custom && same_version() && as_stored()
    })
}

/// A stored object in the version of the resource.
pub(crate) fn to_served(resource: &Resource, object: &Arc<Value>) -> Arc<Value> {
    if is_same(resource) {
        return Arc::clone(object);
    }
    let mut object = Value::clone(object);
    match (&resource.custom, resource.kind.group()) {
        // All versions have the same fields, but each has its defaults.
        (Some(custom), _) => {
            if let Some(schema) = custom.schema.as_ref().filter(|_| custom.fills_in) {
                schema.default(&mut object);
            }
        }
        (None, EVENTS) => rename(&mut object, |(core, events)| (core, events)),
        (None, _) => autoscaler_to_v1(&mut object),
    }
    object::set_type(
        &mut object,
        &resource.kind.api_version(),
        resource.kind.kind(),
    );
    Arc::new(object)
}

/// An object of the resource's version as it is stored.
pub(crate) fn to_stored(resource: &Resource, mut object: Value) -> Value {
    let Some(storage) = resource.storage.as_ref().filter(|_| !is_same(resource)) else {
        return object;
    };
    match (&resource.custom, resource.kind.group()) {
        (Some(_), _) => {}
        (None, EVENTS) => rename(&mut object, |(core, events)| (events, core)),
        (None, _) => autoscaler_to_v2(&mut object),
    }
    object::set_type(
        &mut object,
        &storage.kind.api_version(),
        storage.kind.kind(),
    );
    object
}

fn rename(
    event: &mut Value,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let event = map_mut(event);
    for (from, to) in EVENT_FIELDS.map(direction) {
        if let Some(value) = event.remove(from) {
            event.insert(to.to_owned(), value);
        }
    }
}

fn autoscaler_to_v1(object: &mut Value) {
    let mut metrics = match object::remove(object, &["spec", "metrics"]) {
        Some(Value::Array(metrics)) => metrics,
        _ => Vec::new(),
    };
    let is_cpu = |metric: &Value| {
        object::text(metric, &["resource", "name"]) == "cpu"
            && object::at(metric, &["resource", "target", "averageUtilization"]).is_some()
    };
    if let Some(at) = metrics.iter().position(is_cpu) {
        let cpu = metrics.remove(at);
        let target = cpu["resource"]["target"]["averageUtilization"].clone();
        object::set(object, &["spec", "targetCPUUtilizationPercentage"], target);
    }
    let mut annotate = |key: &str, value: Value| {
        object::set(
            object,
            &["metadata", "annotations", key],
            value.to_string().into(),
        );
    };
    if !metrics.is_empty() {
        annotate(METRICS, metrics.into());
    }
    if let Some(behavior) = object::remove(object, &["spec", "behavior"]) {
        object::set(
            object,
            &["metadata", "annotations", BEHAVIOR],
            behavior.to_string().into(),
        );
    }
    let current = object::remove(object, &["status", "currentMetrics"]);
    let all = current
        .as_ref()
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    for metric in all.filter(|one| object::text(one, &["resource", "name"]) == "cpu") {
        let used = object::at(metric, &["resource", "current", "averageUtilization"]);
        if let Some(used) = used.cloned() {
            object::set(object, &["status", "currentCPUUtilizationPercentage"], used);
        }
    }
    object::remove(object, &["status", "conditions"]);
}

fn autoscaler_to_v2(object: &mut Value) {
    let mut metrics = Vec::new();
    if let Some(target) = object::remove(object, &["spec", "targetCPUUtilizationPercentage"]) {
        let target = json!({"type": "Utilization", "averageUtilization": target});
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    let mut kept = |key: &str| {
        let text = object::remove(object, &["metadata", "annotations", key])?;
        serde_json::from_str::<Value>(text.as_str()?).ok()
    };
    if let Some(Value::Array(others)) = kept(METRICS) {
        metrics.extend(others);
    }
    let behavior = kept(BEHAVIOR).filter(Value::is_object);
    if object::annotations(object).is_some_and(Map::is_empty) {
        object::remove(object, &["metadata", "annotations"]);
    }
    if !metrics.is_empty() {
        object::set(object, &["spec", "metrics"], metrics.into());
    }
    if let Some(behavior) = behavior {
        object::set(object, &["spec", "behavior"], behavior);
    }
    if let Some(used) = object::remove(object, &["status", "currentCPUUtilizationPercentage"]) {
        let metric = json!({"type": "Resource", "resource": {
            "name": "cpu", "current": {"averageUtilization": used, "averageValue": "0"}}});
        object::set(object, &["status", "currentMetrics"], json!([metric]));
    }
}

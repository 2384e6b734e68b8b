//! HorizontalPodAutoscalers: what `autoscaling/v1` has no field for is in annotations, as JSON.
//!
//! `metrics` knows the metrics of both versions, `behavior` the rules of scaling, and `text` reads
//! and writes JSON as Go does.

mod behavior;
mod metrics;
mod text;

use serde_json::{Map, Value, json};

use crate::object;
use metrics::{SOURCES, STATUSES};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// The annotations that conversions write. Those that a client wrote are dropped.
pub const OURS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];
/// Those of them that are about the status.
const OF_STATUS: [&str; 2] = [CURRENT_METRICS, CONDITIONS];
/// The target of an autoscaler of v1 that names none, in percent.
const CPU_TARGET: i64 = 80;

/// Makes an autoscaler of v2 one of v1.
pub fn to_v1(object: &mut Value) {
    drop_annotations(object);
    let metrics = list(object, &["spec", "metrics"]);
    let behavior = object::remove(object, &["spec", "behavior"]).filter(Value::is_object);
    let current = list(object, &["status", "currentMetrics"]);
    let conditions = list(object, &["status", "conditions"]);
    let targets = || metrics.iter().filter_map(cpu_target);
    if let Some(target) = targets().next() {
        let path = ["spec", "targetCPUUtilizationPercentage"];
        object::set(object, &path, target.clone());
    }
    if let Some(used) = current.iter().filter_map(cpu_use).next_back() {
        let path = ["status", "currentCPUUtilizationPercentage"];
        object::set(object, &path, used.clone());
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.entry("currentReplicas").or_insert_with(|| 0.into());
    }
    let others = metrics.iter().filter(|metric| cpu_target(metric).is_none());
    let others: Vec<Value> = others.map(|one| metrics::to_v1(one, &SOURCES)).collect();
    let current = current.iter().map(|one| metrics::to_v1(one, &STATUSES));
    let conditions = conditions.into_iter().map(condition);
    for (key, value) in [
        (METRICS, others),
        (CURRENT_METRICS, current.collect()),
        (CONDITIONS, conditions.collect()),
    ] {
        if !value.is_empty() {
            annotate(object, key, &value.into());
        }
    }
    if let Some(behavior) = behavior {
        annotate(object, BEHAVIOR, &behavior::to_annotation(&behavior));
    }
}

/// Makes an autoscaler of v1 one of v2.
pub fn to_v2(object: &mut Value) {
    let annotation = |key: &str| text::read(object::annotation(object, key)?);
    let others = annotation(METRICS).and_then(|all| metrics::to_v2(&all, &SOURCES));
    let current = annotation(CURRENT_METRICS).and_then(|all| metrics::to_v2(&all, &STATUSES));
    let conditions = annotation(CONDITIONS).and_then(|all| text::conditions(&all));
    let behavior = annotation(BEHAVIOR).and_then(|one| behavior::of_annotation(&one));
    drop_annotations(object);
    let mut metrics = others.unwrap_or_default();
    if let Some(target) = object::remove(object, &["spec", "targetCPUUtilizationPercentage"]) {
        metrics.push(cpu(
            "target",
            json!({"type": "Utilization", "averageUtilization": target}),
        ));
    }
    if metrics.is_empty() {
        let target = json!({"type": "Utilization", "averageUtilization": CPU_TARGET});
        metrics.push(cpu("target", target));
    }
    object::set(object, &["spec", "metrics"], metrics.into());
    if let Some(behavior) = behavior {
        object::set(object, &["spec", "behavior"], behavior);
    }
    let used = object::remove(object, &["status", "currentCPUUtilizationPercentage"]);
    let used = used.map(|used| vec![cpu("current", json!({"averageUtilization": used}))]);
    if let Some(current) = current.or(used) {
        object::set(object, &["status", "currentMetrics"], current.into());
    }
    if let Some(conditions) = conditions {
        object::set(object, &["status", "conditions"], conditions.into());
    }
}

/// Keeps the part of the status that is in annotations, which a write of the spec does not change.
/// Autoscalers of v2 have no such annotations.
pub fn keep_status(old: Option<&Value>, new: &mut Value) {
    keep(old, new, |key| OF_STATUS.contains(&key));
}

/// Keeps the part of the spec that is in annotations, which a write of the status does not change.
pub fn keep_spec(old: &Value, new: &mut Value) {
    keep(Some(old), new, |key| !OF_STATUS.contains(&key));
}

fn keep(old: Option<&Value>, new: &mut Value, kept: fn(&str) -> bool) {
    for key in OURS.into_iter().filter(|key| kept(key)) {
        let path = ["metadata", "annotations", key];
        match old.and_then(|old| object::at(old, &path)) {
            Some(value) => object::set(new, &path, value.clone()),
            None => drop(object::remove(new, &path)),
        }
    }
}

fn annotate(object: &mut Value, key: &str, value: &Value) {
    let path = ["metadata", "annotations", key];
    object::set(object, &path, text::written(value).into());
}

fn drop_annotations(object: &mut Value) {
    let path = ["metadata", "annotations"];
    let Some(Value::Object(mut annotations)) = object::remove(object, &path) else {
        return;
    };
    annotations.retain(|key, _| !OURS.contains(&key.as_str()));
    if !annotations.is_empty() {
        object::set(object, &path, annotations.into());
    }
}

/// Takes a list out of an object.
fn list(object: &mut Value, path: &[&str]) -> Vec<Value> {
    match object::remove(object, path) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// A metric about the processors.
fn cpu(what: &str, value: Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", what: value}})
}

/// The target of a metric that v1 has a field for.
fn cpu_target(metric: &Value) -> Option<&Value> {
    of_cpu(metric, "target")
}

fn cpu_use(metric: &Value) -> Option<&Value> {
    of_cpu(metric, "current")
}

fn of_cpu<'a>(metric: &'a Value, what: &str) -> Option<&'a Value> {
    let is_cpu = object::text(metric, &["type"]) == "Resource"
        && object::text(metric, &["resource", "name"]) == "cpu";
    let used = object::at(metric, &["resource", what, "averageUtilization"]);
    used.filter(|used| is_cpu && !used.is_null())
}

/// A condition as Go writes it: a time is always there.
fn condition(mut condition: Value) -> Value {
    let fields: &mut Map<String, Value> = object::map_mut(&mut condition);
    fields.entry("lastTransitionTime").or_insert(Value::Null);
    condition
}

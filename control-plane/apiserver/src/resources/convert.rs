//! Converts kinds that are served in several versions and stored in one: among ours, events and
//! autoscalers.
//!
//! The objects of custom resources are the same in all versions, or a [`Converter`] converts them.
//! The plain functions leave those as they are; [`served`] and [`stored`] ask the converter.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use machinery::object::{self, map_mut};
use machinery::status::Status;
use serde_json::{Map, Value, json};

use crate::resources::catalogue::{Resource, Storage};

/// How objects of the stored version become objects of a served one, and back, besides the version
/// that they name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conversion {
    to_served: fn(&mut Value),
    to_stored: fn(&mut Value),
}

impl Conversion {
    /// Both versions have the same fields.
    pub(crate) const NONE: Conversion = Conversion {
        to_served: |_| {},
        to_stored: |_| {},
    };
}

/// Converts the objects of one custom resource between its versions.
pub(crate) trait Converter: Send + Sync + fmt::Debug {
    /// Converts objects to an `apiVersion`, those that are in another one with one call. The result
    /// has the order of the objects.
    fn convert<'a>(&'a self, objects: Vec<Value>, api_version: &'a str) -> Converted<'a>;
}

/// The objects in another version.
pub(crate) type Converted<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<Value>, Status>> + Send + 'a>>;

/// A version of a custom resource whose versions have different fields.
#[derive(Debug, Clone)]
pub(crate) struct ConvertedVersion {
    pub(crate) converter: Arc<dyn Converter>,
    /// The collection as this version shows it. Each change of a definition makes another one, so
    /// that no object is taken for current that was converted by an earlier one.
    pub(crate) view: Arc<Storage>,
    /// Objects may get defaults when they are read.
    pub(crate) fills_in: bool,
}

impl ConvertedVersion {
    /// One object in the version of the view.
    pub(crate) async fn convert(&self, object: Value) -> Result<Value, Status> {
        one(&*self.converter, object, &self.view.kind.api_version()).await
    }
}

/// Events of `events.k8s.io`, which are stored as events of the core group.
pub(crate) const EVENT: Conversion = Conversion {
    to_served: |object| rename(object, |(core, events)| (core, events)),
    to_stored: |object| rename(object, |(core, events)| (events, core)),
};

/// Autoscalers of autoscaling/v1, which are stored as those of v2.
pub(crate) const AUTOSCALER_V1: Conversion = Conversion {
    to_served: autoscaler_to_v1,
    to_stored: autoscaler_to_v2,
};

/// Annotations for what autoscaling/v1 has no fields for.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// (core, events.k8s.io): the two names of one field.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// True if the resource is served as it is stored.
pub(crate) fn is_same(resource: &Resource) -> bool {
    resource.conversion.is_none() && !fills_in(resource)
}

/// Converts a stored object to the version of the resource.
pub(crate) fn to_served(resource: &Resource, object: &Arc<Value>) -> Arc<Value> {
    if is_same(resource) {
        return Arc::clone(object);
    }
    let mut object = Value::clone(object);
    if let Some(conversion) = resource.conversion {
        (conversion.to_served)(&mut object);
    }
    // Each version of a custom resource has its own defaults.
    if let Some(schema) = resource.schema().filter(|_| fills_in(resource)) {
        schema.default(&mut object);
    }
    object::set_type(
        &mut object,
        &resource.kind.api_version(),
        resource.kind.kind(),
    );
    Arc::new(object)
}

/// Converts an object of the resource's version to the stored version.
pub(crate) fn to_stored(resource: &Resource, mut object: Value) -> Value {
    let (Some(storage), Some(conversion)) = (&resource.storage, resource.conversion) else {
        return object;
    };
    (conversion.to_stored)(&mut object);
    object::set_type(
        &mut object,
        &storage.kind.api_version(),
        storage.kind.kind(),
    );
    object
}

/// Converts an object of any version to that of the resource, by its converter if it has one.
pub(crate) async fn served(resource: &Resource, object: &Arc<Value>) -> Result<Arc<Value>, Status> {
    match resource.converted() {
        Some(served) => served.convert(Value::clone(object)).await.map(Arc::new),
        None => Ok(to_served(resource, object)),
    }
}

/// Converts an object of the resource's version to the stored version, by its converter if it has
/// one.
pub(crate) async fn stored(resource: &Resource, object: Value) -> Result<Value, Status> {
    match (resource.converted(), &resource.storage) {
        (Some(served), Some(storage)) => {
            one(&*served.converter, object, &storage.kind.api_version()).await
        }
        _ => Ok(to_stored(resource, object)),
    }
}

/// Converts an object from the version of one resource to that of another of the same collection.
pub(crate) async fn between(
    from: &Resource,
    to: &Resource,
    object: Value,
) -> Result<Value, Status> {
    if let Some(served) = to.converted() {
        return served.convert(object).await;
    }
    let stored = Arc::new(to_stored(from, object));
    Ok(Arc::unwrap_or_clone(to_served(to, &stored)))
}

async fn one(converter: &dyn Converter, object: Value, version: &str) -> Result<Value, Status> {
    let converted = converter.convert(vec![object], version).await?;
    let first = converted.into_iter().next();
    first.ok_or_else(|| Status::internal("a conversion of one object has no result"))
}

/// True if objects may get defaults when they are read.
fn fills_in(resource: &Resource) -> bool {
    resource.custom.as_ref().is_some_and(|one| one.fills_in)
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

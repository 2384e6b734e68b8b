//! The defaults that the API fills in for missing fields.
//!
//! Clients compare what they applied with what they read, and controllers compare templates, so
//! the defaults are part of the API contract. The input is an object that
//! [`strict`](crate::strict) decoded. Only defaults that follow from the object alone are here:
//! admission sets allocated addresses, priorities, service accounts and the like.

mod cluster;
mod pod;
#[cfg(test)]
mod tests;
mod workload;

use serde_json::{Map, Value};

use crate::object::map_mut;

/// Fills in the defaults of an object of this group and kind; other kinds stay unchanged.
pub fn apply(group: &str, kind: &str, object: &mut Value) {
    match (group, kind) {
        ("", "Pod") => pod::pod(object),
        ("", "PodTemplate") => below(object, &["template"], pod::template),
        ("", "ReplicationController") => workload::replication_controller(object),
        ("", "Service") => cluster::service(object),
        ("", "Secret") => cluster::secret(object),
        ("", "Namespace") => cluster::namespace(object),
        ("", "Node") => cluster::node(object),
        ("", "PersistentVolume") => cluster::persistent_volume(object),
        ("", "PersistentVolumeClaim") => cluster::claim(object),
        ("", "LimitRange") => cluster::limit_range(object),
        ("", "Endpoints") => each(object, &["subsets"], |subset| {
            each(subset, &["ports"], |port| default(port, "protocol", "TCP"));
        }),
        ("discovery.k8s.io", "EndpointSlice") => each(object, &["ports"], |port| {
            // An empty port name counts as set, so `default` cannot be used.
            map_mut(port).entry("name").or_insert_with(|| "".into());
            default(port, "protocol", "TCP");
        }),
        ("apps", "Deployment") => workload::deployment(object),
        ("apps", "ReplicaSet") => workload::replica_set(object),
        ("apps", "StatefulSet") => workload::stateful_set(object),
        ("apps", "DaemonSet") => workload::daemon_set(object),
        ("batch", "Job") => workload::job(object),
        ("batch", "CronJob") => workload::cron_job(object),
        ("autoscaling", "HorizontalPodAutoscaler") => workload::autoscaler(object),
        ("scheduling.k8s.io", "PriorityClass") => {
            default(object, "preemptionPolicy", "PreemptLowerPriority");
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => cluster::definition(object),
        _ => cluster::other(group, kind, object),
    }
}

/// Fills in `apiVersion` and `kind` of objects nested in an object: clients may leave them out, and
/// protobuf does not carry them.
pub fn name_kinds(group: &str, kind: &str, object: &mut Value) {
    if (group, kind) == ("apps", "StatefulSet") {
        each(object, &["spec", "volumeClaimTemplates"], |claim| {
            default(claim, "apiVersion", "v1");
            default(claim, "kind", "PersistentVolumeClaim");
        });
    }
}

/// Sets a field that is missing or an empty string.
fn default(object: &mut Value, key: &str, value: impl Into<Value>) {
    let place = map_mut(object).entry(key).or_insert(Value::Null);
    if place.is_null() || place == "" {
        *place = value.into();
    }
}

/// Sets a field of the map at a path; missing maps are created.
fn default_at(object: &mut Value, path: &[&str], key: &str, value: impl Into<Value>) {
    default(made(object, path), key, value);
}

/// The value at a path; missing maps are created.
fn made<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut Value {
    path.iter().fold(object, |object, key| {
        let place = map_mut(object).entry(*key);
        place.or_insert_with(|| Value::Object(Map::new()))
    })
}

/// Runs `act` on the value at a path, if there is one.
fn below(object: &mut Value, path: &[&str], act: impl FnOnce(&mut Value)) {
    let place = path
        .iter()
        .try_fold(object, |object, key| object.get_mut(key));
    if let Some(place) = place.filter(|place| place.is_object()) {
        act(place);
    }
}

/// Runs `act` on each item of the list at a path.
fn each(object: &mut Value, path: &[&str], act: impl FnMut(&mut Value)) {
    let place = path
        .iter()
        .try_fold(object, |object, key| object.get_mut(key));
    if let Some(Value::Array(list)) = place {
        list.iter_mut()
            .filter(|item| item.is_object())
            .for_each(act);
    }
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn has(object: &Value, key: &str) -> bool {
    object.get(key).is_some_and(|value| !value.is_null())
}

//! The defaults that the API fills in for missing fields.
//!
//! Clients compare what they applied with what they read, and controllers compare templates, so
//! the defaults are part of the API contract. The input is an object that
//! [`strict`](crate::strict) decoded. Only defaults that follow from the object alone are here:
//! admission sets allocated addresses, priorities, service accounts and the like.

mod admission;
mod cluster;
mod devices;
mod pod;
#[cfg(test)]
mod tests;
mod workload;

use serde_json::{Map, Value};

use crate::object::map_mut;

/// A kind with defaults: its group, its name, and what fills them in.
type Row = (&'static str, &'static str, fn(&mut Value));

const ADMISSION: &str = "admissionregistration.k8s.io";
/// Where a service answers that the server sends requests to.
const HTTPS_PORT: u32 = 443;

/// The kinds that have defaults, by group.
const ROWS: &[Row] = &[
    ("", "Pod", pod::pod),
    ("", "PodTemplate", pod::pod_template),
    (
        "",
        "ReplicationController",
        workload::replication_controller,
    ),
    ("", "Service", cluster::service),
    ("", "Secret", cluster::secret),
    ("", "Namespace", cluster::namespace),
    ("", "Node", cluster::node),
    ("", "PersistentVolume", cluster::persistent_volume),
    ("", "PersistentVolumeClaim", cluster::claim),
    ("", "LimitRange", cluster::limit_range),
    ("", "Endpoints", cluster::endpoints),
    ("discovery.k8s.io", "EndpointSlice", cluster::endpoint_slice),
    ("apps", "Deployment", workload::deployment),
    ("apps", "ReplicaSet", workload::replica_set),
    ("apps", "StatefulSet", workload::stateful_set),
    ("apps", "DaemonSet", workload::daemon_set),
    ("batch", "Job", workload::job),
    ("batch", "CronJob", workload::cron_job),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        workload::autoscaler,
    ),
    (
        "scheduling.k8s.io",
        "PriorityClass",
        cluster::priority_class,
    ),
    ("resource.k8s.io", "ResourceClaim", devices::claim),
    (
        "resource.k8s.io",
        "ResourceClaimTemplate",
        devices::template,
    ),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        cluster::definition,
    ),
    ("apiregistration.k8s.io", "APIService", cluster::api_service),
    (
        "rbac.authorization.k8s.io",
        "RoleBinding",
        cluster::role_binding,
    ),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        cluster::role_binding,
    ),
    (
        "networking.k8s.io",
        "NetworkPolicy",
        cluster::network_policy,
    ),
    ("networking.k8s.io", "IngressClass", cluster::ingress_class),
    (
        "flowcontrol.apiserver.k8s.io",
        "FlowSchema",
        cluster::flow_schema,
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "PriorityLevelConfiguration",
        cluster::priority_level,
    ),
    ("storage.k8s.io", "StorageClass", cluster::storage_class),
    ("storage.k8s.io", "VolumeAttachment", cluster::attachment),
    ("storage.k8s.io", "CSIDriver", cluster::csi_driver),
    (ADMISSION, "ValidatingAdmissionPolicy", admission::policy),
    (ADMISSION, "MutatingAdmissionPolicy", admission::policy),
    (
        ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        admission::binding,
    ),
    (
        ADMISSION,
        "MutatingAdmissionPolicyBinding",
        admission::binding,
    ),
    (
        ADMISSION,
        "ValidatingWebhookConfiguration",
        admission::webhooks,
    ),
    (
        ADMISSION,
        "MutatingWebhookConfiguration",
        admission::mutating_webhooks,
    ),
];

/// Fills in the defaults of an object of this group and kind; kinds without a row stay unchanged.
pub fn apply(group: &str, kind: &str, object: &mut Value) {
    let row = ROWS.iter().find(|row| (row.0, row.1) == (group, kind));
    if let Some((_, _, set_defaults)) = row {
        set_defaults(object);
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

/// Sets a field that is missing. An empty string stays: Go's type of the field is a pointer.
fn default_absent(object: &mut Value, key: &str, value: impl Into<Value>) {
    if !has(object, key) {
        map_mut(object).insert(key.to_owned(), value.into());
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

//! What the server itself writes into objects when they are made and changed: identity, times,
//! generations, and whichever half of an object the caller may not touch.

use machinery::object::{self, map_mut, metadata_mut};
use machinery::quantity::Quantity;
use machinery::status::Status;
use machinery::strict;
use serde_json::{Map, Value, json};

use crate::auth::User;
use crate::clock;
use crate::registry::certificate_request;
use crate::resources::catalogue::Resource;

/// Where a daemon set says how often its template has changed.
const TEMPLATE_NUMBER: &str = "deprecated.daemonset.template.generation";

/// Brings the namespace of an object in line with the request's.
pub(crate) fn match_namespace(
    resource: &Resource,
    namespace: &str,
    object: &mut Value,
) -> Result<(), Status> {
    let metadata = metadata_mut(object);
    let given = metadata
        .get("namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !resource.kind.namespaced() {
        metadata.remove("namespace");
    } else if given.is_empty() {
        metadata.insert("namespace".into(), namespace.into());
    } else if given != namespace {
        let text =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(text));
    }
    Ok(())
}

/// Whether the object is called as the path says.
pub(crate) fn match_name(name: &str, object: &Value) -> Result<(), Status> {
    let given = object::name(object);
    if given.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if given != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}

/// Makes a new object the server's own.
pub(crate) fn created(resource: &Resource, object: &mut Value) {
    let metadata = metadata_mut(object);
    for key in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
    ] {
        metadata.remove(key);
    }
    metadata.remove("resourceVersion");
    metadata.insert("uid".into(), clock::uid().into());
    metadata.insert("creationTimestamp".into(), clock::now().to_seconds().into());
    match resource.has_generation() {
        true => metadata.insert("generation".into(), 1.into()),
        false => metadata.remove("generation"),
    };
    if resource.has_status() && !resource.keeps_status_on_create() {
        map_mut(object).insert("status".into(), json!({}));
    }
    match (resource.kind.group, resource.kind.kind) {
        ("", "Pod") => new_pod(object),
        ("", "Namespace") => new_namespace(object),
        ("", "PersistentVolume" | "PersistentVolumeClaim") => {
            object["status"] = json!({"phase": "Pending"});
        }
        ("batch", "Job") => new_job(object),
        ("apps", "DaemonSet") => number_template(object, 1),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => new_definition(object),
        _ => {}
    }
    conform(resource, object);
}

/// Writes and leaves out what is empty as Go does.
pub(crate) fn conform(resource: &Resource, object: &mut Value) {
    // It was read by the same table before, so it still has its types.
    if let Ok(decoded) = strict::as_stored(object, resource.kind.message()) {
        *object = decoded.object;
    }
}

/// Writes into a request for a certificate who asks: that is not for them to say.
pub(crate) fn requested_by(user: &User, resource: &Resource, object: &mut Value) {
    if (resource.kind.group, resource.kind.kind)
        != ("certificates.k8s.io", "CertificateSigningRequest")
    {
        return;
    }
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
        match empty {
            true => drop(object::remove(object, &["spec", key])),
            false => object::set(object, &["spec", key], value.clone()),
        }
    }
}

/// Keeps from a new state what is not the caller's to change. `subresource` is empty, or the name
/// of one through which objects are written.
pub(crate) fn updated(resource: &Resource, subresource: &str, old: &Value, new: &mut Value) {
    keep_metadata(old, new);
    if subresource == "finalize" {
        let finalizers = object::items(new, &["spec", "finalizers"]).to_vec();
        *new = old.clone();
        match finalizers.is_empty() {
            true => object::set(new, &["spec"], json!({})),
            false => object::set(new, &["spec", "finalizers"], finalizers.into()),
        }
        return;
    }
    match (resource.kind.group, resource.kind.plural, subresource) {
        ("certificates.k8s.io", "certificatesigningrequests", "status") => {
            return certificate_request::update_status(old, new);
        }
        ("certificates.k8s.io", "certificatesigningrequests", "approval") => {
            return certificate_request::update_approval(old, new);
        }
        _ => {}
    }
    if subresource == "status" {
        return status_updated(resource, old, new);
    }
    if ["ephemeralcontainers", "resize"].contains(&subresource) {
        part_of_pod(subresource, old, new);
    }
    if resource.has_status() {
        keep(old, new, "status");
    }
    if (resource.kind.group, resource.kind.kind) == ("", "Namespace") {
        match object::at(old, &["spec", "finalizers"]) {
            Some(finalizers) => object::set(new, &["spec", "finalizers"], finalizers.clone()),
            None => {
                object::remove(new, &["spec", "finalizers"]);
            }
        }
    }
    let is = |group, kind| (resource.kind.group, resource.kind.kind) == (group, kind);
    if is("certificates.k8s.io", "CertificateSigningRequest") {
        // What is asked for was looked at by whoever approves it.
        keep(old, new, "spec");
    }
    if is("apps", "DaemonSet") {
        let template = |object| object::at(object, &["spec", "template"]);
        let had = object::annotation(old, TEMPLATE_NUMBER);
        let had: i64 = had.and_then(|had| had.parse().ok()).unwrap_or(0);
        number_template(new, had + i64::from(template(old) != template(new)));
    }
    // A deployment's replica sets inherit its annotations: its loop has to see those too.
    let annotated = is("apps", "Deployment") && annotations(old) != annotations(new);
    if resource.has_generation() && (annotated || differs_in_substance(old, new)) {
        let next = object::generation(old) + 1;
        metadata_mut(new).insert("generation".into(), next.into());
    }
}

/// Through the status path only the status changes, and some of the metadata.
fn status_updated(resource: &Resource, old: &Value, new: &mut Value) {
    let mut result = old.clone();
    if let Some(status) = new.get("status") {
        result["status"] = status.clone();
    }
    let mut metadata = new.get("metadata").cloned().unwrap_or_default();
    let labels = !resource.kind.group.is_empty();
    for (key, kept) in [("ownerReferences", true), ("labels", labels)] {
        if !kept {
            continue;
        }
        match object::metadata(old).and_then(|old| old.get(key)) {
            Some(value) => map_mut(&mut metadata).insert(key.into(), value.clone()),
            None => map_mut(&mut metadata).remove(key),
        };
    }
    result["metadata"] = metadata;
    *new = result;
}

/// Through these paths only one part of a pod's spec changes.
fn part_of_pod(subresource: &str, old: &Value, new: &mut Value) {
    let mut result = old.clone();
    if subresource == "ephemeralcontainers" {
        let containers = object::items(new, &["spec", "ephemeralContainers"]).to_vec();
        match containers.is_empty() {
            true => drop(object::remove(
                &mut result,
                &["spec", "ephemeralContainers"],
            )),
            false => object::set(
                &mut result,
                &["spec", "ephemeralContainers"],
                containers.into(),
            ),
        }
        *new = result;
        return;
    }
    for list in ["containers", "initContainers"] {
        let given = object::items(new, &["spec", list]);
        let names = |pod: &Value| -> Vec<Value> {
            let containers = object::items(pod, &["spec", list]).iter();
            containers.map(|one| one["name"].clone()).collect()
        };
        if names(old) != names(new) {
            // The rules refuse it.
            object::set(&mut result, &["spec", list], given.to_vec().into());
            continue;
        }
        let containers = result.pointer_mut(&format!("/spec/{list}"));
        let containers = containers.and_then(Value::as_array_mut);
        for (container, given) in containers.into_iter().flatten().zip(given) {
            for key in ["resources", "resizePolicy"] {
                keep(given, container, key);
            }
        }
    }
    *new = result;
}

/// What no update changes.
fn keep_metadata(old: &Value, new: &mut Value) {
    let empty = Map::new();
    let old = object::metadata(old).unwrap_or(&empty);
    let new = metadata_mut(new);
    let keys = [
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "namespace",
        "generateName",
    ];
    for key in keys {
        match old.get(key) {
            Some(value) => new.insert(key.into(), value.clone()),
            None => new.remove(key),
        };
    }
    for key in ["selfLink", "managedFields"] {
        new.remove(key);
    }
}

fn keep(old: &Value, new: &mut Value, key: &str) {
    match old.get(key) {
        Some(value) => map_mut(new).insert(key.into(), value.clone()),
        None => map_mut(new).remove(key),
    };
}

/// The annotations; none and an empty list of them are the same.
fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    let annotations = object::metadata(object)?.get("annotations")?.as_object()?;
    (!annotations.is_empty()).then_some(annotations)
}

/// Whether anything but metadata and status differs.
fn differs_in_substance(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return true;
    };
    let keys = old.keys().chain(new.keys());
    keys.filter(|key| !["metadata", "status", "apiVersion", "kind"].contains(&key.as_str()))
        .any(|key| old.get(key) != new.get(key))
}

fn new_pod(pod: &mut Value) {
    let class = quality_of_service(pod);
    let mut status = json!({"phase": "Pending", "qosClass": class});
    if !object::items(pod, &["spec", "schedulingGates"]).is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod["status"] = status;
}

fn new_namespace(namespace: &mut Value) {
    namespace["status"] = json!({"phase": "Active"});
    let has = object::items(namespace, &["spec", "finalizers"]);
    if !has.iter().any(|one| one == "kubernetes") {
        let mut finalizers = has.to_vec();
        finalizers.push("kubernetes".into());
        object::set(namespace, &["spec", "finalizers"], finalizers.into());
    }
}

/// A job that is not told otherwise selects its pods by its own uid.
fn new_job(job: &mut Value) {
    if object::at(job, &["spec", "manualSelector"]) != Some(&Value::Bool(true)) {
        select_by_uid(job);
    }
    let labels = job.pointer("/spec/template/metadata/labels").cloned();
    if let Some(labels) = labels.filter(|_| object::labels(job).is_none_or(Map::is_empty)) {
        metadata_mut(job).insert("labels".into(), labels);
    }
}

/// What was given stays: whether it fits is looked at later.
fn select_by_uid(job: &mut Value) {
    let (name, uid) = (object::name(job).to_owned(), object::uid(job).to_owned());
    let labels = ["spec", "template", "metadata", "labels"];
    let selector = ["spec", "selector", "matchLabels"];
    for (path, label, value) in [
        (&labels[..], "batch.kubernetes.io/job-name", &name),
        (&labels[..], "batch.kubernetes.io/controller-uid", &uid),
        (&labels[..], "job-name", &name),
        (&labels[..], "controller-uid", &uid),
        (&selector[..], "batch.kubernetes.io/controller-uid", &uid),
    ] {
        let path = [path, &[label]].concat();
        if object::at(job, &path).is_none() {
            object::set(job, &path, value.as_str().into());
        }
    }
}

/// Says of which version the template is, for whoever asks in the words of an older API.
fn number_template(set: &mut Value, number: i64) {
    let path = ["metadata", "annotations", TEMPLATE_NUMBER];
    object::set(set, &path, number.to_string().into());
}

/// Objects of a new kind will be stored in one of its versions.
fn new_definition(definition: &mut Value) {
    let versions = object::items(definition, &["spec", "versions"]).iter();
    let stored = versions
        .filter(|version| version["storage"] == true)
        .take(1);
    let stored: Vec<Value> = stored.map(|version| version["name"].clone()).collect();
    definition["status"] = match stored.is_empty() {
        true => json!({}),
        false => json!({"storedVersions": stored}),
    };
}

/// How well a pod is served when its node runs short.
fn quality_of_service(pod: &Value) -> &'static str {
    let containers = ["containers", "initContainers"].into_iter();
    let containers: Vec<&Value> = containers
        .flat_map(|key| object::items(pod, &["spec", key]))
        .collect();
    let of_pod = object::at(pod, &["spec", "resources"]);
    let all: Vec<Option<&Value>> = match of_pod {
        Some(resources) => vec![Some(resources)],
        None => containers.iter().map(|one| one.get("resources")).collect(),
    };
    let amount = |resources: Option<&Value>, which: &str, what: &str| {
        let text = object::at(resources?, &[which, what])?.as_str()?;
        Quantity::parse(text)
            .ok()
            .filter(|amount| !amount.is_zero())
    };
    let (mut any, mut guaranteed) = (false, true);
    for resources in all {
        for what in ["cpu", "memory"] {
            let request = amount(resources, "requests", what);
            let limit = amount(resources, "limits", what);
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

//! Volumes, claims, and their classes.

mod affinity;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use machinery::amounts::is_native;
use machinery::name;
use machinery::object::{self, STORAGE_CLASS};
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::words::{field::FieldValue, selector};
use crate::validate::workloads::claim::{self, MODES, SOURCE_FIELDS, STORAGE, access_modes};
use crate::validate::workloads::pod::{node_selector, volumes};
use crate::validate::{Causes, named, unchanged, words::quantity};

/// What there is to tell of a claim that grows.
const RESIZES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];
/// Bounds of the parameters of a class: their number, and their bytes together.
const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 << 10;
const RECLAIM: [&str; 3] = ["Delete", "Recycle", "Retain"];
const BINDING: [&str; 2] = ["Immediate", "WaitForFirstConsumer"];
/// The sources of a volume; it has exactly one.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];
/// A volume of the cluster, given the old one if it is updated.
pub(crate) fn volume(old: Option<&Value>, object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    some_access_mode(&spec, &mut causes);
    capacity(&spec, &mut causes);
    causes.word(&spec, "persistentVolumeReclaimPolicy", &RECLAIM);
    causes.below(&spec, "nodeAffinity", |causes, affinity| {
        match affinity.child("required") {
            Some(required) => node_selector(causes, &required, affinity::had_wrong_values(old)),
            None => {
                let why = "must specify required node constraints";
                causes.push(Cause::required(&affinity.path_of("required"), why));
            }
        }
    });
    source(&spec, object::name(object), &mut causes);
    if spec.has("local") && !spec.has("nodeAffinity") {
        let why = "Local volume requires node affinity";
        causes.push(Cause::required("spec.nodeAffinity", why));
    }
    if spec.text("persistentVolumeReclaimPolicy") == "Recycle"
        && is_root(object::text(spec.value, &["hostPath", "path"]))
    {
        // To recycle a volume is to delete all files in it.
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        causes.forbidden(&spec, "persistentVolumeReclaimPolicy", why);
    }
    causes.named_unless_empty(&spec, "storageClassName", name::dns1123_subdomain);
    causes.word(&spec, "volumeMode", &MODES);
    attributes(&spec, &mut causes);
    causes
}

/// A volume within another object, which no claim can be bound to.
pub(crate) fn inline_volume(causes: &mut Causes, spec: &FieldValue) {
    const HERE: &str = "in the context of inline volumes";
    let forbidden = format!("may not be specified {HERE}");
    causes.forbidden(spec, "claimRef", &forbidden);
    if spec
        .map("capacity")
        .is_some_and(|amounts| !amounts.is_empty())
    {
        causes.forbidden(spec, "capacity", &forbidden);
    }
    if !spec.has("csi") {
        let why = format!("has to be specified {HERE}");
        causes.push(Cause::required(&spec.path_of("csi"), &why));
    }
    some_access_mode(spec, causes);
    if !["", "Retain"].contains(&spec.text("persistentVolumeReclaimPolicy")) {
        let why = format!("may only be Retain {HERE}");
        causes.forbidden(spec, "persistentVolumeReclaimPolicy", &why);
    }
    causes.forbidden(spec, "nodeAffinity", &forbidden);
    source(spec, "", causes);
    if !spec.text("storageClassName").is_empty() {
        causes.forbidden(spec, "storageClassName", &forbidden);
    }
    if spec.has("volumeMode") && spec.text("volumeMode") != "Filesystem" {
        let why = format!("may not specify volumeMode other than Filesystem {HERE}");
        causes.forbidden(spec, "volumeMode", &why);
    }
}

fn some_access_mode(spec: &FieldValue, causes: &mut Causes) {
    if spec.items("accessModes").is_empty() {
        causes.push(Cause::required(&spec.path_of("accessModes"), ""));
    }
    access_modes(spec, causes);
}

/// True if a path leads to the root of the file system.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

/// Where the content of a volume is.
fn source(spec: &FieldValue, volume: &str, causes: &mut Causes) {
    let sources: Vec<_> = SOURCES.iter().filter(|source| spec.has(source)).collect();
    if let Some(first) = sources.first() {
        volumes::of_volume(spec, first, volume, causes);
    }
    for another in sources.iter().skip(1) {
        let why = "may not specify more than 1 volume type";
        let called = if **another == "cephfs" {
            "cephFS"
        } else {
            another
        };
        causes.push(Cause::forbidden(&spec.path_of(called), why));
    }
    if sources.is_empty() {
        causes.push(Cause::required(&spec.path, "must specify a volume type"));
    }
}

/// The class that the attributes of a volume are of.
fn attributes(spec: &FieldValue, causes: &mut Causes) {
    let class = "volumeAttributesClassName";
    if spec.has(class) {
        if spec.text(class).is_empty() {
            let why = "an empty string is disallowed";
            causes.push(Cause::required(&spec.path_of(class), why));
        }
        causes.named_unless_empty(spec, class, name::dns1123_subdomain);
        if !spec.has("csi") {
            let why = "has to be specified when using volumeAttributesClassName";
            causes.push(Cause::required(&spec.path_of("csi"), why));
        }
    }
}

/// The source of a volume must not change.
pub(crate) fn volume_update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    let source = |object, source: &str| object::at(object, &["spec", source]);
    let same = without_later_secret(old, new);
    if SOURCES
        .iter()
        .any(|one| source(old, one) != source(&same, one))
    {
        let why = "spec.persistentvolumesource is immutable after creation";
        causes.push(Cause::forbidden("spec.persistentvolumesource", why));
    }
    same_mode(old, new, &mut causes);
    causes.extend(affinity::update(old, new));
    let attributes = ["spec", "volumeAttributesClassName"];
    let had = object::at(old, &attributes).is_some();
    if had && object::at(new, &attributes).is_none() {
        let why = "update from non-nil value to nil is forbidden";
        causes.push(Cause::forbidden(&attributes.join("."), why));
    }
    causes
}

/// The new state of a volume without the secret for its expansion if it had none: its driver may
/// learn to expand volumes.
fn without_later_secret<'a>(old: &Value, new: &'a Value) -> Cow<'a, Value> {
    const SECRET: [&str; 3] = ["spec", "csi", "controllerExpandSecretRef"];
    let has = |object, path| object::at(object, path).is_some();
    let is_later = has(old, &SECRET[..2]) && !has(old, &SECRET) && has(new, &SECRET);
    if !is_later {
        return Cow::Borrowed(new);
    }
    let mut new = new.clone();
    object::remove(&mut new, &SECRET);
    Cow::Owned(new)
}

/// A claim, given the old one if it is updated.
pub(crate) fn claim(old: Option<&Value>, object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    let has_group = |old: &Value| {
        let mut sources = SOURCE_FIELDS.iter();
        sources.any(|source| {
            let group = object::at(old, &["spec", *source, "apiGroup"]);
            group.is_some_and(|group| !group.is_null())
        })
    };
    let kept = claim::Kept {
        values: selector::had_wrong_values(old, &["spec", "selector"]),
        groups: old.is_some_and(has_group),
    };
    claim::spec_with(&mut causes, &spec, kept);
    causes
}

/// The status of a claim.
pub(crate) fn claim_status(claim: &Value) -> Causes {
    let mut causes = Causes::default();
    let status = FieldValue::new("status", claim.get("status").unwrap_or(&Value::Null));
    for (resource, amount) in status.map("capacity").into_iter().flatten() {
        let field = format!("{}[{resource}]", status.path_of("capacity"));
        causes.extend(quantity::basic(&field, amount));
    }
    let resizes = status.path_of("allocatedResourceStatuses");
    for (resource, resize) in status
        .map("allocatedResourceStatuses")
        .into_iter()
        .flatten()
    {
        causes.extend(claimed_resource(&resizes, resource));
        if !RESIZES.contains(&resize.as_str().unwrap_or_default()) {
            // Kubernetes shows the resource instead.
            causes.push(Cause::not_supported(
                &resizes,
                &resource.as_str().into(),
                &RESIZES,
            ));
        }
    }
    let allocated = status.path_of("allocatedResources");
    for (resource, amount) in status.map("allocatedResources").into_iter().flatten() {
        let field = format!("{allocated}[{resource}]");
        let wrong = claimed_resource(&allocated, resource);
        if !wrong.is_empty() {
            causes.extend(wrong);
        } else if let Some(cause) = quantity::basic(&field, amount) {
            causes.push(cause);
        } else {
            quantity::of_resource(&field, STORAGE, amount, &mut causes);
        }
    }
    causes
}

/// The name of a resource of a claim: of Kubernetes' own, storage is the only one.
fn claimed_resource(field: &str, resource: &str) -> Causes {
    let wrong = name::qualified_name(resource);
    if wrong.is_empty() && is_native(resource) && resource != STORAGE {
        return Causes::from(Cause::not_supported(field, &resource.into(), &[STORAGE]));
    }
    named(field, resource, wrong)
}

/// The spec of a claim must not change, except that a bound claim may request more storage.
pub(crate) fn claim_update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    let bound = object::text(new, &["status", "phase"]) == "Bound";
    let annotated = |object| object::annotation(object, STORAGE_CLASS);
    let class = |object| object::at(object, &["spec", "storageClassName"]);
    // An annotation that came before the field has chosen the class already.
    let chosen =
        annotated(old).filter(|chosen| class(new).and_then(Value::as_str) != Some(*chosen));
    let fixed = |object: &Value| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        // May be set once: by the binder of the claim, or to choose its class.
        for key in ["volumeName", "storageClassName"] {
            let is_chosen = key == "storageClassName" && chosen.is_some();
            if object::at(old, &["spec", key]).is_none() && !is_chosen {
                object::remove(&mut spec, &[key]);
            }
        }
        // A claim that was stored with one of the fields gets the other, which says the same.
        let had = |key| object::at(old, &["spec", key]).is_some();
        for key in SOURCE_FIELDS {
            if !had(key) && SOURCE_FIELDS.iter().any(|other| had(other)) {
                object::remove(&mut spec, &[key]);
            }
        }
        if bound {
            object::remove(&mut spec, &["resources", "requests", STORAGE]);
            object::remove(&mut spec, &["volumeAttributesClassName"]);
        }
        spec
    };
    if fixed(old) != fixed(new) {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        causes.push(Cause::forbidden("spec", why));
    }
    // Quotas of a class count by this annotation. It may only become the field.
    let moved = annotated(old).is_some()
        && class(old).is_none()
        && class(new).and_then(Value::as_str) == annotated(old)
        && [None, annotated(old)].contains(&annotated(new));
    if annotated(old) != annotated(new) && !moved {
        let shown = annotated(new).unwrap_or_default().into();
        let path = format!("metadata.annotations.{STORAGE_CLASS}");
        causes.push(Cause::invalid(&path, &shown, "field is immutable"));
    }
    let amount = |object, path: &[&str]| {
        object::at(object, path)
            .map(quantity::read)
            .unwrap_or(machinery::quantity::Quantity::ZERO)
    };
    let request = ["spec", "resources", "requests", STORAGE];
    let asked = amount(new, &request);
    if asked < amount(old, &request) && asked <= amount(old, &["status", "capacity", STORAGE]) {
        let why = "field can not be less than status.capacity";
        causes.push(Cause::forbidden(&request.join("."), why));
    }
    same_mode(old, new, &mut causes);
    keeps_attributes(old, new, &mut causes);
    causes
}

/// The class that a volume's attributes are of may change, but no longer be none.
fn keeps_attributes(old: &Value, new: &Value, causes: &mut Causes) {
    let path = ["spec", "volumeAttributesClassName"];
    let current = ["status", "currentVolumeAttributesClassName"];
    let (before, after) = (object::at(old, &path), object::at(new, &path));
    if before == after || object::at(old, &current).is_none() {
        return;
    }
    let to = match after.and_then(Value::as_str) {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let why = format!(
        "update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil"
    );
    causes.push(Cause::forbidden(&path.join("."), &why));
}

pub(crate) fn class(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let class = FieldValue::new("", object);
    if causes.required(&class, "provisioner") {
        let provisioner = class.text("provisioner");
        let wrong = name::qualified_name(&provisioner.to_lowercase());
        causes.extend(crate::validate::named("provisioner", provisioner, wrong));
    }
    parameters(&class, &mut causes);
    if !class.text("reclaimPolicy").is_empty() {
        causes.word(&class, "reclaimPolicy", &["Delete", "Retain"]);
    }
    causes.word_given(&class, "volumeBindingMode", &BINDING);
    topologies(&class, &mut causes);
    causes
}

/// What a class tells its driver: not too much, and all of it under names.
pub(super) fn parameters(class: &FieldValue, causes: &mut Causes) {
    const KEY: &str = "parameters";
    let Some(all) = class.map(KEY) else {
        return;
    };
    if all.len() > PARAMETERS_MAX {
        return causes.push(Cause::too_long(KEY, PARAMETERS_MAX));
    }
    if all.contains_key("") {
        causes.push(Cause::invalid(KEY, &"".into(), "field can not be empty."));
    }
    let bytes = all
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
    if bytes.sum::<usize>() > PARAMETERS_BYTES_MAX {
        causes.push(Cause::too_long(KEY, PARAMETERS_BYTES_MAX));
    }
}

/// Where the volumes of a class may be: terms with values of labels, none of them twice.
fn topologies(class: &FieldValue, causes: &mut Causes) {
    let mut terms = BTreeSet::new();
    causes.each(class, "allowedTopologies", |causes, term| {
        const KEY: &str = "matchLabelExpressions";
        let mut meant = BTreeMap::new();
        causes.each(term, KEY, |causes, one| {
            causes.label_name(one, "key");
            if one.items("values").is_empty() {
                causes.push(Cause::required(&one.path_of("values"), ""));
            }
            let mut values = BTreeSet::new();
            causes.each(one, "values", |causes, value| {
                if !values.insert(value.value.as_str().unwrap_or_default()) {
                    causes.push(Cause::duplicate(&value.path, value.value));
                }
            });
            if meant.insert(one.text("key"), values).is_some() {
                let key = one.text("key").into();
                causes.push(Cause::duplicate(&one.path_of("key"), &key));
            }
        });
        // A term without conditions repeats nothing, but Kubernetes says so.
        if meant.is_empty() || !terms.insert(meant) {
            causes.push(Cause::duplicate(&term.path_of(KEY), &"".into()));
        }
    });
}

pub(crate) fn class_update(old: &Value, new: &Value) -> Causes {
    let fixed = [
        "parameters",
        "provisioner",
        "reclaimPolicy",
        "volumeBindingMode",
    ];
    let fixed = fixed.iter().flat_map(|key| unchanged(old, new, &[key]));
    fixed.collect()
}

fn capacity(spec: &FieldValue, causes: &mut Causes) {
    let field = spec.path_of("capacity");
    let given = spec.map("capacity").filter(|map| !map.is_empty());
    if given.is_none() {
        causes.push(Cause::required(&field, ""));
    }
    if given.is_none_or(|map| map.len() > 1 || !map.contains_key(STORAGE)) {
        let shown = spec.get("capacity").unwrap_or(&Value::Null);
        causes.push(Cause::not_supported(&field, shown, &[STORAGE]));
    }
    for (resource, amount) in given.into_iter().flatten() {
        if causes.is_full() {
            break;
        }
        let field = format!("{field}[{resource}]");
        causes.extend(quantity::basic(&field, amount));
        causes.extend(quantity::positive(&field, amount));
    }
}

fn same_mode(old: &Value, new: &Value, causes: &mut Causes) {
    let mode = |object| object::at(object, &["spec", "volumeMode"]).cloned();
    if mode(old) != mode(new) {
        let shown = mode(new).unwrap_or_default();
        causes.push(Cause::invalid("volumeMode", &shown, "field is immutable"));
    }
}

//! Volumes, claims, and their classes.

use machinery::name;
use machinery::object::{self, STORAGE_CLASS};
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::words::field::FieldValue;
use crate::validate::workloads::pod::{node_selector, volumes};
use crate::validate::{Causes, unchanged, words::quantity};

const ACCESS_MODES: [&str; 4] = [
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];
const RECLAIM: [&str; 3] = ["Delete", "Recycle", "Retain"];
const MODES: [&str; 2] = ["Block", "Filesystem"];
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
const STORAGE: &str = "storage";

pub(crate) fn volume(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    if spec.items("accessModes").is_empty() {
        causes.push(Cause::required("spec.accessModes", ""));
    }
    access_modes(&spec, &mut causes);
    capacity(&spec, &mut causes);
    causes.word(&spec, "persistentVolumeReclaimPolicy", &RECLAIM);
    let sources: Vec<_> = SOURCES.iter().filter(|source| spec.has(source)).collect();
    if let Some(first) = sources.first() {
        volumes::of_volume(&spec, first, &mut causes);
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
    causes.below(&spec, "nodeAffinity", |causes, affinity| {
        match affinity.child("required") {
            Some(required) => node_selector(causes, &required),
            None => {
                let why = "must specify required node constraints";
                causes.push(Cause::required(&affinity.path_of("required"), why));
            }
        }
    });
    if spec.has("volumeAttributesClassName") && !spec.has("csi") {
        let why = "has to be specified when using volumeAttributesClassName";
        causes.push(Cause::required("spec.csi", why));
    }
    if spec.has("local") && !spec.has("nodeAffinity") {
        let why = "Local volume requires node affinity";
        causes.push(Cause::required("spec.nodeAffinity", why));
    }
    if sources.is_empty() {
        causes.push(Cause::required("spec", "must specify a volume type"));
    }
    causes.named(&spec, "storageClassName", name::dns1123_subdomain);
    causes.word(&spec, "volumeMode", &MODES);
    causes
}

/// The source of a volume must not change.
pub(crate) fn volume_update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    let source = |object, source: &str| object::at(object, &["spec", source]);
    if SOURCES
        .iter()
        .any(|one| source(old, one) != source(new, one))
    {
        let why = "spec.persistentvolumesource is immutable after creation";
        causes.push(Cause::forbidden("spec.persistentvolumesource", why));
    }
    same_mode(old, new, &mut causes);
    let affinity = |object| object::at(object, &["spec", "nodeAffinity"]);
    if affinity(old).is_some() && affinity(old) != affinity(new) {
        let shown = affinity(new).cloned().unwrap_or_default();
        let why = "field is immutable, except for updating from beta label to GA";
        causes.push(Cause::invalid("nodeAffinity", &shown, why));
    }
    let attributes = ["spec", "volumeAttributesClassName"];
    let had = object::at(old, &attributes).is_some();
    if had && object::at(new, &attributes).is_none() {
        let why = "update from non-nil value to nil is forbidden";
        causes.push(Cause::forbidden(&attributes.join("."), why));
    }
    causes
}

pub(crate) fn claim(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    claim_spec(&mut causes, &spec);
    causes
}

/// The spec of a claim.
pub(crate) fn claim_spec(causes: &mut Causes, spec: &FieldValue) {
    if spec.items("accessModes").is_empty() {
        let why = "at least 1 access mode is required";
        causes.push(Cause::required(&spec.path_of("accessModes"), why));
    }
    causes.label_selector(spec, "selector");
    access_modes(spec, causes);
    let field = format!("{}[{STORAGE}]", spec.path_of("resources"));
    match object::at(spec.value, &["resources", "requests", STORAGE]) {
        None => causes.push(Cause::required(&field, "")),
        Some(amount) => causes.extend(quantity::positive(&field, amount)),
    }
    causes.named(spec, "storageClassName", name::dns1123_subdomain);
    causes.word(spec, "volumeMode", &MODES);
    for source in ["dataSource", "dataSourceRef"] {
        causes.below(spec, source, |causes, source| {
            causes.required(source, "name");
            causes.required(source, "kind");
            let (group, kind) = (source.text("apiGroup"), source.text("kind"));
            if group.is_empty() && kind != "PersistentVolumeClaim" {
                let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
                causes.push(Cause::invalid(&source.path, &kind.into(), why));
            }
            causes.named(source, "apiGroup", name::dns1123_subdomain);
        });
    }
}

/// The spec of a claim must not change, except that a bound claim may request more storage.
pub(crate) fn claim_update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    let bound = object::text(new, &["status", "phase"]) == "Bound";
    let fixed = |object: &Value| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        // May be set once: by the binder of the claim, or to choose its class.
        for key in ["volumeName", "storageClassName"] {
            if object::at(old, &["spec", key]).is_none() {
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
    let annotated = |object| object::annotation(object, STORAGE_CLASS);
    let class = |object| object::at(object, &["spec", "storageClassName"]);
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
    causes
}

pub(crate) fn class(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let class = FieldValue::new("", object);
    if causes.required(&class, "provisioner") {
        let provisioner = class.text("provisioner");
        let wrong = name::qualified_name(&provisioner.to_lowercase());
        causes.extend(crate::validate::named("provisioner", provisioner, wrong));
    }
    causes.word(&class, "reclaimPolicy", &["Delete", "Retain"]);
    causes.choice(&class, "volumeBindingMode", &BINDING);
    causes
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

fn access_modes(spec: &FieldValue, causes: &mut Causes) {
    let (mut alone, mut others) = (false, false);
    for mode in spec.items("accessModes") {
        if causes.is_full() {
            break;
        }
        let known = ACCESS_MODES.iter().any(|one| mode == one);
        if !known {
            let field = spec.path_of("accessModes");
            causes.push(Cause::not_supported(&field, mode, &ACCESS_MODES));
        }
        let single = mode == "ReadWriteOncePod";
        alone |= single;
        others |= known && !single;
    }
    if alone && others {
        let why = "may not use ReadWriteOncePod with other access modes";
        causes.forbidden(spec, "accessModes", why);
    }
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
        causes.extend(quantity::positive(&format!("{field}[{resource}]"), amount));
    }
}

fn same_mode(old: &Value, new: &Value, causes: &mut Causes) {
    let mode = |object| object::at(object, &["spec", "volumeMode"]).cloned();
    if mode(old) != mode(new) {
        let shown = mode(new).unwrap_or_default();
        causes.push(Cause::invalid("volumeMode", &shown, "field is immutable"));
    }
}

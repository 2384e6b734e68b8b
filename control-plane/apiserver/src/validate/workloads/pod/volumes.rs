//! The volumes of a pod: one source each, and the rules of each source.

mod iscsi;

use std::collections::{BTreeMap, BTreeSet};

use machinery::name;
use machinery::object;
use machinery::quantity::Quantity;
use machinery::status::Cause;
use serde_json::Value;

use super::{paths, sources};
use crate::validate::words::field::FieldValue;
use crate::validate::words::maps;
use crate::validate::workloads::claim;
use crate::validate::{Causes, named};

/// Volumes by name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

type Check = fn(&FieldValue, &mut Causes);

const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];
const CSI_DRIVER_BYTES_MAX: usize = 63;
const TENANT_BYTES_MAX: usize = 64;
/// The namespace of the endpoints of a volume of GlusterFS.
const ENDPOINTS: &str = "endpointsNamespace";
/// The claims that a template makes get these elsewhere.
const NOT_IN_TEMPLATES: [&str; 12] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
];

/// The sources in the order of checks, with their required fields and a further check.
const SOURCES: [(&str, &[&str], Check); 30] = [
    ("emptyDir", &[], empty_dir),
    ("hostPath", &["path"], host_path),
    ("gitRepo", &["repository"], git_repo),
    ("gcePersistentDisk", &["pdName"], partition),
    ("awsElasticBlockStore", &["volumeID"], partition),
    ("secret", &["secretName"], sources::keys),
    ("nfs", &["server", "path"], nfs),
    ("iscsi", &["targetPortal", "iqn"], iscsi::of_pod),
    ("glusterfs", &["endpoints", "path"], nothing_more),
    ("flocker", &[], flocker),
    ("persistentVolumeClaim", &["claimName"], nothing_more),
    ("rbd", &["monitors", "image"], nothing_more),
    ("cinder", &["volumeID"], secret_name),
    ("cephfs", &["monitors"], nothing_more),
    ("quobyte", &[], quobyte),
    ("downwardAPI", &[], sources::downward),
    ("fc", &[], fibre_channel),
    ("flexVolume", &["driver"], flex_volume),
    ("configMap", &["name"], sources::keys),
    ("azureFile", &["secretName", "shareName"], nothing_more),
    ("vsphereVolume", &["volumePath"], nothing_more),
    ("photonPersistentDisk", &["pdID"], nothing_more),
    ("portworxVolume", &["volumeID"], nothing_more),
    ("azureDisk", &["diskName", "diskURI"], azure_disk),
    ("storageos", &["volumeName"], storage_os),
    ("projected", &[], nothing_more),
    (
        "scaleIO",
        &["gateway", "system", "volumeName"],
        nothing_more,
    ),
    ("csi", &[], csi),
    ("ephemeral", &[], ephemeral),
    ("image", &[], image),
];

/// Checks the volumes and returns the valid ones. In templates, the pod has no name. Tokens may be
/// at any path if the pod had a wrong one before.
pub(super) fn check<'a>(
    spec: &FieldValue<'a>,
    pod: &str,
    any_token_path: bool,
    causes: &mut Causes,
) -> Volumes<'a> {
    let mut volumes = Volumes::new();
    // The claims that are made for this pod.
    let made = spec.items("volumes").iter();
    let made = made.filter(|volume| !pod.is_empty() && volume.get("ephemeral").is_some());
    let made: BTreeSet<String> = made
        .map(|volume| format!("{pod}-{}", object::text(volume, &["name"])))
        .collect();
    causes.each(spec, "volumes", |causes, volume| {
        let mut wrong = Causes::default();
        source(volume, pod, any_token_path, &mut wrong);
        wrong.must_be_named(volume, "name", name::dns1123_label);
        let its_name = volume.text("name");
        if volumes.contains_key(its_name) {
            wrong.push(Cause::duplicate(&volume.path_of("name"), &its_name.into()));
        }
        if wrong.is_empty() {
            volumes.insert(its_name, volume.value);
        }
        causes.extend(wrong);
        causes.below(volume, "persistentVolumeClaim", |causes, claim| {
            if made.contains(claim.text("claimName")) {
                let why = "must not reference a PVC that gets created for an ephemeral volume";
                causes.wrong_text(claim, "claimName", why);
            }
        });
    });
    volumes
}

fn source(volume: &FieldValue, pod: &str, any_token_path: bool, causes: &mut Causes) {
    let mut found = false;
    for (key, needed, more) in SOURCES {
        let Some(mut source) = volume.child(key) else {
            continue;
        };
        if key == "gcePersistentDisk" && !found {
            source.path = volume.path_of("persistentDisk");
        }
        if found {
            let why = "may not specify more than 1 volume type";
            causes.push(Cause::forbidden(&volume.path_of(called(key)), why));
            if key == "iscsi" {
                iscsi::long_names(volume, &source, causes);
            }
            continue;
        }
        found = true;
        for field in needed {
            if source.items(field).is_empty() {
                causes.required(&source, field);
            }
        }
        more(&source, causes);
        if key == "image" && !pod.is_empty() {
            causes.required(&source, "reference");
        }
        match key {
            "iscsi" => iscsi::long_names(volume, &source, causes),
            "ephemeral" => claim_name(volume, pod, causes),
            "projected" => sources::projected(&source, any_token_path, causes),
            _ => {}
        }
    }
    if !found {
        causes.push(Cause::required(&volume.path, "must specify a volume type"));
    }
}

fn nothing_more(_: &FieldValue, _: &mut Causes) {}

fn empty_dir(source: &FieldValue, causes: &mut Causes) {
    let limit = Quantity::parse(source.text("sizeLimit"));
    if limit.is_ok_and(|limit| limit < Quantity::ZERO) {
        let why = "SizeLimit field must be a valid resource quantity";
        causes.forbidden(source, "sizeLimit", why);
    }
}

fn host_path(source: &FieldValue, causes: &mut Causes) {
    if source.text("path").is_empty() {
        return;
    }
    paths::no_way_up(source, "path", causes);
    if !HOST_PATH_TYPES.contains(&source.text("type")) {
        causes.unknown(source, "type", &HOST_PATH_TYPES);
    }
}

fn git_repo(source: &FieldValue, causes: &mut Causes) {
    paths::descending(source, "directory", causes);
}

/// What Kubernetes calls a source that has company.
fn called(key: &str) -> &str {
    match key {
        "cephfs" => "cephFS",
        "downwardAPI" => "downwarAPI",
        key => key,
    }
}

fn partition(source: &FieldValue, causes: &mut Causes) {
    // No partition is fine, too.
    if source.number("partition") != 0 {
        causes.within(source, "partition", 1, 255);
    }
}

fn fibre_channel(source: &FieldValue, causes: &mut Causes) {
    let (targets, ids) = ("targetWWNs", "wwids");
    match (
        source.items(targets).is_empty(),
        source.items(ids).is_empty(),
    ) {
        (true, true) => {
            let why = "must specify either targetWWNs or wwids, but not both";
            causes.push(Cause::required(&source.path_of(targets), why));
        }
        (false, false) => {
            let why = "targetWWNs and wwids can not be specified simultaneously";
            causes.wrong(source, targets, why);
        }
        _ => {}
    }
    if source.items(targets).is_empty() {
        return;
    }
    if source.has("lun") {
        causes.within(source, "lun", 0, 255);
    } else {
        let why = "lun is required if targetWWNs is specified";
        causes.push(Cause::required(&source.path_of("lun"), why));
    }
}

fn quobyte(source: &FieldValue, causes: &mut Causes) {
    const WHY: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.text("registry");
    if registry.is_empty() {
        causes.push(Cause::required(&source.path_of("registry"), WHY));
    } else if source.text("tenant").len() > TENANT_BYTES_MAX {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        causes.push(Cause::required(&source.path_of("tenant"), why));
    } else if registry.split(',').any(|pair| !pair.contains(':')) {
        causes.wrong(source, "registry", WHY);
    }
    causes.required(source, "volume");
}

/// The name of a secret, if there is one.
fn secret_name(source: &FieldValue, causes: &mut Causes) {
    causes.below(source, "secretRef", |causes, secret| {
        causes.required(secret, "name");
    });
}

/// A driver of its own, whose options leave Kubernetes' own names alone.
fn flex_volume(source: &FieldValue, causes: &mut Causes) {
    for key in source.map("options").into_iter().flat_map(|map| map.keys()) {
        let domain = key
            .split_once('/')
            .map_or(key.as_str(), |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if [".kubernetes.io", ".k8s.io"]
            .iter()
            .any(|own| domain.ends_with(own))
        {
            let field = format!("{}[{key}]", source.path_of("options"));
            let why = "kubernetes.io and k8s.io namespaces are reserved";
            causes.push(Cause::invalid(&field, &key.as_str().into(), why));
        }
    }
}

fn azure_disk(source: &FieldValue, causes: &mut Causes) {
    const BLOB: &str =
        "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    const MANAGED: &str = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    for (key, known) in [
        ("cachingMode", ["None", "ReadOnly", "ReadWrite"]),
        ("kind", ["Dedicated", "Managed", "Shared"]),
    ] {
        if source.has(key) && !known.contains(&source.text(key)) {
            causes.unknown(source, key, &known);
        }
    }
    let uri = source.text("diskURI");
    match (source.has("kind"), source.text("kind")) {
        (true, "Managed") if !uri.starts_with("/subscriptions/") => {
            causes.unknown(source, "diskURI", &[MANAGED]);
        }
        (true, kind) if kind != "Managed" && !uri.starts_with("https://") => {
            causes.unknown(source, "diskURI", &[BLOB]);
        }
        _ => {}
    }
}

fn storage_os(source: &FieldValue, causes: &mut Causes) {
    causes.named(source, "volumeName", name::dns1123_label);
    causes.named(source, "volumeNamespace", name::dns1123_label);
    secret_name(source, causes);
}

fn image(source: &FieldValue, causes: &mut Causes) {
    causes.choice(source, "pullPolicy", &["Always", "IfNotPresent", "Never"]);
}

/// The one source of a volume of the cluster, which may have a name. Most sources have the rules
/// that they have in pods.
pub(crate) fn of_volume(spec: &FieldValue, key: &str, volume: &str, causes: &mut Causes) {
    let Some(mut source) = spec.child(key) else {
        return;
    };
    if key == "gcePersistentDisk" {
        source.path = spec.path_of("persistentDisk");
    }
    match key {
        "csi" => return persistent_csi(&source, causes),
        "local" => {
            causes.required(&source, "path");
            return paths::no_way_up(&source, "path", causes);
        }
        "iscsi" => return iscsi::of_cluster(&source, volume, causes),
        _ => {}
    }
    let known = SOURCES.iter().find(|(one, ..)| *one == key);
    let Some((_, needed, more)) = known else {
        return;
    };
    for field in *needed {
        if source.items(field).is_empty() {
            causes.required(&source, field);
        }
    }
    more(&source, causes);
    match key {
        "storageos" | "cinder" => causes.below(&source, "secretRef", |causes, secret| {
            causes.required(secret, "namespace");
        }),
        "azureFile" if source.has("secretNamespace") => {
            causes.required(&source, "secretNamespace");
        }
        "glusterfs" if source.has(ENDPOINTS) && source.text(ENDPOINTS).is_empty() => {
            let why = "if the endpointnamespace is set, it must be a valid namespace name";
            causes.wrong(&source, ENDPOINTS, why);
        }
        "glusterfs" => causes.named(&source, ENDPOINTS, name::dns1123_label),
        _ => {}
    }
}

fn persistent_csi(source: &FieldValue, causes: &mut Causes) {
    driver_name(source, "driver", causes);
    causes.required(source, "volumeHandle");
    for secret in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        causes.below(source, secret, |causes, secret| {
            causes.must_be_named(secret, "name", name::dns1123_subdomain);
            causes.must_be_named(secret, "namespace", name::dns1123_label);
        });
    }
}

fn nfs(source: &FieldValue, causes: &mut Causes) {
    if !source.text("path").starts_with('/') {
        causes.wrong_text(source, "path", "must be an absolute path");
    }
}

fn flocker(source: &FieldValue, causes: &mut Causes) {
    let (by_name, by_uuid) = (source.text("datasetName"), source.text("datasetUUID"));
    match (by_name.is_empty(), by_uuid.is_empty()) {
        (true, true) => {
            let why = "one of datasetName and datasetUUID is required";
            causes.push(Cause::required(&source.path, why));
        }
        (false, false) => {
            let why = "datasetName and datasetUUID can not be specified simultaneously";
            causes.push(Cause::invalid(&source.path, &"resource".into(), why));
        }
        _ => {}
    }
    if by_name.contains('/') {
        causes.wrong(source, "datasetName", "must not contain '/'");
    }
}

/// The name of a driver of storage, which is required.
pub(crate) fn driver_name(at: &FieldValue, key: &str, causes: &mut Causes) {
    if !causes.required(at, key) {
        return;
    }
    let (driver, field) = (at.text(key), at.path_of(key));
    if driver.len() > CSI_DRIVER_BYTES_MAX {
        causes.push(Cause::too_long(&field, CSI_DRIVER_BYTES_MAX));
    }
    let wrong = name::dns1123_subdomain(&driver.to_ascii_lowercase());
    causes.extend(named(&field, driver, wrong));
}

fn csi(source: &FieldValue, causes: &mut Causes) {
    driver_name(source, "driver", causes);
    causes.below(source, "nodePublishSecretRef", |causes, secret| {
        if causes.required(secret, "name") {
            // Kubernetes leaves the reference out of the path.
            let its_name = secret.text("name");
            let wrong = name::dns1123_subdomain(its_name);
            causes.extend(named(&source.path_of("name"), its_name, wrong));
        }
    });
}

fn ephemeral(source: &FieldValue, causes: &mut Causes) {
    let Some(template) = source.child("volumeClaimTemplate") else {
        let field = source.path_of("volumeClaimTemplate");
        return causes.push(Cause::required(&field, ""));
    };
    causes.below(&template, "metadata", |causes, metadata| {
        causes.extend(maps::annotations(
            &metadata.path_of("annotations"),
            metadata.map("annotations"),
        ));
        causes.labels(metadata, "labels");
        for key in NOT_IN_TEMPLATES {
            causes.forbidden(metadata, key, "cannot be set");
        }
    });
    let none = Value::Null;
    let spec = template.get("spec").unwrap_or(&none);
    claim::spec(causes, &FieldValue::new(template.path_of("spec"), spec));
}

/// The name of the claim for an ephemeral volume consists of the names of the pod and the volume.
fn claim_name(volume: &FieldValue, pod: &str, causes: &mut Causes) {
    let its_name = volume.text("name");
    if pod.is_empty() || its_name.is_empty() {
        return;
    }
    let claim = format!("{pod}-{its_name}");
    for why in name::dns1123_subdomain(&claim) {
        causes.wrong(volume, "name", &format!("PVC name {claim:?}: {why}"));
    }
}

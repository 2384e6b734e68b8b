//! The volumes of a pod: one source each, and the rules of each source.

use std::collections::BTreeMap;

use machinery::name;
use machinery::object;
use machinery::quantity::Quantity;
use machinery::status::Cause;
use serde_json::Value;

use super::sources;
use crate::validate::words::field::FieldValue;
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

/// The sources in the order of checks, with their required fields and a further check.
const SOURCES: [(&str, &[&str], Check); 30] = [
    ("emptyDir", &[], empty_dir),
    ("hostPath", &["path"], host_path),
    ("gitRepo", &["repository"], git_repo),
    ("gcePersistentDisk", &["pdName"], partition),
    ("awsElasticBlockStore", &["volumeID"], partition),
    ("secret", &["secretName"], sources::keys),
    ("nfs", &["server", "path"], nfs),
    ("iscsi", &["targetPortal", "iqn"], iscsi),
    ("glusterfs", &["endpoints", "path"], nothing_more),
    ("flocker", &[], flocker),
    ("persistentVolumeClaim", &["claimName"], nothing_more),
    ("rbd", &["monitors", "image"], nothing_more),
    ("cinder", &["volumeID"], nothing_more),
    ("cephfs", &["monitors"], nothing_more),
    ("quobyte", &["volume"], nothing_more),
    ("downwardAPI", &[], sources::downward),
    ("fc", &[], nothing_more),
    ("flexVolume", &["driver"], nothing_more),
    ("configMap", &["name"], sources::keys),
    ("azureFile", &["secretName", "shareName"], nothing_more),
    ("vsphereVolume", &["volumePath"], nothing_more),
    ("photonPersistentDisk", &["pdID"], nothing_more),
    ("portworxVolume", &["volumeID"], nothing_more),
    ("azureDisk", &["diskName", "diskURI"], nothing_more),
    ("storageos", &["volumeName"], nothing_more),
    ("projected", &[], sources::projected),
    (
        "scaleIO",
        &["gateway", "system", "volumeName"],
        nothing_more,
    ),
    ("csi", &["driver"], csi),
    ("ephemeral", &[], ephemeral),
    ("image", &[], nothing_more),
];

/// Checks the volumes and returns the valid ones. In templates, the pod has no name.
pub(super) fn check<'a>(spec: &FieldValue<'a>, pod: &str, causes: &mut Causes) -> Volumes<'a> {
    let mut volumes = Volumes::new();
    causes.each(spec, "volumes", |causes, volume| {
        let mut wrong = Causes::default();
        source(volume, pod, &mut wrong);
        wrong.must_be_named(volume, "name", name::dns1123_label);
        let its_name = volume.text("name");
        if volumes.contains_key(its_name) {
            wrong.push(Cause::duplicate(&volume.path_of("name"), &its_name.into()));
        }
        if wrong.is_empty() {
            volumes.insert(its_name, volume.value);
        }
        causes.extend(wrong);
    });
    volumes
}

fn source(volume: &FieldValue, pod: &str, causes: &mut Causes) {
    let mut found = false;
    for (key, needed, more) in SOURCES {
        let Some(source) = volume.child(key) else {
            continue;
        };
        if found {
            let why = "may not specify more than 1 volume type";
            causes.push(Cause::forbidden(&source.path, why));
            continue;
        }
        found = true;
        for field in needed {
            if source.items(field).is_empty() {
                causes.required(&source, field);
            }
        }
        more(&source, causes);
        if key == "ephemeral" {
            claim_name(volume, pod, causes);
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
    sources::no_way_up(source, "path", causes);
    if !HOST_PATH_TYPES.contains(&source.text("type")) {
        causes.unknown(source, "type", &HOST_PATH_TYPES);
    }
}

fn git_repo(source: &FieldValue, causes: &mut Causes) {
    sources::descending(source, "directory", causes);
}

fn partition(source: &FieldValue, causes: &mut Causes) {
    causes.within(source, "partition", 0, 255);
}

fn nfs(source: &FieldValue, causes: &mut Causes) {
    if !source.text("path").starts_with('/') {
        causes.wrong_text(source, "path", "must be an absolute path");
    }
}

fn iscsi(source: &FieldValue, causes: &mut Causes) {
    let iqn = source.text("iqn");
    let known = ["iqn", "eui", "naa"].iter().any(|one| iqn.starts_with(one));
    if !iqn.is_empty() && !known {
        let why = "must be valid format starting with iqn, eui, or naa";
        causes.wrong(source, "iqn", why);
    }
    causes.within(source, "lun", 0, 255);
    let secret = source.flag("chapAuthDiscovery") || source.flag("chapAuthSession");
    if secret && !source.has("secretRef") {
        causes.push(Cause::required(&source.path_of("secretRef"), ""));
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

fn csi(source: &FieldValue, causes: &mut Causes) {
    let driver = source.text("driver");
    let field = source.path_of("driver");
    if driver.is_empty() {
        return;
    }
    if driver.len() > CSI_DRIVER_BYTES_MAX {
        causes.push(Cause::too_long(&field, CSI_DRIVER_BYTES_MAX));
    }
    let wrong = name::dns1123_subdomain(&driver.to_ascii_lowercase());
    causes.extend(named(&field, driver, wrong));
    causes.below(source, "nodePublishSecretRef", |causes, secret| {
        causes.required(secret, "name");
    });
}

fn ephemeral(source: &FieldValue, causes: &mut Causes) {
    let Some(template) = source.child("volumeClaimTemplate") else {
        let field = source.path_of("volumeClaimTemplate");
        return causes.push(Cause::required(&field, ""));
    };
    let Some(spec) = template.child("spec") else {
        return;
    };
    if spec.items("accessModes").is_empty() {
        let why = "at least 1 access mode is required";
        causes.push(Cause::required(&spec.path_of("accessModes"), why));
    }
    if object::at(spec.value, &["resources", "requests", "storage"]).is_none() {
        causes.push(Cause::required(&spec.path_of("resources[storage]"), ""));
    }
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

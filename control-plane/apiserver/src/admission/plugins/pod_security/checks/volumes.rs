//! The volumes of a pod.

use std::collections::BTreeSet;

use machinery::object;

use super::Violation;
use super::pod::{Pod, first_key, name, plural, present, quoted};

/// Sources that restricted pods may have.
const ALLOWED: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// All other sources.
const RESTRICTED: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

/// Directories of the host.
pub(super) fn host_path(pod: &Pod) -> Option<Violation> {
    let volumes = object::items(pod.spec, &["volumes"]).iter();
    let wrong: Vec<_> = volumes
        .filter(|volume| present(volume, "hostPath").is_some())
        .map(name)
        .collect();
    (!wrong.is_empty()).then(|| Violation {
        reason: "hostPath volumes",
        detail: volumes_named(&wrong),
    })
}

/// Sources that reach beyond the pod, unless a claim stands between.
pub(super) fn restricted(pod: &Pod) -> Option<Violation> {
    let volumes = object::items(pod.spec, &["volumes"]).iter();
    let mut wrong = Vec::new();
    let mut types = BTreeSet::new();
    for volume in volumes.filter(|volume| first_key(volume, &ALLOWED).is_none()) {
        wrong.push(name(volume));
        types.insert(first_key(volume, &RESTRICTED).unwrap_or("unknown"));
    }
    if wrong.is_empty() {
        return None;
    }
    let verb = plural(wrong.len(), "uses", "use");
    let what = plural(
        types.len(),
        "restricted volume type",
        "restricted volume types",
    );
    let (wrong, types) = (volumes_named(&wrong), quoted(types));
    Some(Violation {
        reason: "restricted volume types",
        detail: format!("{wrong} {verb} {what} {types}"),
    })
}

/// Such as `volumes "a", "b"`.
fn volumes_named(names: &[&str]) -> String {
    let what = plural(names.len(), "volume", "volumes");
    format!("{what} {}", quoted(names))
}

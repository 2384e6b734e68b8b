//! Storage that was part of Kubernetes once, and is now served by drivers: who does that is written
//! on claims and volumes, and a finalizer keeps volumes for those who are not there any more.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use machinery::object;
use serde_json::{Value, json};

use super::{OLD_PROVISIONER, PROVISIONED_BY, PROVISIONER};
use crate::meta;

/// The annotation with the driver that took the place of what made, or is to make, a volume.
pub(super) const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// What the names of all storage begin with that is or was part of Kubernetes.
pub(super) const IN_TREE: &str = "kubernetes.io/";

/// The finalizer of volumes that Kubernetes itself has to delete.
const FINALIZER: &str = "kubernetes.io/pv-controller";
/// The same for those of drivers.
const FINALIZER_OF_DRIVERS: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// What was part of Kubernetes, and the driver in its place.
const DRIVERS: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

type Annotations = BTreeMap<String, String>;

/// The driver in the place of a provisioner.
pub(crate) fn driver(provisioner: &str) -> Option<&'static str> {
    let mut drivers = DRIVERS.iter();
    let found = drivers.find(|(was, _)| *was == provisioner);
    found.map(|(_, driver)| *driver)
}

/// The change that a claim needs.
pub(super) fn of_claim(claim: &PersistentVolumeClaim) -> Option<Value> {
    let annotations = claim.metadata.annotations.as_ref()?;
    let provisioner = annotations
        .get(PROVISIONER)
        .or_else(|| annotations.get(OLD_PROVISIONER))?;
    let driver = moved_to(annotations, provisioner)?;
    Some(json!({"metadata": {"annotations": {MIGRATED_TO: driver}}}))
}

/// The change that a volume needs.
pub(super) fn of_volume(volume: &PersistentVolume) -> Option<Value> {
    let annotations = volume.metadata.annotations.as_ref()?;
    let provisioner = annotations.get(PROVISIONED_BY)?;
    let mut patch = json!({});
    if let Some(driver) = moved_to(annotations, provisioner) {
        let path = ["metadata", "annotations", MIGRATED_TO];
        object::set(&mut patch, &path, driver);
    }
    if let Some(finalizers) = finalizers(volume, provisioner) {
        object::set(&mut patch, &["metadata", "finalizers"], finalizers.into());
    }
    (patch != json!({})).then_some(patch)
}

/// The new value of the annotation; `None` if it is right.
fn moved_to(annotations: &Annotations, provisioner: &str) -> Option<Value> {
    let told = annotations.get(MIGRATED_TO).map(String::as_str);
    match driver(provisioner) {
        Some(driver) => (told != Some(driver)).then(|| driver.into()),
        None => told
            .is_some_and(|told| !told.is_empty())
            .then_some(Value::Null),
    }
}

/// The new finalizers of a volume; `None` if they are right. Those of drivers are their own.
fn finalizers(volume: &PersistentVolume, provisioner: &str) -> Option<Vec<String>> {
    if !provisioner.starts_with(IN_TREE) {
        return None;
    }
    let before = volume.metadata.finalizers.clone().unwrap_or_default();
    let mut after = before.clone();
    let spec = volume.spec.as_ref();
    let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    if driver(provisioner).is_some() {
        after.retain(|one| one != FINALIZER);
    } else {
        after.retain(|one| one != FINALIZER_OF_DRIVERS);
        if policy != Some("Delete") {
            after.retain(|one| one != FINALIZER);
        } else if !after.iter().any(|one| one == FINALIZER) && !meta::is_deleting(&volume.metadata)
        {
            after.push(FINALIZER.to_owned());
        }
    }
    (after != before).then_some(after)
}

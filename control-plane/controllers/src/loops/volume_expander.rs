//! Volume claims that ask for more than they have. The driver of the volume gives it to them; as in
//! Kubernetes, this loop says so, and names the driver in the claim if the volume is of a kind
//! that was part of Kubernetes once.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec};
use machinery::quantity::Quantity;
use serde_json::json;

use crate::cache::{Caches, Changed, Diff, size_of};
use crate::decision::{Decision, Note, change};
use crate::known::Key;
use crate::loops::{Context, Loop, volumes};
use crate::meta;

/// Annotation of a claim: the driver that expands it.
const RESIZER: &str = "volume.kubernetes.io/storage-resizer";
/// Annotation of a volume: the capacity before an expansion that a node has yet to finish.
const BEFORE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

pub(crate) struct VolumeExpander;

impl Loop for VolumeExpander {
    fn name(&self) -> &'static str {
        "persistentvolume-expander"
    }

    fn component(&self) -> String {
        "volume_expand".into()
    }

    fn wakes(&self, _: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        let Changed::PersistentVolumeClaim(Diff {
            old,
            new: Some(new),
        }) = changed
        else {
            return;
        };
        // Each decision is an Event, so not every change of a claim that still waits makes one.
        let grown = |old: &Arc<PersistentVolumeClaim>| {
            requested(new) > requested(old) || capacity(new) > capacity(old)
        };
        if is_bound(new) && old.as_ref().is_none_or(grown) {
            wake(meta::key(&new.metadata));
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let Some(claim) = caches.volume_claims.at(key) else {
            return Decision::nothing();
        };
        let Some(volume) = volume_of(caches, claim) else {
            return Decision::nothing();
        };
        let unfinished = meta::annotation(&volume.metadata, BEFORE).is_some();
        let Some(spec) = volume.spec.as_ref() else {
            return Decision::nothing();
        };
        // Kubernetes leaves it to the node to expand a flex volume.
        if requested(claim) <= capacity(claim) && !unfinished || spec.flex_volume.is_some() {
            return Decision::nothing();
        }
        let mut decision = Decision::nothing();
        let text = match migrated(spec) {
            None => "waiting for an external controller to expand this PVC".to_owned(),
            Some((plugin, driver)) => {
                if meta::annotation(&claim.metadata, RESIZER) != Some(driver) {
                    let patch = json!({"metadata": {"annotations": {RESIZER: driver}}});
                    decision.push(change(claim.as_ref(), patch));
                }
                format!(
                    "CSI migration enabled for {plugin}; waiting for external resizer to expand \
                     the pvc"
                )
            }
        };
        let note = Note::new(claim.as_ref(), "ExternalExpanding", text);
        decision.notes.push(note);
        decision
    }
}

pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let status = claim.status.as_ref();
    status.and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// The size that the claim asks for.
fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    size_of(resources.and_then(|resources| resources.requests.as_ref()))
}

/// The size that the claim has.
fn capacity(claim: &PersistentVolumeClaim) -> Quantity {
    let status = claim.status.as_ref();
    size_of(status.and_then(|status| status.capacity.as_ref()))
}

/// The volume of a claim, if each names the other.
pub(crate) fn volume_of<'a>(
    caches: &'a Caches,
    claim: &PersistentVolumeClaim,
) -> Option<&'a Arc<PersistentVolume>> {
    let name = claim.spec.as_ref()?.volume_name.as_deref()?;
    let volume = caches.volumes.get("", name)?;
    let of_volume = volume.spec.as_ref()?.claim_ref.as_ref()?;
    let is_it = of_volume.namespace == claim.metadata.namespace
        && of_volume.uid.as_deref() == Some(meta::uid(&claim.metadata));
    is_it.then_some(volume)
}

/// The plugin that a volume was of when Kubernetes had it, and the driver that has it now.
fn migrated(spec: &PersistentVolumeSpec) -> Option<(&'static str, &'static str)> {
    let plugin = if spec.aws_elastic_block_store.is_some() {
        "kubernetes.io/aws-ebs"
    } else if spec.azure_disk.is_some() {
        "kubernetes.io/azure-disk"
    } else if spec.azure_file.is_some() {
        "kubernetes.io/azure-file"
    } else if spec.cinder.is_some() {
        "kubernetes.io/cinder"
    } else if spec.gce_persistent_disk.is_some() {
        "kubernetes.io/gce-pd"
    } else if spec.portworx_volume.is_some() {
        "kubernetes.io/portworx-volume"
    } else if spec.vsphere_volume.is_some() {
        "kubernetes.io/vsphere-volume"
    } else {
        return None;
    };
    Some((plugin, volumes::driver(plugin)?))
}

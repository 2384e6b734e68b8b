//! Has volumes made: chooses the class of a claim that names none, and tells a driver to begin.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;

use super::migration::{self, IN_TREE};
use super::{LOOK_AGAIN, OLD_PROVISIONER, PROVISIONER};
use crate::cache::STORAGE_CLASS;
use crate::decision::{Decision, Note, change};
use crate::loops::Context;
use crate::meta;

/// The annotations of classes for claims that name none.
const DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
const FAILED: &str = "ProvisioningFailed";

pub(super) fn is_default(class: &StorageClass) -> bool {
    let mut marks = DEFAULT.iter();
    marks.any(|mark| meta::annotation(&class.metadata, mark) == Some("true"))
}

/// The class for a claim that names none: the newest default, or the first by name of those.
pub(super) fn default_class<'a>(
    context: &Context<'a>,
    claim: &PersistentVolumeClaim,
) -> Option<&'a str> {
    let spec = claim.spec.as_ref();
    let named = spec.and_then(|spec| spec.storage_class_name.as_ref());
    if named.is_some() || meta::annotation(&claim.metadata, STORAGE_CLASS).is_some() {
        return None;
    }
    let classes = context.caches.storage_classes.all();
    let defaults = classes.filter(|class| is_default(class));
    let made = |class: &StorageClass| meta::created(&class.metadata);
    // They come by name, and of those of the same age the first counts.
    let newest = defaults.min_by(|one, other| made(other).cmp(&made(one)))?;
    Some(meta::name(&newest.metadata))
}

/// Tells the driver of a class to make a volume, and whoever looks at the claim that it waits for
/// that. There are no drivers here, so storage that is part of Kubernetes makes no volumes.
pub(super) fn provision(
    context: &Context<'_>,
    claim: &PersistentVolumeClaim,
    class: &str,
) -> Decision {
    let Some(class) = context.caches.storage_classes.get("", class) else {
        let why = format!("storageclass.storage.k8s.io {class:?} not found");
        return failed(claim, why);
    };
    let provisioner = match migration::driver(&class.provisioner) {
        Some(driver) => driver,
        None if class.provisioner.starts_with(IN_TREE) => {
            let name = &class.provisioner;
            return failed(claim, format!("no volume plugin matched name: {name}"));
        }
        None => class.provisioner.as_str(),
    };
    let mut decision = Decision::nothing();
    decision.again(LOOK_AGAIN);
    if meta::annotation(&claim.metadata, PROVISIONER) == Some(provisioner) {
        let text = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' \
             or manually by the system administrator. If volume creation is delayed, please verify \
             that the provisioner is running and correctly registered."
        );
        let note = Note::new(claim, "ExternalProvisioning", text);
        decision.notes.push(note);
        return decision;
    }
    let annotations = json!({PROVISIONER: provisioner, OLD_PROVISIONER: provisioner});
    let patch = json!({"metadata": {"annotations": annotations}});
    let unsaved = Note::new(claim, FAILED, "Error saving claim: {}".to_owned());
    let step = decision.push(change(claim, patch));
    step.tell_failure(unsaved.warning());
    decision
}

fn failed(claim: &PersistentVolumeClaim, why: String) -> Decision {
    let mut decision = Decision::nothing();
    decision.notes.push(Note::new(claim, FAILED, why).warning());
    decision.again(LOOK_AGAIN);
    decision
}

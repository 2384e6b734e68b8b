//! Binds a volume and a claim to each other, and frees a volume from a claim that has another.

use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource;
use machinery::api::Call;
use machinery::object;
use machinery::quantity::Quantity;
use serde_json::{Value, json};

use super::{BOUND_BY_CONTROLLER, claim_ref, is_for, phase_of};
use crate::cache::{BIND_COMPLETED, STORAGE};
use crate::decision::{Decision, change, update_status};
use crate::known::{Known as _, kind_of};
use crate::meta;

pub(super) const BOUND: &str = "Bound";
pub(super) const PENDING: &str = "Pending";

/// The size of the file system on a volume that was enlarged before the claim was bound to it.
const SIZE_BEFORE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// The next writes that bind the two. The volume comes first: from then on nobody else gets it. Its
/// status follows by itself once the claim names it, and that of the claim comes last.
pub(super) fn bind(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Decision {
    let mut decision = Decision::nothing();
    if let Some(patch) = volume_patch(volume, claim) {
        decision.takes = Some(meta::name(&volume.metadata).to_owned());
        decision.push(change(volume, patch));
    }
    if let Some(patch) = claim_patch(claim, volume) {
        decision.push(change(claim, patch));
    }
    if decision.steps.is_empty()
        && phase_of(volume) == BOUND
        && let Some(call) = status_write(claim, BOUND, Some(volume))
    {
        decision.push(call);
    }
    decision
}

/// The write that makes a volume free, or keeps it for the claim that its creator named.
pub(super) fn unbind(volume: &PersistentVolume) -> Decision {
    let is_ours = meta::annotation(&volume.metadata, BOUND_BY_CONTROLLER).is_some();
    let patch = if is_ours {
        json!({
            "spec": {"claimRef": null},
            "metadata": {"annotations": {BOUND_BY_CONTROLLER: null}},
        })
    } else {
        json!({"spec": {"claimRef": {"uid": null}}})
    };
    Decision::of(change(volume, patch))
}

/// The write that sets the phase of a claim, and what it has of a volume; `None` if it says so.
pub(super) fn status_write(
    claim: &PersistentVolumeClaim,
    phase: &str,
    volume: Option<&PersistentVolume>,
) -> Option<Call> {
    let before = claim.status.clone().unwrap_or_default();
    let mut status = before.clone();
    status.phase = Some(phase.to_owned());
    match volume {
        None => {
            status.access_modes = None;
            status.capacity = None;
            status.current_volume_attributes_class_name = None;
        }
        Some(volume) => show(&mut status, volume, before.phase.as_deref()),
    }
    if status == before {
        return None;
    }
    let mut claim = claim.clone();
    claim.status = Some(status);
    Some(update_status(&claim))
}

/// Shows what a claim has of its volume. What others change while it is bound stays: the size of
/// the file system, and the class of attributes.
fn show(status: &mut PersistentVolumeClaimStatus, volume: &PersistentVolume, before: Option<&str>) {
    let spec = volume.spec.as_ref();
    status.access_modes = spec.and_then(|spec| spec.access_modes.clone());
    if before == Some(BOUND) {
        return;
    }
    let capacity = spec.and_then(|spec| spec.capacity.as_ref());
    let size = capacity.and_then(|capacity| capacity.get(STORAGE));
    if let (Some(capacity), Some(size)) = (capacity, size) {
        let shown = status.capacity.as_ref();
        let shown = shown.and_then(|shown| shown.get(STORAGE));
        if let Some(earlier) = meta::annotation(&volume.metadata, SIZE_BEFORE) {
            let earlier = amount(earlier).map(|_| resource::Quantity(earlier.to_owned()));
            let sizes = status.capacity.get_or_insert_default();
            sizes.insert(STORAGE.to_owned(), earlier.unwrap_or_else(|| size.clone()));
        } else if shown.is_none_or(|shown| amount(&shown.0) != amount(&size.0)) {
            status.capacity = Some(capacity.clone());
        }
    }
    if before.is_none_or(|before| before == PENDING) {
        let class = spec.and_then(|spec| spec.volume_attributes_class_name.clone());
        status.current_volume_attributes_class_name = class;
    }
}

fn amount(text: &str) -> Option<Quantity> {
    Quantity::parse(text).ok()
}

/// What a volume lacks to name a claim.
fn volume_patch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<Value> {
    let metadata = &claim.metadata;
    let mut patch = json!({});
    let named = claim_ref(volume).and_then(|reference| reference.uid.as_deref());
    if !is_for(volume, claim) || named != Some(meta::uid(metadata)) {
        let reference = json!({
            "apiVersion": kind_of::<PersistentVolumeClaim>().api_version(),
            "kind": kind_of::<PersistentVolumeClaim>().kind(),
            "namespace": meta::namespace(metadata), "name": meta::name(metadata),
            "uid": meta::uid(metadata), "resourceVersion": meta::resource_version(metadata),
        });
        object::set(&mut patch, &["spec", "claimRef"], reference);
    }
    let annotated = meta::annotation(&volume.metadata, BOUND_BY_CONTROLLER).is_some();
    if !is_for(volume, claim) && !annotated {
        annotate(&mut patch, BOUND_BY_CONTROLLER);
    }
    (patch != json!({})).then_some(patch)
}

/// What a claim lacks to name a volume.
fn claim_patch(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<Value> {
    let name = meta::name(&volume.metadata);
    let lacks = |annotation| meta::annotation(&claim.metadata, annotation).is_none();
    let mut patch = json!({});
    if claim.place() != name {
        object::set(&mut patch, &["spec", "volumeName"], name.into());
        if lacks(BOUND_BY_CONTROLLER) {
            annotate(&mut patch, BOUND_BY_CONTROLLER);
        }
    }
    if lacks(BIND_COMPLETED) {
        annotate(&mut patch, BIND_COMPLETED);
    }
    (patch != json!({})).then_some(patch)
}

fn annotate(patch: &mut Value, annotation: &str) {
    object::set(
        patch,
        &["metadata", "annotations", annotation],
        "yes".into(),
    );
}

//! Which volume a claim gets.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};

use super::{claim_ref, is_for};
use crate::cache::{Shape, selector_of};
use crate::known::Shared;
use crate::loops::Context;
use crate::meta;

/// The volume for a claim: one that names it, or else, unless its class waits for pods, the
/// smallest free one.
pub(super) fn best<'a>(
    context: &Context<'a>,
    claim: &PersistentVolumeClaim,
    waits_for_pods: bool,
) -> Option<&'a Shared<PersistentVolume>> {
    let (unbound, volumes) = (&context.caches.unbound, &context.caches.volumes);
    let asked = Shape::of_claim(claim);
    let key = meta::key(&claim.metadata);
    let promised = unbound.promised(&key);
    let promised = promised.filter_map(|name| volumes.get("", name));
    let own = promised.filter(|volume| is_for(volume, claim) && serves(volume, &asked));
    let own = own.min_by(|one, other| nearer(one, other));
    if own.is_some() || waits_for_pods {
        return own;
    }
    let selector = selector_of(claim)?;
    let free = unbound.fitting(&asked);
    let free = free.filter(|name| !context.taken.contains(*name));
    let mut free = free.filter_map(|name| volumes.get("", name));
    free.find(|volume| meta::matches(&selector, volume.metadata.labels.as_ref()))
}

/// Why a claim cannot have the volume that it names.
pub(super) fn misfit(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    if meta::is_deleting(&volume.metadata) {
        let name = meta::name(&volume.metadata);
        return Some(format!("the volume is marked for deletion {name:?}"));
    }
    let (has, asks) = (Shape::of_volume(volume), Shape::of_claim(claim));
    let (form, asked) = (&has.form, &asks.form);
    // Kubernetes compares whole bytes here.
    let why = if has.size.value() < asks.size.value() {
        "requested PV is too small"
    } else if form.class != asked.class {
        "storageClassName does not match"
    } else if form.attributes != asked.attributes {
        "volumeAttributesClassName does not match"
    } else if form.mode != asked.mode {
        "incompatible volumeMode"
    } else if !asks.access.is_subset(&has.access) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// True if a volume that names a claim can be given to it. Whoever wrote the name has chosen: the
/// class and the labels do not matter.
fn serves(volume: &PersistentVolume, asked: &Shape) -> bool {
    let has = Shape::of_volume(volume);
    has.size >= asked.size
        && has.form.mode == asked.form.mode
        && has.form.attributes == asked.form.attributes
        && asked.access.is_subset(&has.access)
        && !meta::is_deleting(&volume.metadata)
}

/// Of several volumes that name a claim, the one that names its uid may be half bound to it.
fn nearer(one: &PersistentVolume, other: &PersistentVolume) -> Ordering {
    let order = |volume: &PersistentVolume| {
        let uid = claim_ref(volume).and_then(|reference| reference.uid.as_deref());
        let is_open = uid.unwrap_or_default().is_empty();
        (is_open, Shape::of_volume(volume).size)
    };
    let names = meta::name(&one.metadata).cmp(meta::name(&other.metadata));
    order(one).cmp(&order(other)).then(names)
}

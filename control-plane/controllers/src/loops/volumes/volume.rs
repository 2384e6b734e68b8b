//! A volume: free, kept for a claim, bound to one, or left behind by one.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec,
};
use machinery::api::Call;

use super::binding::{BOUND, unbind};
use super::migration::{self, IN_TREE, MIGRATED_TO};
use super::{PROVISIONED_BY, claim_key, claim_ref, phase_of};
use crate::cache::Shape;
use crate::decision::{Decision, Note, change, update_status};
use crate::known::{Known as _, kind_of};
use crate::loops::Context;
use crate::meta;

const AVAILABLE: &str = "Available";
const RELEASED: &str = "Released";
const FAILED: &str = "Failed";
const FAILED_RECYCLE: &str = "VolumeFailedRecycle";
/// When a volume is looked at again that is to be reused and is in use.
const USED_AGAIN: Duration = Duration::from_secs(15);

pub(super) fn decide(context: &Context<'_>, volume: &PersistentVolume) -> Decision {
    if let Some(patch) = migration::of_volume(volume) {
        return Decision::of(change(volume, patch));
    }
    let Some(reference) = claim_ref(volume) else {
        return enter(volume, AVAILABLE);
    };
    let uid = reference.uid.as_deref().unwrap_or_default();
    if uid.is_empty() {
        return enter(volume, AVAILABLE);
    }
    let claim = context.caches.volume_claims.at(&claim_key(reference));
    let Some(claim) = claim.filter(|claim| meta::uid(&claim.metadata) == uid) else {
        return release(context, volume, Some(look(reference)));
    };
    match claim.place() {
        "" => told_apart(volume, claim),
        name if name == meta::name(&volume.metadata) => enter(volume, BOUND),
        // It was made for the claim, which got another.
        _ if policy(volume) == "Delete"
            && meta::annotation(&volume.metadata, PROVISIONED_BY).is_some() =>
        {
            release(context, volume, None)
        }
        _ => unbind(volume),
    }
}

/// The decision to write a phase, if the volume is in another.
fn enter(volume: &PersistentVolume, phase: &str) -> Decision {
    if phase_of(volume) == phase {
        return Decision::nothing();
    }
    Decision::of(phase_write(volume, phase, None))
}

fn phase_write(volume: &PersistentVolume, phase: &str, message: Option<&str>) -> Call {
    let mut volume = volume.clone();
    let status = volume.status.get_or_insert_default();
    status.phase = Some(phase.to_owned());
    status.message = message.map(str::to_owned);
    update_status(&volume)
}

/// The claim that a volume names will bind itself to it, unless it cannot.
fn told_apart(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Decision {
    let mut decision = Decision::nothing();
    if Shape::of_volume(volume).form.mode == Shape::of_claim(claim).form.mode {
        return decision;
    }
    let (its, theirs) = (meta::name(&volume.metadata), meta::name(&claim.metadata));
    let of_volume = format!(
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim {theirs:?} due to \
         incompatible volumeMode."
    );
    let of_claim = format!(
        "Cannot bind PersistentVolume {its:?} to requested PersistentVolumeClaim due to \
         incompatible volumeMode."
    );
    let notes = [
        Note::new(volume, "VolumeMismatch", of_volume),
        Note::new(claim, "VolumeMismatch", of_claim),
    ];
    decision.notes.extend(notes.map(Note::warning));
    decision
}

/// The call that looks for the claim of a volume.
fn look(reference: &ObjectReference) -> Call {
    let (namespace, name) = claim_key(reference);
    Call::Get {
        kind: kind_of::<PersistentVolumeClaim>().clone(),
        namespace,
        name,
    }
}

/// A volume whose claim is gone, which `look` makes sure of, or has another.
fn release(context: &Context<'_>, volume: &PersistentVolume, look: Option<Call>) -> Decision {
    // What went wrong stays to be seen.
    if [RELEASED, FAILED].contains(&phase_of(volume)) {
        return reclaim(context, volume);
    }
    let mut decision = Decision::nothing();
    if let Some(look) = look {
        let uid = claim_ref(volume).and_then(|reference| reference.uid.clone());
        decision.push(look).replaced = uid;
    }
    decision.push(phase_write(volume, RELEASED, None));
    decision
}

/// What becomes of a released volume. Drivers delete their own; nothing else is deleted or emptied
/// here.
fn reclaim(context: &Context<'_>, volume: &PersistentVolume) -> Decision {
    let migrated = meta::annotation(&volume.metadata, MIGRATED_TO);
    if migrated.is_some_and(|driver| !driver.is_empty()) {
        return Decision::nothing();
    }
    match policy(volume) {
        "" | "Retain" => Decision::nothing(),
        "Recycle" => recycle(context, volume),
        "Delete" => match undeletable(volume) {
            Some(why) => fail(volume, "VolumeFailedDelete", &why),
            None => Decision::nothing(),
        },
        _ => {
            let why = "Volume has unrecognized PersistentVolumeReclaimPolicy";
            fail(volume, "VolumeUnknownReclaimPolicy", why)
        }
    }
}

fn recycle(context: &Context<'_>, volume: &PersistentVolume) -> Decision {
    let key = claim_ref(volume).map(claim_key).unwrap_or_default();
    let users = context.caches.unbound.pods(&key);
    let users: Vec<String> = users.map(|pod| format!("{}/{pod}", key.0)).collect();
    // Pods that name a claim there is now use the volume of that.
    if users.is_empty() || context.caches.volume_claims.at(&key).is_some() {
        let why = "No recycler plugin found for the volume!";
        return fail(volume, FAILED_RECYCLE, why);
    }
    let mut decision = Decision::nothing();
    let text = format!("Volume is used by pods: {}", users.join(","));
    let note = Note::new(volume, FAILED_RECYCLE, text);
    decision.notes.push(note);
    decision.again(USED_AGAIN);
    decision
}

/// Why nobody will delete a released volume; `None` if a driver does.
fn undeletable(volume: &PersistentVolume) -> Option<String> {
    let made_by = meta::annotation(&volume.metadata, PROVISIONED_BY);
    if let Some(made_by) = made_by.filter(|made_by| !made_by.is_empty()) {
        let is_ours = made_by.starts_with(IN_TREE);
        return is_ours.then(|| format!("no volume plugin matched name: {made_by}"));
    }
    let has = |source: fn(&PersistentVolumeSpec) -> bool| volume.spec.as_ref().is_some_and(source);
    if has(|spec| spec.csi.is_some()) {
        return None;
    }
    // Kubernetes' controller manager has one for NFS, which deletes nothing.
    let why = if has(|spec| spec.nfs.is_some()) {
        "no deletable volume plugin matched"
    } else {
        "no volume plugin matched"
    };
    let name = meta::name(&volume.metadata);
    Some(format!(
        "error getting deleter volume plugin for volume {name:?}: {why}"
    ))
}

/// Says that a volume cannot be reclaimed, once.
fn fail(volume: &PersistentVolume, reason: &'static str, why: &str) -> Decision {
    if phase_of(volume) == FAILED {
        return Decision::nothing();
    }
    let mut decision = Decision::nothing();
    let note = Note::new(volume, reason, why.to_owned()).warning();
    decision
        .push(phase_write(volume, FAILED, Some(why)))
        .tell(note);
    decision
}

fn policy(volume: &PersistentVolume) -> &str {
    let spec = volume.spec.as_ref();
    let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    policy.unwrap_or_default()
}

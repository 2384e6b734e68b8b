//! A claim: it waits for a volume, asks for one by name, or had one once.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use machinery::api::Call;
use serde_json::json;

use super::binding::{PENDING, bind, status_write};
use super::{
    BOUND_BY_CONTROLLER, LOOK_AGAIN, SELECTED_NODE, claim_ref, is_for, matching, migration,
    provisioning, waits_for_pods,
};
use crate::cache::{BIND_COMPLETED, Shape};
use crate::decision::{Decision, Note, change};
use crate::known::{Known as _, kind_of};
use crate::loops::Context;
use crate::meta;

/// The phase of a claim whose volume is gone.
const LOST: &str = "Lost";
const FAILED_BINDING: &str = "FailedBinding";

pub(super) fn decide(context: &Context<'_>, claim: &PersistentVolumeClaim) -> Decision {
    if let Some(patch) = migration::of_claim(claim) {
        return Decision::of(change(claim, patch));
    }
    if meta::annotation(&claim.metadata, BIND_COMPLETED).is_some() {
        bound(context, claim)
    } else if claim.place().is_empty() {
        unbound(context, claim)
    } else {
        choosy(context, claim)
    }
}

/// A claim that takes any volume that fits it.
fn unbound(context: &Context<'_>, claim: &PersistentVolumeClaim) -> Decision {
    let class = Shape::of_claim(claim).form.class;
    let waits = waits_for_pods(context.caches, &class);
    if let Some(volume) = matching::best(context, claim, waits) {
        return bind(volume, claim);
    }
    if let Some(name) = provisioning::default_class(context, claim) {
        let patch = json!({"spec": {"storageClassName": name}});
        return Decision::of(change(claim, patch));
    }
    if waits && meta::annotation(&claim.metadata, SELECTED_NODE).is_none() {
        return pending(claim, Some(consumers(context, claim)));
    }
    if !class.is_empty() {
        return provisioning::provision(context, claim, &class);
    }
    let why = "no persistent volumes available for this claim and no storage class is set";
    pending(
        claim,
        Some(Note::new(claim, FAILED_BINDING, why.to_owned())),
    )
}

/// A claim that names the volume it wants.
fn choosy(context: &Context<'_>, claim: &PersistentVolumeClaim) -> Decision {
    let Some(volume) = context.caches.volumes.get("", claim.place()) else {
        return pending(claim, None);
    };
    let name = meta::name(&volume.metadata);
    if claim_ref(volume).is_none() {
        let Some(why) = matching::misfit(volume, claim) else {
            return bind(volume, claim);
        };
        let text = format!("Cannot bind to requested volume {name:?}: {why}");
        let note = Note::new(claim, "VolumeMismatch", text).warning();
        return pending(claim, Some(note));
    }
    if is_for(volume, claim) {
        return bind(volume, claim);
    }
    let text = format!("volume {name:?} already bound to a different claim.");
    let note = Note::new(claim, FAILED_BINDING, text).warning();
    if meta::annotation(&claim.metadata, BOUND_BY_CONTROLLER).is_none() {
        return pending(claim, Some(note));
    }
    // Somebody removed the mark that it was bound. What its status says may be all that is left.
    let mut decision = Decision::nothing();
    decision.notes.push(note);
    decision.again(LOOK_AGAIN);
    decision
}

/// A claim that had a volume: it keeps it, or has lost it.
fn bound(context: &Context<'_>, claim: &PersistentVolumeClaim) -> Decision {
    let name = claim.place();
    if name.is_empty() {
        let why = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
        return lost(claim, "ClaimLost", why, None);
    }
    let Some(volume) = context.caches.volumes.get("", name) else {
        let why = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
        // The watch of volumes may be behind that of claims.
        let look = Call::Get {
            kind: kind_of::<PersistentVolume>().clone(),
            namespace: String::new(),
            name: name.to_owned(),
        };
        return lost(claim, "ClaimLost", why, Some(look));
    };
    let uid = claim_ref(volume).map(|reference| reference.uid.as_deref().unwrap_or_default());
    if uid.is_none_or(|uid| uid == meta::uid(&claim.metadata)) {
        return bind(volume, claim);
    }
    let why = "Two claims are bound to the same volume, this one is bound incorrectly";
    lost(claim, "ClaimMisbound", why, None)
}

/// Says that a claim has lost its volume, if that is not to be found.
fn lost(
    claim: &PersistentVolumeClaim,
    reason: &'static str,
    why: &str,
    look: Option<Call>,
) -> Decision {
    let mut decision = Decision::nothing();
    let status = claim.status.as_ref();
    if status.and_then(|status| status.phase.as_deref()) == Some(LOST) {
        return decision;
    }
    if let Some(look) = look {
        decision.push(look).absent = true;
    }
    if let Some(call) = status_write(claim, LOST, None) {
        let note = Note::new(claim, reason, why.to_owned()).warning();
        decision.push(call).tell(note);
    }
    decision
}

/// Says that a claim waits, and why.
fn pending(claim: &PersistentVolumeClaim, note: Option<Note>) -> Decision {
    let mut decision = Decision::nothing();
    decision.notes.extend(note);
    decision.again(LOOK_AGAIN);
    if let Some(call) = status_write(claim, PENDING, None) {
        decision.push(call);
    }
    decision
}

/// Which pods a claim waits for.
fn consumers(context: &Context<'_>, claim: &PersistentVolumeClaim) -> Note {
    let key = meta::key(&claim.metadata);
    let (unbound, pods) = (&context.caches.unbound, &context.caches.pods);
    let waits = |name: &&str| {
        let pod = pods.get(&key.0, name);
        pod.is_some_and(|pod| pod.place().is_empty())
    };
    let pods: Vec<&str> = unbound.pods(&key).filter(waits).collect();
    let (reason, text) = match pods.as_slice() {
        [] => (
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding".to_owned(),
        ),
        [pod] => (
            "WaitForPodScheduled",
            format!("waiting for pod {pod} to be scheduled"),
        ),
        pods => (
            "WaitForPodScheduled",
            format!("waiting for pods {} to be scheduled", pods.join(",")),
        ),
    };
    Note::new(claim, reason, text)
}

//! The pods that a claim is reserved for. When none of them needs it any longer it is deallocated,
//! and removed if it was made for a pod that is done.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference};
use machinery::api::Call;
use serde_json::{Value, json};

use super::{FINALIZER, is_allocated, is_done};
use crate::cache::Caches;
use crate::decision::{Decision, change, controller_key, delete};
use crate::known::kind_of;
use crate::loops::protection::{Due, write};
use crate::meta;

/// Whether a pod still needs the claim that is reserved for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Yes,
    No,
    /// It is not in the cache. The apiserver may already know it.
    Unsure,
}

/// Takes back the reservations of pods that are gone or done, and what nobody needs after that.
pub(super) fn decide(caches: &Caches, claim: &ResourceClaim) -> Decision {
    let mut decision = Decision::nothing();
    let namespace = meta::namespace(&claim.metadata);
    let reserved = reserved_for(claim);
    let mut kept = Vec::new();
    for one in reserved {
        match need(caches, namespace, one) {
            Need::Yes => kept.push(one),
            Need::No => {}
            Need::Unsure => {
                let step = decision.push(Call::Get {
                    kind: kind_of::<Pod>().clone(),
                    namespace: namespace.to_owned(),
                    name: one.name.clone(),
                });
                step.replaced = Some(one.uid.clone());
            }
        }
    }
    let is_deleting = meta::is_deleting(&claim.metadata);
    if kept.len() < reserved.len() {
        // A claim that nobody ever reserved stays allocated: whoever allocated it may do so later.
        let mut status = json!({"reservedFor": kept});
        if kept.is_empty() {
            status["reservedFor"] = Value::Null;
            if is_protected(claim) {
                status["allocation"] = Value::Null;
            }
        }
        decision.push(change_status(claim, status));
    } else if kept.is_empty() && is_deleting && is_protected(claim) {
        decision.push(if is_allocated(claim) {
            change_status(claim, json!({"allocation": null}))
        } else {
            write(claim, FINALIZER, Due::Remove)
        });
    }
    if kept.is_empty() && !is_deleting && is_of_done_pod(caches, claim) {
        decision.push(delete(claim));
    }
    decision
}

/// A claim that was just deallocated needs its finalizer no longer. One that was not allocated
/// before keeps it: a scheduler adds it before it allocates the claim.
pub(super) fn decide_freed(claim: &ResourceClaim) -> Decision {
    if is_allocated(claim) || !is_protected(claim) {
        return Decision::nothing();
    }
    Decision::of(write(claim, FINALIZER, Due::Remove))
}

/// The call that changes the status of a claim in its known version.
pub(super) fn change_status(claim: &ResourceClaim, status: Value) -> Call {
    let mut call = change(claim, json!({"status": status}));
    if let Call::Patch { subresource, .. } = &mut call {
        *subresource = "status";
    }
    call
}

pub(super) fn reserved_for(claim: &ResourceClaim) -> &[ResourceClaimConsumerReference] {
    let status = claim.status.as_ref();
    let reserved = status.and_then(|status| status.reserved_for.as_deref());
    reserved.unwrap_or_default()
}

fn need(caches: &Caches, namespace: &str, one: &ResourceClaimConsumerReference) -> Need {
    let is_core = one.api_group.as_deref().unwrap_or_default().is_empty();
    if !is_core || one.resource != "pods" {
        // Somebody else knows when that ends.
        return Need::Yes;
    }
    if caches.pods.is_gone(&one.uid) {
        return Need::No;
    }
    let pod = caches.pods.get(namespace, &one.name);
    match pod.filter(|pod| meta::uid(&pod.metadata) == one.uid) {
        Some(pod) if is_done(pod) => Need::No,
        Some(_) => Need::Yes,
        None => Need::Unsure,
    }
}

fn is_protected(claim: &ResourceClaim) -> bool {
    let mut finalizers = claim.metadata.finalizers.iter().flatten();
    finalizers.any(|one| one == FINALIZER)
}

/// True if the claim was made for a pod that is there and done. If the pod is gone, so is the claim
/// soon: that is for the garbage collector.
fn is_of_done_pod(caches: &Caches, claim: &ResourceClaim) -> bool {
    let owner = meta::controller(&claim.metadata);
    let key = controller_key::<Pod, _>(claim);
    let pod = key.and_then(|key| caches.pods.at(&key));
    pod.is_some_and(|pod| {
        owner.is_some_and(|owner| owner.uid == meta::uid(&pod.metadata)) && is_done(pod)
    })
}

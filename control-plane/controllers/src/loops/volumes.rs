//! Volumes and the claims to them: finds a volume for each claim, has one made, and says what state
//! both are in.
//!
//! A binding takes four writes: the volume names the claim, the claim names the volume, then the
//! statuses of both say so. Each decision makes those that the state allows, and each state between
//! two writes leads to the same end, whoever continues. What a volume names is written in its known
//! version, so two claims never get the same one.

mod binding;
mod claim;
mod matching;
mod migration;
mod provisioning;
#[cfg(test)]
mod tests;
mod volume;

use std::time::Duration;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;

use crate::cache::{Caches, Changed, Diff, Shape, is_free, is_waiting};
use crate::decision::{Decision, cluster_key};
use crate::known::{Key, Known as _};
use crate::loops::{Context, Loop};
use crate::{meta, used_claims};
pub(crate) use migration::driver;

/// The annotation of a volume, or a claim, that did not name the other before it was bound.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The annotation of a volume with the name of who made it.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The annotation of a claim with the name of who is to make its volume.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The same, from an earlier version. Drivers may read either.
const OLD_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// The annotation of a claim with the node for which the scheduler wants a volume.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// When a claim without a volume is looked at again, and its Event repeated: before that is gone.
const LOOK_AGAIN: Duration = Duration::from_secs(300);
/// Maximum number of claims that one change wakes because there may be a volume for them. Each that
/// gets one wakes as many.
const WOKEN_MAX: usize = 16;

pub(crate) struct VolumeBinder;

impl Loop for VolumeBinder {
    fn name(&self) -> &'static str {
        "persistentvolume-binder"
    }

    fn component(&self) -> String {
        "persistentvolume-controller".to_owned()
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::PersistentVolume(diff) => volume_changed(caches, diff, wake),
            Changed::PersistentVolumeClaim(diff) => claim_changed(caches, diff, wake),
            Changed::StorageClass(diff) => class_changed(caches, diff, wake),
            Changed::Pod(diff) => pod_changed(caches, diff, wake),
            _ => {}
        }
    }

    /// The key of a claim has a namespace, that of a volume has none.
    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        if let Some(claim) = caches.volume_claims.at(key) {
            return claim::decide(context, claim);
        }
        match caches.volumes.at(key) {
            Some(volume) => volume::decide(context, volume),
            None => Decision::nothing(),
        }
    }
}

fn volume_changed(caches: &Caches, diff: &Diff<PersistentVolume>, wake: &mut dyn FnMut(Key)) {
    let Some(either) = diff.either() else {
        return;
    };
    wake(meta::key(&either.metadata));
    let states = diff.old.iter().chain(&diff.new);
    for reference in states.filter_map(|volume| claim_ref(volume)) {
        wake(claim_key(reference));
    }
    for claim in caches.volume_claims.placed_at(meta::name(&either.metadata)) {
        wake(meta::key(&claim.metadata));
    }
    let Some(free) = diff.new.as_ref().filter(|new| is_free(new)) else {
        return;
    };
    let shape = Shape::of_volume(free);
    if !waits_for_pods(caches, &shape.form.class) {
        let claims = caches.unbound.waiting_for(free, &shape).take(WOKEN_MAX);
        claims.for_each(|claim| wake(claim.clone()));
    }
}

fn claim_changed(caches: &Caches, diff: &Diff<PersistentVolumeClaim>, wake: &mut dyn FnMut(Key)) {
    for claim in diff.old.iter().chain(&diff.new) {
        let key = meta::key(&claim.metadata);
        let promised = caches.unbound.promised(&key);
        promised.for_each(|volume| wake(cluster_key(volume)));
        if !claim.place().is_empty() {
            wake(cluster_key(claim.place()));
        }
        wake(key);
    }
    let left = diff.old.as_ref().filter(|old| is_waiting(old));
    let left = left.filter(|_| !diff.new.as_ref().is_some_and(|new| is_waiting(new)));
    // While it waited, it may have kept others from what they can have.
    if let Some(left) = left
        && !waits_for_pods(caches, &Shape::of_claim(left).form.class)
    {
        let rivals = caches.unbound.rivals(left).take(WOKEN_MAX);
        rivals.for_each(|claim| wake(claim.clone()));
    }
}

fn class_changed(caches: &Caches, diff: &Diff<StorageClass>, wake: &mut dyn FnMut(Key)) {
    let mut all = |class: &str| {
        let claims = caches.unbound.of_class(class);
        claims.for_each(|claim| wake(claim.clone()));
    };
    if let Some(either) = diff.either() {
        all(meta::name(&either.metadata));
    }
    if let Some(new) = &diff.new
        && provisioning::is_default(new)
    {
        all("");
    }
}

/// What is told of a claim that waits for its pods depends on them.
fn pod_changed(caches: &Caches, diff: &Diff<Pod>, wake: &mut dyn FnMut(Key)) {
    let (old, new) = (diff.old.as_ref(), diff.new.as_ref());
    if old.map(|pod| pod.place()) == new.map(|pod| pod.place()) {
        return;
    }
    for pod in old.into_iter().chain(new) {
        for name in used_claims::named(pod) {
            let key = (meta::namespace(&pod.metadata).to_owned(), name);
            let claim = caches.volume_claims.at(&key);
            let class = claim
                .filter(|claim| is_waiting(claim))
                .map(|claim| Shape::of_claim(claim).form.class);
            if class.is_some_and(|class| waits_for_pods(caches, &class)) {
                wake(key);
            }
        }
    }
}

/// True if claims of this class get their volumes when a pod needs them.
fn waits_for_pods(caches: &Caches, class: &str) -> bool {
    let class = caches.storage_classes.get("", class);
    let mode = class.and_then(|class| class.volume_binding_mode.as_deref());
    mode == Some("WaitForFirstConsumer")
}

fn claim_ref(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

fn claim_key(reference: &ObjectReference) -> Key {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (text(&reference.namespace), text(&reference.name))
}

/// True if a volume names this claim, with its uid or with none.
fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    claim_ref(volume).is_some_and(|reference| {
        let uid = reference.uid.as_deref().unwrap_or_default();
        claim_key(reference) == meta::key(&claim.metadata)
            && (uid.is_empty() || uid == meta::uid(&claim.metadata))
    })
}

fn phase_of(volume: &PersistentVolume) -> &str {
    let status = volume.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    phase.unwrap_or_default()
}

//! Volume claims: kept while a pod on a node names them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Volume};
use machinery::api::Call;

use super::{Due, due, wake_due, write};
use crate::cache::{Caches, Changed, Key, kind_of};
use crate::decision::Decision;
use crate::loops::{Context, Loop};
use crate::{meta, pods};

const FINALIZER: &str = "kubernetes.io/pvc-protection";

pub(crate) struct ClaimProtection;

impl Loop for ClaimProtection {
    fn name(&self) -> &'static str {
        "persistentvolumeclaim-protection"
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::PersistentVolumeClaim(diff) => {
                wake_due(diff, FINALIZER, wake);
            }
            Changed::Pod(diff) => {
                for pod in diff.old.iter().chain(&diff.new) {
                    for name in named(pod) {
                        let key = (meta::namespace(&pod.metadata).to_owned(), name);
                        let claim = caches.volume_claims.at(&key);
                        if claim.is_some_and(|one| meta::is_deleting(&one.metadata)) {
                            wake(key);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let Some(claim) = caches.volume_claims.at(key) else {
            return Decision::nothing();
        };
        let Some(due) = due(&claim.metadata, FINALIZER) else {
            return Decision::nothing();
        };
        let mut decision = Decision::nothing();
        if due == Due::Remove {
            if caches.pods.in_namespace(&key.0).any(|pod| uses(pod, claim)) {
                return Decision::nothing();
            }
            // A pod that uses it may not have arrived here yet.
            let step = decision.push(Call::List {
                kind: kind_of::<Pod>().clone(),
                namespace: key.0.clone(),
            });
            step.unused = Some(Arc::clone(claim));
        }
        decision.push(write(claim.as_ref(), FINALIZER, due));
        decision
    }
}

/// True if the pod, of the claim's namespace, keeps the claim. A node never starts a pod whose
/// claim is being deleted, so only pods that have a node already keep it.
pub(crate) fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let name = meta::name(&claim.metadata);
    let keeps = |volume: &Volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => source.claim_name == name,
        (None, Some(_)) => {
            let owner = meta::controller(&claim.metadata);
            !is_shut_down(pod)
                && of_volume(pod, volume) == name
                && owner.is_some_and(|owner| owner.uid == meta::uid(&pod.metadata))
        }
        (None, None) => false,
    };
    !pods::node(pod).is_empty() && volumes(pod).any(keeps)
}

/// True if the pod only waits for its finalizers. Its own claims must not wait for it: a finalizer
/// of the pod may wait for them.
fn is_shut_down(pod: &Pod) -> bool {
    meta::is_deleting(&pod.metadata) && pod.metadata.deletion_grace_period_seconds == Some(0)
}

/// The names of the claims that a pod may use.
fn named(pod: &Pod) -> impl Iterator<Item = String> {
    volumes(pod).filter_map(
        |volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => Some(source.claim_name.clone()),
            (None, Some(_)) => Some(of_volume(pod, volume)),
            (None, None) => None,
        },
    )
}

/// The name of the claim that is made for an ephemeral volume.
fn of_volume(pod: &Pod, volume: &Volume) -> String {
    format!("{}-{}", meta::name(&pod.metadata), volume.name)
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.volumes.iter().flatten())
}

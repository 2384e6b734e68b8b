//! The volume claims that pods use.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Volume};

use crate::known::Known as _;
use crate::meta;

/// The finalizer that keeps a claim while pods use it.
pub(crate) const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// True if the claim is deleted, and kept as long as pods use it.
pub(crate) fn is_kept(claim: &PersistentVolumeClaim) -> bool {
    let mut finalizers = claim.metadata.finalizers.iter().flatten();
    meta::is_deleting(&claim.metadata) && finalizers.any(|one| one == PROTECTION)
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
    !pod.place().is_empty() && volumes(pod).any(keeps)
}

/// True if the pod only waits for its finalizers. Its own claims must not wait for it: a finalizer
/// of the pod may wait for them.
fn is_shut_down(pod: &Pod) -> bool {
    meta::is_deleting(&pod.metadata) && pod.metadata.deletion_grace_period_seconds == Some(0)
}

/// The names of the claims that a pod may use.
pub(crate) fn named(pod: &Pod) -> impl Iterator<Item = String> {
    volumes(pod).filter_map(
        |volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => Some(source.claim_name.clone()),
            (None, Some(_)) => Some(of_volume(pod, volume)),
            (None, None) => None,
        },
    )
}

/// The volumes of a pod whose claims are made for it, each with the name of its claim.
pub(crate) fn ephemeral(pod: &Pod) -> impl Iterator<Item = (&Volume, String)> {
    let own = volumes(pod).filter(|volume| volume.ephemeral.is_some());
    own.map(|volume| (volume, of_volume(pod, volume)))
}

/// The name of the claim that is made for an ephemeral volume.
fn of_volume(pod: &Pod, volume: &Volume) -> String {
    format!("{}-{}", meta::name(&pod.metadata), volume.name)
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.volumes.iter().flatten())
}

//! Who owns a claim: by the retention policy of the set, its claims are deleted together with the
//! set, or with the pod when the set is scaled down. The garbage collector deletes them.

use k8s_openapi::api::apps::v1::StatefulSetSpec;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::View;
use super::names::{ordinal, ordinals};
use crate::known::{Known, kind_of};
use crate::meta;

pub(super) const DELETE: &str = "Delete";
const RETAIN: &str = "Retain";

/// What happens to claims when the set is scaled down, and when it is deleted.
pub(super) fn policy(spec: &StatefulSetSpec) -> (&str, &str) {
    let policy = spec.persistent_volume_claim_retention_policy.as_ref();
    let scaled = policy.and_then(|policy| policy.when_scaled.as_deref());
    let deleted = policy.and_then(|policy| policy.when_deleted.as_deref());
    (scaled.unwrap_or(RETAIN), deleted.unwrap_or(RETAIN))
}

/// True if the set owns the claims of pods that it should have, from their creation on.
pub(super) fn owns_new(spec: &StatefulSetSpec) -> bool {
    policy(spec).1 == DELETE
}

/// True if a reference is to an object of this kind and name, which may be another object of the
/// same name.
fn names<T: Known>(owner: &OwnerReference, name: &str) -> bool {
    let kind = kind_of::<T>();
    owner.api_version == kind.api_version() && owner.kind == kind.kind() && owner.name == name
}

fn owners(claim: &PersistentVolumeClaim) -> impl Iterator<Item = &OwnerReference> {
    claim.metadata.owner_references.iter().flatten()
}

/// True if the claim is owned by a pod of this name.
pub(super) fn names_pod(claim: &PersistentVolumeClaim, pod: &str) -> bool {
    owners(claim).any(|owner| names::<Pod>(owner, pod))
}

fn is_owned(claim: &PersistentVolumeClaim, uid: &str) -> bool {
    owners(claim).any(|owner| owner.uid == uid)
}

/// The owners of one claim: the set and one of its pods, as they are and as they should be.
pub(super) struct Owners<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) pod: &'a Pod,
    pub(super) claim: &'a PersistentVolumeClaim,
}

impl Owners<'_> {
    fn set_uid(&self) -> &str {
        meta::uid(&self.view.set.metadata)
    }

    fn pod_uid(&self) -> &str {
        meta::uid(&self.pod.metadata)
    }

    /// The set or the pod that this reference names, and whether it is the same one.
    fn known(&self, owner: &OwnerReference) -> Option<bool> {
        if names::<k8s_openapi::api::apps::v1::StatefulSet>(owner, self.view.name()) {
            return Some(owner.uid == self.set_uid());
        }
        let pod = meta::name(&self.pod.metadata);
        names::<Pod>(owner, pod).then(|| owner.uid == self.pod_uid())
    }

    /// True if an owner is an earlier set or pod of the same name.
    fn are_stale(&self) -> bool {
        owners(self.claim).any(|owner| self.known(owner) == Some(false))
    }

    /// True if somebody else controls the claim, so that the policy is not followed. A set that
    /// retains its claims does not care.
    pub(super) fn are_in_conflict(&self) -> bool {
        policy(self.view.spec) != (RETAIN, RETAIN)
            && owners(self.claim).any(|owner| match self.known(owner) {
                Some(same) => !same,
                None => owner.controller == Some(true),
            })
    }

    /// Whether the set and the pod should own the claim.
    fn wanted(&self) -> (bool, bool) {
        let extra = !ordinals(self.view.spec).contains(&ordinal(self.pod));
        match policy(self.view.spec) {
            (DELETE, _) if extra => (false, true),
            _ => (owns_new(self.view.spec), false),
        }
    }

    pub(super) fn are_up_to_date(&self) -> bool {
        if self.are_stale() {
            // The garbage collector decides what becomes of it.
            return true;
        }
        let (by_set, by_pod) = (
            is_owned(self.claim, self.set_uid()),
            is_owned(self.claim, self.pod_uid()),
        );
        if self.are_in_conflict() {
            return !by_set && !by_pod;
        }
        let mut ours = owners(self.claim).filter(|owner| self.known(owner) == Some(true));
        ours.all(|owner| owner.controller == Some(true)) && (by_set, by_pod) == self.wanted()
    }

    pub(super) fn updated(&self) -> Vec<OwnerReference> {
        let others = owners(self.claim).filter(|owner| self.known(owner).is_none());
        let mut all: Vec<OwnerReference> = others.cloned().collect();
        if self.are_in_conflict() {
            return all;
        }
        let (by_set, by_pod) = self.wanted();
        let set = by_set.then(|| meta::owned_by(self.view.set));
        let pod = by_pod.then(|| meta::owned_by(self.pod));
        for owner in set.into_iter().chain(pod) {
            // The API refuses two references to one uid.
            if !all.iter().any(|one| one.uid == owner.uid) {
                all.push(owner);
            }
        }
        all
    }
}

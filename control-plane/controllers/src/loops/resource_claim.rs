//! Claims for devices: made from the templates that pods name, reserved for pods that may still
//! run, and given back when the last of these is done.

mod generated;
mod reserved;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodResourceClaim};
use k8s_openapi::api::resource::v1::ResourceClaim;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, controller_key};
use crate::known::Key;
use crate::loops::{Context, Loop};
use crate::{meta, pods};

/// The finalizer of a claim that is allocated.
const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// Prefix of the name in the key of a claim; that of a pod has none. No name contains a colon.
const CLAIM: &str = "claim:";
/// The same for a claim that was just deallocated.
const FREED: &str = "freed:";

pub(crate) struct ResourceClaims;

impl Loop for ResourceClaims {
    fn name(&self) -> &'static str {
        "resourceclaim"
    }

    fn component(&self) -> String {
        "resource_claim".to_owned()
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::Pod(diff) => wake_for_pod(diff, wake),
            Changed::ResourceClaim(diff) => wake_for_claim(caches, diff, wake),
            Changed::ResourceClaimTemplate(Diff {
                new: Some(template),
                ..
            }) => {
                let (namespace, name) = meta::key(&template.metadata);
                let is_it = |entry: &PodResourceClaim| {
                    entry.resource_claim_template_name.as_ref() == Some(&name)
                };
                let pods = caches.pods.in_namespace(&namespace);
                pods.filter(|pod| entries(pod).any(is_it))
                    .for_each(|pod| wake(meta::key(&pod.metadata)));
            }
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let (namespace, name) = key;
        let claim = |name: &str| caches.device_claims.get(namespace, name);
        let decision = if let Some(name) = name.strip_prefix(CLAIM) {
            claim(name).map(|claim| reserved::decide(caches, claim))
        } else if let Some(name) = name.strip_prefix(FREED) {
            claim(name).map(|claim| reserved::decide_freed(claim))
        } else {
            caches
                .pods
                .at(key)
                .map(|pod| generated::decide(caches, pod))
        };
        decision.unwrap_or_default()
    }
}

/// The claim of an entry of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named<'a> {
    /// It is made from a template, and is not made yet.
    NotYet,
    /// The pod needs none after all.
    Never,
    /// It was made from a template.
    Generated(&'a str),
    /// Somebody else makes it.
    Given(&'a str),
}

impl<'a> Named<'a> {
    fn of(pod: &'a Pod, entry: &'a PodResourceClaim) -> Named<'a> {
        if let Some(name) = &entry.resource_claim_name {
            return Named::Given(name);
        }
        let status = pod.status.as_ref();
        let mut made = status
            .into_iter()
            .flat_map(|status| status.resource_claim_statuses.iter().flatten());
        match made.find(|one| one.name == entry.name) {
            None => Named::NotYet,
            Some(one) => match &one.resource_claim_name {
                Some(name) => Named::Generated(name),
                None => Named::Never,
            },
        }
    }

    fn name(self) -> Option<&'a str> {
        match self {
            Named::NotYet | Named::Never => None,
            Named::Generated(name) | Named::Given(name) => Some(name),
        }
    }
}

fn wake_for_pod(diff: &Diff<Pod>, wake: &mut dyn FnMut(Key)) {
    let Diff { old, new } = diff;
    let uid = |pod: &Arc<Pod>| pod.metadata.uid.clone();
    let old = old.iter();
    // Also one that another of the same name has replaced.
    let gone = old.filter(|old| new.as_ref().map(uid) != Some(uid(old)));
    let done = new.iter().filter(|new| is_done(new));
    for pod in gone.chain(done) {
        let namespace = meta::namespace(&pod.metadata);
        names(pod).for_each(|name| wake(prefixed(CLAIM, namespace, name)));
    }
    let may_run = new.iter().filter(|new| entries(new).next().is_some());
    may_run.for_each(|pod| wake(meta::key(&pod.metadata)));
}

fn wake_for_claim(caches: &Caches, diff: &Diff<ResourceClaim>, wake: &mut dyn FnMut(Key)) {
    let Diff { old, new } = diff;
    let Some(claim) = new.as_deref().or(old.as_deref()) else {
        return;
    };
    let (namespace, name) = meta::key(&claim.metadata);
    let was_allocated = old.as_deref().is_some_and(is_allocated);
    if let Some(new) = new {
        wake(prefixed(CLAIM, &namespace, &name));
        if was_allocated && !is_allocated(new) {
            wake(prefixed(FREED, &namespace, &name));
        }
    }
    // The pod that it was made for may not know of it yet, or not know that it is gone.
    controller_key::<Pod, _>(claim)
        .into_iter()
        .for_each(&mut *wake);
    // Pods may wait for it that were bound without a scheduler.
    let is_news = new.as_deref().is_some_and(is_allocated) && !was_allocated;
    if is_news || new.is_none() {
        let pods = caches.pods.in_namespace(&namespace);
        pods.filter(|pod| names(pod).any(|one| one == name))
            .for_each(|pod| wake(meta::key(&pod.metadata)));
    }
}

fn prefixed(prefix: &str, namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), format!("{prefix}{name}"))
}

/// The claims that a pod names in its spec.
fn entries(pod: &Pod) -> impl Iterator<Item = &PodResourceClaim> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.resource_claims.iter().flatten())
}

/// The names of the claims of a pod, also of the one that a scheduler made for its other resources.
fn names(pod: &Pod) -> impl Iterator<Item = &str> {
    let status = pod.status.as_ref();
    let extended = status.and_then(|status| status.extended_resource_claim_status.as_ref());
    let extended = extended.map(|one| one.resource_claim_name.as_str());
    let named = entries(pod).filter_map(move |entry| Named::of(pod, entry).name());
    named.chain(extended)
}

/// True if no container of the pod runs or ever will.
fn is_done(pod: &Pod) -> bool {
    let is_deleted_early = meta::is_deleting(&pod.metadata) && pods::node(pod).is_empty();
    pods::is_finished(pod) || is_deleted_early
}

fn is_allocated(claim: &ResourceClaim) -> bool {
    let status = claim.status.as_ref();
    status.is_some_and(|status| status.allocation.is_some())
}

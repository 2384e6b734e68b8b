//! Stateful sets: pods with fixed names, created and deleted in order, each with volume claims that
//! outlive it; a changed template replaces them one by one from the last.

mod claims;
mod history;
mod identity;
mod names;
mod replicas;
mod retention;
mod status;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::apps::v1::{
    ControllerRevision, RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec,
};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use crate::cache::{Caches, Changed, Diff, REVISION_HASH};
use crate::decision::Decision;
use crate::known::{Key, Known, Shared};
use crate::loops::{Context, Loop};
use crate::{meta, pods, revisions};

pub(crate) struct StatefulSets;

/// A stateful set with its pods and revisions, as one decision sees them.
struct View<'a> {
    context: &'a Context<'a>,
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    pods: Vec<Shared<Pod>>,
    /// Oldest first.
    revisions: Vec<Shared<ControllerRevision>>,
}

impl Loop for StatefulSets {
    fn name(&self) -> &'static str {
        "statefulset"
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::StatefulSet(Diff { old, new }) => {
                let set = new.as_ref().or(old.as_ref());
                set.into_iter()
                    .for_each(|set| wake(meta::key(&set.metadata)));
            }
            Changed::Pod(diff) => {
                wake_for(caches, diff, wake);
                if let Diff {
                    old: Some(pod),
                    new: None,
                } = diff
                {
                    // Whoever owned it: its name is free now.
                    wake_by_name(caches, pod, wake);
                }
            }
            Changed::ControllerRevision(diff) => wake_for(caches, diff, wake),
            Changed::PersistentVolumeClaim(Diff {
                old: Some(claim),
                new: None,
            }) => wake_for_claim(caches, claim, wake),
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let mut decision = Decision::nothing();
        let Some(set) = caches.stateful_sets.at(key) else {
            return decision;
        };
        let Some(spec) = &set.spec else {
            return decision;
        };
        let Some(selector) = meta::selector(&spec.selector) else {
            return decision;
        };
        let set = set.as_ref();
        let (revisions, adoptions) = revisions::adopt(set, &caches.revisions, &selector);
        let (pods, claims) = pods::claim_if(set, &caches.pods, |metadata| {
            let matches = meta::matches(&selector, metadata.labels.as_ref());
            matches && names::is_member(set, metadata)
        });
        for call in adoptions.into_iter().chain(claims) {
            decision.push(call);
        }
        if decision.steps.is_empty() {
            let view = View {
                context,
                set,
                spec,
                pods,
                revisions,
            };
            view.decide(&mut decision);
        }
        decision
    }
}

/// Wakes the stateful sets that own an object, or may adopt it.
fn wake_for<T: Known>(caches: &Caches, diff: &Diff<T>, wake: &mut dyn FnMut(Key)) {
    let selector = |set: &StatefulSet| meta::selector(&set.spec.as_ref()?.selector);
    pods::wake_owners(&caches.stateful_sets, selector, diff, wake);
}

fn wake_by_name(caches: &Caches, pod: &Pod, wake: &mut dyn FnMut(Key)) {
    if let Some((set, _)) = names::parts(meta::name(&pod.metadata)) {
        let key = (meta::namespace(&pod.metadata).to_owned(), set.to_owned());
        if caches.stateful_sets.at(&key).is_some() {
            wake(key);
        }
    }
}

/// A pod may wait until its old claim is gone.
fn wake_for_claim(caches: &Caches, claim: &PersistentVolumeClaim, wake: &mut dyn FnMut(Key)) {
    let sets = caches
        .stateful_sets
        .in_namespace(meta::namespace(&claim.metadata));
    for set in sets {
        if claims::may_be_of(set, meta::name(&claim.metadata)) {
            wake(meta::key(&set.metadata));
        }
    }
}

impl View<'_> {
    fn decide(&self, into: &mut Decision) {
        let chosen = history::choose(self, into);
        status::tell(self, &chosen, into);
        history::trim(self, &chosen, into);
        if !meta::is_deleting(&self.set.metadata) {
            replicas::proceed(self, &chosen, into);
        }
    }

    fn name(&self) -> &str {
        meta::name(&self.set.metadata)
    }

    fn namespace(&self) -> &str {
        meta::namespace(&self.set.metadata)
    }

    /// True if each pod waits for those before it.
    fn is_ordered(&self) -> bool {
        self.spec.pod_management_policy.as_deref() != Some("Parallel")
    }

    fn rolls(&self) -> bool {
        let strategy = self.spec.update_strategy.as_ref();
        strategy.and_then(|one| one.type_.as_deref()) == Some("RollingUpdate")
    }

    fn rolling(&self) -> Option<&RollingUpdateStatefulSetStrategy> {
        self.spec.update_strategy.as_ref()?.rolling_update.as_ref()
    }

    /// The number of pods that keep the current revision in a rolling update.
    fn partition(&self) -> i64 {
        let partition = self.rolling().and_then(|rolling| rolling.partition);
        i64::from(partition.unwrap_or(0))
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pods::available(pod, self.min_ready(), self.context.now).is_ok()
    }

    fn min_ready(&self) -> Duration {
        meta::seconds(self.spec.min_ready_seconds.unwrap_or(0))
    }
}

/// The name of the revision that a pod was made from.
fn revision_of(pod: &Pod) -> &str {
    meta::label(&pod.metadata, REVISION_HASH).unwrap_or_default()
}

fn runs_and_is_ready(pod: &Pod) -> bool {
    pods::phase(pod) == "Running" && pods::is_ready(pod)
}

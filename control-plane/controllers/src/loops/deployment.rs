//! Deployments: one replica set per template; a rollout moves replicas from old sets to the new.
//!
//! Each decision makes one step of the rollout and updates the status. The responses to its writes
//! wake the loop for the next step.

mod replicas;
mod revision;
mod rollout;
mod status;
#[cfg(test)]
mod tests;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use machinery::intstr;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, controller_key};
use crate::known::{Key, Shared};
use crate::loops::replica_set::wanted;
use crate::loops::{Context, Loop};
use crate::{meta, pods};

pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MOST: &str = "deployment.kubernetes.io/max-replicas";
const HASH: &str = "pod-template-hash";

pub(crate) struct Deployments;

/// A deployment and its replica sets, as one decision sees them.
struct View<'a> {
    context: &'a Context<'a>,
    deployment: &'a Deployment,
    spec: &'a DeploymentSpec,
    /// The set with the deployment's template; `old` has all others, oldest first.
    new: Option<Shared<ReplicaSet>>,
    old: Vec<Shared<ReplicaSet>>,
}

impl Loop for Deployments {
    fn name(&self) -> &'static str {
        "deployment"
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::Deployment(Diff { new, .. }) => {
                new.iter().for_each(|one| wake(meta::key(&one.metadata)));
            }
            Changed::ReplicaSet(Diff { old, new }) => {
                let owners = old.iter().chain(new);
                owners
                    .filter_map(|set| controller_key::<Deployment, ReplicaSet>(set))
                    .for_each(&mut *wake);
                let orphan = new
                    .iter()
                    .filter(|set| meta::controller(&set.metadata).is_none());
                orphan.for_each(|set| {
                    let deployments = caches
                        .deployments
                        .in_namespace(meta::namespace(&set.metadata));
                    deployments.for_each(|one| wake(meta::key(&one.metadata)));
                });
            }
            // The strategy `Recreate` waits until the last old pod is gone.
            Changed::Pod(Diff {
                old: Some(pod),
                new,
            }) if new.as_ref().is_none_or(|pod| !pods::is_active(pod)) => {
                let set = controller_key::<ReplicaSet, _>(pod.as_ref());
                let set = set.and_then(|key| caches.replica_sets.at(&key));
                set.and_then(|set| controller_key::<Deployment, ReplicaSet>(set))
                    .into_iter()
                    .for_each(wake);
            }
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let Some(deployment) = caches.deployments.at(key) else {
            return Decision::nothing();
        };
        let Some(spec) = &deployment.spec else {
            return Decision::nothing();
        };
        let Some(selector) = meta::selector(&spec.selector) else {
            return Decision::nothing();
        };
        let (mut sets, claims) = pods::claim(deployment.as_ref(), &caches.replica_sets, &selector);
        let mut decision = Decision::nothing();
        for call in claims {
            decision.push(call);
        }
        if !decision.steps.is_empty() {
            return decision;
        }
        sets.sort_by(|a, b| replicas::age(a).cmp(&replicas::age(b)));
        let new = sets
            .iter()
            .find(|set| revision::has_template(set, &spec.template));
        let new = new.cloned();
        let uid = new.as_ref().map(|new| new.metadata.uid.clone());
        sets.retain(|set| Some(&set.metadata.uid) != uid.as_ref());
        let view = View {
            context,
            deployment,
            spec,
            new,
            old: sets,
        };
        view.decide()
    }
}

impl View<'_> {
    fn decide(&self) -> Decision {
        let mut decision = Decision::nothing();
        let mut told = status::NewStatus::of(self);
        if !meta::is_deleting(&self.deployment.metadata) {
            told.pause(self);
            self.proceed(&mut told, &mut decision);
        }
        told.finish(self, &mut decision);
        decision
    }

    fn proceed(&self, told: &mut status::NewStatus, into: &mut Decision) {
        let paused = self.spec.paused == Some(true);
        if paused || self.is_scaled() {
            revision::keep_up(self, false, told, into);
            if into.steps.is_empty() {
                replicas::spread(self, into);
            }
            if paused && into.steps.is_empty() {
                revision::clean_up(self, into);
            }
            return;
        }
        if self.recreates() {
            rollout::recreate(self, told, into)
        } else {
            rollout::roll(self, told, into)
        }
        if into.steps.is_empty() && status::is_complete(self) {
            revision::clean_up(self, into);
        }
    }

    /// True if the deployment's number of replicas changed since the replica sets were last scaled.
    fn is_scaled(&self) -> bool {
        let active = self.all().filter(|set| wanted(set) > 0);
        let mut desired = active.filter_map(|set| {
            meta::annotation(&set.metadata, DESIRED)?
                .parse::<i64>()
                .ok()
        });
        desired.any(|desired| desired != self.replicas())
    }

    fn all(&self) -> impl Iterator<Item = &Shared<ReplicaSet>> {
        self.old.iter().chain(&self.new)
    }

    fn replicas(&self) -> i64 {
        i64::from(self.spec.replicas.unwrap_or(1))
    }

    fn recreates(&self) -> bool {
        let kind = self.spec.strategy.as_ref().and_then(|s| s.type_.as_deref());
        kind == Some("Recreate")
    }

    /// `maxSurge` and `maxUnavailable` as numbers of replicas.
    fn leeway(&self) -> (i64, i64) {
        if self.recreates() {
            return (0, 0);
        }
        let rolling = self
            .spec
            .strategy
            .as_ref()
            .and_then(|s| s.rolling_update.as_ref());
        let part = |value: Option<&k8s_openapi::apimachinery::pkg::util::intstr::IntOrString>,
                    up| {
            let value = value.and_then(|value| serde_json::to_value(value).ok());
            let value = value.unwrap_or_else(|| "25%".into());
            intstr::scaled(&value, self.replicas(), up)
                .unwrap_or(0)
                .max(0)
        };
        let surge = part(rolling.and_then(|r| r.max_surge.as_ref()), true);
        let unavailable = part(rolling.and_then(|r| r.max_unavailable.as_ref()), false);
        match (surge, unavailable) {
            // With (0, 0) the rollout could never make a step.
            (0, 0) => (0, 1),
            (surge, unavailable) => (surge, unavailable.min(self.replicas())),
        }
    }

    /// The maximum number of replicas of all sets together.
    fn most(&self) -> i64 {
        self.replicas() + self.leeway().0
    }
}

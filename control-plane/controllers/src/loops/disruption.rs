//! Disruption budgets: how many of the pods that a budget covers may be evicted now.
//!
//! The apiserver decrements the number written here with each eviction, and records the pod in
//! `disruptedPods`. This loop removes the record when the pod is gone, or was not deleted in time.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use machinery::intstr;
use machinery::schema::Kind;
use machinery::selector::LabelSelector;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, Note, controller_key, update_status};
use crate::known::{Key, Shared, kind_of};
use crate::loops::replica_set::{Replicated, wanted};
use crate::loops::{Context, Loop};
use crate::{meta, pods};

const ALLOWED: &str = "DisruptionAllowed";
/// How long the deletion of an evicted pod may take before the pod counts as healthy again.
const DELETION: Duration = Duration::from_secs(120);

pub(crate) struct Disruption;

impl Loop for Disruption {
    fn name(&self) -> &'static str {
        "disruption"
    }

    fn component(&self) -> String {
        "controllermanager".into()
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        let namespace = match changed {
            Changed::PodDisruptionBudget(Diff { new, .. }) => {
                new.iter().for_each(|one| wake(meta::key(&one.metadata)));
                return;
            }
            Changed::Pod(Diff { old, new }) => {
                let both: Vec<&Shared<Pod>> = old.iter().chain(new).collect();
                let Some(pod) = both.first() else {
                    return;
                };
                let budgets = caches.budgets.in_namespace(meta::namespace(&pod.metadata));
                let covering = budgets.filter(|budget| {
                    both.iter().any(|pod| {
                        let selector = has_labels(budget, pod).then(|| selector(budget));
                        selector.flatten().is_some_and(|one| covers(&one, pod))
                    })
                });
                covering.for_each(|budget| wake(meta::key(&budget.metadata)));
                return;
            }
            Changed::Deployment(Diff {
                old: Some(old),
                new: Some(new),
            }) if replicas(old) != replicas(new) => meta::namespace(&new.metadata),
            Changed::ReplicaSet(Diff {
                old: Some(old),
                new: Some(new),
            }) if wanted(old) != wanted(new) => meta::namespace(&new.metadata),
            Changed::ReplicationController(Diff {
                old: Some(old),
                new: Some(new),
            }) if old.wanted() != new.wanted() => meta::namespace(&new.metadata),
            Changed::StatefulSet(Diff {
                old: Some(old),
                new: Some(new),
            }) if size(old) != size(new) => meta::namespace(&new.metadata),
            _ => return,
        };
        let budgets = caches.budgets.in_namespace(namespace);
        budgets.for_each(|budget| wake(meta::key(&budget.metadata)));
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let Some(budget) = context.caches.budgets.at(key) else {
            return Decision::nothing();
        };
        let mut decision = Decision::nothing();
        let status = status(context, budget, &mut decision);
        let old = budget.status.clone().unwrap_or_default();
        let (status, note) = match status {
            Ok(told) => told,
            // A budget that cannot be evaluated allows no evictions.
            Err(error) => {
                let text = format!("Failed to calculate the number of expected pods: {error}");
                let note = Note::new(budget.as_ref(), "CalculateExpectedPodCountFailed", text);
                let mut status = old.clone();
                status.disruptions_allowed = Some(0);
                judge(&mut status, "SyncFailed", error, context);
                (status, Some(note.warning()))
            }
        };
        if same(&old, &status) {
            return decision;
        }
        let mut told = budget.as_ref().clone();
        told.status = Some(status);
        let step = decision.push(update_status(&told));
        step.done = note;
        decision
    }
}

type NewStatus = (PodDisruptionBudgetStatus, Option<Note>);

/// The new status, and an Event about its computation.
fn status(
    context: &Context<'_>,
    budget: &PodDisruptionBudget,
    into: &mut Decision,
) -> Result<NewStatus, String> {
    let caches = context.caches;
    let selector = selector(budget);
    let all = caches.pods.in_namespace(meta::namespace(&budget.metadata));
    let covered = all.filter(|pod| selector.as_ref().is_some_and(|one| covers(one, pod)));
    let covered: Vec<&Shared<Pod>> = covered.collect();
    let Counts {
        expected,
        desired,
        unmanaged,
    } = count(caches, budget, &covered)?;
    let disrupted = disrupted(context, budget, &covered, into);
    let healthy = covered.iter().filter(|pod| {
        let leaves = disrupted.contains_key(meta::name(&pod.metadata));
        pods::is_ready(pod) && !meta::is_deleting(&pod.metadata) && !leaves
    });
    let healthy = healthy.count() as i64;
    // A budget that covers no pods yet allows nothing: its first pods may be about to appear.
    let allowed = match expected {
        0 => 0,
        _ => (healthy - desired).max(0),
    };
    let number = |count: i64| Some(i32::try_from(count).unwrap_or(i32::MAX));
    let mut status = PodDisruptionBudgetStatus {
        conditions: budget.status.clone().and_then(|status| status.conditions),
        current_healthy: number(healthy),
        desired_healthy: number(desired),
        disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
        disruptions_allowed: number(allowed),
        expected_pods: number(expected),
        observed_generation: budget.metadata.generation,
    };
    let reason = match allowed {
        0 => "InsufficientPods",
        _ => "SufficientPods",
    };
    judge(&mut status, reason, String::new(), context);
    let note = if covered.is_empty() {
        Some(Note::new(budget, "NoPods", "No matching pods found".into()))
    } else if unmanaged {
        let text = "Pods without a controller are covered by this budget: they are not counted, \
             and only a budget whose minAvailable is a number accounts for them.";
        Some(Note::new(budget, "UnmanagedPods", text.into()).warning())
    } else {
        None
    };
    Ok((status, note))
}

/// The counts that a budget is evaluated from.
struct Counts {
    expected: i64,
    desired: i64,
    /// Some pods have no controller, so their expected number is unknown.
    unmanaged: bool,
}

fn count(
    caches: &Caches,
    budget: &PodDisruptionBudget,
    covered: &[&Shared<Pod>],
) -> Result<Counts, String> {
    let spec = budget.spec.clone().unwrap_or_default();
    let part = |value: &IntOrString, of: i64| {
        let json = serde_json::to_value(value).unwrap_or_default();
        intstr::scaled(&json, of, true)
            .ok_or_else(|| format!("invalid value for IntOrString: {json}"))
    };
    let (expected, desired, unmanaged) = match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => {
            let (all, unmanaged) = scale(caches, covered)?;
            (all, (all - part(most, all)?).max(0), unmanaged)
        }
        (None, Some(IntOrString::Int(least))) => (covered.len() as i64, i64::from(*least), false),
        (None, Some(least)) => {
            let (all, unmanaged) = scale(caches, covered)?;
            (all, part(least, all)?, unmanaged)
        }
        (None, None) => (0, 0, false),
    };
    Ok(Counts {
        expected,
        desired,
        unmanaged,
    })
}

/// The replicas that the controllers of these pods want together, and whether some pods have none.
fn scale(caches: &Caches, covered: &[&Shared<Pod>]) -> Result<(i64, bool), String> {
    let mut scales: BTreeMap<&str, i64> = BTreeMap::new();
    let mut unmanaged = false;
    for pod in covered {
        match meta::controller(&pod.metadata) {
            None => unmanaged = true,
            Some(_) => {
                let (uid, replicas) = controller(caches, pod).ok_or_else(|| no_scale(pod))?;
                scales.insert(uid, replicas);
            }
        }
    }
    Ok((scales.values().sum(), unmanaged))
}

/// Why the controller of a pod has no replicas.
fn no_scale(pod: &Pod) -> String {
    let controller = meta::controller(&pod.metadata);
    let is_controlled_by = |kind: &Kind| {
        controller.is_some_and(|owner| {
            owner.api_version == kind.api_version() && owner.kind == kind.kind()
        })
    };
    let mut without = [kind_of::<DaemonSet>(), kind_of::<Job>()].into_iter();
    match without.find(|kind| is_controlled_by(kind)) {
        Some(kind) => {
            let (plural, group) = (kind.plural(), kind.group());
            format!("{plural}.{group} does not implement the scale subresource")
        }
        None => format!(
            "found no controllers for pod {:?}",
            meta::name(&pod.metadata)
        ),
    }
}

/// The replicas that a stateful set should have.
fn size(set: &StatefulSet) -> i64 {
    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
    i64::from(replicas.unwrap_or(1))
}

/// The uid and replicas of a pod's controller: the deployment of its replica set, or the set.
fn controller<'a>(caches: &'a Caches, pod: &Pod) -> Option<(&'a str, i64)> {
    let of_pod = meta::controller(&pod.metadata)?;
    if let Some(key) = controller_key::<StatefulSet, Pod>(pod) {
        let set = caches.stateful_sets.at(&key)?;
        let is_it = meta::uid(&set.metadata) == of_pod.uid;
        return is_it.then(|| (meta::uid(&set.metadata), size(set)));
    }
    if let Some(key) = controller_key::<ReplicationController, Pod>(pod) {
        let set = caches.replication_controllers.at(&key)?;
        let is_it = meta::uid(&set.metadata) == of_pod.uid;
        return is_it.then(|| (meta::uid(&set.metadata), set.wanted()));
    }
    let set = caches
        .replica_sets
        .at(&controller_key::<ReplicaSet, Pod>(pod)?)?;
    if meta::uid(&set.metadata) != of_pod.uid {
        return None;
    }
    let Some(of_set) = meta::controller(&set.metadata) else {
        return Some((meta::uid(&set.metadata), wanted(set)));
    };
    let deployment = caches
        .deployments
        .at(&controller_key::<Deployment, ReplicaSet>(set)?)?;
    let is_it = meta::uid(&deployment.metadata) == of_set.uid;
    is_it.then(|| (meta::uid(&deployment.metadata), replicas(deployment)))
}

/// The evicted pods that are not deleted yet. A pod that exceeds [`DELETION`] is dropped.
fn disrupted(
    context: &Context<'_>,
    budget: &PodDisruptionBudget,
    covered: &[&Shared<Pod>],
    into: &mut Decision,
) -> BTreeMap<String, Time> {
    let status = budget.status.as_ref();
    let Some(noted) = status.and_then(|status| status.disrupted_pods.as_ref()) else {
        return BTreeMap::new();
    };
    let there = covered
        .iter()
        .filter(|pod| !meta::is_deleting(&pod.metadata));
    let stay = there.filter_map(|pod| noted.get_key_value(meta::name(&pod.metadata)));
    let in_time = stay.filter(|(_, since)| {
        let left = meta::left(meta::stamp(since), DELETION, context.now);
        into.again_if(left);
        left.is_some()
    });
    in_time
        .map(|(name, since)| (name.clone(), since.clone()))
        .collect()
}

/// Sets the condition that says whether evictions are allowed.
fn judge(
    status: &mut PodDisruptionBudgetStatus,
    reason: &str,
    message: String,
    context: &Context<'_>,
) {
    let truth = match reason {
        "SufficientPods" => "True",
        _ => "False",
    };
    let observed_generation = status.observed_generation;
    let conditions = status.conditions.get_or_insert_default();
    let old = conditions.iter().position(|has| has.type_ == ALLOWED);
    let since = old.map(|at| &conditions[at]);
    let since = since.filter(|has| has.status == truth);
    let last_transition_time = match since {
        Some(has) => has.last_transition_time.clone(),
        None => meta::time(context.now),
    };
    let condition = Condition {
        type_: ALLOWED.into(),
        status: truth.into(),
        reason: reason.into(),
        message,
        observed_generation,
        last_transition_time,
    };
    match old {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// True if two statuses are equal; the API leaves out fields that are zero or empty.
fn same(a: &PodDisruptionBudgetStatus, b: &PodDisruptionBudgetStatus) -> bool {
    let all = |status: &PodDisruptionBudgetStatus| {
        let counters = [
            status.current_healthy,
            status.desired_healthy,
            status.disruptions_allowed,
            status.expected_pods,
        ];
        let mut conditions = status.conditions.clone().unwrap_or_default();
        for condition in &mut conditions {
            condition.observed_generation = condition.observed_generation.filter(|seen| *seen > 0);
        }
        (
            counters.map(|count| count.unwrap_or(0)),
            status.observed_generation.unwrap_or(0),
            status.disrupted_pods.clone().unwrap_or_default(),
            conditions,
        )
    };
    // A budget that was never evaluated has no counters at all, not even zeros.
    a.expected_pods.is_some() && all(a) == all(b)
}

fn selector(budget: &PodDisruptionBudget) -> Option<LabelSelector> {
    // An empty selector covers every pod, a missing one covers none.
    let selector = budget.spec.as_ref()?.selector.as_ref()?;
    LabelSelector::from_object(&serde_json::to_value(selector).ok()?).ok()
}

/// False if the pod lacks a label that the budget asks for, as most pods do. This needs no parsing
/// of the selector.
fn has_labels(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let wanted = selector.and_then(|selector| selector.match_labels.as_ref());
    let mut wanted = wanted.into_iter().flatten();
    wanted.all(|(key, value)| meta::label(&pod.metadata, key) == Some(value.as_str()))
}

fn covers(selector: &LabelSelector, pod: &Pod) -> bool {
    meta::matches(selector, pod.metadata.labels.as_ref())
}

fn replicas(deployment: &Deployment) -> i64 {
    let spec = deployment.spec.as_ref();
    i64::from(spec.and_then(|spec| spec.replicas).unwrap_or(1))
}

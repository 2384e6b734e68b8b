//! A deployment's status: its counts and conditions.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use machinery::time::Timestamp;

use super::replicas::{available, sum};
use super::{REVISION, View};
use crate::decision::{Decision, update_status};
use crate::meta;

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const FAILURE: &str = "ReplicaFailure";
pub(super) const NOT_CREATED: &str = "ReplicaSetCreateError";

/// The new status.
pub(super) struct NewStatus {
    pub(super) status: DeploymentStatus,
    /// The revision of the template, as an annotation. It is written together with the status: a
    /// separate write of an annotation would raise the generation.
    pub(super) revision: Option<String>,
    /// Write the status before the other calls: they failed before, and a failing call stops the
    /// rest.
    first: bool,
    now: Timestamp,
}

impl NewStatus {
    pub(super) fn of(view: &View<'_>) -> NewStatus {
        NewStatus {
            status: view.deployment.status.clone().unwrap_or_default(),
            revision: None,
            first: false,
            now: view.context.now,
        }
    }

    /// Sets the condition for a rollout that was paused or resumed. Paused time does not count
    /// towards the progress deadline.
    pub(super) fn pause(&mut self, view: &View<'_>) {
        if deadline(view).is_none() {
            return;
        }
        let reason = self.find(PROGRESSING).and_then(|has| has.reason.as_deref());
        if reason == Some("ProgressDeadlineExceeded") {
            return;
        }
        let told = reason == Some("DeploymentPaused");
        match view.spec.paused == Some(true) {
            true if !told => self.set(
                PROGRESSING,
                "Unknown",
                "DeploymentPaused",
                "Deployment is paused",
            ),
            false if told => self.set(
                PROGRESSING,
                "Unknown",
                "DeploymentResumed",
                "Deployment is resumed",
            ),
            _ => {}
        }
    }

    /// The template's replica set exists.
    pub(super) fn found(&mut self, view: &View<'_>, set: &ReplicaSet) {
        if deadline(view).is_some() && self.find(PROGRESSING).is_none() {
            let name = meta::name(&set.metadata);
            let text = format!("Found new replica set \"{name}\"");
            self.set(PROGRESSING, "True", "FoundNewReplicaSet", &text);
        }
    }

    /// The template's replica set is about to be created.
    pub(super) fn created(&mut self, view: &View<'_>, name: &str) {
        if deadline(view).is_some() {
            let text = format!("Created new replica set \"{name}\"");
            self.set(PROGRESSING, "True", "NewReplicaSetCreated", &text);
        }
    }

    /// The template's replica set could not be created; the loop will retry.
    pub(super) fn not_created(&mut self, view: &View<'_>, name: &str, error: &str) {
        if deadline(view).is_some() {
            let text = format!("Failed to create new replica set \"{name}\": {error}");
            self.set(PROGRESSING, "False", NOT_CREATED, &text);
            self.first = true;
        }
    }

    /// Computes counts and conditions, and writes the status if it changed.
    pub(super) fn finish(mut self, view: &View<'_>, into: &mut Decision) {
        let old = view.deployment.status.clone().unwrap_or_default();
        self.count(view);
        self.judge_available(view);
        if view.spec.paused != Some(true) && !meta::is_deleting(&view.deployment.metadata) {
            self.judge_progress(view, &old, into);
        }
        self.copy_failure(view);
        let has = meta::annotation(&view.deployment.metadata, REVISION);
        let revision = self.revision.filter(|number| has != Some(number));
        if revision.is_none() && same(&old, &self.status) {
            return;
        }
        let mut told: Deployment = view.deployment.clone();
        told.status = Some(self.status);
        if let Some(number) = revision {
            let annotations = told.metadata.annotations.get_or_insert_default();
            annotations.insert(REVISION.into(), number);
        }
        into.push(update_status(&told));
        if self.first {
            into.steps.rotate_right(1);
        }
    }

    fn count(&mut self, view: &View<'_>) {
        let total = |field: fn(&ReplicaSet) -> i64| -> i64 { view.all().map(|s| field(s)).sum() };
        let number = |count: i64| Some(i32::try_from(count).unwrap_or(i32::MAX));
        let serving = total(available);
        self.status.observed_generation = view.deployment.metadata.generation;
        self.status.replicas = number(total(replicas));
        self.status.ready_replicas = number(total(ready));
        self.status.available_replicas = number(serving);
        self.status.unavailable_replicas = number((sum(view.all()) - serving).max(0));
        self.status.terminating_replicas = number(total(terminating));
        self.status.updated_replicas = number(view.new.as_ref().map_or(0, |new| replicas(new)));
    }

    fn judge_available(&mut self, view: &View<'_>) {
        let serving = i64::from(self.status.available_replicas.unwrap_or(0));
        if serving >= view.replicas() - view.leeway().1 {
            self.set(
                AVAILABLE,
                "True",
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.",
            )
        } else {
            self.set(
                AVAILABLE,
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
            )
        }
    }

    fn judge_progress(&mut self, view: &View<'_>, old: &DeploymentStatus, into: &mut Decision) {
        let Some(seconds) = deadline(view) else {
            self.status
                .conditions
                .iter_mut()
                .for_each(|all| all.retain(|c| c.type_ != PROGRESSING));
            return;
        };
        let what = match &view.new {
            Some(new) => format!("ReplicaSet \"{}\"", meta::name(&new.metadata)),
            None => format!("Deployment \"{}\"", meta::name(&view.deployment.metadata)),
        };
        let current = self.find(PROGRESSING).cloned();
        let reason = current.as_ref().and_then(|has| has.reason.as_deref());
        let rolled = self.status.replicas == self.status.updated_replicas;
        if rolled && reason == Some("NewReplicaSetAvailable") {
            return;
        }
        if is_complete_by(view, &self.status) {
            let text = format!("{what} has successfully progressed.");
            self.set(PROGRESSING, "True", "NewReplicaSetAvailable", &text);
        } else if progressed(old, &self.status) {
            let text = format!("{what} is progressing.");
            // `lastUpdateTime` must move even if the condition stays the same, so it is set again.
            let since = current.filter(|has| has.status == "True");
            let since = since.and_then(|has| has.last_transition_time);
            self.drop(PROGRESSING);
            self.set(PROGRESSING, "True", "ReplicaSetUpdated", &text);
            if let Some(has) = self.find_mut(PROGRESSING).filter(|_| since.is_some()) {
                has.last_transition_time = since;
            }
        } else if let Some(current) = current {
            let settled = ["NewReplicaSetAvailable", "ProgressDeadlineExceeded"];
            if current
                .reason
                .as_deref()
                .is_some_and(|reason| settled.contains(&reason))
            {
                return;
            }
            let moved = current
                .last_update_time
                .as_ref()
                .map(meta::stamp)
                .unwrap_or_default();
            match meta::left(moved, meta::seconds(seconds), self.now) {
                Some(left) => into.again(left),
                None => {
                    let text = format!("{what} has timed out progressing.");
                    self.set(PROGRESSING, "False", "ProgressDeadlineExceeded", &text);
                }
            }
        }
    }

    /// Copies the condition of a replica set that cannot create its pods.
    fn copy_failure(&mut self, view: &View<'_>) {
        let sets = view.new.iter().chain(view.old.iter().rev());
        let failure = sets.clone().find_map(|set| {
            let conditions = set.status.as_ref()?.conditions.as_ref()?;
            conditions.iter().find(|has| has.type_ == FAILURE).cloned()
        });
        match failure {
            None => self.drop(FAILURE),
            Some(has) => self.set(
                FAILURE,
                &has.status,
                has.reason.as_deref().unwrap_or_default(),
                has.message.as_deref().unwrap_or_default(),
            ),
        }
    }

    fn find(&self, kind: &str) -> Option<&DeploymentCondition> {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.find(|has| has.type_ == kind)
    }

    fn find_mut(&mut self, kind: &str) -> Option<&mut DeploymentCondition> {
        let mut conditions = self.status.conditions.iter_mut().flatten();
        conditions.find(|has| has.type_ == kind)
    }

    fn drop(&mut self, kind: &str) {
        if let Some(conditions) = &mut self.status.conditions {
            conditions.retain(|has| has.type_ != kind);
        }
    }

    /// Sets a condition. One with the same status and reason stays unchanged.
    fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let now = Some(meta::time(self.now));
        let old = self.find(kind).cloned();
        let same = old.as_ref().filter(|old| old.status == status);
        if same.is_some_and(|old| old.reason.as_deref() == Some(reason)) {
            return;
        }
        let since = same.and_then(|old| old.last_transition_time.clone());
        self.drop(kind);
        let conditions = self.status.conditions.get_or_insert_default();
        conditions.push(DeploymentCondition {
            type_: kind.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            last_update_time: now.clone(),
            last_transition_time: since.or(now),
        });
    }
}

/// True if the last written status says that the rollout is complete.
pub(super) fn is_complete(view: &View<'_>) -> bool {
    let status = view.deployment.status.clone().unwrap_or_default();
    is_complete_by(view, &status)
}

fn is_complete_by(view: &View<'_>, status: &DeploymentStatus) -> bool {
    let is_all = |count: Option<i32>| i64::from(count.unwrap_or(0)) == view.replicas();
    is_all(status.updated_replicas)
        && is_all(status.replicas)
        && is_all(status.available_replicas)
        && status.observed_generation >= view.deployment.metadata.generation
}

/// True if the rollout made progress between two statuses.
fn progressed(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let count = |count: Option<i32>| count.unwrap_or(0);
    let outdated =
        |status: &DeploymentStatus| count(status.replicas) - count(status.updated_replicas);
    count(new.updated_replicas) > count(old.updated_replicas)
        || outdated(new) < outdated(old)
        || count(new.ready_replicas) > count(old.ready_replicas)
        || count(new.available_replicas) > count(old.available_replicas)
}

/// True if two statuses are equal; the API leaves out counters that are zero.
fn same(a: &DeploymentStatus, b: &DeploymentStatus) -> bool {
    let all = |status: &DeploymentStatus| {
        let counters = [
            status.replicas,
            status.updated_replicas,
            status.ready_replicas,
            status.available_replicas,
            status.unavailable_replicas,
            status.terminating_replicas,
            status.collision_count,
        ];
        let conditions = status.conditions.clone().unwrap_or_default();
        let counters = counters.map(|count| count.unwrap_or(0));
        (counters, status.observed_generation, conditions)
    };
    all(a) == all(b)
}

/// `progressDeadlineSeconds`; the largest number means no deadline.
fn deadline(view: &View<'_>) -> Option<i32> {
    view.spec
        .progress_deadline_seconds
        .filter(|seconds| *seconds < i32::MAX)
}

fn replicas(set: &ReplicaSet) -> i64 {
    set.status
        .as_ref()
        .map_or(0, |status| i64::from(status.replicas))
}

fn ready(set: &ReplicaSet) -> i64 {
    let ready = set.status.as_ref().and_then(|status| status.ready_replicas);
    i64::from(ready.unwrap_or(0))
}

fn terminating(set: &ReplicaSet) -> i64 {
    let terminating = set
        .status
        .as_ref()
        .and_then(|status| status.terminating_replicas);
    i64::from(terminating.unwrap_or(0))
}

//! The pods of jobs: whether they are still to be counted, when they ended, and the failures that
//! the delay before the next pod is computed from.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::{Resource, api::core::v1::PodStatus};
use machinery::time::Timestamp;

use crate::meta;

/// The finalizer that holds a pod until its job has counted it.
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The delay after the first failure; each further one doubles it.
const DELAY: Duration = Duration::from_secs(10);
const DELAY_MAX: Duration = Duration::from_secs(600);
/// More failures than this do not make the delay longer, and are not remembered.
const FAILURES_MAX: usize = 7;
/// Maximum number of jobs remembered; when it is reached, all are dropped.
const JOBS_MAX: usize = 10_000;

/// True if its job has not counted it yet.
pub(crate) fn is_tracked(pod: &Pod) -> bool {
    let mut finalizers = pod.metadata.finalizers.iter().flatten();
    finalizers.any(|one| one == TRACKING)
}

/// When a pod ended: when its last container did, or else it stopped being ready, or its deletion
/// was asked for.
pub(crate) fn ended_at(pod: &Pod) -> Timestamp {
    let status = pod.status.clone().unwrap_or_default();
    let deleted = pod.metadata.deletion_timestamp.as_ref().map(|at| {
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        let mut asked = meta::stamp(at);
        asked.seconds -= grace;
        asked
    });
    containers_ended_at(pod, &status)
        .or_else(|| unready_since(&status))
        .or(deleted)
        .unwrap_or_else(|| meta::created(&pod.metadata))
}

/// When the last container ended; sidecars end after the others.
fn containers_ended_at(pod: &Pod, status: &PodStatus) -> Option<Timestamp> {
    let spec = pod.spec.as_ref();
    let init = spec.and_then(|spec| spec.init_containers.as_ref());
    let is_sidecar = |status: &&ContainerStatus| {
        let mut sidecars = init.into_iter().flatten();
        sidecars
            .any(|one| one.name == status.name && one.restart_policy.as_deref() == Some("Always"))
    };
    let sidecars = status.init_container_statuses.iter().flatten();
    let mut statuses = status.container_statuses.iter().flatten();
    let ends = statuses
        .by_ref()
        .chain(sidecars.filter(is_sidecar))
        .map(|one| {
            let ended = one.state.as_ref()?.terminated.as_ref()?;
            ended.finished_at.as_ref().map(meta::stamp)
        });
    ends.collect::<Option<Vec<Timestamp>>>()?.into_iter().max()
}

fn unready_since(status: &PodStatus) -> Option<Timestamp> {
    let mut conditions = status.conditions.iter().flatten();
    let ready = conditions.find(|one| one.type_ == "Ready" && one.status == "False")?;
    ready.last_transition_time.as_ref().map(meta::stamp)
}

/// The rest of the delay before a pod replaces one that failed, after so many failures in a row.
pub(crate) fn delay(failures: u32, last: Timestamp, now: Timestamp) -> Option<Duration> {
    let doublings = failures.checked_sub(1)?.min(FAILURES_MAX as u32);
    meta::left(last, (DELAY * (1 << doublings)).min(DELAY_MAX), now)
}

/// The failures of each job's pods since the last success, as far as this process saw them.
///
/// A pod that is counted may be gone at once, and the job does not say when the last one failed.
#[derive(Default)]
pub(crate) struct Failures {
    jobs: HashMap<String, OfJob>,
}

#[derive(Default)]
struct OfJob {
    /// By the pod's uid.
    failures: BTreeMap<String, Failure>,
    succeeded: Option<Timestamp>,
}

#[derive(Clone, Copy)]
struct Failure {
    at: Timestamp,
    /// It was deleted, and its containers may run yet.
    only_deleted: bool,
}

impl Failures {
    /// Notes how a pod ended, if it did and is to be counted.
    pub(crate) fn note(&mut self, pod: &Pod) {
        let controller = meta::controller(&pod.metadata);
        let Some(job) = controller.filter(|owner| owner.kind == Job::KIND) else {
            return;
        };
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        let only_deleted = match phase {
            Some("Succeeded" | "Failed") => false,
            _ if meta::is_deleting(&pod.metadata) => true,
            _ => return,
        };
        if !is_tracked(pod) {
            return;
        }
        if self.jobs.len() >= JOBS_MAX {
            self.jobs.clear();
        }
        let of_job = self.jobs.entry(job.uid.clone()).or_default();
        let at = ended_at(pod);
        if phase == Some("Succeeded") {
            of_job.succeeded = of_job.succeeded.max(Some(at));
        } else {
            let failure = Failure { at, only_deleted };
            let uid = meta::uid(&pod.metadata).to_owned();
            of_job.failures.insert(uid, failure);
        }
        of_job.trim();
    }

    /// Drops what is known of a job that is gone.
    pub(crate) fn forget(&mut self, job: &str) {
        self.jobs.remove(job);
    }

    /// The number of failures since the last success, and the time of the last; `deletions` count
    /// as failures, too.
    pub(crate) fn of(&self, job: &str, deletions: bool) -> Option<(u32, Timestamp)> {
        let failures = self.jobs.get(job)?.failures.values();
        let counted: Vec<Timestamp> = failures
            .filter(|one| deletions || !one.only_deleted)
            .map(|one| one.at)
            .collect();
        let count = u32::try_from(counted.len()).ok()?;
        counted.into_iter().max().map(|last| (count, last))
    }
}

impl OfJob {
    /// Drops failures before the last success, and the oldest of too many.
    fn trim(&mut self) {
        self.failures
            .retain(|_, failure| Some(failure.at) > self.succeeded);
        while self.failures.len() > FAILURES_MAX {
            let oldest = self.failures.iter().min_by_key(|(_, failure)| failure.at);
            let Some(uid) = oldest.map(|(uid, _)| uid.clone()) else {
                return;
            };
            self.failures.remove(&uid);
        }
    }
}

//! What a job and its pods look like: the pods that run, the counts, and the state of each index.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;

use super::indexes::Indexes;
use super::policy::{self, Verdict};
use crate::job_pods::{ended_at, is_tracked};
use crate::known::Shared;
use crate::loops::Context;
use crate::{meta, pods};

/// The annotation and the label with the index of a pod.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The annotation with how often the pods of an index failed before this one.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The same for failures that the policy ignores.
pub(super) const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// A job and its pods at one moment.
pub(super) struct Look<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) job: &'a Job,
    pub(super) spec: &'a JobSpec,
    pub(super) status: JobStatus,
    pub(super) pods: &'a [Shared<Pod>],
    pub(super) active: Vec<&'a Shared<Pod>>,
    /// Pods that succeeded, or indexes if the job has them.
    pub(super) succeeded: i32,
    /// Pods that failed, without those that the policy ignores.
    pub(super) failed: i32,
    /// `None` if the completions have no indexes.
    pub(super) indexes: Option<ByIndex<'a>>,
}

/// The state of each index.
pub(super) struct ByIndex<'a> {
    pub(super) completions: i32,
    /// The indexes whose success is in the status.
    pub(super) told: Indexes,
    pub(super) succeeded: Indexes,
    /// `None` if indexes do not fail one by one.
    pub(super) failed: Option<Indexes>,
    /// The last failed pod of each index that needs another one. It stays until that is there,
    /// because only it knows how often the index failed.
    pub(super) replaced: BTreeMap<i32, &'a Shared<Pod>>,
}

/// How many pods run, are ready, and are ending.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    pub(super) active: i32,
    pub(super) ready: i32,
    pub(super) terminating: i32,
}

impl<'a> Look<'a> {
    pub(super) fn new(
        context: &'a Context<'a>,
        job: &'a Job,
        spec: &'a JobSpec,
        pods: &'a [Shared<Pod>],
    ) -> Look<'a> {
        let status = job.status.clone().unwrap_or_default();
        let mut look = Look {
            context,
            job,
            spec,
            status,
            pods,
            active: pods.iter().filter(|pod| pods::is_active(pod)).collect(),
            succeeded: 0,
            failed: 0,
            indexes: None,
        };
        look.indexes = look.by_index();
        (look.succeeded, look.failed) = look.totals();
        look
    }

    /// How many pods, or indexes, succeeded and failed, with those that the status lists or does
    /// not know yet.
    fn totals(&self) -> (i32, i32) {
        let is_new = |pod: &&Shared<Pod>| self.is_counted(pod) && is_tracked(pod);
        let (succeeded, failed) = self.uncounted();
        let successes = self.pods.iter().filter(is_new).filter(|pod| {
            pods::phase(pod) == "Succeeded" && !succeeded.contains(meta::uid(&pod.metadata))
        });
        let failures = self.pods.iter().filter(is_new).filter(|pod| {
            let known = failed.contains(meta::uid(&pod.metadata));
            self.is_failed(pod) && !known && self.verdict(pod) != Verdict::Ignored
        });
        let known = |told: Option<i32>, listed: usize| told.unwrap_or(0) + count(listed);
        let successes = count(successes.count()) + known(self.status.succeeded, succeeded.len());
        let failures = count(failures.count()) + known(self.status.failed, failed.len());
        let indexes = self.indexes.as_ref().map(|by| by.succeeded.count());
        (indexes.unwrap_or(successes), failures)
    }

    fn by_index(&self) -> Option<ByIndex<'a>> {
        let completions = completions(self.spec)?;
        let told = self.status.completed_indexes.as_deref().unwrap_or_default();
        let told = Indexes::parse(told, completions);
        let tracked = || {
            let tracked = self.pods.iter().filter(|pod| is_tracked(pod));
            tracked.filter_map(|pod| Some((self.index_within(pod)?, pod)))
        };
        let new = tracked().filter(|(_, pod)| pods::phase(pod) == "Succeeded");
        let new: Indexes = new.map(|(index, _)| index).collect();
        let failed = self.spec.backoff_limit_per_index.map(|limit| {
            let before = self.status.failed_indexes.as_deref().unwrap_or_default();
            let failed = tracked().filter(|(_, pod)| self.fails_index(pod, limit));
            let failed: Indexes = failed.map(|(index, _)| index).collect();
            Indexes::parse(before, completions).with(&failed)
        });
        let mut by = ByIndex {
            completions,
            succeeded: told.with(&new),
            told,
            failed,
            replaced: BTreeMap::new(),
        };
        if let Some(failed) = &by.failed {
            let done = by.succeeded.with(failed).with(&indexes_of(&self.active));
            for (at, pod) in tracked() {
                if !self.is_failed(pod) || done.contains(at) {
                    continue;
                }
                let known = by.replaced.entry(at).or_insert(pod);
                if failures(pod) >= failures(known) && ended_at(pod) >= ended_at(known) {
                    *known = pod;
                }
            }
        }
        Some(by)
    }

    /// True if the failure of this pod makes its index fail.
    fn fails_index(&self, pod: &Pod, limit: i32) -> bool {
        if !self.is_failed(pod) {
            return false;
        }
        match self.verdict(pod) {
            Verdict::FailsIndex => true,
            Verdict::Ignored => false,
            Verdict::Counts | Verdict::FailsJob(_) => number(pod, FAILURES) >= limit,
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let ready = self.active.iter().filter(|pod| pods::is_ready(pod));
        let ending = self.pods.iter().filter(|pod| is_ending(pod));
        Counts {
            active: count(self.active.len()),
            ready: count(ready.count()),
            terminating: count(ending.count()),
        }
    }

    /// The uids of pods that are counted when nothing holds them any longer.
    pub(super) fn uncounted(&self) -> (BTreeSet<&str>, BTreeSet<&str>) {
        let uncounted = self.status.uncounted_terminated_pods.as_ref();
        let succeeded = uncounted.and_then(|one| one.succeeded.as_ref());
        let failed = uncounted.and_then(|one| one.failed.as_ref());
        (uids(succeeded), uids(failed))
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    pub(super) fn is_deleting(&self) -> bool {
        meta::is_deleting(&self.job.metadata)
    }

    /// True if a pod that is being deleted is only replaced when it has ended.
    pub(super) fn waits_for_the_end(&self) -> bool {
        let policy = self.spec.pod_replacement_policy.as_deref();
        policy == Some("Failed") || self.spec.pod_failure_policy.is_some()
    }

    /// True if a pod counts as failed. Those that are deleted may never say so.
    pub(super) fn is_failed(&self, pod: &Pod) -> bool {
        match pods::phase(pod) {
            "Failed" => true,
            "Succeeded" => false,
            _ => meta::is_deleting(&pod.metadata) && !self.waits_for_the_end(),
        }
    }

    pub(super) fn verdict(&self, pod: &Pod) -> Verdict {
        policy::verdict(self.spec.pod_failure_policy.as_ref(), pod)
    }

    /// A pod's index, if that is one of the job.
    pub(super) fn index_within(&self, pod: &Pod) -> Option<i32> {
        index(pod).filter(|index| Some(*index) < completions(self.spec))
    }

    /// False for pods that have no index although the job has them.
    pub(super) fn is_counted(&self, pod: &Pod) -> bool {
        completions(self.spec).is_none() || self.index_within(pod).is_some()
    }

    pub(super) fn condition(&self, kind: &str) -> Option<&JobCondition> {
        let mut conditions = self.status.conditions.iter().flatten();
        conditions.find(|has| has.type_ == kind && has.status == "True")
    }

    /// A condition that became true just now.
    pub(super) fn became(&self, kind: &str, reason: &str, message: &str) -> JobCondition {
        condition(self.context, kind, true, reason, message)
    }
}

/// A condition that changed just now.
pub(super) fn condition(
    context: &Context<'_>,
    kind: &str,
    is: bool,
    reason: &str,
    message: &str,
) -> JobCondition {
    let now = Some(meta::time(context.now));
    JobCondition {
        type_: kind.into(),
        status: if is { "True" } else { "False" }.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_probe_time: now.clone(),
        last_transition_time: now,
    }
}

/// The number of completions if they have indexes.
fn completions(spec: &JobSpec) -> Option<i32> {
    let indexed = spec.completion_mode.as_deref() == Some("Indexed");
    indexed.then(|| spec.completions.unwrap_or(0))
}

/// True if a pod is being deleted and has not ended.
pub(super) fn is_ending(pod: &Pod) -> bool {
    meta::is_deleting(&pod.metadata) && !pods::is_finished(pod)
}

/// A pod's index, whatever the number of completions.
pub(super) fn index(pod: &Pod) -> Option<i32> {
    let index = meta::annotation(&pod.metadata, INDEX)?.parse().ok()?;
    (index >= 0).then_some(index)
}

pub(super) fn indexes_of<'a>(pods: impl IntoIterator<Item = &'a &'a Shared<Pod>>) -> Indexes {
    pods.into_iter().filter_map(|pod| index(pod)).collect()
}

/// How often the pods of the index failed before this one.
pub(super) fn failures(pod: &Pod) -> i32 {
    number(pod, FAILURES).saturating_add(number(pod, IGNORED))
}

/// The number in an annotation; zero if there is none.
pub(super) fn number(pod: &Pod, annotation: &str) -> i32 {
    let number = meta::annotation(&pod.metadata, annotation).and_then(|text| text.parse().ok());
    number.unwrap_or(0).max(0)
}

fn uids(list: Option<&Vec<String>>) -> BTreeSet<&str> {
    list.into_iter().flatten().map(String::as_str).collect()
}

pub(super) fn count(of: usize) -> i32 {
    i32::try_from(of).unwrap_or(i32::MAX)
}

//! Whether a job has failed or succeeded, and why.

use k8s_openapi::api::batch::v1::JobCondition;
use k8s_openapi::api::core::v1::Pod;

use super::look::{Counts, Look};
use super::policy::{self, Verdict};
use crate::decision::Decision;
use crate::{meta, pods};

/// The conditions that announce the end: the job is decided, its pods may still run.
pub(super) const SUCCESS: &str = "SuccessCriteriaMet";
pub(super) const FAILURE: &str = "FailureTarget";
/// The conditions of a job that has ended.
pub(crate) const COMPLETE: &str = "Complete";
pub(crate) const FAILED: &str = "Failed";

/// Why jobs fail.
const REASONS: [&str; 5] = [
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "PodFailurePolicy",
    "MaxFailedIndexesExceeded",
    "FailedIndexes",
];

/// The reason of the Event about a failed job.
pub(super) fn reason(of: &str) -> &'static str {
    let known = REASONS.into_iter().find(|reason| *reason == of);
    known.unwrap_or(FAILED)
}

/// The condition by which the job ends, apart from [`complete`]: one that was announced before,
/// or else the first that holds now.
pub(super) fn ending(look: &Look<'_>, into: &mut Decision) -> Option<JobCondition> {
    if let Some(success) = look.condition(SUCCESS) {
        return Some(success.clone());
    }
    if let Some(told) = look.condition(FAILURE) {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        return Some(look.became(FAILED, &text(&told.reason), &text(&told.message)));
    }
    let failure = |(reason, message): (&str, &str)| look.became(FAILURE, reason, message);
    if let Some(message) = fatal_pod(look) {
        return Some(failure(("PodFailurePolicy", &message)));
    }
    let success = |message: String| look.became(SUCCESS, "SuccessPolicy", &message);
    by_limits(look, into)
        .or_else(|| by_indexes(look))
        .map(failure)
        .or_else(|| by_success_policy(look).map(success))
}

/// The message about a pod whose failure makes the job fail.
fn fatal_pod(look: &Look<'_>) -> Option<String> {
    let failed = look.pods.iter().filter(|pod| look.is_failed(pod));
    let mut verdicts = failed.map(|pod| look.verdict(pod));
    verdicts.find_map(|verdict| match verdict {
        Verdict::FailsJob(message) => Some(message),
        _ => None,
    })
}

fn by_limits(look: &Look<'_>, into: &mut Decision) -> Option<(&'static str, &'static str)> {
    let limit = look.spec.backoff_limit.unwrap_or(i32::MAX);
    if look.failed > limit || restarted_too_often(look, limit) {
        let message = "Job has reached the specified backoff limit";
        return Some(("BackoffLimitExceeded", message));
    }
    let deadline = look.spec.active_deadline_seconds?;
    if look.is_suspended() {
        return None;
    }
    let now = look.context.now;
    let started = look.status.start_time.as_ref().map_or(now, meta::stamp);
    let left = meta::left(started, meta::seconds(deadline), now);
    into.again_if(left);
    let message = "Job was active longer than specified deadline";
    left.is_none().then_some(("DeadlineExceeded", message))
}

/// True if containers that restart in their pods did so too often.
fn restarted_too_often(look: &Look<'_>, limit: i32) -> bool {
    let template = look.spec.template.spec.as_ref();
    let policy = template.and_then(|spec| spec.restart_policy.as_deref());
    let runs = |pod: &&Pod| ["Running", "Pending"].contains(&pods::phase(pod));
    let running = look.pods.iter().map(AsRef::as_ref).filter(runs);
    let restarts: i32 = running.map(all_restarts).sum();
    policy == Some("OnFailure") && restarts >= limit.max(1)
}

fn all_restarts(pod: &Pod) -> i32 {
    let status = pod.status.iter();
    let statuses = status.flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    });
    statuses.map(|one| one.restart_count).sum()
}

fn by_indexes(look: &Look<'_>) -> Option<(&'static str, &'static str)> {
    let by = look.indexes.as_ref()?;
    let failed = by.failed.as_ref()?.count();
    if look
        .spec
        .max_failed_indexes
        .is_some_and(|most| failed > most)
    {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(("MaxFailedIndexesExceeded", message));
    }
    let all = failed + by.succeeded.count() >= by.completions;
    (failed > 0 && all).then_some(("FailedIndexes", "Job has failed indexes"))
}

fn by_success_policy(look: &Look<'_>) -> Option<String> {
    let by = look.indexes.as_ref()?;
    let policy = look.spec.success_policy.as_ref();
    policy::success(policy, by.completions, &by.succeeded)
}

/// The condition of a job whose pods have succeeded often enough, if no pod runs any longer.
pub(super) fn complete(look: &Look<'_>, counts: Counts) -> Option<JobCondition> {
    // Without a number of completions the success of any pod is the success of the job.
    let enough = look.succeeded >= look.spec.completions.unwrap_or(1);
    let message = "Reached expected number of succeeded pods";
    (enough && counts.active == 0).then(|| look.became(SUCCESS, "CompletionsReached", message))
}

//! The jobs that ended, and which of them are too many.

use k8s_openapi::api::batch::v1::{CronJobSpec, Job};

use crate::known::Shared;
use crate::loops::job::{COMPLETE, FAILED, finished};
use crate::meta;

/// The jobs beyond the limits of those that are kept, the oldest first.
pub(super) fn surplus<'a>(spec: &CronJobSpec, jobs: &'a [Shared<Job>]) -> Vec<&'a Shared<Job>> {
    let limits = [
        (COMPLETE, spec.successful_jobs_history_limit),
        (FAILED, spec.failed_jobs_history_limit),
    ];
    let surplus = limits.into_iter().flat_map(|(kind, limit)| {
        let mut ended: Vec<&Shared<Job>> = jobs
            .iter()
            .filter(|job| finished(job) == Some(kind))
            .collect();
        ended.sort_by_key(|job| started(job));
        let kept = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(0));
        let extra = ended.len().saturating_sub(kept);
        ended.truncate(extra);
        ended
    });
    surplus.collect()
}

/// When a job started; those that never did come last.
fn started(job: &Job) -> impl Ord + use<> {
    let start = job
        .status
        .as_ref()
        .and_then(|status| status.start_time.as_ref());
    let start = start.map(meta::stamp);
    (start.is_none(), start, meta::name(&job.metadata).to_owned())
}

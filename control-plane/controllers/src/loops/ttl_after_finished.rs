//! Deletes jobs when the time that they are to stay after their end is over.

#[cfg(test)]
mod tests;

use k8s_openapi::api::batch::v1::Job;
use machinery::api::{DeleteOptions, Propagation};
use machinery::time::Timestamp;

use crate::cache::{Caches, Changed};
use crate::decision::{Decision, delete_with};
use crate::known::Key;
use crate::loops::job::end;
use crate::loops::{Context, Loop};
use crate::meta;

pub(crate) struct TtlAfterFinished;

impl Loop for TtlAfterFinished {
    fn name(&self) -> &'static str {
        "ttl-after-finished"
    }

    fn wakes(&self, _: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        if let Changed::Job(diff) = changed
            && let Some(job) = &diff.new
            && ended_at(job).is_some()
        {
            wake(meta::key(&job.metadata));
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let job = context.caches.jobs.at(key);
        let Some(job) = job.filter(|job| !meta::is_deleting(&job.metadata)) else {
            return Decision::nothing();
        };
        let spec = job.spec.as_ref();
        let stays = spec.and_then(|spec| spec.ttl_seconds_after_finished);
        let (Some(ended), Some(stays)) = (ended_at(job), stays) else {
            return Decision::nothing();
        };
        let left = meta::left(ended, meta::seconds(stays), context.now);
        let mut decision = Decision::nothing();
        decision.again_if(left);
        if left.is_none() {
            // Only in this version: a newer one may say that it is to stay longer.
            decision.push(delete_with(
                job.as_ref(),
                DeleteOptions {
                    propagation: Some(Propagation::Foreground),
                    resource_version: meta::resource_version(&job.metadata).into(),
                    ..DeleteOptions::default()
                },
            ));
        }
        decision
    }
}

/// When a job completed or failed.
fn ended_at(job: &Job) -> Option<Timestamp> {
    let ended = end(job)?.last_transition_time.as_ref();
    ended.map(meta::stamp)
}

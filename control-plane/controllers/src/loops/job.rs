//! Jobs: runs pods until enough of them have succeeded, or too many have failed.

mod ending;
mod indexes;
mod look;
mod policy;
mod scale;
#[cfg(test)]
mod tests;
mod track;

use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::Pod;
use machinery::api::Call;
use machinery::object;
use machinery::selector::LabelSelector;
use machinery::time::Timestamp;
use serde_json::json;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, controller_key};
use crate::job_pods::{TRACKING, is_tracked};
use crate::known::{Key, Shared};
use crate::loops::{Context, Loop};
use crate::{meta, pods};
pub(crate) use ending::{COMPLETE, FAILED};
use look::Look;
use track::Course;

/// The name of this controller where jobs say who manages them.
const MANAGER: &str = "kubernetes.io/job-controller";
/// How long a job waits after a change of its pods, for what changes together: a pod that is deleted
/// may end at once, and is then counted as it ended.
const BATCH: Duration = Duration::from_secs(1);
/// What the key of a pod begins with; no job has such a name.
const STRAY: &str = "pods/";

pub(crate) struct Jobs;

impl Loop for Jobs {
    fn name(&self) -> &'static str {
        "job"
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::Job(Diff { old, new }) => {
                let Some(job) = new.as_ref().or(old.as_ref()) else {
                    return;
                };
                if !same_spec(old, new) {
                    wake(meta::key(&job.metadata));
                }
                if new.as_ref().is_none_or(|job| finished(job).is_some()) {
                    let pods = caches.pods.controlled_by(meta::uid(&job.metadata));
                    pods.filter(|pod| is_tracked(pod))
                        .for_each(|pod| wake(stray_key(pod)));
                }
            }
            Changed::Pod(Diff { new: Some(pod), .. })
                if is_tracked(pod) && is_stray(caches, pod) =>
            {
                wake(stray_key(pod));
            }
            _ => {}
        }
    }

    fn wakes_later(
        &self,
        caches: &Caches,
        changed: &Changed,
        _: Timestamp,
        wake: &mut dyn FnMut(Key, Duration),
    ) {
        match changed {
            Changed::Job(Diff { old, new }) if same_spec(old, new) => {
                let job = new.iter();
                job.for_each(|job| wake(meta::key(&job.metadata), BATCH));
            }
            Changed::Pod(diff) => {
                let mut wake = |key| wake(key, BATCH);
                pods::wake_owners(&caches.jobs, selector, diff, &mut wake);
            }
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        if let Some(pod) = key.1.strip_prefix(STRAY) {
            let pod = caches.pods.get(&key.0, pod);
            let stray = pod.filter(|pod| is_tracked(pod) && is_stray(caches, pod));
            let call = stray.map(|pod| scale::untrack(pod));
            return call.map_or_else(Decision::nothing, Decision::of);
        }
        let job = caches.jobs.at(key);
        match job.filter(|job| is_managed_here(job) && finished(job).is_none()) {
            Some(job) => sync(context, job),
            None => Decision::nothing(),
        }
    }
}

/// True if only the status of a job changed.
fn same_spec(old: &Option<Shared<Job>>, new: &Option<Shared<Job>>) -> bool {
    let generation = |job: &Shared<Job>| job.metadata.generation;
    let (old, new) = (old.as_ref().map(generation), new.as_ref().map(generation));
    old.is_some() && old == new
}

fn sync(context: &Context<'_>, job: &Shared<Job>) -> Decision {
    let Some(spec) = &job.spec else {
        return Decision::nothing();
    };
    let Some(selector) = selector(job) else {
        return Decision::nothing();
    };
    let pods = &context.caches.pods;
    let (pods, claims) = pods::claim(job.as_ref(), pods, &selector);
    let mut decision = Decision::nothing();
    for call in claims {
        decision.push(with_finalizer(call));
    }
    if !decision.steps.is_empty() {
        return decision;
    }
    let look = Look::new(context, job, spec, &pods);
    // What failed is tried again only after the status tells what there is.
    let mut failures = context.failure.into_iter();
    if failures.any(|failure| failure.creating || failure.deleting) {
        let told = decided(&look, false);
        if !told.steps.is_empty() {
            return told;
        }
    }
    decided(&look, true)
}

/// The same change of a pod's owner, together with the finalizer: a pod that is adopted gets it,
/// one that is released loses it.
fn with_finalizer(call: Call) -> Call {
    let mut call = call;
    if let Call::Patch { patch, .. } = &mut call {
        let released = patch["metadata"]["ownerReferences"][0]["$patch"] == "delete";
        let directive = if released {
            "$deleteFromPrimitiveList/finalizers"
        } else {
            "finalizers"
        };
        object::set(patch, &["metadata", directive], json!([TRACKING]));
    }
    call
}

/// What to do about a job; only with its status and what it counts if not `scaling`.
fn decided(look: &Look<'_>, scaling: bool) -> Decision {
    let mut decision = Decision::nothing();
    let mut counts = look.counts();
    let mut course = Course::new(look);
    let mut ending = ending::ending(look, &mut decision);
    if ending.is_some() {
        if scaling {
            scale::delete_active(look, &mut counts, &mut decision);
        }
        // The job has not ended as long as pods run.
        ending = ending.filter(|_| counts.active == 0);
    } else {
        let scales = !look.is_deleting();
        if scales && scaling {
            scale::scale(look, &mut counts, &mut decision);
        }
        ending = ending::complete(look, counts);
        if ending.is_none() && scales {
            course.tell_suspension(look);
        }
    }
    course.track(look, ending, counts, &mut decision);
    decision
}

/// The condition with which a job ended.
pub(crate) fn end(job: &Job) -> Option<&JobCondition> {
    let mut conditions = job.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|has| [COMPLETE, FAILED].contains(&has.type_.as_str()) && has.status == "True")
}

/// The type of that condition.
pub(crate) fn finished(job: &Job) -> Option<&str> {
    end(job).map(|condition| condition.type_.as_str())
}

/// False if another controller manages the job.
fn is_managed_here(job: &Job) -> bool {
    let by = job
        .spec
        .as_ref()
        .and_then(|spec| spec.managed_by.as_deref());
    by.is_none_or(|by| by == MANAGER)
}

fn stray_key(pod: &Pod) -> Key {
    let (namespace, name) = meta::key(&pod.metadata);
    (namespace, format!("{STRAY}{name}"))
}

/// True if no job is going to count this pod.
fn is_stray(caches: &Caches, pod: &Pod) -> bool {
    if meta::controller(&pod.metadata).is_none() {
        return true;
    }
    let Some(key) = controller_key::<Job, Pod>(pod) else {
        return false;
    };
    let owner = meta::controller(&pod.metadata).map(|owner| owner.uid.as_str());
    let job = caches.jobs.at(&key);
    match job.filter(|job| Some(meta::uid(&job.metadata)) == owner) {
        Some(job) => is_managed_here(job) && finished(job).is_some(),
        None => true,
    }
}

fn selector(job: &Job) -> Option<LabelSelector> {
    meta::selector(job.spec.as_ref()?.selector.as_ref()?)
}

//! Cron jobs: makes a job whenever the schedule is due, and removes old ones.

mod due;
mod history;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery::api::{DeleteOptions, Propagation};
use machinery::schedule::{Schedule, Zone};
use machinery::time::Timestamp;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, Note, controller_key, create, delete_with, update_status};
use crate::known::{Key, Shared};
use crate::loops::job::{self, finished};
use crate::loops::{Context, Loop};
use crate::meta;
use due::{Missed, Plan};

/// The annotation of a job with the time that it was due.
const DUE_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

pub(crate) struct CronJobs;

impl Loop for CronJobs {
    fn name(&self) -> &'static str {
        "cronjob"
    }

    fn wakes(&self, _: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::CronJob(diff) if rescheduled(diff).is_none() => {
                let cron = diff.either();
                cron.into_iter()
                    .for_each(|cron| wake(meta::key(&cron.metadata)));
            }
            Changed::Job(Diff { old, new }) => {
                let both = old.iter().chain(new);
                both.filter_map(|job| controller_key::<CronJob, Job>(job.as_ref()))
                    .for_each(wake);
            }
            _ => {}
        }
    }

    /// A new schedule does not make up for what was due by it before.
    fn wakes_later(
        &self,
        _: &Caches,
        changed: &Changed,
        now: Timestamp,
        wake: &mut dyn FnMut(Key, Duration),
    ) {
        if let Changed::CronJob(diff) = changed
            && let Some(cron) = rescheduled(diff)
            && let Some(wait) = Plan::of(cron).and_then(|plan| plan.next(cron, now))
        {
            wake(meta::key(&cron.metadata), wait);
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        match context.caches.cron_jobs.at(key) {
            Some(cron) => sync(context, cron),
            None => Decision::nothing(),
        }
    }
}

/// The cron job of a change of the schedule or its time zone.
fn rescheduled(diff: &Diff<CronJob>) -> Option<&Shared<CronJob>> {
    let (old, new) = (diff.old.as_ref()?, diff.new.as_ref()?);
    let (before, after) = (&old.spec, &new.spec);
    let same = before.schedule == after.schedule && before.time_zone == after.time_zone;
    (!same).then_some(new)
}

fn sync(context: &Context<'_>, cron: &Shared<CronJob>) -> Decision {
    let jobs = jobs_of(context.caches, cron);
    let mut sync = Sync {
        context,
        cron,
        status: cron.status.clone().unwrap_or_default(),
        decision: Decision::nothing(),
    };
    sync.record_new(&jobs);
    for job in history::surplus(&cron.spec, &jobs) {
        sync.delete(job);
    }
    sync.review(&jobs);
    sync.drop_missing(&jobs);
    if !meta::is_deleting(&cron.metadata) {
        sync.start_if_due();
    }
    sync.decision
}

/// The jobs whose controller has the name of the cron job.
fn jobs_of(caches: &Caches, cron: &CronJob) -> Vec<Shared<Job>> {
    let key = meta::key(&cron.metadata);
    let jobs = caches.jobs.in_namespace(&key.0);
    jobs.filter(|job| controller_key::<CronJob, Job>(job.as_ref()).as_ref() == Some(&key))
        .cloned()
        .collect()
}

/// One look at a cron job, with its status in the making.
struct Sync<'a> {
    context: &'a Context<'a>,
    cron: &'a Shared<CronJob>,
    status: CronJobStatus,
    decision: Decision,
}

impl Sync<'_> {
    fn tell(&mut self, reason: &'static str, message: String) {
        let note = Note::new(self.cron.as_ref(), reason, message);
        self.decision.notes.push(note);
    }

    fn warn(&mut self, reason: &'static str, message: String) {
        let note = Note::new(self.cron.as_ref(), reason, message);
        self.decision.notes.push(note.warning());
    }

    fn is_active(&self, job: &Job) -> bool {
        let mut active = self.status.active.iter().flatten();
        active.any(|one| one.uid == job.metadata.uid)
    }

    fn forget(&mut self, uid: Option<&String>) {
        if let Some(active) = &mut self.status.active {
            active.retain(|one| one.uid.as_ref() != uid);
        }
    }

    /// Lists the jobs that this loop made: their uids are known only now.
    fn record_new(&mut self, jobs: &[Shared<Job>]) {
        let mut new: Vec<(Timestamp, &Shared<Job>)> = jobs
            .iter()
            .filter(|job| !self.is_active(job))
            .filter_map(|job| Some((made_for(self.cron, job)?, job)))
            .filter(|(due, _)| last_due(&self.status).is_none_or(|last| *due > last))
            .collect();
        new.sort_by_key(|(due, _)| *due);
        for (due, job) in new {
            let active = self.status.active.get_or_insert_default();
            active.push(reference(job));
            self.status.last_schedule_time = Some(meta::time(due));
        }
    }

    /// Deletes a job and its pods.
    fn delete(&mut self, job: &Job) {
        self.forget(job.metadata.uid.as_ref());
        if meta::is_deleting(&job.metadata) {
            return;
        }
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        let text = format!("Deleted job {}", meta::name(&job.metadata));
        let failed = "Deleted job: {}".to_owned();
        let cron = self.cron.as_ref();
        self.decision
            .push(delete_with(job, options))
            .tell(Note::new(cron, "SuccessfulDelete", text))
            .tell_failure(Note::new(cron, "FailedDelete", failed).warning());
    }

    /// Takes over what the jobs say of themselves.
    fn review(&mut self, jobs: &[Shared<Job>]) {
        for job in jobs {
            let (found, end) = (self.is_active(job), finished(job));
            let name = meta::name(&job.metadata);
            let Some(end) = end else {
                if !found {
                    let message =
                        format!("Saw a job that the controller did not create or forgot: {name}");
                    self.warn("UnexpectedJob", message);
                }
                continue;
            };
            if found {
                self.forget(job.metadata.uid.as_ref());
                let message = format!("Saw completed job: {name}, condition: {end}");
                self.tell("SawCompletedJob", message);
            }
            let completed = job
                .status
                .as_ref()
                .and_then(|status| status.completion_time.clone());
            if end == job::COMPLETE && completed > self.status.last_successful_time {
                self.status.last_successful_time = completed;
            }
        }
    }

    /// Drops listed jobs that are gone.
    fn drop_missing(&mut self, jobs: &[Shared<Job>]) {
        let listed = self.status.active.clone().unwrap_or_default();
        for one in listed {
            if !jobs.iter().any(|job| job.metadata.uid == one.uid) {
                let name = one.name.unwrap_or_default();
                self.tell("MissingJob", format!("Active job went missing: {name}"));
                self.forget(one.uid.as_ref());
            }
        }
    }

    /// Makes a job if it is time, and otherwise looks again when it is.
    fn start_if_due(&mut self) {
        let plan = self.plan();
        let due = plan.as_ref().and_then(|plan| self.due(plan));
        let replaces = self.cron.spec.concurrency_policy.as_deref() == Some("Replace");
        let mut replaced = false;
        if due.is_some() && replaces {
            replaced = self.replace_active();
        }
        self.push_status();
        // The next decision finds those that are replaced gone.
        if let (Some(due), Some(plan), false) = (due, &plan, replaced) {
            self.start(due, plan);
        }
        if let Some(plan) = plan {
            let next = plan.next(self.cron, self.context.now);
            self.decision.again_if(next);
        }
    }

    /// The schedule, unless it is suspended or cannot be read.
    fn plan(&mut self) -> Option<Plan> {
        let spec = &self.cron.spec;
        if let Some(zone) = &spec.time_zone
            && Zone::named(zone).is_none()
        {
            let message = format!("invalid timeZone: {zone:?}: unknown time zone {zone}");
            self.warn("UnknownTimeZone", message);
            return None;
        }
        if spec.suspend == Some(true) {
            return None;
        }
        if let Err(why) = Schedule::parse(&spec.schedule) {
            let message = format!("unparseable schedule: {:?} : {why}", spec.schedule);
            self.warn("UnparseableSchedule", message);
        }
        Plan::of(self.cron)
    }

    /// The time for which a job is to be made now.
    fn due(&mut self, plan: &Plan) -> Option<Timestamp> {
        let (cron, now) = (self.cron, self.context.now);
        let spec = &cron.spec;
        let (due, missed) = match plan.recent(cron, last_due(&self.status), now, true) {
            Ok(recent) => (recent.due?, recent.missed),
            Err(why) => {
                let message = format!("invalid schedule: {} : {why}", spec.schedule);
                self.warn("InvalidSchedule", message);
                return None;
            }
        };
        if missed == Missed::Many {
            let message = "too many missed start times. Set or decrease \
                 .spec.startingDeadlineSeconds or check clock skew";
            self.warn("TooManyMissedTimes", message.into());
        }
        let deadline = spec.starting_deadline_seconds.map(meta::seconds);
        if deadline.is_some_and(|deadline| due.plus(deadline) < now) {
            let time = due::in_words(due);
            let message = format!("Missed scheduled time to start a job: {time}");
            self.warn("MissSchedule", message);
            return None;
        }
        let name = job_name(cron, due);
        let mut active = self.status.active.iter().flatten();
        let known = active.any(|one| one.name.as_ref() == Some(&name));
        if known || last_due(&self.status) == Some(due) {
            return None;
        }
        let forbidden = spec.concurrency_policy.as_deref() == Some("Forbid");
        if forbidden && self.status.active.iter().flatten().next().is_some() {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            self.tell("JobAlreadyActive", message.into());
            return None;
        }
        Some(due)
    }

    /// Deletes the jobs that still run; true if there are any.
    fn replace_active(&mut self) -> bool {
        let listed = self.status.active.clone().unwrap_or_default();
        let namespace = meta::namespace(&self.cron.metadata);
        for one in &listed {
            let name = one.name.as_deref().unwrap_or_default();
            if let Some(job) = self.context.caches.jobs.get(namespace, name) {
                self.delete(job);
            }
        }
        !listed.is_empty()
    }

    fn start(&mut self, due: Timestamp, plan: &Plan) {
        let cron = self.cron.as_ref();
        let job = new_job(cron, due, plan);
        // A job of that name that is another's is left alone.
        if self
            .context
            .caches
            .jobs
            .at(&meta::key(&job.metadata))
            .is_some()
        {
            return;
        }
        let failed = "Error creating job: {}".to_owned();
        self.decision
            .push(create(&job))
            .tell(Note::new(cron, "SuccessfulCreate", "Created job {}".into()))
            .tell_failure(Note::new(cron, "FailedCreate", failed).warning());
    }

    /// Writes the status if it changed.
    fn push_status(&mut self) {
        let plain = |status: &CronJobStatus| CronJobStatus {
            active: status.active.clone().filter(|list| !list.is_empty()),
            ..status.clone()
        };
        let status = plain(&self.status);
        if status != plain(&self.cron.status.clone().unwrap_or_default()) {
            let told = CronJob {
                status: Some(status),
                ..self.cron.as_ref().clone()
            };
            self.decision.push(update_status(&told));
        }
    }
}

fn last_due(status: &CronJobStatus) -> Option<Timestamp> {
    status.last_schedule_time.as_ref().map(meta::stamp)
}

/// The name of the job for a time; two attempts to make it make one job.
fn job_name(cron: &CronJob, due: Timestamp) -> String {
    format!("{}-{}", meta::name(&cron.metadata), due.seconds / 60)
}

/// The time for which this loop made a job; `None` if somebody else did.
fn made_for(cron: &CronJob, job: &Job) -> Option<Timestamp> {
    let due = Timestamp::parse(meta::annotation(&job.metadata, DUE_AT)?)?;
    let owner = meta::controller(&job.metadata)?;
    let mine = owner.uid == meta::uid(&cron.metadata);
    (mine && meta::name(&job.metadata) == job_name(cron, due)).then_some(due)
}

fn new_job(cron: &CronJob, due: Timestamp, plan: &Plan) -> Job {
    let template = &cron.spec.job_template;
    let of_template = template.metadata.clone().unwrap_or_default();
    let mut annotations = of_template.annotations.unwrap_or_default();
    annotations.insert(DUE_AT.into(), plan.write(due));
    Job {
        metadata: ObjectMeta {
            namespace: cron.metadata.namespace.clone(),
            name: Some(job_name(cron, due)),
            labels: of_template.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![meta::owned_by(cron)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

fn reference(job: &Job) -> ObjectReference {
    let kind = crate::known::kind_of::<Job>();
    ObjectReference {
        api_version: Some(kind.api_version()),
        kind: Some(kind.kind().into()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        field_path: None,
    }
}

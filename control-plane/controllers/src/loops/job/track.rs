//! The status of a job, and the pods that it has counted.
//!
//! A pod that ended is first listed in the status, then let go of, and then it is a number. Each
//! step is seen by the next decision, so a crash between them counts no pod twice.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;

use super::ending::{self, COMPLETE, FAILED, FAILURE, SUCCESS};
use super::look::{Counts, Look, condition, count, index};
use super::policy::Verdict;
use super::scale::untrack;
use crate::decision::{Decision, Note, update_status};
use crate::job_pods::is_tracked;
use crate::known::Shared;
use crate::{meta, pods};

/// Maximum number of pods that the status lists, so that it stays small.
const UNCOUNTED_MAX: usize = 500;
const SUSPENDED: &str = "Suspended";

/// The status in the making, and the Event about it.
pub(super) struct Course {
    pub(super) status: JobStatus,
    pub(super) note: Option<Note>,
}

impl Course {
    pub(super) fn new(look: &Look<'_>) -> Course {
        let mut status = look.status.clone();
        if status.start_time.is_none() && !look.is_suspended() {
            status.start_time = Some(meta::time(look.context.now));
        }
        Course { status, note: None }
    }

    /// Says that the job is suspended, or resumed. The time of a resumed job begins anew.
    pub(super) fn tell_suspension(&mut self, look: &Look<'_>) {
        let suspended = look.is_suspended();
        let (reason, word) = if suspended {
            ("JobSuspended", "Suspended")
        } else {
            ("JobResumed", "Resumed")
        };
        let message = format!("Job {}", word.to_lowercase());
        let told = condition(look.context, SUSPENDED, suspended, reason, &message);
        let conditions = self.status.conditions.get_or_insert_default();
        let known = conditions.iter_mut().find(|has| has.type_ == SUSPENDED);
        match known {
            Some(known) if known.status == told.status && known.reason == told.reason => return,
            Some(known) => *known = told,
            None if suspended => conditions.push(told),
            None => return,
        }
        self.status.start_time = (!suspended).then(|| meta::time(look.context.now));
        self.note = Some(Note::new(look.job, word, message));
    }

    /// Counts what ended, and decides on the status and the pods to let go of.
    pub(super) fn track(
        mut self,
        look: &Look<'_>,
        ending: Option<JobCondition>,
        counts: Counts,
        into: &mut Decision,
    ) {
        self.status.active = Some(counts.active);
        self.status.ready = Some(counts.ready);
        self.status.terminating = Some(counts.terminating);
        let mut listed = self.take_listed(look);
        let (ended, all) = self.list(look, ending.as_ref(), &mut listed);
        let waits = !ended.is_empty() || listed != Listed::default() || !all;
        self.status.uncounted_terminated_pods = Some(listed.written());
        let mut goes_on = !ended.is_empty();
        if let Some(ending) = ending {
            let announced = self.announce(&ending);
            goes_on |= announced;
            if !announced && !waits && counts.terminating == 0 {
                self.finish(look, &ending, into);
            }
        }
        let status = plain(self.status);
        if status != plain(look.status.clone()) {
            let told = Job {
                status: Some(status),
                ..look.job.clone()
            };
            into.push(update_status(&told)).done = self.note;
        }
        if goes_on {
            // What is let go of becomes a number, and what is announced happens, at once.
            into.again(Duration::ZERO);
        }
        for pod in ended {
            into.push(untrack(pod));
        }
    }

    /// The pods that the status lists and that are still held; the others become numbers.
    fn take_listed(&mut self, look: &Look<'_>) -> Listed {
        let tracked = look.pods.iter().filter(|pod| is_tracked(pod));
        let held: BTreeSet<&str> = tracked.map(|pod| meta::uid(&pod.metadata)).collect();
        let of = self.status.uncounted_terminated_pods.take();
        let of = of.unwrap_or_default();
        let split = |list: Option<Vec<String>>, number: &mut Option<i32>| {
            let (kept, counted): (Vec<String>, Vec<String>) = list
                .unwrap_or_default()
                .into_iter()
                .partition(|uid| held.contains(uid.as_str()));
            *number = Some(number.unwrap_or(0) + count(counted.len()));
            kept
        };
        Listed {
            succeeded: split(of.succeeded, &mut self.status.succeeded),
            failed: split(of.failed, &mut self.status.failed),
        }
    }

    /// Lists the pods that ended. Returns those to let go of, and true if they are all.
    fn list<'a>(
        &mut self,
        look: &Look<'a>,
        ending: Option<&JobCondition>,
        listed: &mut Listed,
    ) -> (Vec<&'a Shared<Pod>>, bool) {
        let (succeeded_before, failed_before) = look.uncounted();
        let mut pods: Vec<&Shared<Pod>> = look.pods.iter().filter(|pod| is_tracked(pod)).collect();
        if look.indexes.is_some() {
            pods.sort_by_key(|pod| index(pod));
        }
        let failed_job = ending.is_some_and(|one| one.type_ != SUCCESS);
        let (mut ended, mut new_indexes, mut all) = (Vec::new(), 0, true);
        for pod in pods {
            if !may_go(look, pod, ending.is_some()) {
                continue;
            }
            ended.push(pod);
            let uid = meta::uid(&pod.metadata);
            if pods::phase(pod) == "Succeeded" && !failed_before.contains(uid) {
                match &look.indexes {
                    // The index says that it is counted.
                    Some(by) => {
                        let index = look.index_within(pod);
                        new_indexes += usize::from(index.is_some_and(|at| !by.told.contains(at)));
                    }
                    None if succeeded_before.contains(uid) => {}
                    None => listed.succeeded.push(uid.to_owned()),
                }
            } else if (look.is_failed(pod) || failed_job)
                && !failed_before.contains(uid)
                && look.is_counted(pod)
                && look.verdict(pod) != Verdict::Ignored
            {
                listed.failed.push(uid.to_owned());
            }
            if new_indexes + listed.succeeded.len() + listed.failed.len() >= UNCOUNTED_MAX {
                all = false;
                break;
            }
        }
        if let Some(by) = &look.indexes {
            self.status.succeeded = Some(by.succeeded.count());
            self.status.completed_indexes = Some(by.succeeded.to_string());
            self.status.failed_indexes = by.failed.as_ref().map(ToString::to_string);
        }
        (ended, all)
    }

    /// Adds the condition that announces the end; false if it was there before.
    fn announce(&mut self, ending: &JobCondition) -> bool {
        let conditions = self.status.conditions.get_or_insert_default();
        let known = conditions.iter().any(|has| has.type_ == ending.type_);
        let new = [SUCCESS, FAILURE].contains(&ending.type_.as_str()) && !known;
        if new {
            conditions.push(ending.clone());
        }
        new
    }

    /// Adds the condition of the end.
    fn finish(&mut self, look: &Look<'_>, ending: &JobCondition, into: &mut Decision) {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (reason, message) = (text(&ending.reason), text(&ending.message));
        let failed = ending.type_ == FAILED;
        let kind = if failed { FAILED } else { COMPLETE };
        let condition = look.became(kind, &reason, &message);
        if failed {
            self.note = Some(Note::new(look.job, ending::reason(&reason), message).warning());
        } else {
            let wanted = look.spec.completions;
            if wanted.is_some_and(|wanted| self.status.succeeded > Some(wanted)) {
                let message = "Too many succeeded pods running after completion count reached";
                let note = Note::new(look.job, "TooManySucceededPods", message.into());
                into.notes.push(note.warning());
            }
            self.status.completion_time = condition.last_transition_time.clone();
            self.note = Some(Note::new(look.job, "Completed", "Job completed".into()));
        }
        let conditions = self.status.conditions.get_or_insert_default();
        conditions.push(condition);
    }
}

/// The uids of pods that ended and are not yet numbers.
#[derive(Default, PartialEq, Eq)]
struct Listed {
    succeeded: Vec<String>,
    failed: Vec<String>,
}

impl Listed {
    fn written(self) -> UncountedTerminatedPods {
        let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
        UncountedTerminatedPods {
            succeeded: some(self.succeeded),
            failed: some(self.failed),
        }
    }
}

/// True if the job needs to hold a pod no longer.
fn may_go(look: &Look<'_>, pod: &Pod, ending: bool) -> bool {
    if look.is_deleting() || ending || pods::phase(pod) == "Succeeded" {
        return true;
    }
    let by = look.indexes.as_ref();
    let is_this = |known: &&Shared<Pod>| known.metadata.uid == pod.metadata.uid;
    let replaced = by.is_some_and(|by| by.replaced.values().any(is_this));
    look.is_failed(pod) && !replaced
}

/// A status as the API writes it, without what is zero or empty.
fn plain(status: JobStatus) -> JobStatus {
    let number = |number: Option<i32>| number.filter(|number| *number != 0);
    JobStatus {
        active: number(status.active),
        succeeded: number(status.succeeded),
        failed: number(status.failed),
        completed_indexes: status.completed_indexes.filter(|text| !text.is_empty()),
        conditions: status.conditions.filter(|list| !list.is_empty()),
        ..status
    }
}

//! The status of a job, which a controller that is not ours may write: what it says must fit
//! together. What did not change is not refused, so that a status can be mended in steps.

use std::collections::BTreeSet;

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use super::indexes;
use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

const CONDITIONS: &str = "status.conditions";
const INDEXED: &str = "Indexed";

/// A job in one of its states.
struct Job<'a>(&'a Value);

impl Job<'_> {
    fn is(&self, condition: &str) -> bool {
        self.has(condition, "True")
    }

    fn has(&self, condition: &str, status: &str) -> bool {
        let mut conditions = object::items(self.0, &["status", "conditions"]).iter();
        conditions.any(|one| one["type"] == condition && one["status"] == status)
    }

    fn is_finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn at(&self, key: &str) -> Option<&Value> {
        object::at(self.0, &["status", key])
    }

    fn count(&self, key: &str) -> i64 {
        self.at(key).and_then(Value::as_i64).unwrap_or(0)
    }

    fn of_spec(&self, key: &str) -> Option<&Value> {
        object::at(self.0, &["spec", key])
    }
}

/// True if a job is suspended and none of its pods runs: none ever did, or it says that it is
/// suspended.
pub(super) fn is_at_rest(job: &Value) -> bool {
    let job = Job(job);
    let is_suspended = job.of_spec("suspend") == Some(&Value::Bool(true));
    let is_still = job.at("startTime").is_none() || job.is("Suspended");
    is_suspended && is_still && job.count("active") == 0
}

/// Checks a new status against the old one.
pub(crate) fn status(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    let status = FieldValue::new("status", new.get("status").unwrap_or(&Value::Null));
    uncounted(&status, &mut causes);
    let (old, new) = (&Job(old), &Job(new));
    ends(old, new, &mut causes);
    times(old, new, &status, &mut causes);
    counts(old, new, &status, &mut causes);
    numbered(old, new, &status, &mut causes);
    causes
}

/// Pods that are done and not counted yet.
fn uncounted(status: &FieldValue, causes: &mut Causes) {
    causes.below(status, "uncountedTerminatedPods", |causes, pods| {
        let mut seen = BTreeSet::new();
        for list in ["succeeded", "failed"] {
            causes.each(pods, list, |causes, uid| {
                if uid.value == "" {
                    let why = "must not be empty";
                    causes.push(Cause::invalid(&uid.path, uid.value, why));
                } else if !seen.insert(uid.value.as_str()) {
                    causes.push(Cause::duplicate(&uid.path, uid.value));
                }
            });
        }
    });
}

/// How the job ends: once, and either way.
fn ends(old: &Job, new: &Job, causes: &mut Causes) {
    let changed = |condition: &str| old.is(condition) != new.is(condition);
    let mut refuse = |why: &str| causes.push(Cause::invalid_together(CONDITIONS, why));
    let [complete, failed] = ["Complete", "Failed"].map(|one| new.is(one));
    let [target, met] = ["FailureTarget", "SuccessCriteriaMet"].map(|one| new.is(one));
    if complete && failed && (changed("Complete") || changed("Failed")) {
        refuse("cannot set Complete=True and Failed=true conditions");
    }
    if complete && target && (changed("Complete") || changed("FailureTarget")) {
        refuse("cannot set Complete=True and FailureTarget=true conditions");
    }
    let fails = changed("Failed") || old.at("failedIndexes") != new.at("failedIndexes");
    if failed && !target && fails {
        refuse("cannot set Failed=True condition without the FailureTarget=true condition");
    }
    if complete && !met && (changed("Complete") || changed("SuccessCriteriaMet")) {
        refuse("cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
    }
    if met && failed {
        refuse("cannot set SuccessCriteriaMet=True and Failed=true conditions");
    }
    if met && target {
        refuse("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    }
    if complete && !met && new.of_spec("successPolicy").is_some() {
        refuse(
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        );
    }
    for condition in ["Failed", "Complete", "FailureTarget"] {
        if old.is(condition) && !new.is(condition) {
            refuse(&format!(
                "cannot disable the terminal {condition}=True condition"
            ));
        }
    }
    if old.is("SuccessCriteriaMet") && !met {
        refuse("cannot disable the SuccessCriteriaMet=True condition");
    }
    if old.is("Complete") && !old.is("SuccessCriteriaMet") && met {
        refuse("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions");
    }
}

/// When the job began and ended.
fn times(old: &Job, new: &Job, status: &FieldValue, causes: &mut Causes) {
    const START: &str = "startTime";
    const END: &str = "completionTime";
    let changed = |key: &str| old.at(key) != new.at(key);
    let complete = new.is("Complete");
    let completes = old.is("Complete") != complete;
    if completes || changed(END) {
        match (new.at(END), complete) {
            (Some(_), false) => {
                let why = "cannot set completionTime when there is no Complete=True condition";
                causes.wrong(status, END, why);
            }
            (None, true) => {
                let why = "completionTime is required for Complete jobs";
                causes.push(Cause::required(&status.path_of(END), why));
            }
            _ => {}
        }
    }
    // Times in seconds of one zone compare as text.
    let [start, end] = [START, END].map(|key| status.text(key));
    if (changed(START) || changed(END)) && !end.is_empty() && end < start {
        causes.wrong(status, END, "must be equal to or after `startTime`");
    }
    let empty = new.of_spec("completions") == Some(&0.into());
    let suspended = new.of_spec("suspend") == Some(&Value::Bool(true));
    let finishes = old.is_finished() != new.is_finished();
    let counts = (finishes || changed(START)) && !(suspended && empty);
    if counts && new.is_finished() && new.at(START).is_none() {
        let why = "startTime is required for finished job";
        causes.push(Cause::required(&status.path_of(START), why));
    }
    if old.at(END).is_some() && new.at(END).is_some() && changed(END) {
        causes.wrong(status, END, "field is immutable");
    }
    let resumes = old.is("Suspended") && new.has("Suspended", "False");
    if old.at(START).is_some() && changed(START) && !resumes && !suspended {
        let why = "field is immutable for unsuspended job once set";
        causes.wrong(status, START, why);
    }
}

/// The numbers of pods.
fn counts(old: &Job, new: &Job, status: &FieldValue, causes: &mut Causes) {
    let changed = |key: &str| old.at(key) != new.at(key);
    let finished = new.is_finished();
    let finishes = old.is_finished() != finished;
    for key in ["active", "terminating"] {
        if finished && new.count(key) > 0 && (finishes || changed(key)) {
            let why = format!("{key}>0 is invalid for finished job");
            causes.wrong(status, key, &why);
        }
    }
    const UNCOUNTED: &str = "uncountedTerminatedPods";
    let some = |list: &str| !object::items(status.value, &[UNCOUNTED, list]).is_empty();
    if finished && (some("failed") || some("succeeded")) && (finishes || changed(UNCOUNTED)) {
        causes.wrong(status, UNCOUNTED, "must be empty for finished job");
    }
    if new.count("ready") > new.count("active") && (changed("ready") || changed("active")) {
        let why = "cannot set more ready pods than active";
        causes.wrong(status, "ready", why);
    }
    // A job whose indexes are scaled down has fewer that have succeeded.
    let scales = new
        .of_spec("completionMode")
        .is_some_and(|mode| mode == INDEXED)
        && new.of_spec("completions") == new.of_spec("parallelism");
    for (key, may_shrink) in [("failed", false), ("succeeded", scales)] {
        if !may_shrink && new.count(key) < old.count(key) {
            let why = format!("cannot decrease the {key} counter");
            let count = new.count(key).into();
            causes.push(Cause::invalid(&status.path_of(key), &count, &why));
        }
    }
}

/// The indexes that are done.
fn numbered(old: &Job, new: &Job, status: &FieldValue, causes: &mut Causes) {
    const DONE: &str = "completedIndexes";
    const FAILED: &str = "failedIndexes";
    let changed = |key: &str| old.at(key) != new.at(key);
    let completions = new.of_spec("completions").and_then(Value::as_i64);
    let by_index = new.of_spec("backoffLimitPerIndex").is_some();
    for (key, counts) in [(DONE, true), (FAILED, by_index)] {
        let Some(completions) = completions.filter(|_| counts && changed(key)) else {
            continue;
        };
        if let Err(why) = indexes::count(status.text(key), completions) {
            causes.wrong(status, key, &format!("error parsing {key}: {why}"));
        }
    }
    let indexed = new
        .of_spec("completionMode")
        .is_some_and(|mode| mode == INDEXED);
    if changed(DONE) && !indexed && !status.text(DONE).is_empty() {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        causes.wrong(status, DONE, why);
    }
    if changed(FAILED) && !by_index && status.has(FAILED) {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        causes.wrong(status, FAILED, why);
    }
    let both = completions.filter(|_| changed(DONE) || changed(FAILED));
    let both = both.and_then(|completions| {
        indexes::overlap(status.text(DONE), status.text(FAILED), completions)
    });
    if let Some(index) = both {
        let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
        causes.wrong(status, FAILED, &why);
    }
}

//! Jobs and cron jobs.

mod indexes;
mod policies;
mod status;

use machinery::name;
use machinery::object;
use machinery::schedule::Schedule;
use machinery::selector::LabelSelector;
use machinery::status::Cause;
use serde_json::Value;

use super::pod::{self, Exceptions};
use super::workload;
use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, named, unchanged, words::selector, words::zone};

pub(crate) use status::status;

/// Where the spec of its jobs is in a cron job.
const OF_CRON_JOB: &str = "spec.jobTemplate.spec";
/// Cron jobs have shorter names, because the names of their jobs have a suffix.
const CRON_JOB_NAME_MAX: usize = 52;
/// Upper bound of concurrent pods for indexed jobs.
const PARALLELISM_MAX: i64 = 100_000;
/// Upper bound of the indexes that may fail.
const FAILED_MAX: i64 = 100_000;
/// A job with more completions than this, whose indexes fail on their own, has lower bounds.
const MANY_COMPLETIONS: i64 = 100_000;
const OF_MANY_MAX: i64 = 10_000;
/// Maximum bytes of the name of a job's controller.
const MANAGER_BYTES_MAX: usize = 63;

/// A job, given the old one if it is updated.
pub(crate) fn job(old: Option<&Value>, object: &Value) -> Causes {
    let exceptions = of_template(old, "spec");
    let exceptions = workload::with_own_selector(exceptions, old);
    let mut causes = Causes::default();
    of_job(object, exceptions, &mut causes);
    causes
}

/// A cron job, given the old one if it is updated.
pub(crate) fn cron_job(old: Option<&Value>, object: &Value) -> Causes {
    let exceptions = of_template(old, OF_CRON_JOB);
    let mut causes = Causes::default();
    of_cron_job(object, exceptions, &mut causes);
    causes
}

/// What the old template in the spec of a job allows.
fn of_template(old: Option<&Value>, spec: &str) -> Exceptions {
    Exceptions::of(old.and_then(|old| pod::template_of(old, &format!("{spec}.template"))))
}

/// Fields that must not change.
pub(crate) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    let mut keep = |key: &str| causes.extend(unchanged(old, new, &["spec", key]));
    if object::text(new, &["spec", "completionMode"]) != "Indexed" {
        keep("completions");
    }
    keep("selector");
    let suspended = object::at(old, &["spec", "suspend"]) == Some(&Value::Bool(true));
    let started = object::at(old, &["status", "startTime"]).is_some();
    let template = |object: &Value| {
        let mut template = object
            .pointer("/spec/template")
            .cloned()
            .unwrap_or_default();
        if suspended && !started {
            without_scheduling(&mut template);
        }
        template
    };
    if template(old) != template(new) {
        keep("template");
    }
    for key in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        keep(key);
    }
    causes
}

/// Removes what may change of a template as long as none of its pods has run: where they may run,
/// what they are called, and what they need.
fn without_scheduling(template: &mut Value) {
    for path in [
        &["metadata", "annotations"][..],
        &["metadata", "labels"],
        &["spec", "nodeSelector"],
        &["spec", "tolerations"],
        &["spec", "schedulingGates"],
        &["spec", "affinity", "nodeAffinity"],
    ] {
        object::remove(template, path);
    }
    let affinity = object::at(template, &["spec", "affinity"]).and_then(Value::as_object);
    if affinity.is_some_and(serde_json::Map::is_empty) {
        object::remove(template, &["spec", "affinity"]);
    }
    for list in ["containers", "initContainers"] {
        let containers = template.pointer_mut(&format!("/spec/{list}"));
        for container in containers
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            object::remove(container, &["resources"]);
        }
    }
}

fn of_job(object: &Value, exceptions: Exceptions, causes: &mut Causes) {
    let given = object::at(object, &["spec", "selector"]);
    let parsed = given.map(LabelSelector::from_object);
    if object::at(object, &["spec", "manualSelector"]) != Some(&Value::Bool(true)) {
        generated(object, causes);
    }
    spec(object, "spec", exceptions, causes);
    if given.is_none() {
        causes.push(Cause::required("spec.selector", ""));
    }
    let at = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    causes.label_selector_with(&at, "selector", exceptions.selector_values);
    let labels = object.pointer("/spec/template/metadata/labels");
    let labels = labels.and_then(Value::as_object);
    let fits = match &parsed {
        None => false,
        Some(Ok(parsed)) => parsed.matches(labels),
        Some(Err(_)) => true,
    };
    if !fits {
        causes.push(workload::mismatch(object));
    }
    let completions = object::integer(object, &["spec", "completions"]).unwrap_or(0);
    if object::text(object, &["spec", "completionMode"]) == "Indexed" && completions > 0 {
        // The host name of a pod contains its index.
        let last = format!("{}-{}", object::name(object), completions - 1);
        if !name::dns1123_label(&last).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {last}");
            let name = object::name(object);
            causes.push(Cause::invalid("metadata.name", &name.into(), &why));
        }
    }
}

/// Without a manual selector, the selector must be the generated one.
fn generated(object: &Value, causes: &mut Causes) {
    let Some(given) = object::at(object, &["spec", "selector"]) else {
        return;
    };
    let template = object.pointer("/spec/template").unwrap_or(&Value::Null);
    let mut expected = serde_json::Map::new();
    for (label, value) in [
        ("controller-uid", object::uid(object)),
        ("job-name", object::name(object)),
        ("batch.kubernetes.io/controller-uid", object::uid(object)),
        ("batch.kubernetes.io/job-name", object::name(object)),
    ] {
        let field = format!("spec.template.metadata.labels[{label}]");
        let why = format!("must be '{value}'");
        match object::label(template, label) {
            None => causes.push(Cause::required(&field, &why)),
            Some(given) if given != value => {
                let labels = template.pointer("/metadata/labels").unwrap_or(&Value::Null);
                causes.push(Cause::invalid(&field, labels, &why));
            }
            Some(_) => {}
        }
        expected.insert(label.into(), value.into());
    }
    let fits = LabelSelector::from_object(given).map(|parsed| parsed.matches(Some(&expected)));
    if fits == Ok(false) {
        let shown = selector::shown(Some(given));
        let why = "`selector` not auto-generated";
        causes.push(Cause::invalid_shown("spec.selector", &shown, why));
    }
}

/// The spec of a job, which for a cron job is in its template.
fn spec(object: &Value, path: &str, exceptions: Exceptions, causes: &mut Causes) {
    let Some(spec) = object.pointer(&format!("/{}", path.replace('.', "/"))) else {
        return causes.push(Cause::required(path, ""));
    };
    let spec = FieldValue::new(path, spec);
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        causes.not_negative(&spec, key);
    }
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        let why = "when maxFailedIndexes is specified";
        causes.push(Cause::required(&spec.path_of("backoffLimitPerIndex"), why));
    }
    if spec.has("managedBy") {
        causes.domain_prefixed(&spec, "managedBy");
        causes.at_most(&spec, "managedBy", MANAGER_BYTES_MAX);
    }
    causes.word(&spec, "completionMode", &["NonIndexed", "Indexed"]);
    let mode = spec.get("completionMode").and_then(Value::as_str);
    let mut of_indexed: &[&str] = &["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"];
    match mode {
        Some("Indexed") => {
            indexed(&spec, causes);
            policies::success(&spec, causes);
            of_indexed = &[];
        }
        None | Some("NonIndexed") => {}
        Some(_) => of_indexed = &["successPolicy"],
    }
    for key in of_indexed.iter().filter(|key| spec.has(key)) {
        causes.wrong(&spec, key, "requires indexed completion mode");
    }
    policies::failure(&spec, causes);
    let known: &[&str] = if spec.has("podFailurePolicy") {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    causes.word(&spec, "podReplacementPolicy", known);
    let template = spec.path_of("template");
    causes.extend(pod::template(object, &template, exceptions));
    restarts(&spec, causes);
}

/// The pods of a job must not restart forever.
fn restarts(spec: &FieldValue, causes: &mut Causes) {
    const KEY: &str = "restartPolicy";
    let made = spec.value.pointer("/template/spec");
    let made = FieldValue::new(spec.path_of("template.spec"), made.unwrap_or(&Value::Null));
    match made.text(KEY) {
        "" | "Always" => {
            let why = "valid values: \"OnFailure\", \"Never\"";
            causes.push(Cause::required(&made.path_of(KEY), why));
        }
        "OnFailure" if spec.has("podFailurePolicy") => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            causes.wrong(&made, KEY, why);
        }
        _ => causes.word(&made, KEY, &["OnFailure", "Never"]),
    }
}

/// Rules of indexed jobs, whose completions are numbered.
fn indexed(spec: &FieldValue, causes: &mut Causes) {
    let completions = spec.integer("completions");
    if completions.is_none() {
        let why = "when completion mode is Indexed";
        causes.push(Cause::required(&spec.path_of("completions"), why));
    }
    if spec.number("parallelism") > PARALLELISM_MAX {
        let why = format!(
            "must be less than or equal to {PARALLELISM_MAX} when completion mode is Indexed"
        );
        causes.wrong(spec, "parallelism", &why);
    }
    if completions.is_some_and(|all| spec.number("maxFailedIndexes") > all) {
        let why = "must be less than or equal to completions";
        causes.wrong(spec, "maxFailedIndexes", why);
    }
    if spec.number("maxFailedIndexes") > FAILED_MAX {
        let why = format!("must be less than or equal to {FAILED_MAX}");
        causes.wrong(spec, "maxFailedIndexes", &why);
    }
    let many = completions.is_some_and(|all| all > MANY_COMPLETIONS);
    if many && spec.has("backoffLimitPerIndex") {
        if !spec.has("maxFailedIndexes") {
            let why = format!("must be specified when completions is above {MANY_COMPLETIONS}");
            causes.push(Cause::required(&spec.path_of("maxFailedIndexes"), &why));
        }
        for key in ["parallelism", "maxFailedIndexes"] {
            if spec.number(key) > OF_MANY_MAX {
                let why = format!(
                    "must be less than or equal to {OF_MANY_MAX} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
                );
                causes.wrong(spec, key, &why);
            }
        }
    }
}

fn of_cron_job(object: &Value, exceptions: Exceptions, causes: &mut Causes) {
    let at = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    if causes.required(&at, "schedule") {
        let text = at.text("schedule");
        if let Err(why) = Schedule::parse(text) {
            causes.wrong(&at, "schedule", &why);
        }
        if text.contains("TZ") {
            let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            causes.wrong(&at, "schedule", why);
        }
    }
    causes.not_negative(&at, "startingDeadlineSeconds");
    let zone_name = at.get("timeZone").and_then(Value::as_str);
    if let Some(why) = zone_name.and_then(zone::wrong) {
        causes.wrong(&at, "timeZone", &why);
    }
    let known = ["Allow", "Forbid", "Replace"];
    causes.choice(&at, "concurrencyPolicy", &known);
    spec(object, OF_CRON_JOB, exceptions, causes);
    if let Some(given) = object.pointer("/spec/jobTemplate/spec/selector") {
        let field = "spec.jobTemplate.spec.selector";
        let why = "`selector` will be auto-generated";
        let shown = selector::shown(Some(given));
        causes.push(Cause::invalid_shown(field, &shown, why));
    }
    causes.not_negative(&at, "successfulJobsHistoryLimit");
    causes.not_negative(&at, "failedJobsHistoryLimit");
    let name = object::name(object);
    if name.len() > CRON_JOB_NAME_MAX {
        let why = format!("must be no more than {CRON_JOB_NAME_MAX} characters");
        causes.extend(named("metadata.name", name, vec![why]));
    }
}

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

/// The labels of the pods of a job that has no selector of its own.
const LABELS: [&str; 4] = [
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
];
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
    of_job(old, object, exceptions, &mut causes);
    causes
}

/// A cron job, given the old one if it is updated.
pub(crate) fn cron_job(old: Option<&Value>, object: &Value) -> Causes {
    let exceptions = of_template(old, OF_CRON_JOB);
    let mut causes = Causes::default();
    of_cron_job(old, object, exceptions, &mut causes);
    causes
}

/// What the old template in the spec of a job allows.
fn of_template(old: Option<&Value>, spec: &str) -> Exceptions {
    Exceptions::of(old.and_then(|old| pod::template_of(old, &format!("{spec}.template"))))
}

/// Fields that must not change.
pub(crate) fn update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    completions(old, new, &mut causes);
    let mut keep = |path: &[&str]| causes.extend(unchanged(old, new, path));
    keep(&["spec", "selector"]);
    if status::is_at_rest(old) {
        let rest = |object: &Value| {
            let spec = object.pointer("/spec/template/spec");
            let mut spec = spec.cloned().unwrap_or_default();
            without_scheduling(&mut spec);
            spec
        };
        if rest(old) != rest(new) {
            keep(&["spec", "template", "spec"]);
        }
    } else {
        keep(&["spec", "template"]);
    }
    for key in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        keep(&["spec", key]);
    }
    causes
}

/// The completions of an indexed job may change if as many pods as that run at a time.
fn completions(old: &Value, new: &Value, causes: &mut Causes) {
    const KEY: &str = "completions";
    let path = ["spec", KEY];
    let spec = FieldValue::new("spec", new.get("spec").unwrap_or(&Value::Null));
    if spec.text("completionMode") != "Indexed" {
        causes.extend(unchanged(old, new, &path));
    } else if spec.has(KEY)
        && object::at(old, &path) != spec.get(KEY)
        && spec.get(KEY) != spec.get("parallelism")
    {
        let why = "can only be modified in tandem with spec.parallelism";
        causes.wrong(&spec, KEY, why);
    }
}

/// Removes what may change of the pods of a job at rest: where they may run, and what they need.
fn without_scheduling(spec: &mut Value) {
    for path in [
        &["nodeSelector"][..],
        &["tolerations"],
        &["schedulingGates"],
        &["affinity", "nodeAffinity"],
    ] {
        object::remove(spec, path);
    }
    let affinity = object::at(spec, &["affinity"]).and_then(Value::as_object);
    if affinity.is_some_and(serde_json::Map::is_empty) {
        object::remove(spec, &["affinity"]);
    }
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list);
        for container in containers
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            object::remove(container, &["resources"]);
        }
    }
}

fn of_job(old: Option<&Value>, object: &Value, exceptions: Exceptions, causes: &mut Causes) {
    let given = object::at(object, &["spec", "selector"]);
    let parsed = given.map(LabelSelector::from_object);
    if object::at(object, &["spec", "manualSelector"]) != Some(&Value::Bool(true)) {
        generated(old, object, causes);
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

/// Without a manual selector, the selector must be the generated one. A job from before the labels
/// with a prefix has those without one alone.
fn generated(old: Option<&Value>, object: &Value, causes: &mut Causes) {
    let had_all = |old: &Value| {
        let template = old.pointer("/spec/template").unwrap_or(&Value::Null);
        let mut labels = LABELS.iter().filter(|label| label.contains('/'));
        labels.all(|label| object::label(template, label).is_some())
    };
    let has_prefixed = old.is_none_or(had_all);
    let Some(given) = object::at(object, &["spec", "selector"]) else {
        return;
    };
    let template = object.pointer("/spec/template").unwrap_or(&Value::Null);
    let mut expected = serde_json::Map::new();
    let required = LABELS
        .iter()
        .filter(|label| has_prefixed || !label.contains('/'));
    for label in required {
        let value = if label.ends_with("job-name") {
            object::name(object)
        } else {
            object::uid(object)
        };
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
        expected.insert((*label).into(), value.into());
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
    const NOT_INDEXED: &str = "requires indexed completion mode";
    match mode {
        Some("Indexed") => indexed(&spec, causes),
        None | Some("NonIndexed") => {
            let of_indexed = ["backoffLimitPerIndex", "maxFailedIndexes"];
            for key in of_indexed.iter().filter(|key| spec.has(key)) {
                causes.wrong(&spec, key, NOT_INDEXED);
            }
        }
        Some(_) => {}
    }
    policies::failure(&spec, causes);
    if mode == Some("Indexed") {
        policies::success(&spec, causes);
    } else if spec.has("successPolicy") {
        causes.wrong(&spec, "successPolicy", NOT_INDEXED);
    }
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

fn of_cron_job(old: Option<&Value>, object: &Value, exceptions: Exceptions, causes: &mut Causes) {
    let at = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    schedule(old, &at, causes);
    causes.not_negative(&at, "startingDeadlineSeconds");
    let zone_name = at.get("timeZone").and_then(Value::as_str);
    let had = old.and_then(|old| object::at(old, &["spec", "timeZone"])?.as_str());
    let is_news = old.is_none() || had != zone_name;
    if let Some(why) = zone_name.filter(|_| is_news).and_then(zone::wrong) {
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
    if object.pointer("/spec/jobTemplate/spec/manualSelector") == Some(&Value::Bool(true)) {
        let field = "spec.jobTemplate.spec.manualSelector";
        causes.push(Cause::not_supported(field, &true.into(), &["nil", "false"]));
    }
    causes.not_negative(&at, "successfulJobsHistoryLimit");
    causes.not_negative(&at, "failedJobsHistoryLimit");
    let name = object::name(object);
    if old.is_none() && name.len() > CRON_JOB_NAME_MAX {
        let why = format!("must be no more than {CRON_JOB_NAME_MAX} characters");
        causes.extend(named("metadata.name", name, vec![why]));
    }
}

/// When the jobs begin. A zone belongs into the field for it, unless the schedule had one before.
fn schedule(old: Option<&Value>, spec: &FieldValue, causes: &mut Causes) {
    const KEY: &str = "schedule";
    if !causes.required(spec, KEY) {
        return;
    }
    let text = spec.text(KEY);
    if let Err(why) = Schedule::parse(text) {
        causes.wrong(spec, KEY, &why);
    }
    let names_zone = |text: &str| text.contains("TZ");
    let had_zone = old.is_some_and(|old| names_zone(object::text(old, &["spec", KEY])));
    let why = match (names_zone(text), had_zone) {
        (true, true) if spec.has("timeZone") => {
            "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        }
        (true, false) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        _ => return,
    };
    causes.wrong(spec, KEY, why);
}

//! Workloads, which make pods of their templates.

use machinery::object;
use serde_json::Value;

use super::{pods, volumes};
use crate::validate::words::field::FieldValue;

/// An indexed job with more completions and more parallel pods than these may lose track of them.
const COMPLETIONS_MANY: i64 = 100_000;
const PARALLELISM_MANY: i64 = 10_000;

/// A deployment, or another set of replicas: their names are part of the names of their pods.
pub(in super::super) fn of_replicas(old: Option<&Value>, object: &Value) -> Vec<String> {
    let mut warnings = name_of_pods(old, object);
    warnings.extend(template(old, object, "spec.template"));
    warnings
}

pub(in super::super) fn of_daemon_set(old: Option<&Value>, set: &Value) -> Vec<String> {
    template(old, set, "spec.template")
}

pub(in super::super) fn of_pod_template(old: Option<&Value>, object: &Value) -> Vec<String> {
    template(old, object, "template")
}

pub(in super::super) fn of_stateful_set(old: Option<&Value>, set: &Value) -> Vec<String> {
    let mut warnings = template(old, set, "spec.template");
    let spec = FieldValue::new("spec", set.get("spec").unwrap_or(&Value::Null));
    for claim in spec.each("volumeClaimTemplates") {
        let spec = claim.get("spec").unwrap_or(&Value::Null);
        // Kubernetes leaves this key out of a new set, and writes it so in others.
        let path = match old {
            None => claim.path,
            Some(_) => claim.path_of("Spec"),
        };
        let spec = FieldValue::new(path, spec);
        volumes::claim_spec(&spec, &mut warnings);
    }
    if spec.number("revisionHistoryLimit") < 0 {
        let why = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
        warnings.push(why.to_owned());
    }
    warnings
}

pub(in super::super) fn of_job(old: Option<&Value>, job: &Value) -> Vec<String> {
    let mut warnings = name_of_pods(old, job);
    warnings.extend(job_spec(old, job, "spec"));
    warnings
}

pub(in super::super) fn of_cron_job(old: Option<&Value>, job: &Value) -> Vec<String> {
    let mut warnings = name_of_pods(old, job);
    warnings.extend(job_spec(old, job, "spec.jobTemplate.spec"));
    // A new one is refused.
    if old.is_some() && object::text(job, &["spec", "schedule"]).contains("TZ") {
        warnings.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned());
    }
    warnings
}

fn name_of_pods(old: Option<&Value>, object: &Value) -> Vec<String> {
    let told = pods::host_name(object, "Pod names and hostnames");
    told.filter(|_| old.is_none()).into_iter().collect()
}

/// True for a new object, and for one whose change counts.
fn is_news(old: Option<&Value>, object: &Value) -> bool {
    old.is_none_or(|old| object::generation(old) != object::generation(object))
}

fn at<'a>(object: &'a Value, path: &str) -> Option<FieldValue<'a>> {
    let value = object.pointer(&format!("/{}", path.replace('.', "/")))?;
    Some(FieldValue::new(path, value))
}

fn job_spec(old: Option<&Value>, job: &Value, path: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(spec) = at(job, path).filter(|_| is_news(old, job)) else {
        return warnings;
    };
    if spec.text("completionMode") == "Indexed"
        && spec.number("completions") > COMPLETIONS_MANY
        && spec.number("parallelism") > PARALLELISM_MANY
    {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    warnings.extend(template(old, job, &spec.path_of("template")));
    warnings
}

/// The template of an object, unless the object is as it was.
fn template(old: Option<&Value>, object: &Value, path: &str) -> Vec<String> {
    let template = at(object, path).filter(|_| is_news(old, object));
    template.map_or_else(Vec::new, |template| pods::of(&template))
}

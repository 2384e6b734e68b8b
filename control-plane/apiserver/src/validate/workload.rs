//! Deployments, sets and jobs: their counts, selectors and templates.

use machinery::object;
use machinery::selector::LabelSelector;
use machinery::status::Cause;
use serde_json::Value;

use super::{Causes, named, not_negative, one_of, pod, unchanged};

pub(super) fn check(kind: &str, object: &Value) -> Causes {
    let mut causes = Causes::default();
    match kind {
        "Deployment" => deployment(object, &mut causes),
        "ReplicaSet" => set(object, &mut causes),
        "ReplicationController" => controller(object, &mut causes),
        "StatefulSet" | "DaemonSet" => {
            set(object, &mut causes);
            let known: &[&str] = &["OnDelete", "RollingUpdate"];
            let path = ["spec", "updateStrategy", "type"];
            one_of(
                object,
                &path,
                "spec.updateStrategy.type",
                known,
                &mut causes,
            );
        }
        "Job" => job(object, "spec", &mut causes),
        "CronJob" => cron_job(object, &mut causes),
        "ControllerRevision" => not_negative(object, &["revision"], "revision", &mut causes),
        _ => {}
    }
    causes
}

fn deployment(object: &Value, causes: &mut Causes) {
    set(object, causes);
    let known = ["Recreate", "RollingUpdate"];
    one_of(
        object,
        &["spec", "strategy", "type"],
        "spec.strategy.type",
        &known,
        causes,
    );
    let kind = object::text(object, &["spec", "strategy", "type"]);
    let rolling = object::at(object, &["spec", "strategy", "rollingUpdate"]);
    if kind == "Recreate" && rolling.is_some() {
        let why = "may not be specified when strategy `type` is 'Recreate'";
        causes.push(Cause::forbidden("spec.strategy.rollingUpdate", why));
    }
    let zero = |key: &str| {
        let value = rolling.and_then(|rolling| rolling.get(key));
        value.is_some_and(|value| *value == 0 || *value == "0%")
    };
    if zero("maxSurge") && zero("maxUnavailable") {
        let value = rolling.and_then(|rolling| rolling.get("maxUnavailable").cloned());
        let why = "may not be 0 when `maxSurge` is 0";
        let field = "spec.strategy.rollingUpdate.maxUnavailable";
        causes.push(Cause::invalid(field, &value.unwrap_or_default(), why));
    }
    for key in ["revisionHistoryLimit", "minReadySeconds"] {
        not_negative(object, &["spec", key], &format!("spec.{key}"), causes);
    }
}

/// Replicas, a selector, and a template it selects.
fn set(object: &Value, causes: &mut Causes) {
    not_negative(object, &["spec", "replicas"], "spec.replicas", causes);
    let selector = object::at(object, &["spec", "selector"]);
    let parsed = selector.map(LabelSelector::from_object);
    match &parsed {
        None => causes.push(Cause::required("spec.selector", "")),
        Some(Err(error)) => {
            let shown = selector.cloned().unwrap_or_default();
            causes.push(Cause::invalid("spec.selector", &shown, &error.to_string()));
        }
        Some(Ok(selector)) if selector.is_empty() => {
            let shown = object::at(object, &["spec", "selector"])
                .cloned()
                .unwrap_or_default();
            let why = format!("empty selector is invalid for {}", plain_kind(object));
            causes.push(Cause::invalid("spec.selector", &shown, &why));
        }
        Some(Ok(selector)) => template_matches(object, selector, causes),
    }
    causes.extend(pod::template(object, "spec.template"));
    always_restarts(object, "spec.template.spec.restartPolicy", causes);
}

fn plain_kind(object: &Value) -> &'static str {
    match object::kind(object) {
        "Deployment" | "ReplicaSet" => "deployment",
        "StatefulSet" => "statefulset",
        _ => "daemonset",
    }
}

fn template_matches(object: &Value, selector: &LabelSelector, causes: &mut Causes) {
    let template = object::at(object, &["spec", "template"]).unwrap_or(&Value::Null);
    if !selector.matches(object::labels(template)) {
        let labels = object::labels(template).cloned().unwrap_or_default();
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid(
            "spec.template.metadata.labels",
            &labels.into(),
            why,
        ));
    }
}

fn always_restarts(object: &Value, field: &str, causes: &mut Causes) {
    let path = ["spec", "template", "spec", "restartPolicy"];
    let policy = object::text(object, &path);
    if !["", "Always"].contains(&policy) {
        causes.push(Cause::not_supported(field, &policy.into(), &["Always"]));
    }
}

fn controller(object: &Value, causes: &mut Causes) {
    not_negative(object, &["spec", "replicas"], "spec.replicas", causes);
    match object::at(object, &["spec", "selector"]).and_then(Value::as_object) {
        Some(map) if !map.is_empty() => {
            template_matches(object, &LabelSelector::from_map(map), causes);
        }
        _ => causes.push(Cause::required("spec.selector", "")),
    }
    causes.extend(pod::template(object, "spec.template"));
    always_restarts(object, "spec.template.spec.restartPolicy", causes);
}

fn job(object: &Value, path: &str, causes: &mut Causes) {
    let pointer = format!("/{}", path.replace('.', "/"));
    let Some(spec) = object.pointer(&pointer) else {
        return causes.push(Cause::required(path, ""));
    };
    for key in [
        "parallelism",
        "completions",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        not_negative(spec, &[key], &format!("{path}.{key}"), causes);
    }
    causes.extend(pod::template(object, &format!("{path}.template")));
    let policy = object::text(spec, &["template", "spec", "restartPolicy"]);
    if !["OnFailure", "Never"].contains(&policy) {
        let field = format!("{path}.template.spec.restartPolicy");
        let cause = match policy {
            "" => Cause::required(&field, "valid values: \"OnFailure\", \"Never\""),
            policy => Cause::not_supported(&field, &policy.into(), &["OnFailure", "Never"]),
        };
        causes.push(cause);
    }
}

fn cron_job(object: &Value, causes: &mut Causes) {
    let name = object::name(object);
    if name.len() > 52 {
        let why = "must be no more than 52 characters";
        causes.extend(named("metadata.name", name, vec![why.into()]));
    }
    if object::text(object, &["spec", "schedule"]).is_empty() {
        causes.push(Cause::required("spec.schedule", ""));
    }
    let known = ["Allow", "Forbid", "Replace"];
    let path = ["spec", "concurrencyPolicy"];
    one_of(object, &path, "spec.concurrencyPolicy", &known, causes);
    job(object, "spec.jobTemplate.spec", causes);
}

/// What stays as it was made.
pub(super) fn update(kind: &str, old: &Value, new: &Value) -> Causes {
    match kind {
        "Deployment" | "ReplicaSet" | "DaemonSet" => unchanged(old, new, &["spec", "selector"]),
        "StatefulSet" => stateful_set_update(old, new),
        "Job" => {
            let mut causes = unchanged(old, new, &["spec", "selector"]);
            if object::at(old, &["spec", "suspend"]) != Some(&Value::Bool(true)) {
                causes.extend(unchanged(old, new, &["spec", "template"]));
            }
            if object::text(new, &["spec", "completionMode"]) != "Indexed" {
                causes.extend(unchanged(old, new, &["spec", "completions"]));
            }
            causes
        }
        "ControllerRevision" => unchanged(old, new, &["data"]),
        _ => Causes::default(),
    }
}

fn stateful_set_update(old: &Value, new: &Value) -> Causes {
    let free = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |object: &Value| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        if let Some(spec) = spec.as_object_mut() {
            spec.retain(|key, _| !free.contains(&key.as_str()));
        }
        spec
    };
    match fixed(old) == fixed(new) {
        true => Causes::default(),
        false => Causes::from(Cause::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        )),
    }
}

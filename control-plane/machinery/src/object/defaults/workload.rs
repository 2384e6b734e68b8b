//! Defaults of the workloads that create pods: deployments, sets, jobs, and their autoscaler.

use serde_json::{Value, json};

use super::{below, default, default_absent, default_at, each, has, made, pod, text};

pub(super) fn deployment(object: &mut Value) {
    let spec = made(object, &["spec"]);
    default(spec, "replicas", 1);
    default_at(spec, &["strategy"], "type", "RollingUpdate");
    if spec["strategy"]["type"] == "RollingUpdate" {
        default_at(
            spec,
            &["strategy", "rollingUpdate"],
            "maxUnavailable",
            "25%",
        );
        default_at(spec, &["strategy", "rollingUpdate"], "maxSurge", "25%");
    }
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    pod::template(made(spec, &["template"]));
}

pub(super) fn replica_set(object: &mut Value) {
    let spec = made(object, &["spec"]);
    default(spec, "replicas", 1);
    pod::template(made(spec, &["template"]));
}

pub(super) fn replication_controller(object: &mut Value) {
    let labels = object.pointer("/spec/template/metadata/labels").cloned();
    if let Some(labels) = labels {
        default_at(object, &["spec"], "selector", labels.clone());
        default_at(object, &["metadata"], "labels", labels);
    }
    default_at(object, &["spec"], "replicas", 1);
    below(object, &["spec", "template"], pod::template);
}

pub(super) fn stateful_set(object: &mut Value) {
    let spec = made(object, &["spec"]);
    default(spec, "replicas", 1);
    default(spec, "podManagementPolicy", "OrderedReady");
    default(spec, "revisionHistoryLimit", 10);
    let strategy = made(spec, &["updateStrategy"]);
    if text(strategy, "type").is_empty() {
        default(strategy, "type", "RollingUpdate");
        default(strategy, "rollingUpdate", json!({}));
    }
    if strategy["type"] == "RollingUpdate" {
        below(strategy, &["rollingUpdate"], |update| {
            default(update, "partition", 0)
        });
    }
    for when in ["whenDeleted", "whenScaled"] {
        default_at(
            spec,
            &["persistentVolumeClaimRetentionPolicy"],
            when,
            "Retain",
        );
    }
    each(spec, &["volumeClaimTemplates"], super::cluster::claim);
    pod::template(made(spec, &["template"]));
}

pub(super) fn daemon_set(object: &mut Value) {
    let spec = made(object, &["spec"]);
    default(spec, "revisionHistoryLimit", 10);
    default_at(spec, &["updateStrategy"], "type", "RollingUpdate");
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        default_at(
            spec,
            &["updateStrategy", "rollingUpdate"],
            "maxUnavailable",
            1,
        );
        default_at(spec, &["updateStrategy", "rollingUpdate"], "maxSurge", 0);
    }
    pod::template(made(spec, &["template"]));
}

pub(super) fn job(object: &mut Value) {
    let labels = object.pointer("/spec/template/metadata/labels").cloned();
    if let Some(labels) = labels {
        default_at(object, &["metadata"], "labels", labels);
    }
    let spec = made(object, &["spec"]);
    if !has(spec, "parallelism") && !has(spec, "completions") {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    let unlimited = has(spec, "backoffLimitPerIndex");
    default(spec, "backoffLimit", if unlimited { i32::MAX } else { 6 });
    default_absent(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    default(spec, "manualSelector", false);
    let replace = if has(spec, "podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    default_absent(spec, "podReplacementPolicy", replace);
    failure_policy(spec);
    pod::template(made(spec, &["template"]));
}

pub(super) fn cron_job(object: &mut Value) {
    let spec = made(object, &["spec"]);
    default(spec, "concurrencyPolicy", "Allow");
    default(spec, "suspend", false);
    default(spec, "successfulJobsHistoryLimit", 3);
    default(spec, "failedJobsHistoryLimit", 1);
    // The job's own defaults are filled in only when the job is created.
    let job = made(spec, &["jobTemplate", "spec"]);
    failure_policy(job);
    pod::template(made(job, &["template"]));
}

fn failure_policy(spec: &mut Value) {
    each(spec, &["podFailurePolicy", "rules"], |rule| {
        each(rule, &["onPodConditions"], |one| {
            default(one, "status", "True")
        });
    });
}

pub(super) fn autoscaler(object: &mut Value) {
    let first = object
        .get("apiVersion")
        .is_some_and(|version| version == "autoscaling/v1");
    let spec = made(object, &["spec"]);
    default(spec, "minReplicas", 1);
    if first {
        return;
    }
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    let cpu = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
    if spec
        .get("metrics")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
    {
        spec["metrics"] = cpu;
    }
    below(spec, &["behavior"], |behavior| {
        let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        let up = made(behavior, &["scaleUp"]);
        default(up, "stabilizationWindowSeconds", 0);
        default_absent(up, "selectPolicy", "Max");
        default(up, "policies", json!([pods, percent]));
        let down = made(behavior, &["scaleDown"]);
        default_absent(down, "selectPolicy", "Max");
        default(down, "policies", json!([percent]));
    });
}

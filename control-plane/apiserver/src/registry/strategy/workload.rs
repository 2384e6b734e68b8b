//! Workloads: apps, batch, autoscaling and policy.

use machinery::{conversion, name, object};
use serde_json::Value;

use super::{DEFAULT, Generation, Kept, Strategy, UnknownField, job, warnings};
use crate::registry::printers;
use crate::resources::convert;
use crate::resources::fields::field;
use crate::validate::{self, Rules, words::status};

/// Annotation with the number of changes of a daemon set's template.
const TEMPLATE_NUMBER: &str = "deprecated.daemonset.template.generation";
const TEMPLATE: &[&str] = &["spec", "template", "spec"];

pub(super) const ROWS: &[Strategy] = &[
    Strategy {
        group: "apps",
        resource: "controllerrevisions",
        columns: &printers::workload::CONTROLLER_REVISION,
        rules: Rules {
            validate: validate::workloads::workload::revision,
            validate_create: validate::workloads::workload::new_revision,
            validate_update: |old, new| {
                validate::workloads::workload::update("ControllerRevision", old, new)
            },
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "apps",
        resource: "daemonsets",
        columns: &printers::workload::DAEMON_SET,
        pod_spec: TEMPLATE,
        warnings: warnings::of_daemon_set,
        generation: Generation::OfSpec,
        complete_empty: |set| number_template(set, 0),
        annotations_of_whole: &[TEMPLATE_NUMBER],
        prepare_for_create: |set| number_template(set, 1),
        prepare_for_update: count_template,
        prepare_for_status_update: |old, new| number_template(new, template_number(old)),
        rules: Rules {
            validate_given: |old, object| {
                validate::workloads::workload::check("DaemonSet", old, object)
            },
            validate_update: |old, new| {
                validate::workloads::workload::update("DaemonSet", old, new)
            },
            validate_subresource_update: |_, old, new| status::check(&status::DAEMON_SET, old, new),
            changes_first: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "apps",
        resource: "deployments",
        resets: &[(
            "status",
            Kept::Fields(&[&["metadata", "labels"], &["spec"]]),
        )],
        columns: &printers::workload::DEPLOYMENT,
        pod_spec: TEMPLATE,
        warnings: warnings::of_replicas,
        // Its replica sets inherit its annotations, so its controller must see their changes.
        generation: Generation::OfSpecAndAnnotations,
        complete_empty: no_replicas,
        rules: Rules {
            validate_given: |old, object| {
                validate::workloads::workload::check("Deployment", old, object)
            },
            validate_update: |old, new| {
                validate::workloads::workload::update("Deployment", old, new)
            },
            validate_subresource_update: |_, old, new| status::check(&status::DEPLOYMENT, old, new),
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "apps",
        resource: "replicasets",
        columns: &printers::workload::REPLICA_SET,
        pod_spec: TEMPLATE,
        warnings: warnings::of_replicas,
        generation: Generation::OfSpec,
        complete_empty: no_replicas,
        rules: Rules {
            validate_given: |old, object| {
                validate::workloads::workload::check("ReplicaSet", old, object)
            },
            validate_update: |old, new| {
                validate::workloads::workload::update("ReplicaSet", old, new)
            },
            validate_subresource_update: |_, old, new| {
                status::check(&status::REPLICA_SET, old, new)
            },
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "apps",
        resource: "statefulsets",
        columns: &printers::workload::STATEFUL_SET,
        pod_spec: TEMPLATE,
        generation: Generation::OfSpec,
        complete_empty: no_replicas,
        warnings: warnings::of_stateful_set,
        prepare_for_create: |set| without_unavailable(None, set),
        prepare_for_update: |old, set| without_unavailable(Some(old), set),
        rules: Rules {
            // Its name is part of the names and host names of its pods.
            name: name::dns1123_label,
            validate_given: |old, object| {
                validate::workloads::workload::check("StatefulSet", old, object)
            },
            validate_create: validate::workloads::workload::new_stateful_set,
            validate_update: |old, new| {
                validate::workloads::workload::update("StatefulSet", old, new)
            },
            validate_subresource_update: |_, old, new| {
                status::check(&status::STATEFUL_SET, old, new)
            },
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "batch",
        resource: "cronjobs",
        columns: &printers::workload::CRON_JOB,
        pod_spec: &["spec", "jobTemplate", "spec", "template", "spec"],
        warnings: warnings::of_cron_job,
        generation: Generation::OfSpec,
        rules: Rules {
            validate_given: validate::workloads::job::cron_job,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "batch",
        resource: "jobs",
        selectable: &[field("status.successful")
            .at("status.succeeded")
            .missing("0")],
        columns: &printers::workload::JOB,
        pod_spec: TEMPLATE,
        warnings: warnings::of_job,
        generation: Generation::OfSpec,
        orphans_dependents: true,
        warning_on_delete: Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
        ),
        labels_with_status: true,
        prepare_for_create: job::prepare_for_create,
        borrows_labels: true,
        rules: Rules {
            validate_given: validate::workloads::job::job,
            validate_update: validate::workloads::job::update,
            validate_subresource_update: |_, old, new| {
                let mut causes = status::check(&status::JOB, old, new);
                causes.extend(validate::workloads::job::status(old, new));
                causes
            },
            ..Rules::DEFAULT
        },
        unknown_field: UnknownField::NotSupportedFor("Job"),
        ..DEFAULT
    },
    Strategy {
        group: "autoscaling",
        resource: "horizontalpodautoscalers",
        conversions: &[("v1", convert::AUTOSCALER_V1)],
        annotations_of_whole: &conversion::autoscaler::OURS,
        columns: &printers::workload::HORIZONTAL_POD_AUTOSCALER,
        labels_with_status: true,
        prepare_for_create: |autoscaler| conversion::autoscaler::keep_status(None, autoscaler),
        prepare_for_update: |old, new| conversion::autoscaler::keep_status(Some(old), new),
        prepare_for_status_update: conversion::autoscaler::keep_spec,
        rules: Rules {
            validate_given: validate::workloads::autoscaler::check,
            validate_subresource_update: |_, old, new| status::check(&status::AUTOSCALER, old, new),
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "policy",
        resource: "poddisruptionbudgets",
        columns: &printers::workload::POD_DISRUPTION_BUDGET,
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        rules: Rules {
            name: name::path_segment,
            validate_given: validate::workloads::policy::budget,
            validate_subresource_update: |_, _, new| validate::workloads::policy::status(new),
            any_finalizer: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
];

/// The number of replicas is no pointer inside Kubernetes, so that it is never missing there.
fn no_replicas(object: &mut Value) {
    object::set(object, &["spec", "replicas"], 0.into());
}

/// Sets replace their pods one by one as long as the feature to replace several is off.
fn without_unavailable(old: Option<&Value>, set: &mut Value) {
    let path = ["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"];
    if old.is_none_or(|old| object::at(old, &path).is_none()) {
        object::remove(set, &path);
    }
}

/// Counts the changes of a daemon set's template.
fn count_template(old: &Value, new: &mut Value) {
    let template = |object| object::at(object, &["spec", "template"]);
    let changes = i64::from(template(old) != template(new));
    number_template(new, template_number(old) + changes);
}

fn template_number(set: &Value) -> i64 {
    let number = object::annotation(set, TEMPLATE_NUMBER);
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Writes the number of the template for clients of an older API.
fn number_template(set: &mut Value, number: i64) {
    let path = ["metadata", "annotations", TEMPLATE_NUMBER];
    object::set(set, &path, number.to_string().into());
}

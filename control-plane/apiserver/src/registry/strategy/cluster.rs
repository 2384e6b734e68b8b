//! Kinds of the cluster, in a table for each subject. Leases, events, devices, runtime and priority
//! classes are in this file.

mod access;
mod extension;
mod networking;
mod storage;

use machinery::object;
use serde_json::Value;

use super::{DEFAULT, Generation, STATUS_ALONE, Stored, Strategy, UnknownField, devices};
use crate::registry::printers;
use crate::resources::convert;
use crate::resources::fields::field;
use crate::validate::{self, Rules};

/// All rows.
pub(super) fn rows() -> impl Iterator<Item = &'static Strategy> {
    [
        access::ROWS,
        extension::ROWS,
        networking::ROWS,
        storage::ROWS,
        ROWS,
    ]
    .into_iter()
    .flatten()
}

/// Kinds that are of none of the subjects.
const ROWS: &[Strategy] = &[
    Strategy {
        group: "coordination.k8s.io",
        resource: "leases",
        columns: &printers::config::LEASE,
        allow_create_on_update: true,
        allow_unconditional_update: false,
        prepare_for_create: without_strategy,
        prepare_for_update: |_, lease| without_strategy(lease),
        rules: Rules {
            validate: validate::cluster::config::lease,
            any_finalizer: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "events.k8s.io",
        resource: "events",
        selectable: &[
            field("regarding.kind"),
            field("regarding.namespace"),
            field("regarding.name"),
            field("regarding.uid"),
            field("regarding.apiVersion"),
            field("regarding.resourceVersion"),
            field("regarding.fieldPath"),
            field("reason"),
            field("reportingController"),
            field("type"),
        ],
        stored: Stored::WithCore,
        conversions: &[("v1", convert::EVENT)],
        columns: &printers::config::EVENT,
        allow_create_on_update: true,
        has_no_dependents: true,
        rules: Rules {
            validate: |event| validate::cluster::event::check(event, true),
            // The newer form of events has rules that the older one does not have.
            validate_create: validate::cluster::event::new,
            validate_update: validate::cluster::event::update,
            ..Rules::DEFAULT
        },
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
    Strategy {
        group: "node.k8s.io",
        resource: "runtimeclasses",
        decides_about_requests: true,
        columns: &printers::config::RUNTIME_CLASS,
        allow_create_on_update: true,
        allow_unconditional_update: false,
        rules: Rules {
            validate: validate::workloads::runtime_class::check,
            validate_update: validate::workloads::runtime_class::update,
            any_finalizer: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "resource.k8s.io",
        resource: "deviceclasses",
        generation: Generation::OfSpec,
        returns_deleted_object: true,
        without_effect: |_| Some("devices are not allocated"),
        rules: Rules {
            name: validate::devices::class_name,
            validate: validate::devices::class,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "resource.k8s.io",
        resource: "resourceclaims",
        columns: &printers::devices::RESOURCE_CLAIM,
        resets: STATUS_ALONE,
        returns_deleted_object: true,
        without_effect: |_| Some("devices are not allocated"),
        prepare_for_status_update: devices::drop_deallocated,
        rules: Rules {
            validate_create: validate::devices::claim,
            validate_update: validate::devices::unchanged,
            validate_subresource_update: validate::devices::status,
            needs_admin_access: validate::devices::admin::of_claim,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "resource.k8s.io",
        resource: "resourceclaimtemplates",
        returns_deleted_object: true,
        without_effect: |_| Some("devices are not allocated"),
        rules: Rules {
            validate: validate::devices::template,
            validate_update: validate::devices::unchanged,
            needs_admin_access: validate::devices::admin::of_template,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "resource.k8s.io",
        resource: "resourceslices",
        columns: &printers::devices::RESOURCE_SLICE,
        selectable: &[field("spec.nodeName"), field("spec.driver")],
        generation: Generation::OfSentSpec,
        unknown_field: UnknownField::OfKind("resource.k8s.io/v1, Kind=ResourceSlice"),
        prepare_for_create: devices::prepare,
        prepare_for_update: devices::prepare_update,
        returns_deleted_object: true,
        without_effect: |_| Some("devices are not allocated"),
        rules: Rules {
            validate: validate::devices::slice,
            validate_update: validate::devices::slice_update,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "scheduling.k8s.io",
        resource: "priorityclasses",
        decides_about_requests: true,
        columns: &printers::config::PRIORITY_CLASS,
        generation: Generation::OfCreation,
        rules: Rules {
            validate_create: validate::workloads::priority::check,
            validate_update: validate::workloads::priority::update,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
];

/// Leases have no strategy of election until the feature that acts on it is on by default.
fn without_strategy(lease: &mut Value) {
    for key in ["strategy", "preferredHolder"] {
        object::remove(lease, &["spec", key]);
    }
}

//! Kinds of storage: its drivers, classes and attachments.

use machinery::object;
use serde_json::Value;

use crate::registry::printers;
use crate::registry::strategy::{DEFAULT, Generation, STATUS_ALONE, Strategy, warnings};
use crate::validate::{self, Rules};

pub(super) const ROWS: &[Strategy] = &[
    Strategy {
        group: "storage.k8s.io",
        resource: "csidrivers",
        columns: &printers::storage::CSI_DRIVER,
        allow_unconditional_update: false,
        returns_deleted_object: true,
        generation: Generation::OfUpdates,
        prepare_for_create: |driver| without_scheduling(None, driver),
        prepare_for_update: |old, driver| without_scheduling(Some(old), driver),
        rules: Rules {
            validate: validate::cluster::csi::driver,
            validate_update: validate::cluster::csi::driver_update,
            ..Rules::DEFAULT
        },
        warnings: warnings::of_driver,
        ..DEFAULT
    },
    Strategy {
        group: "storage.k8s.io",
        resource: "csinodes",
        columns: &printers::storage::CSI_NODE,
        allow_unconditional_update: false,
        returns_deleted_object: true,
        rules: Rules {
            validate: validate::cluster::csi::node,
            validate_update: validate::cluster::csi::node_update,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "storage.k8s.io",
        resource: "csistoragecapacities",
        columns: &printers::CREATED_AT,
        rules: Rules {
            validate_given: validate::cluster::csi::capacity,
            validate_update: validate::cluster::csi::capacity_update,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "storage.k8s.io",
        resource: "storageclasses",
        decides_about_requests: true,
        columns: &printers::storage::STORAGE_CLASS,
        returns_deleted_object: true,
        rules: Rules {
            validate: validate::cluster::storage::class,
            validate_update: validate::cluster::storage::class_update,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "storage.k8s.io",
        resource: "volumeattachments",
        columns: &printers::storage::VOLUME_ATTACHMENT,
        resets: STATUS_ALONE,
        allow_unconditional_update: false,
        returns_deleted_object: true,
        rules: Rules {
            validate: validate::cluster::csi::attachment,
            validate_update: validate::cluster::csi::attachment_update,
            validate_subresource_update: |_, _, new| validate::cluster::csi::attachment(new),
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "storage.k8s.io",
        resource: "volumeattributesclasses",
        columns: &printers::storage::VOLUME_ATTRIBUTES_CLASS,
        returns_deleted_object: true,
        rules: Rules {
            validate: validate::cluster::csi::attributes_class,
            validate_update: validate::cluster::csi::attributes_class_update,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
];

/// Drivers have no say in scheduling until the feature that acts on it is on by default.
fn without_scheduling(old: Option<&Value>, driver: &mut Value) {
    let path = ["spec", "preventPodSchedulingIfMissing"];
    if old.is_none_or(|old| object::at(old, &path).is_none()) {
        object::remove(driver, &path);
    }
}

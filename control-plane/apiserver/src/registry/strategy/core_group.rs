//! The core group.

use machinery::{name, object};
use serde_json::{Value, json};

use super::{DEFAULT, Deletion, Generation, Strategy, UnknownField, namespace, pod};
use crate::validate::{self, Rules, status};

pub(super) const ROWS: &[Strategy] = &[
    Strategy {
        resource: "bindings",
        binds_pods: true,
        ..DEFAULT
    },
    Strategy {
        resource: "componentstatuses",
        warnings_on_create: |_| Some("v1 ComponentStatus is deprecated in v1.19+".into()),
        ..DEFAULT
    },
    Strategy {
        resource: "configmaps",
        rules: Rules {
            validate: validate::config::config_map,
            validate_update: |old, new| validate::config::immutable("ConfigMap", old, new),
            changes_first: true,
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        resource: "endpoints",
        allow_create_on_update: true,
        rules: Rules {
            validate: validate::endpoints::endpoints,
            ..Rules::DEFAULT
        },
        warnings_on_create: |_| {
            let why = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
            Some(why.into())
        },
        ..DEFAULT
    },
    Strategy {
        resource: "events",
        allow_create_on_update: true,
        expires: true,
        rules: Rules {
            name: name::path_segment,
            validate: |event| validate::event::check(event, false),
            ..Rules::DEFAULT
        },
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
    Strategy {
        resource: "limitranges",
        allow_create_on_update: true,
        rules: Rules {
            validate: validate::quota::limit_range,
            ..Rules::DEFAULT
        },
        without_effect: |_| Some("its limits and defaults are not applied"),
        ..DEFAULT
    },
    Strategy {
        resource: "namespaces",
        deletion: Deletion::AfterContent,
        prepare_for_create: namespace::prepare_for_create,
        prepare_for_update: namespace::prepare_for_update,
        subresources: &[("finalize", namespace::finalize)],
        rules: Rules {
            name: name::dns1123_label,
            validate: validate::node::namespace,
            validate_subresource_update: |_, old, new| validate::node::namespace_status(old, new),
            ..Rules::DEFAULT
        },
        without_effect: namespace::without_effect,
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
    Strategy {
        resource: "nodes",
        keeps_status_on_create: true,
        rules: Rules {
            validate: validate::node::node,
            validate_update: validate::node::node_update,
            validate_subresource_update: |_, old, new| {
                let mut causes = validate::node::status(new);
                causes.extend(validate::node::node_update(old, new));
                causes
            },
            ..Rules::DEFAULT
        },
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
    Strategy {
        resource: "persistentvolumeclaims",
        returns_deleted_object: true,
        prepare_for_create: pending,
        rules: Rules {
            validate: validate::storage::claim,
            validate_update: validate::storage::claim_update,
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        resource: "persistentvolumes",
        returns_deleted_object: true,
        prepare_for_create: pending,
        rules: Rules {
            validate: validate::storage::volume,
            validate_update: validate::storage::volume_update,
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        resource: "pods",
        generation: Generation::OfSpec,
        returns_deleted_object: true,
        deletion: Deletion::Gracefully,
        prepare_for_create: pod::prepare_for_create,
        subresources: &[
            ("ephemeralcontainers", pod::ephemeral_containers),
            ("resize", pod::resize),
        ],
        rules: Rules {
            validate: validate::pod::pod,
            validate_create: validate::pod::created,
            validate_update: validate::pod::update,
            validate_subresource_update: validate::pod::subresource_update,
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        warnings_on_create: pod::warnings_on_create,
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
    Strategy {
        resource: "podtemplates",
        generation: Generation::OfSpec,
        returns_deleted_object: true,
        rules: Rules {
            validate: |object| validate::pod::template(object, "template"),
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        resource: "replicationcontrollers",
        generation: Generation::OfSpec,
        orphans_dependents: true,
        has_plain_selector: true,
        rules: Rules {
            validate: |object| validate::workload::check("ReplicationController", object),
            validate_subresource_update: |_, old, new| {
                status::check(&status::REPLICA_SET, old, new)
            },
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        resource: "resourcequotas",
        returns_deleted_object: true,
        rules: Rules {
            validate: validate::quota::quota,
            validate_update: validate::quota::quota_update,
            validate_subresource_update: |_, _, new| validate::quota::quota_status(new),
            ..Rules::DEFAULT
        },
        without_effect: |_| Some("its limits are not enforced"),
        ..DEFAULT
    },
    Strategy {
        resource: "secrets",
        rules: Rules {
            validate: validate::config::secret,
            validate_update: |old, new| validate::config::immutable("Secret", old, new),
            changes_first: true,
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
    Strategy {
        resource: "serviceaccounts",
        returns_deleted_object: true,
        rules: Rules {
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        resource: "services",
        allow_create_on_update: true,
        returns_deleted_object: true,
        allocates: true,
        rules: Rules {
            name: name::dns1123_label,
            validate: validate::network::service,
            validate_update: validate::network::service_update,
            changes_first: true,
            ..Rules::DEFAULT
        },
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
];

/// Volumes and claims start unbound.
fn pending(object: &mut Value) {
    object::set(object, &["status"], json!({"phase": "Pending"}));
}

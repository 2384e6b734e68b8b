//! The core group.

use machinery::{name, object};
use serde_json::{Value, json};

use super::{
    DEFAULT, Deletion, Generation, Kept, Stored, Strategy, UnknownField, claim, namespace, pod,
    tls, volume, warnings,
};
use crate::registry::printers;
use crate::resources::fields::field;
use crate::resources::hidden::Hidden;
use crate::validate::{self, Rules, words::status};

pub(super) const ROWS: &[Strategy] = &[
    Strategy {
        resource: "bindings",
        binds_pods: true,
        ..DEFAULT
    },
    Strategy {
        resource: "componentstatuses",
        columns: &printers::cluster::COMPONENT_STATUS,
        stored: Stored::Never,
        deprecated: Some("v1 ComponentStatus is deprecated in v1.19+"),
        ..DEFAULT
    },
    Strategy {
        resource: "configmaps",
        columns: &printers::config::CONFIG_MAP,
        rules: Rules {
            validate: validate::cluster::config::config_map,
            validate_update: |old, new| validate::cluster::config::immutable("ConfigMap", old, new),
            changes_first: true,
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        resource: "endpoints",
        folder: "services/endpoints",
        columns: &printers::cluster::ENDPOINTS,
        allow_create_on_update: true,
        rules: Rules {
            validate: validate::networking::endpoints::endpoints,
            ..Rules::DEFAULT
        },
        deprecated: Some(
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ),
        ..DEFAULT
    },
    Strategy {
        resource: "events",
        selectable: &[
            field("involvedObject.kind"),
            field("involvedObject.namespace"),
            field("involvedObject.name"),
            field("involvedObject.uid"),
            field("involvedObject.apiVersion"),
            field("involvedObject.resourceVersion"),
            field("involvedObject.fieldPath"),
            field("reason"),
            field("reportingComponent"),
            // Newer senders say who they are in another field.
            field("source")
                .at("source.component")
                .or("reportingComponent"),
            field("type"),
        ],
        columns: &printers::config::EVENT,
        allow_create_on_update: true,
        expires: true,
        has_no_dependents: true,
        rules: Rules {
            name: name::path_segment,
            validate: |event| validate::cluster::event::check(event, false),
            any_finalizer: true,
            ..Rules::DEFAULT
        },
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
    Strategy {
        resource: "limitranges",
        decides_about_requests: true,
        columns: &printers::CREATED_AT,
        allow_create_on_update: true,
        prepare_for_create: name_after_identity,
        rules: Rules {
            validate: validate::cluster::quota::limit_range,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        resource: "namespaces",
        resets: &[("finalize", Kept::Fields(&[&["status"]]))],
        selectable: &[field("status.phase")],
        columns: &printers::cluster::NAMESPACE,
        deletion: Deletion::AfterContent,
        prepare_for_create: namespace::prepare_for_create,
        prepare_for_update: namespace::prepare_for_update,
        subresources: &[("finalize", namespace::finalize)],
        rules: Rules {
            name: name::dns1123_label,
            validate: validate::cluster::node::namespace,
            validate_subresource_update: |_, old, new| {
                validate::cluster::node::namespace_status(old, new)
            },
            ..Rules::DEFAULT
        },
        // Its labels say which pods are admitted.
        decides_about_requests: true,
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
    Strategy {
        resource: "nodes",
        selectable: &[field("spec.unschedulable").missing("false")],
        folder: "minions",
        columns: &printers::cluster::NODE,
        keeps_status_on_create: true,
        prepare_for_create: |node| {
            without_config(CONFIG_SOURCE, None, node);
            without_config(CONFIG, None, node);
        },
        prepare_for_update: |old, node| without_config(CONFIG_SOURCE, Some(old), node),
        prepare_for_status_update: |old, node| without_config(CONFIG, Some(old), node),
        warnings: warnings::of_node,
        rules: Rules {
            validate: validate::cluster::node::node,
            validate_update: validate::cluster::node::node_update,
            validate_subresource_update: |_, old, new| {
                let mut causes = validate::cluster::node::status(new);
                causes.extend(validate::cluster::node::node_update(old, new));
                causes
            },
            ..Rules::DEFAULT
        },
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
    Strategy {
        resource: "persistentvolumeclaims",
        columns: &printers::storage::PERSISTENT_VOLUME_CLAIM,
        returns_deleted_object: true,
        warnings: warnings::of_claim,
        prepare_for_create: claim::prepare_for_create,
        prepare_for_update: claim::prepare_for_update,
        rules: Rules {
            validate_given: validate::cluster::storage::claim,
            validate_update: validate::cluster::storage::claim_update,
            validate_subresource_update: |_, _, new| validate::cluster::storage::claim_status(new),
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        resource: "persistentvolumes",
        columns: &printers::storage::PERSISTENT_VOLUME,
        warnings: warnings::of_volume,
        returns_deleted_object: true,
        prepare_for_create: volume::prepare_for_create,
        prepare_for_status_update: volume::date_phase,
        rules: Rules {
            validate_given: validate::cluster::storage::volume,
            validate_update: validate::cluster::storage::volume_update,
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        resource: "pods",
        resets: pod::RESETS,
        selectable: &[
            field("spec.nodeName"),
            field("spec.restartPolicy"),
            field("spec.schedulerName"),
            field("spec.serviceAccountName"),
            field("spec.hostNetwork").missing("false"),
            field("status.phase"),
            field("status.podIP"),
            field("status.podIPs").at("status.podIP"),
            field("status.nominatedNodeName"),
        ],
        columns: &printers::pod::POD,
        row_conditions: printers::pod::row_conditions,
        pod_spec: &["spec"],
        generation: Generation::OfSpec,
        returns_deleted_object: true,
        deletion: Deletion::Gracefully,
        prepare_for_create: pod::prepare_for_create,
        prepare_for_status_update: pod::prepare_status,
        subresources: &[
            ("ephemeralcontainers", pod::ephemeral_containers),
            ("resize", pod::resize),
        ],
        rules: Rules {
            validate_given: validate::workloads::pod::pod,
            validate_create: validate::workloads::pod::created,
            validate_update: validate::workloads::pod::update,
            validate_subresource_update: validate::workloads::pod::subresource_update,
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        early_warnings: warnings::of_profiles,
        warnings: warnings::of_pod,
        status_warnings: warnings::of_pod_status,
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
    Strategy {
        resource: "podtemplates",
        columns: &printers::workload::POD_TEMPLATE,
        pod_spec: &["template", "spec"],
        warnings: warnings::of_pod_template,
        generation: Generation::OfSpec,
        returns_deleted_object: true,
        rules: Rules {
            validate_given: validate::workloads::workload::pod_template,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        resource: "replicationcontrollers",
        selectable: &[field("status.replicas").missing("0")],
        folder: "controllers",
        columns: &printers::workload::REPLICA_SET,
        generation: Generation::OfSpec,
        orphans_dependents: true,
        has_plain_selector: true,
        pod_spec: &["spec", "template", "spec"],
        warnings: warnings::of_replicas,
        rules: Rules {
            validate_given: |old, object| {
                validate::workloads::workload::check("ReplicationController", old, object)
            },
            validate_subresource_update: |_, old, new| {
                status::check(&status::REPLICA_SET, old, new)
            },
            ..Rules::DEFAULT
        },
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
    Strategy {
        resource: "resourcequotas",
        decides_about_requests: true,
        columns: &printers::config::RESOURCE_QUOTA,
        returns_deleted_object: true,
        rules: Rules {
            validate: validate::cluster::quota::quota,
            validate_update: validate::cluster::quota::quota_update,
            validate_subresource_update: |_, _, new| validate::cluster::quota::quota_status(new),
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        resource: "secrets",
        selectable: &[field("type")],
        columns: &printers::config::SECRET,
        warnings: tls::warnings,
        rules: Rules {
            validate: validate::cluster::config::secret,
            validate_update: |old, new| validate::cluster::config::immutable("Secret", old, new),
            changes_first: true,
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
    Strategy {
        resource: "serviceaccounts",
        prepare_for_create: name_secrets,
        prepare_for_update: |_, account| name_secrets(account),
        warnings: warnings::of_account,
        returns_deleted_object: true,
        rules: Rules {
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        resource: "services",
        warnings: warnings::of_service,
        status_warnings: warnings::of_balancer,
        selectable: &[field("spec.clusterIP"), field("spec.type")],
        // No traffic comes from within to a name outside of the cluster.
        hides: Some(Hidden {
            field: &["spec", "internalTrafficPolicy"],
            by: (&["spec", "type"], "ExternalName"),
        }),
        folder: "services/specs",
        columns: &printers::cluster::SERVICE,
        allow_create_on_update: true,
        returns_deleted_object: true,
        allocates: true,
        rules: Rules {
            name: name::dns1123_label,
            validate_create: |service| validate::networking::network::service(None, service),
            validate_update: validate::networking::network::service_update,
            validate_subresource_update: |_, old, new| {
                validate::networking::balancer::service_status(old, new)
            },
            ..Rules::DEFAULT
        },
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
];

/// A range of limits without a name is called like its identity.
fn name_after_identity(range: &mut Value) {
    if object::name(range).is_empty() {
        let uid = object::uid(range).to_owned();
        object::metadata_mut(range).insert("name".into(), uid.into());
    }
}

/// An account names its secrets, and nothing else about them.
fn name_secrets(account: &mut Value) {
    let secrets = account.get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten() {
        let name = secret.get("name").cloned();
        *secret = name.map_or_else(|| json!({}), |name| json!({ "name": name }));
    }
}

/// The agents of nodes no longer read their configuration from the cluster.
fn without_config(path: &[&str], old: Option<&Value>, node: &mut Value) {
    if old.is_none_or(|old| object::at(old, path).is_none()) {
        object::remove(node, path);
    }
}

const CONFIG_SOURCE: &[&str] = &["spec", "configSource"];
const CONFIG: &[&str] = &["status", "config"];

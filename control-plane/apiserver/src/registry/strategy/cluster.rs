//! Kinds of the cluster: roles, storage, networks and API extensions.

use machinery::{name, object};
use serde_json::Value;

use super::{
    DEFAULT, Deletion, Generation, Kept, STATUS_ALONE, Stored, Strategy, UnknownField, devices,
    slice, warnings,
};
use crate::registry::printers;
use crate::registry::{api_service, definition, verbs::certificate_request};
use crate::resources::convert;
use crate::resources::fields::field;
use crate::validate::{self, Rules};

pub(super) const ROWS: &[Strategy] = &[
    Strategy {
        group: "admissionregistration.k8s.io",
        resource: "mutatingadmissionpolicies",
        columns: &printers::config::MUTATING_POLICY,
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        decides_about_requests: true,
        rules: Rules {
            validate: validate::extension::policies::mutating,
            any_finalizer: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "admissionregistration.k8s.io",
        resource: "mutatingadmissionpolicybindings",
        columns: &printers::config::POLICY_BINDING,
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        decides_about_requests: true,
        rules: Rules {
            validate: validate::extension::policies::mutating_binding,
            any_finalizer: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "admissionregistration.k8s.io",
        resource: "mutatingwebhookconfigurations",
        columns: &printers::config::WEBHOOK_CONFIGURATION,
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        decides_about_requests: true,
        rules: Rules {
            validate: validate::extension::webhook::configuration,
            any_finalizer: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "admissionregistration.k8s.io",
        resource: "validatingadmissionpolicies",
        columns: &printers::config::VALIDATING_POLICY,
        resets: STATUS_ALONE,
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        decides_about_requests: true,
        rules: Rules {
            validate: validate::extension::policies::validating,
            any_finalizer: true,
            validate_subresource_update: |_, _, new| validate::extension::policies::status(new),
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "admissionregistration.k8s.io",
        resource: "validatingadmissionpolicybindings",
        columns: &printers::config::POLICY_BINDING,
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        decides_about_requests: true,
        rules: Rules {
            validate: validate::extension::policies::validating_binding,
            any_finalizer: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "admissionregistration.k8s.io",
        resource: "validatingwebhookconfigurations",
        columns: &printers::config::WEBHOOK_CONFIGURATION,
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        decides_about_requests: true,
        rules: Rules {
            validate: validate::extension::webhook::configuration,
            any_finalizer: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "apiextensions.k8s.io",
        resource: "customresourcedefinitions",
        resets: STATUS_ALONE,
        stored: Stored::UnderGroup,
        columns: &printers::CREATED_AT,
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        deletion: Deletion::AfterInstances,
        warnings: warnings::of_definition,
        prepare_for_create: definition::prepare_for_create,
        prepare_for_update: definition::prepare_for_update,
        rules: Rules {
            validate_create: validate::extension::definition::check_create,
            validate_update: validate::extension::definition::check_update,
            any_finalizer: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "apiregistration.k8s.io",
        resource: "apiservices",
        resets: STATUS_ALONE,
        stored: Stored::UnderGroup,
        columns: &printers::config::API_SERVICE,
        repeats_columns: true,
        keeps_status_on_create: true,
        prepare_for_create: api_service::prepare_for_create,
        rules: Rules {
            name: machinery::name::path_segment,
            validate: validate::extension::api_service::check,
            any_finalizer: true,
            validate_subresource_update: |_, _, new| validate::extension::api_service::status(new),
            ..Rules::DEFAULT
        },
        without_effect: |service| {
            (!api_service::is_remote(service)).then_some("requests are not passed on to it")
        },
        ..DEFAULT
    },
    Strategy {
        group: "certificates.k8s.io",
        resource: "certificatesigningrequests",
        resets: &[
            ("", Kept::Fields(&[&["spec"], &["status"]])),
            (
                "status",
                Kept::Fields(&[&["spec"], &["status", "conditions"]]),
            ),
            (
                "approval",
                Kept::Fields(&[&["spec"], &["status", "certificate"]]),
            ),
        ],
        selectable: &[field("spec.signerName")],
        columns: &printers::config::CERTIFICATE_SIGNING_REQUEST,
        set_requester: certificate_request::set_requester,
        prepare_for_update: certificate_request::keep_spec,
        subresources: &[
            ("approval", certificate_request::update_approval),
            ("status", certificate_request::update_status),
        ],
        rules: Rules {
            name: name::path_segment,
            validate_create: validate::access::certificate::check,
            validate_update: |old, new| validate::access::certificate::update("", old, new),
            validate_subresource_update: validate::access::certificate::update,
            ..Rules::DEFAULT
        },
        unknown_field: UnknownField::NotSupported,
        ..DEFAULT
    },
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
        group: "discovery.k8s.io",
        resource: "endpointslices",
        columns: &printers::cluster::ENDPOINT_SLICE,
        generation: Generation::OfLabels,
        prepare_for_create: slice::prepare_for_create,
        prepare_for_update: slice::prepare_for_update,
        warnings: warnings::of_slice,
        rules: Rules {
            validate: validate::networking::endpoints::slice,
            validate_update: validate::networking::endpoints::slice_update,
            checks_name_again: true,
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
        group: "flowcontrol.apiserver.k8s.io",
        resource: "flowschemas",
        resets: STATUS_ALONE,
        columns: &printers::config::FLOW_SCHEMA,
        rows_by: &["spec", "matchingPrecedence"],
        generation: Generation::OfSpec,
        decides_about_requests: true,
        rules: Rules {
            validate: validate::extension::flow::schema,
            validate_subresource_update: |_, _, new| validate::extension::flow::status(new),
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "flowcontrol.apiserver.k8s.io",
        resource: "prioritylevelconfigurations",
        resets: STATUS_ALONE,
        columns: &printers::config::PRIORITY_LEVEL,
        generation: Generation::OfSpec,
        decides_about_requests: true,
        rules: Rules {
            validate: validate::extension::flow::level,
            validate_subresource_update: |_, _, new| validate::extension::flow::status(new),
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "networking.k8s.io",
        resource: "ingressclasses",
        decides_about_requests: true,
        columns: &printers::cluster::INGRESS_CLASS,
        generation: Generation::OfSpec,
        rules: Rules {
            validate: validate::networking::policy::ingress_class,
            validate_update: validate::networking::policy::ingress_class_update,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "networking.k8s.io",
        resource: "ingresses",
        folder: "ingress",
        columns: &printers::cluster::INGRESS,
        generation: Generation::OfSpec,
        rules: Rules {
            validate: validate::networking::ingress::check,
            validate_subresource_update: |_, _, new| validate::networking::balancer::status(new),
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "networking.k8s.io",
        resource: "ipaddresses",
        columns: &printers::cluster::IP_ADDRESS,
        rules: Rules {
            name: validate::words::address::name,
            validate: validate::networking::policy::address,
            validate_update: validate::networking::policy::address_update,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "networking.k8s.io",
        resource: "networkpolicies",
        columns: &printers::cluster::NETWORK_POLICY,
        generation: Generation::OfSpec,
        rules: Rules {
            validate: validate::networking::policy::policy,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "networking.k8s.io",
        resource: "servicecidrs",
        resets: STATUS_ALONE,
        columns: &printers::cluster::SERVICE_CIDR,
        rules: Rules {
            validate_create: validate::networking::service_range::check,
            validate_update: validate::networking::service_range::update,
            ..Rules::DEFAULT
        },
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
        group: "rbac.authorization.k8s.io",
        resource: "clusterrolebindings",
        columns: &printers::config::ROLE_BINDING,
        allow_create_on_update: true,
        rules: Rules {
            name: name::path_segment,
            validate: |object| validate::access::rbac::check("ClusterRoleBinding", object),
            validate_update: validate::access::rbac::update,
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "rbac.authorization.k8s.io",
        resource: "clusterroles",
        columns: &printers::CREATED_AT,
        allow_create_on_update: true,
        rules: Rules {
            name: name::path_segment,
            validate: |object| validate::access::rbac::check("ClusterRole", object),
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "rbac.authorization.k8s.io",
        resource: "rolebindings",
        columns: &printers::config::ROLE_BINDING,
        allow_create_on_update: true,
        rules: Rules {
            name: name::path_segment,
            validate: |object| validate::access::rbac::check("RoleBinding", object),
            validate_update: validate::access::rbac::update,
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "rbac.authorization.k8s.io",
        resource: "roles",
        columns: &printers::CREATED_AT,
        allow_create_on_update: true,
        rules: Rules {
            name: name::path_segment,
            validate: |object| validate::access::rbac::check("Role", object),
            checks_name_again: true,
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
        ..DEFAULT
    },
    Strategy {
        group: "resource.k8s.io",
        resource: "resourceclaims",
        resets: STATUS_ALONE,
        returns_deleted_object: true,
        without_effect: |_| Some("devices are not allocated"),
        rules: Rules {
            validate: validate::workloads::devices::claim,
            validate_update: validate::workloads::devices::unchanged,
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
            validate: validate::workloads::devices::template,
            validate_update: validate::workloads::devices::unchanged,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "resource.k8s.io",
        resource: "resourceslices",
        selectable: &[field("spec.nodeName"), field("spec.driver")],
        generation: Generation::OfSpec,
        prepare_for_create: devices::date_taints,
        prepare_for_update: devices::date_new_taints,
        returns_deleted_object: true,
        without_effect: |_| Some("devices are not allocated"),
        rules: Rules {
            validate: validate::workloads::devices::slice,
            validate_update: validate::workloads::devices::slice_update,
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
            validate: validate::cluster::csi::capacity,
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

/// Leases have no strategy of election until the feature that acts on it is on by default.
fn without_strategy(lease: &mut Value) {
    for key in ["strategy", "preferredHolder"] {
        object::remove(lease, &["spec", key]);
    }
}

/// Drivers have no say in scheduling until the feature that acts on it is on by default.
fn without_scheduling(old: Option<&Value>, driver: &mut Value) {
    let path = ["spec", "preventPodSchedulingIfMissing"];
    if old.is_none_or(|old| object::at(old, &path).is_none()) {
        object::remove(driver, &path);
    }
}

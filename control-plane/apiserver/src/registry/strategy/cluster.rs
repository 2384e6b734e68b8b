//! What the cluster is made of: roles, storage, networks, and how it is extended.

use machinery::name;

use super::{DEFAULT, Deletion, Generation, Strategy};
use crate::registry::{certificate_request, definition};
use crate::validate::{self, Rules};

pub(super) const ROWS: &[Strategy] = &[
    Strategy {
        group: "admissionregistration.k8s.io",
        resource: "mutatingadmissionpolicies",
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        without_effect: |_| Some("its policies are not evaluated"),
        ..DEFAULT
    },
    Strategy {
        group: "admissionregistration.k8s.io",
        resource: "mutatingadmissionpolicybindings",
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        without_effect: |_| Some("its policies are not evaluated"),
        ..DEFAULT
    },
    Strategy {
        group: "admissionregistration.k8s.io",
        resource: "mutatingwebhookconfigurations",
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        without_effect: |_| Some("its webhooks are not called"),
        ..DEFAULT
    },
    Strategy {
        group: "admissionregistration.k8s.io",
        resource: "validatingadmissionpolicies",
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        without_effect: |_| Some("its policies are not evaluated"),
        ..DEFAULT
    },
    Strategy {
        group: "admissionregistration.k8s.io",
        resource: "validatingadmissionpolicybindings",
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        without_effect: |_| Some("its policies are not evaluated"),
        ..DEFAULT
    },
    Strategy {
        group: "admissionregistration.k8s.io",
        resource: "validatingwebhookconfigurations",
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        without_effect: |_| Some("its webhooks are not called"),
        ..DEFAULT
    },
    Strategy {
        group: "apiextensions.k8s.io",
        resource: "customresourcedefinitions",
        generation: Generation::OfSpec,
        allow_unconditional_update: false,
        deletion: Deletion::AfterInstances,
        prepare_for_create: definition::prepare_for_create,
        prepare_for_update: definition::prepare_for_update,
        warnings: validate::definition::warnings,
        rules: Rules {
            validate: validate::definition::check,
            validate_create: validate::definition::check_create,
            validate_update: validate::definition::check_update,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "apiregistration.k8s.io",
        resource: "apiservices",
        keeps_status_on_create: true,
        without_effect: |_| Some("requests are not passed on to it"),
        ..DEFAULT
    },
    Strategy {
        group: "certificates.k8s.io",
        resource: "certificatesigningrequests",
        set_requester: certificate_request::set_requester,
        prepare_for_update: certificate_request::keep_spec,
        subresources: &[
            ("approval", certificate_request::update_approval),
            ("status", certificate_request::update_status),
        ],
        rules: Rules {
            name: name::path_segment,
            validate_create: validate::certificate::check,
            validate_update: |old, new| validate::certificate::update("", old, new),
            validate_subresource_update: validate::certificate::update,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "coordination.k8s.io",
        resource: "leases",
        allow_create_on_update: true,
        allow_unconditional_update: false,
        rules: Rules {
            validate: validate::config::lease,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "discovery.k8s.io",
        resource: "endpointslices",
        generation: Generation::OfSpec,
        rules: Rules {
            validate: validate::endpoints::slice,
            validate_update: validate::endpoints::slice_update,
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "events.k8s.io",
        resource: "events",
        allow_create_on_update: true,
        rules: Rules {
            validate: |event| validate::event::check(event, true),
            // The newer form of events has rules that the older never had.
            validate_create: validate::event::new,
            validate_update: validate::event::update,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "flowcontrol.apiserver.k8s.io",
        resource: "flowschemas",
        generation: Generation::OfSpec,
        without_effect: |_| Some("requests are not queued by it"),
        ..DEFAULT
    },
    Strategy {
        group: "flowcontrol.apiserver.k8s.io",
        resource: "prioritylevelconfigurations",
        generation: Generation::OfSpec,
        without_effect: |_| Some("requests are not queued by it"),
        ..DEFAULT
    },
    Strategy {
        group: "networking.k8s.io",
        resource: "ingressclasses",
        generation: Generation::OfSpec,
        ..DEFAULT
    },
    Strategy {
        group: "networking.k8s.io",
        resource: "ingresses",
        generation: Generation::OfSpec,
        rules: Rules {
            validate: validate::ingress::check,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "networking.k8s.io",
        resource: "ipaddresses",
        rules: Rules {
            // An address of IPv6 is a name, too.
            name: name::path_segment,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "networking.k8s.io",
        resource: "networkpolicies",
        generation: Generation::OfSpec,
        ..DEFAULT
    },
    Strategy {
        group: "node.k8s.io",
        resource: "runtimeclasses",
        allow_create_on_update: true,
        allow_unconditional_update: false,
        ..DEFAULT
    },
    Strategy {
        group: "rbac.authorization.k8s.io",
        resource: "clusterrolebindings",
        allow_create_on_update: true,
        rules: Rules {
            name: name::path_segment,
            validate: |object| validate::rbac::check("ClusterRoleBinding", object),
            validate_update: validate::rbac::update,
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "rbac.authorization.k8s.io",
        resource: "clusterroles",
        allow_create_on_update: true,
        rules: Rules {
            name: name::path_segment,
            validate: |object| validate::rbac::check("ClusterRole", object),
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "rbac.authorization.k8s.io",
        resource: "rolebindings",
        allow_create_on_update: true,
        rules: Rules {
            name: name::path_segment,
            validate: |object| validate::rbac::check("RoleBinding", object),
            validate_update: validate::rbac::update,
            checks_name_again: true,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "rbac.authorization.k8s.io",
        resource: "roles",
        allow_create_on_update: true,
        rules: Rules {
            name: name::path_segment,
            validate: |object| validate::rbac::check("Role", object),
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
        returns_deleted_object: true,
        without_effect: |_| Some("devices are not allocated"),
        ..DEFAULT
    },
    Strategy {
        group: "resource.k8s.io",
        resource: "resourceclaimtemplates",
        returns_deleted_object: true,
        without_effect: |_| Some("devices are not allocated"),
        ..DEFAULT
    },
    Strategy {
        group: "resource.k8s.io",
        resource: "resourceslices",
        generation: Generation::OfSpec,
        returns_deleted_object: true,
        without_effect: |_| Some("devices are not allocated"),
        ..DEFAULT
    },
    Strategy {
        group: "scheduling.k8s.io",
        resource: "priorityclasses",
        generation: Generation::OfSpec,
        rules: Rules {
            validate: validate::priority::check,
            validate_update: validate::priority::update,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "storage.k8s.io",
        resource: "csidrivers",
        allow_unconditional_update: false,
        returns_deleted_object: true,
        ..DEFAULT
    },
    Strategy {
        group: "storage.k8s.io",
        resource: "csinodes",
        allow_unconditional_update: false,
        returns_deleted_object: true,
        ..DEFAULT
    },
    Strategy {
        group: "storage.k8s.io",
        resource: "storageclasses",
        returns_deleted_object: true,
        rules: Rules {
            validate: validate::storage::class,
            validate_update: validate::storage::class_update,
            ..Rules::DEFAULT
        },
        ..DEFAULT
    },
    Strategy {
        group: "storage.k8s.io",
        resource: "volumeattachments",
        allow_unconditional_update: false,
        returns_deleted_object: true,
        ..DEFAULT
    },
    Strategy {
        group: "storage.k8s.io",
        resource: "volumeattributesclasses",
        returns_deleted_object: true,
        ..DEFAULT
    },
];

//! Kinds that say who may do what: certificates and roles.

use machinery::name;

use crate::registry::printers;
use crate::registry::strategy::{DEFAULT, Kept, Strategy, UnknownField, certificate_request};
use crate::resources::fields::field;
use crate::validate::{self, Rules};

pub(super) const ROWS: &[Strategy] = &[
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
];

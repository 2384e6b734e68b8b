//! Kinds that extend or limit the API: admission, definitions, aggregated APIs and flow control.

use crate::registry::printers;
use crate::registry::strategy::{
    DEFAULT, Deletion, Generation, STATUS_ALONE, Stored, Strategy, warnings,
};
use crate::registry::{api_service, definition};
use crate::resources::convert::{self, Conversion};
use crate::validate::{self, Rules};

pub(super) const ROWS: &[Strategy] = &[
    Strategy {
        group: "admissionregistration.k8s.io",
        resource: "mutatingadmissionpolicies",
        written_in: Some(("v1beta1", Conversion::NONE)),
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
        written_in: Some(("v1beta1", Conversion::NONE)),
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
        written_in: Some(("v1beta1", convert::STORED_DEFINITION)),
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
];

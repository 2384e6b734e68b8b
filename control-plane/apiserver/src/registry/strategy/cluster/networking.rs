//! Kinds of networks: endpoints, ingresses, addresses and policies.

use crate::registry::printers;
use crate::registry::strategy::{DEFAULT, Generation, STATUS_ALONE, Strategy, slice, warnings};
use crate::validate::{self, Rules};

pub(super) const ROWS: &[Strategy] = &[
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
        status_warnings: warnings::of_balancer,
        generation: Generation::OfSpec,
        rules: Rules {
            validate: validate::networking::ingress::check,
            validate_subresource_update: |_, old, new| {
                validate::networking::balancer::status(old, new)
            },
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
        warnings: warnings::of_network_policy,
        generation: Generation::OfSpec,
        rules: Rules {
            validate_given: validate::networking::policy::policy,
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
];

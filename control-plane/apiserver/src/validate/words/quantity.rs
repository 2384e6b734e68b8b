//! Quantities, and the names of resources.

pub(crate) use machinery::amounts::HUGE_PAGES;
use machinery::amounts::{REQUESTS, is_extended, is_native};
use machinery::name;
use machinery::quantity::Quantity;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::{Causes, named};

/// Resources that a quota may limit.
const OF_QUOTAS: [&str; 19] = [
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
const OF_CONTAINERS: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
/// Resources that are counted in whole numbers.
const WHOLE: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Parses a quantity; a missing one is zero.
pub(crate) fn read(value: &Value) -> Quantity {
    let text = value.as_str().unwrap_or_default();
    Quantity::parse(text).unwrap_or(Quantity::ZERO)
}

/// A quantity of this resource: at least zero, and whole if fractions make no sense.
pub(crate) fn of_resource(field: &str, resource: &str, value: &Value, causes: &mut Causes) {
    let amount = read(value);
    if amount < Quantity::ZERO {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid(field, value, why));
    }
    let whole = WHOLE.contains(&resource) || is_extended(resource);
    if whole && amount.milli_value() % 1000 != 0 {
        causes.push(Cause::invalid(field, value, "must be an integer"));
    }
}

/// A quantity that is not below zero.
pub(crate) fn not_negative(field: &str, value: &Value) -> Option<Cause> {
    let why = "must be greater than or equal to 0";
    (read(value) < Quantity::ZERO).then(|| Cause::invalid(field, value, why))
}

/// The same in other words, with the whole number.
pub(crate) fn basic(field: &str, value: &Value) -> Option<Cause> {
    let amount = read(value).value();
    let why = "must be a valid resource quantity";
    (amount < 0).then(|| Cause::invalid(field, &amount.into(), why))
}

/// A quantity above zero.
pub(crate) fn positive(field: &str, value: &Value) -> Option<Cause> {
    let why = "must be greater than zero";
    (read(value) <= Quantity::ZERO).then(|| Cause::invalid(field, value, why))
}

/// The name of a resource in a quota.
pub(crate) fn quota_name(field: &str, resource: &str, causes: &mut Causes) {
    resource_name(field, resource, causes);
    if !resource.contains('/') && !is_of_quotas(resource) {
        let why = "must be a standard resource for quota";
        causes.push(Cause::invalid(field, &resource.into(), why));
    }
}

/// The name of a resource of a container.
pub(crate) fn container_name(field: &str, resource: &str, causes: &mut Causes) {
    resource_name(field, resource, causes);
    let wrong = |why: &str| Cause::invalid(field, &resource.into(), why);
    if !resource.contains('/') {
        let known = OF_CONTAINERS.contains(&resource) || resource.starts_with(HUGE_PAGES);
        if !known {
            causes.push(wrong("must be a standard resource for containers"));
        }
    } else if !is_native(resource) && !is_extended(resource) {
        causes.push(wrong("doesn't follow extended resource name standard"));
    }
}

/// A valid name; one without a domain must be known.
pub(crate) fn resource_name(field: &str, resource: &str, causes: &mut Causes) {
    let wrong = name::qualified_name(resource);
    let known = resource.contains('/') || is_of_quotas(resource) || resource == "storage";
    if !wrong.is_empty() {
        causes.extend(named(field, resource, wrong));
    } else if !known {
        let why = "must be a standard resource type or fully qualified";
        causes.push(Cause::invalid(field, &resource.into(), why));
    }
}

/// True if the resource may be overcommitted.
pub(crate) fn is_shared(resource: &str) -> bool {
    is_native(resource) && !resource.starts_with(HUGE_PAGES)
}

pub(crate) fn is_of_quotas(resource: &str) -> bool {
    let bare = resource.strip_prefix(REQUESTS).unwrap_or(resource);
    OF_QUOTAS.contains(&resource) || bare.starts_with(HUGE_PAGES)
}

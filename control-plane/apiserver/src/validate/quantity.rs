//! Amounts and the names of what they are amounts of.

use machinery::name;
use machinery::quantity::Quantity;
use machinery::status::Cause;
use serde_json::Value;

use super::{Causes, named};

/// What a namespace may be given a quota of.
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
/// What there is only a whole number of.
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
pub(super) const HUGE_PAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";

/// The amount that a value says; nothing is nothing.
pub(super) fn read(value: &Value) -> Quantity {
    let text = value.as_str().unwrap_or_default();
    Quantity::parse(text).unwrap_or(Quantity::ZERO)
}

/// An amount of this resource: not below zero, and whole where parts make no sense.
pub(super) fn of_resource(field: &str, resource: &str, value: &Value, causes: &mut Causes) {
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

/// An amount that is there.
pub(super) fn positive(field: &str, value: &Value) -> Option<Cause> {
    let why = "must be greater than zero";
    (read(value) <= Quantity::ZERO).then(|| Cause::invalid(field, value, why))
}

/// The name of something that quotas count.
pub(super) fn quota_name(field: &str, resource: &str, causes: &mut Causes) {
    resource_name(field, resource, causes);
    if !resource.contains('/') && !is_of_quotas(resource) {
        let why = "must be a standard resource for quota";
        causes.push(Cause::invalid(field, &resource.into(), why));
    }
}

/// The name of something that containers ask for.
pub(super) fn container_name(field: &str, resource: &str, causes: &mut Causes) {
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

/// A name that is well formed, and known if it says not whose it is.
pub(super) fn resource_name(field: &str, resource: &str, causes: &mut Causes) {
    let wrong = name::qualified_name(resource);
    let known = resource.contains('/') || is_of_quotas(resource) || resource == "storage";
    if !wrong.is_empty() {
        causes.extend(named(field, resource, wrong));
    } else if !known {
        let why = "must be a standard resource type or fully qualified";
        causes.push(Cause::invalid(field, &resource.into(), why));
    }
}

/// Whether more of it may be promised than there is.
pub(super) fn is_shared(resource: &str) -> bool {
    is_native(resource) && !resource.starts_with(HUGE_PAGES)
}

pub(super) fn is_of_quotas(resource: &str) -> bool {
    let bare = resource.strip_prefix(REQUESTS).unwrap_or(resource);
    OF_QUOTAS.contains(&resource) || bare.starts_with(HUGE_PAGES)
}

fn is_native(resource: &str) -> bool {
    !resource.contains('/') || resource.contains("kubernetes.io/")
}

/// A resource that somebody else brings.
fn is_extended(resource: &str) -> bool {
    let quota = || name::qualified_name(&format!("{REQUESTS}{resource}"));
    !is_native(resource) && !resource.starts_with(REQUESTS) && quota().is_empty()
}

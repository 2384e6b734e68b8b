//! What Kubernetes warns of though it accepts it: fields without effect, and objects that do other
//! than they seem to.

mod addresses;
mod pods;
mod ports;
mod services;
#[cfg(test)]
mod tests;
mod volumes;
mod workloads;

use std::collections::BTreeSet;

use machinery::object;
use machinery::structural::Schema;
use serde_json::Value;

pub(super) use addresses::{of_balancer, of_network_policy, of_pod_status};
pub(super) use pods::{of_pod, of_profiles};
pub(super) use services::of_service;
pub(super) use volumes::{of_claim, of_volume};
pub(super) use workloads::{
    of_cron_job, of_daemon_set, of_job, of_pod_template, of_replicas, of_stateful_set,
};

/// From this many warnings on, no more pairs of items are told: no answer has room for them, and a
/// list of many thousand items may have a pair of any two.
const WARNINGS_MAX: usize = 1000;
/// Upper bound of the items of a list that are compared with each other.
const COMPARED_MAX: usize = 1000;

pub(super) fn of_slice(_old: Option<&Value>, slice: &Value) -> Vec<String> {
    let named = object::text(slice, &["addressType"]) == "FQDN";
    let why = "spec.addressType: FQDN endpoints are deprecated";
    named.then(|| why.to_owned()).into_iter().collect()
}

/// The warning is about new requests for tokens.
pub(super) fn of_driver(old: Option<&Value>, driver: &Value) -> Vec<String> {
    let requests = |driver| object::items(driver, &["spec", "tokenRequests"]);
    let asks = !requests(driver).is_empty();
    let asks = asks && old.is_none_or(|old| requests(old) != requests(driver));
    let says = object::at(driver, &["spec", "serviceAccountTokenInSecrets"]).is_some();
    let why = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
    (asks && !says)
        .then(|| why.to_owned())
        .into_iter()
        .collect()
}

pub(super) fn of_node(_old: Option<&Value>, node: &Value) -> Vec<String> {
    let named = !object::text(node, &["spec", "externalID"]).is_empty();
    let why = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
    named.then(|| why.to_owned()).into_iter().collect()
}

/// An account that restricts its secrets in a way that is given up.
pub(super) fn of_account(old: Option<&Value>, account: &Value) -> Vec<String> {
    const RESTRICTS: &str = "kubernetes.io/enforce-mountable-secrets";
    let restricts = |account| object::annotation(account, RESTRICTS).is_some();
    let newly = restricts(account) && !old.is_some_and(restricts);
    let why =
        "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets";
    newly
        .then(|| format!("metadata.annotations[{RESTRICTS}]: {why}"))
        .into_iter()
        .collect()
}

/// Formats that are new and that nobody knows.
pub(super) fn of_definition(old: Option<&Value>, definition: &Value) -> Vec<String> {
    let formats = |definition: &Value| -> BTreeSet<String> {
        let versions = object::items(definition, &["spec", "versions"]).iter();
        let schemas = versions.filter_map(|one| object::at(one, &["schema", "openAPIV3Schema"]));
        schemas.flat_map(Schema::unrecognized_formats).collect()
    };
    let had = old.map(formats).unwrap_or_default();
    let new = formats(definition);
    let new = new.difference(&had);
    new.map(|format| format!("unrecognized format {format:?}"))
        .collect()
}

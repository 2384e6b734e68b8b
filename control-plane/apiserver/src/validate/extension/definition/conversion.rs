//! How a definition says that its objects are converted.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use machinery::name;
use machinery::object;
use machinery::status::Cause;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

use super::super::webhook::client_config;
use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

/// The versions of reviews that are known here.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
// Kubernetes names the fields as they are inside its server.
const CONFIG: &str = "webhookClientConfig";
const VERSIONS: &str = "conversionReviewVersions";

/// What every state keeps.
pub(super) fn check(causes: &mut Causes, conversion: &FieldValue) {
    causes.choice(conversion, "strategy", &["None", "Webhook"]);
    let webhook = conversion.get("webhook").unwrap_or(&Value::Null);
    let config = webhook.get("clientConfig").filter(|one| !one.is_null());
    let versions = object::items(webhook, &[VERSIONS]);
    let (config_at, versions_at) = (conversion.path_of(CONFIG), conversion.path_of(VERSIONS));
    if conversion.text("strategy") != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            causes.push(Cause::forbidden(&config_at, why));
        }
        if !versions.is_empty() {
            causes.push(Cause::forbidden(&versions_at, why));
        }
        return;
    }
    match config {
        Some(config) => client_config(causes, &FieldValue::new(&config_at, config)),
        None => {
            let why = "required when strategy is set to Webhook";
            causes.push(Cause::required(&config_at, why));
        }
    }
    if versions.is_empty() {
        causes.push(Cause::required(&versions_at, ""));
    }
    let mut seen = BTreeSet::new();
    for (at, version) in versions.iter().enumerate() {
        let field = format!("{versions_at}[{at}]");
        let text = version.as_str().unwrap_or_default();
        if !seen.insert(text) {
            causes.push(Cause::invalid(&field, version, "duplicate version"));
            continue;
        }
        for why in name::dns1035_label(text) {
            causes.push(Cause::invalid(&field, version, &why));
        }
    }
}

/// Some version of reviews has to be known here. A definition without that may stay as it is.
pub(super) fn review_versions(definition: &Value) -> Option<Cause> {
    let versions = versions(definition);
    if versions.is_empty() || is_known(versions) {
        return None;
    }
    let field = format!("spec.conversion.{VERSIONS}");
    let why = format!("must include at least one of {}", REVIEWS.join(", "));
    Some(Cause::invalid(&field, &versions.into(), &why))
}

/// What an update keeps besides, unless the old state did not keep it.
pub(super) fn check_update(old: &Value, new: &Value) -> Causes {
    let mut causes = Causes::default();
    if review_versions(old).is_none() {
        causes.extend(review_versions(new));
    }
    let mut conditions = object::items(old, &["status", "conditions"]).iter();
    let is_established =
        conditions.any(|one| one["type"] == "Established" && one["status"] == "True");
    if is_established && bundle_fault(old).is_none() {
        causes.extend(bundle_fault(new));
    }
    causes
}

fn versions(definition: &Value) -> &[Value] {
    object::items(definition, &["spec", "conversion", "webhook", VERSIONS])
}

fn is_known(versions: &[Value]) -> bool {
    let mut known = REVIEWS.iter();
    known.any(|known| versions.iter().any(|version| version == known))
}

/// Why the authorities of the webhook cannot be read.
fn bundle_fault(definition: &Value) -> Option<Cause> {
    let path = ["spec", "conversion", "webhook", "clientConfig", "caBundle"];
    let bundle = object::text(definition, &path);
    if bundle.is_empty() {
        return None;
    }
    let pem = STANDARD.decode(bundle).unwrap_or_default();
    let mut certificates = CertificateDer::pem_slice_iter(&pem);
    if matches!(certificates.next(), Some(Ok(_))) {
        return None;
    }
    let field = format!("spec.conversion.{CONFIG}.caBundle");
    let why = "unable to load root certificates: unable to parse bytes as PEM block";
    Some(Cause::invalid(&field, &bundle.into(), why))
}

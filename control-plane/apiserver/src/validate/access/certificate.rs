//! Certificate requests. Existing errors of a stored request do not prevent updates of its status.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certificates::Request;
use machinery::status::Cause;
use machinery::{name, object};
use serde_json::Value;
use x509_parser::parse_x509_certificate;
use x509_parser::pem::Pem;

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;

/// The conditions that only an approver sets.
pub(crate) const APPROVALS: [&str; 2] = ["Approved", "Denied"];
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// Conditions whose status is always true.
const TRUE_ALONE: [&str; 3] = ["Approved", "Denied", "Failed"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const EXPIRATION_SECONDS_MIN: i64 = 600;
const SUBDOMAIN_LETTERS_MAX: usize = 253;
const LABEL_LETTERS_MAX: usize = 63;

/// Checks a new request.
pub(crate) fn check(request: &Value) -> Causes {
    rules(request, None)
}

/// The conditions of a type.
pub(crate) fn of_type<'a>(object: &'a Value, wanted: &str) -> Vec<&'a Value> {
    let all = object::items(object, &["status", "conditions"]).iter();
    all.filter(|one| one["type"] == wanted).collect()
}

/// Checks a new state from a subresource, or from the object itself.
pub(crate) fn update(subresource: &str, old: &Value, new: &Value) -> Causes {
    let mut causes = rules(new, Some(old));
    for kind in TRUE_ALONE {
        if of_type(new, kind).len() < of_type(old, kind).len() {
            refuse(&mut causes, "remove", kind);
        }
    }
    if subresource != "approval" {
        for kind in APPROVALS {
            let (before, after) = (of_type(old, kind), of_type(new, kind));
            if after.len() > before.len() {
                refuse(&mut causes, "add", kind);
            } else if after.len() == before.len() && after != before {
                refuse(&mut causes, "modify", kind);
            }
        }
    }
    let (before, after) = (certificate(old), certificate(new));
    if before != after {
        let field = "status.certificate";
        if subresource != "status" {
            let why = "updates may not set certificate content";
            causes.push(Cause::forbidden(field, why));
        } else if !before.is_empty() {
            let why = "updates may not modify existing certificate content";
            causes.push(Cause::forbidden(field, why));
        }
    }
    causes
}

fn refuse(causes: &mut Causes, what: &str, kind: &str) {
    let why = format!("updates may not {what} a condition of type {kind:?}");
    causes.push(Cause::forbidden("status.conditions", &why));
}

fn certificate(request: &Value) -> &str {
    object::text(request, &["status", "certificate"])
}

fn rules(request: &Value, old: Option<&Value>) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", request.get("spec").unwrap_or(&Value::Null));
    if let Err(why) = Request::of(request).and_then(|request| request.check_signature()) {
        // Go shows no bytes as null.
        let shown = spec.get("request").filter(|shown| *shown != "");
        let shown = shown.unwrap_or(&Value::Null);
        causes.push(Cause::invalid("spec.request", shown, &why));
    }
    usages(&spec, old, &mut causes);
    let signer = spec.text("signerName");
    let had = |old: &Value| object::text(old, &["spec", "signerName"]) == LEGACY_SIGNER;
    if signer == LEGACY_SIGNER && !old.is_some_and(had) {
        let why = "the legacy signerName is not allowed via this API version";
        causes.wrong_text(&spec, "signerName", why);
    } else {
        signer_name(&spec, signer, &mut causes);
    }
    let seconds = spec.integer("expirationSeconds");
    if seconds.is_some_and(|seconds| seconds < EXPIRATION_SECONDS_MIN) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        causes.wrong(&spec, "expirationSeconds", why);
    }
    conditions(request, old, &mut causes);
    let text = certificate(request);
    let tolerated = old.is_some_and(|old| {
        let had = certificate(old);
        had == text || wrong_certificate(had).is_some()
    });
    if let Some(why) = wrong_certificate(text).filter(|_| !tolerated) {
        let shown = "<certificate data>".into();
        causes.push(Cause::invalid("status.certificate", &shown, &why));
    }
    causes
}

fn usages(spec: &FieldValue, old: Option<&Value>, causes: &mut Causes) {
    let all = spec.items("usages");
    if all.is_empty() {
        causes.push(Cause::required("spec.usages", ""));
    }
    let had = old.map_or(&[][..], |old| object::items(old, &["spec", "usages"]));
    let unknown = |one: &Value| !one.as_str().is_some_and(|one| USAGES.contains(&one));
    // The places of values that come before.
    let twice = |all: &[Value]| -> Vec<usize> {
        let mut seen = BTreeSet::new();
        let all = all.iter().enumerate();
        let again = all.filter(|(_, one)| !seen.insert(one.as_str()));
        again.map(|(at, _)| at).collect()
    };
    let knew = !had.iter().any(unknown);
    let once = twice(had).is_empty();
    for (at, usage) in all.iter().enumerate() {
        if knew && unknown(usage) {
            let field = format!("spec.usages[{at}]");
            causes.push(Cause::not_supported(&field, usage, &USAGES));
        }
    }
    for at in twice(all).into_iter().filter(|_| once) {
        let field = format!("spec.usages[{at}]");
        causes.push(Cause::duplicate(&field, &all[at]));
    }
}

fn signer_name(spec: &FieldValue, signer: &str, causes: &mut Causes) {
    if !causes.required(spec, "signerName") {
        return;
    }
    let field = spec.path_of("signerName");
    let Some((domain, path)) = signer
        .split_once('/')
        .filter(|(_, path)| !path.contains('/'))
    else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return causes.wrong_text(spec, "signerName", why);
    };
    if domain.len() > SUBDOMAIN_LETTERS_MAX {
        causes.push(Cause::too_long(&field, SUBDOMAIN_LETTERS_MAX));
    }
    let mut labels = |part: &str, rule: fn(&str) -> Vec<String>| {
        let wrong = part.split('.').find(|label| !rule(label).is_empty());
        for why in wrong.into_iter().flat_map(|label| {
            let all = rule(label).into_iter();
            all.map(move |why| format!("validating label {label:?}: {why}"))
        }) {
            causes.push(Cause::invalid(&field, &part.into(), &why));
        }
    };
    labels(domain, name::dns1123_label);
    labels(path, name::dns1123_subdomain);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        causes.push(Cause::invalid(&field, &domain.into(), why));
    }
    let most = 2 * SUBDOMAIN_LETTERS_MAX + LABEL_LETTERS_MAX + 2;
    if signer.len() > most {
        causes.push(Cause::too_long(&field, most));
    }
}

fn conditions(request: &Value, old: Option<&Value>, causes: &mut Causes) {
    let has = |kind: &str| old.is_some_and(|old| !of_type(old, kind).is_empty());
    let both_before = APPROVALS.iter().all(|kind| has(kind));
    let twice_before = old.is_some_and(|old| {
        let all = object::items(old, &["status", "conditions"]).iter();
        let mut seen = BTreeSet::new();
        all.map(|one| object::text(one, &["type"]))
            .any(|kind| !seen.insert(kind))
    });
    let nameless_before = has("");
    let status = FieldValue::new("status", request.get("status").unwrap_or(&Value::Null));
    let mut seen = BTreeSet::new();
    for condition in status.each("conditions") {
        if causes.is_full() {
            return;
        }
        let kind = condition.text("type");
        if kind.is_empty() && !nameless_before {
            causes.required(&condition, "type");
        }
        let allowed: &[&str] = if TRUE_ALONE.contains(&kind) {
            &["True"]
        } else {
            &STATUSES
        };
        if causes.required(&condition, "status") {
            causes.word(&condition, "status", allowed);
        }
        let contradicts = APPROVALS
            .iter()
            .any(|other| APPROVALS.contains(&kind) && *other != kind && seen.contains(other));
        if contradicts && !both_before {
            let why = "Approved and Denied conditions are mutually exclusive";
            causes.push(Cause::invalid("status.conditions", &kind.into(), why));
        }
        if !seen.insert(kind) && !twice_before {
            let field = condition.path_of("type");
            causes.push(Cause::duplicate(&field, &kind.into()));
        }
    }
}

/// The error in a signer's certificate chain; an empty chain is valid.
fn wrong_certificate(text: &str) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let pem = match STANDARD.decode(text) {
        Ok(pem) => pem,
        Err(error) => return Some(error.to_string()),
    };
    let mut blocks = 0;
    // Like Go, it ignores what follows the last block.
    for block in Pem::iter_from_buffer(&pem).map_while(Result::ok) {
        if block.label != "CERTIFICATE" {
            let label = &block.label;
            return Some(format!(
                "only CERTIFICATE PEM blocks are allowed, found {label:?}"
            ));
        }
        if let Err(error) = parse_x509_certificate(&block.contents) {
            return Some(error.to_string());
        }
        blocks += 1;
    }
    (blocks == 0).then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}

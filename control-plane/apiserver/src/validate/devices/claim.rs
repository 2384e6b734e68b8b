//! Claims, and templates of claims.

use std::collections::{BTreeMap, BTreeSet};

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use super::{CONFIGURATIONS_MAX, EFFECTS, REQUESTS_MAX, same};
use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, annotations, labels, named};

const CONSTRAINTS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const ONE_FORM: &str = "exactly one of `exactly` or `firstAvailable` is required";
/// Kubernetes says so whether none is set or both are.
const ONE_ATTRIBUTE: &str = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
const UNKNOWN_REQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
/// The metadata that no template may have, in JSON and in errors.
const NOT_OF_TEMPLATES: [(&str, &str); 13] = [
    ("name", "name"),
    ("generateName", "generateName"),
    ("namespace", "namespace"),
    ("selfLink", "selfLink"),
    ("uid", "uID"),
    ("resourceVersion", "resourceVersion"),
    ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"),
    ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
    ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"),
    ("managedFields", "managedFields"),
];

/// A new claim. Its spec never changes.
pub(crate) fn claim(object: &Value) -> Causes {
    let mut causes = Causes::default();
    devices(&mut causes, &at(object, &["spec", "devices"]));
    causes
}

/// A template.
pub(crate) fn template(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let metadata = at(object, &["spec", "metadata"]);
    for key in ["annotations", "labels"] {
        let check = if key == "labels" { labels } else { annotations };
        causes.extend(check(&metadata.path_of(key), metadata.map(key)));
    }
    for (key, shown) in NOT_OF_TEMPLATES {
        let value = metadata.get(key);
        let is_zero = |value: &&Value| {
            let empty = value.as_array().is_some_and(Vec::is_empty);
            empty || **value == "" || **value == 0
        };
        if value.is_some_and(|value| !is_zero(&value)) {
            causes.push(Cause::forbidden(&metadata.path_of(shown), "cannot be set"));
        }
    }
    devices(&mut causes, &at(object, &["spec", "spec", "devices"]));
    causes
}

/// A claim or a template after an update: quotas have counted it as it was.
pub(crate) fn unchanged(old: &Value, new: &Value) -> Causes {
    same(old, new, &["spec"], Value::Null)
}

fn at<'a>(object: &'a Value, path: &[&str]) -> FieldValue<'a> {
    let value = object::at(object, path).unwrap_or(&Value::Null);
    FieldValue::new(path.join("."), value)
}

fn devices(causes: &mut Causes, devices: &FieldValue) {
    let names = Names::of(devices);
    let identity = |one: &FieldValue| one.text("name").to_owned();
    causes.few_distinct(devices, "requests", REQUESTS_MAX, identity, request);
    causes.few(devices, "constraints", CONSTRAINTS_MAX, |causes, one| {
        names.check(causes, one);
        if one.has("matchAttribute") {
            attribute(causes, one, "matchAttribute");
        } else if one.has("distinctAttribute") {
            attribute(causes, one, "distinctAttribute");
        } else {
            causes.push(Cause::required(&one.path, ONE_ATTRIBUTE));
        }
    });
    causes.few(devices, "config", CONFIGURATIONS_MAX, |causes, one| {
        names.check(causes, one);
        causes.configuration(one);
    });
}

fn request(causes: &mut Causes, request: &FieldValue) {
    causes.dns_label(request, "name");
    let exactly = request.child("exactly");
    let has_alternatives = !request.items("firstAvailable").is_empty();
    match (exactly, has_alternatives) {
        (None, false) => causes.push(Cause::required(&request.path, ONE_FORM)),
        (Some(_), true) => {
            let why = format!("{ONE_FORM}, but multiple fields are set");
            causes.push(Cause::invalid(&request.path, &Value::Null, &why));
        }
        (Some(exactly), false) => wanted(causes, &exactly),
        (None, true) => {
            let identity = |one: &FieldValue| one.text("name").to_owned();
            let key = "firstAvailable";
            causes.few_distinct(request, key, ALTERNATIVES_MAX, identity, |causes, one| {
                causes.dns_label(one, "name");
                wanted(causes, one);
            });
        }
    }
}

fn wanted(causes: &mut Causes, wanted: &FieldValue) {
    causes.must_be_named(wanted, "deviceClassName", name::dns1123_subdomain);
    causes.selectors(wanted);
    let count = wanted.number("count");
    match wanted.text("allocationMode") {
        "All" if count != 0 => {
            let why = "must not be specified when allocationMode is 'All'";
            causes.wrong(wanted, "count", why);
        }
        "ExactCount" if count <= 0 => causes.wrong(wanted, "count", "must be greater than zero"),
        "All" | "ExactCount" => {}
        _ => causes.unknown(wanted, "allocationMode", &["All", "ExactCount"]),
    }
    causes.each(wanted, "tolerations", toleration);
}

fn toleration(causes: &mut Causes, one: &FieldValue) {
    if !one.text("key").is_empty() {
        causes.label_name(one, "key");
    }
    let value = one.text("value");
    match one.text("operator") {
        "Exists" if !value.is_empty() => {
            causes.wrong(one, "value", "must be empty for operator `Exists`");
        }
        "Exists" => {}
        "Equal" => causes.named(one, "value", name::label_value),
        "" => causes.push(Cause::required(&one.path_of("operator"), "")),
        _ => causes.unknown(one, "operator", &["Equal", "Exists"]),
    }
    if !one.text("effect").is_empty() {
        causes.word(one, "effect", &EFFECTS);
    }
}

/// The name of an attribute with its domain.
fn attribute(causes: &mut Causes, at: &FieldValue, key: &str) {
    let (text, field) = (at.text(key), at.path_of(key));
    causes.domain_name(&field, text);
    if !text.contains('/') {
        let why = "a fully qualified name must be a domain and a name separated by a slash";
        causes.push(Cause::invalid(&field, &text.into(), why));
    }
}

/// The requests of a claim, and the alternatives of each.
pub(super) struct Names<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> Names<'a> {
    pub(super) fn of(devices: &FieldValue<'a>) -> Names<'a> {
        let all = devices.each("requests").map(|request| {
            let alternatives = request.items("firstAvailable").iter();
            let names = alternatives.map(|one| object::text(one, &["name"]));
            (request.text("name"), names.collect())
        });
        Names(all.collect())
    }

    fn has(&self, text: &str) -> bool {
        match text.split_once('/') {
            None => self.0.contains_key(text),
            Some((request, alternative)) => {
                let known = self.0.get(request);
                known.is_some_and(|known| known.contains(alternative))
            }
        }
    }

    /// Checks the references in `requests`.
    pub(super) fn check(&self, causes: &mut Causes, at: &FieldValue) {
        let identity = |one: &FieldValue| one.value.as_str().unwrap_or_default().to_owned();
        causes.few_distinct(at, "requests", REQUESTS_MAX, identity, |causes, one| {
            self.check_one(causes, &one.path, one.value.as_str().unwrap_or_default());
        });
    }

    /// Checks one reference.
    pub(super) fn check_one(&self, causes: &mut Causes, field: &str, text: &str) {
        let parts: Vec<&str> = text.split('/').collect();
        if parts.len() <= 2 {
            for part in parts {
                causes.extend(named(field, part, name::dns1123_label(part)));
            }
        }
        if !self.has(text) {
            causes.push(Cause::invalid(field, &text.into(), UNKNOWN_REQUEST));
        }
    }
}

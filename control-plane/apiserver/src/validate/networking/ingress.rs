//! Ingresses: rules for incoming HTTP.

use std::net::IpAddr;

use machinery::name;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::Causes;
use crate::validate::words::field::FieldValue;
use crate::validate::words::port::{port_name, port_number};

const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
/// Parts of a path that a client may normalize into another path.
const WRONG_IN_PATHS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const ABSOLUTE: &str = "must be an absolute path";

pub(crate) fn check(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", object.get("spec").unwrap_or(&Value::Null));
    if spec.items("rules").is_empty() && !spec.has("defaultBackend") {
        let why = "either `defaultBackend` or `rules` must be specified";
        causes.push(Cause::invalid("spec", &Value::Null, why));
    }
    causes.below(&spec, "defaultBackend", backend);
    causes.each(&spec, "rules", |causes, rule| {
        if rule.text("host").parse::<IpAddr>().is_ok() {
            causes.wrong(rule, "host", "must be a DNS name, not an IP address");
        }
        causes.named(rule, "host", wrong_host);
        causes.below(rule, "http", |causes, http| {
            if http.items("paths").is_empty() {
                causes.push(Cause::required(&http.path_of("paths"), ""));
            }
            causes.each(http, "paths", path);
        });
    });
    causes.each(&spec, "tls", |causes, tls| {
        causes.each(tls, "hosts", |causes, one| {
            let text = one.value.as_str().unwrap_or_default();
            causes.extend(crate::validate::named(&one.path, text, wrong_host(text)));
        });
        causes.named(tls, "secretName", name::dns1123_subdomain);
    });
    causes.named(&spec, "ingressClassName", name::dns1123_subdomain);
    causes
}

/// A host name; the first label may be a wildcard.
fn wrong_host(host: &str) -> Vec<String> {
    const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    if !host.contains('*') {
        return name::dns1123_subdomain(host);
    }
    let rest = host.strip_prefix("*.");
    if rest.is_some_and(|rest| name::dns1123_subdomain(rest).is_empty()) {
        Vec::new()
    } else {
        vec![WILDCARD.into()]
    }
}

fn path(causes: &mut Causes, path: &FieldValue) {
    if !path.has("pathType") {
        let why = "pathType must be specified";
        return causes.push(Cause::required(&path.path_of("pathType"), why));
    }
    let text = path.text("path");
    let absolute = text.starts_with('/');
    match path.text("pathType") {
        "Exact" | "Prefix" => {
            if !absolute {
                causes.wrong_text(path, "path", ABSOLUTE);
            }
            for wrong in WRONG_IN_PATHS {
                if text.contains(wrong) {
                    causes.wrong_text(path, "path", &format!("must not contain '{wrong}'"));
                }
            }
            for wrong in ["/..", "/."] {
                if text.ends_with(wrong) {
                    causes.wrong_text(path, "path", &format!("cannot end with '{wrong}'"));
                }
            }
        }
        "ImplementationSpecific" if absolute || text.is_empty() => {}
        "ImplementationSpecific" => causes.wrong_text(path, "path", ABSOLUTE),
        _ => causes.unknown(path, "pathType", &PATH_TYPES),
    }
    let to = path.get("backend").unwrap_or(&Value::Null);
    backend(causes, &FieldValue::new(path.path_of("backend"), to));
}

fn backend(causes: &mut Causes, to: &FieldValue) {
    let wrong = |why: &str| Cause::invalid(&to.path, &"".into(), why);
    match (to.child("service"), to.child("resource")) {
        (Some(_), Some(_)) => {
            causes.push(wrong("cannot set both resource and service backends"));
        }
        (None, None) => causes.push(wrong("resource or service backend is required")),
        (None, Some(resource)) => {
            causes.named(&resource, "apiGroup", name::dns1123_subdomain);
            for key in ["kind", "name"] {
                causes.must_be_named(&resource, key, name::path_segment);
            }
        }
        (Some(service), None) => {
            causes.must_be_named(&service, "name", name::dns1123_label);
            let port = service.get("port").unwrap_or(&Value::Null);
            let port = FieldValue::new(service.path_of("port"), port);
            let number = port.number("number");
            match (port.text("name"), number) {
                ("", 0) => {
                    let why = "port name or number is required";
                    causes.push(Cause::required(&to.path, why));
                }
                ("", number) => causes.extend(port_number(&port.path_of("number"), number)),
                (_, 0) => causes.named(&port, "name", port_name),
                _ => causes.push(wrong("cannot set both port name & port number")),
            }
        }
    }
}

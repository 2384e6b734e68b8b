//! Configurations of admission webhooks.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use machinery::cel::admission::Compiler;
use machinery::name;
use machinery::status::Cause;
use serde_json::Value;

use crate::validate::words::field::FieldValue;
use crate::validate::words::port::port_number;
use crate::validate::{Causes, words::expressions};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
const WITHOUT_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
/// The versions of reviews that servers know.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const SECONDS_MIN: i64 = 1;
const SECONDS_MAX: i64 = 30;
/// Labels in the name of a webhook: it belongs to a domain.
const NAME_LABELS_MIN: usize = 3;

const URL_FORM: &str = "; desired format: https://host[/path]";

/// Checks a configuration of either kind.
pub(crate) fn configuration(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let mut names = BTreeSet::new();
    causes.each(&FieldValue::new("", object), "webhooks", |causes, one| {
        webhook(causes, one);
        review_versions(causes, one);
        let name = one.text("name");
        if !name.is_empty() && !names.insert(name) {
            causes.push(Cause::duplicate(&one.path_of("name"), &name.into()));
        }
    });
    causes
}

fn webhook(causes: &mut Causes, one: &FieldValue) {
    qualified_name(causes, one);
    causes.each(one, "rules", rule);
    causes.word(one, "failurePolicy", &["Fail", "Ignore"]);
    causes.word(one, "matchPolicy", &["Equivalent", "Exact"]);
    if one.has("sideEffects") {
        causes.word(one, "sideEffects", &WITHOUT_SIDE_EFFECTS);
    } else {
        let known = WITHOUT_SIDE_EFFECTS.join(", ");
        let why = format!("must specify one of {known}");
        causes.push(Cause::required(&one.path_of("sideEffects"), &why));
    }
    let seconds = one.integer("timeoutSeconds");
    if seconds.is_some_and(|seconds| !(SECONDS_MIN..=SECONDS_MAX).contains(&seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        causes.wrong(one, "timeoutSeconds", why);
    }
    causes.label_selector(one, "namespaceSelector");
    causes.label_selector(one, "objectSelector");
    causes.word(one, "reinvocationPolicy", &["IfNeeded", "Never"]);
    causes.below(one, "clientConfig", client_config);
    expressions::conditions(causes, one, &Compiler::new(false));
}

fn qualified_name(causes: &mut Causes, one: &FieldValue) {
    if !causes.required(one, "name") {
        return;
    }
    let text = one.text("name");
    let wrong = name::dns1123_subdomain(text);
    if !wrong.is_empty() {
        causes.wrong(one, "name", &wrong.join(","));
    } else if text.split('.').count() < NAME_LABELS_MIN {
        let why = "should be a domain with at least three segments separated by dots";
        causes.wrong(one, "name", why);
    }
}

/// Some operations on some resources.
pub(crate) fn rule(causes: &mut Causes, rule: &FieldValue) {
    some_or_all(causes, rule, "operations", "operations");
    causes.each(rule, "operations", |causes, one| {
        let text = one.value.as_str().unwrap_or_default();
        if !OPERATIONS.contains(&text) {
            causes.push(Cause::not_supported(&one.path, one.value, &OPERATIONS));
        }
    });
    some_or_all(causes, rule, "apiGroups", "API groups");
    some_or_all(causes, rule, "apiVersions", "API versions");
    not_empty(causes, rule, "apiVersions");
    resources(causes, rule);
    causes.word(rule, "scope", &SCOPES);
}

/// A required list, either of `*` alone or of others.
fn some_or_all(causes: &mut Causes, rule: &FieldValue, key: &str, what: &str) {
    let items = rule.items(key);
    if items.is_empty() {
        causes.push(Cause::required(&rule.path_of(key), ""));
    }
    if items.len() > 1 && items.iter().any(|one| one == "*") {
        let why = format!("if '*' is present, must not specify other {what}");
        causes.wrong(rule, key, &why);
    }
}

fn not_empty(causes: &mut Causes, rule: &FieldValue, key: &str) {
    causes.each(rule, key, |causes, one| {
        if one.value == "" {
            causes.push(Cause::required(&one.path, ""));
        }
    });
}

/// Resources, each with a subresource or without. What is covered twice is probably a mistake.
fn resources(causes: &mut Causes, rule: &FieldValue) {
    let key = "resources";
    let items = rule.items(key);
    if items.is_empty() {
        causes.push(Cause::required(&rule.path_of(key), ""));
    }
    let (mut whole, mut everywhere) = (BTreeSet::new(), BTreeSet::new());
    let mut last_is_plain = false;
    causes.each(rule, key, |causes, one| {
        let text = one.value.as_str().unwrap_or_default();
        if text.is_empty() {
            return causes.push(Cause::required(&one.path, ""));
        }
        let Some((resource, subresource)) = text.split_once('/') else {
            last_is_plain = text != "*";
            return;
        };
        let mut covered = |by: String| {
            let why = format!("if '{by}' is present, must not specify {text}");
            causes.push(Cause::invalid(&one.path, one.value, &why));
        };
        if whole.contains(resource) {
            covered(format!("{resource}/*"));
        }
        if everywhere.contains(subresource) {
            covered(format!("*/{subresource}"));
        }
        if subresource == "*" {
            whole.insert(resource.to_owned());
        }
        if resource == "*" {
            everywhere.insert(subresource.to_owned());
        }
    });
    let has = |text: &str| items.iter().any(|one| one == text);
    if items.len() > 1 && has("*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        causes.wrong(rule, key, why);
    }
    if has("*") && last_is_plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        causes.wrong(rule, key, why);
    }
}

fn review_versions(causes: &mut Causes, one: &FieldValue) {
    let key = "admissionReviewVersions";
    let known = REVIEWS.join(", ");
    if one.items(key).is_empty() {
        let why = format!("must specify one of {known}");
        return causes.push(Cause::required(&one.path_of(key), &why));
    }
    let mut seen = BTreeSet::new();
    causes.each(one, key, |causes, version| {
        let text = version.value.as_str().unwrap_or_default();
        if !seen.insert(text.to_owned()) {
            let why = "duplicate version";
            return causes.push(Cause::invalid(&version.path, version.value, why));
        }
        let wrong = name::dns1035_label(text);
        causes.extend(crate::validate::named(&version.path, text, wrong));
    });
    if !REVIEWS.iter().any(|known| seen.contains(*known)) {
        causes.wrong(one, key, &format!("must include at least one of {known}"));
    }
}

/// Where a webhook is: at a URL or behind a service.
pub(crate) fn client_config(causes: &mut Causes, config: &FieldValue) {
    if config.has("url") == config.has("service") {
        let why = "exactly one of url or service is required";
        return causes.push(Cause::required(&config.path, why));
    }
    if config.has("url") {
        url(causes, config);
    }
    causes.below(config, "service", service);
}

fn url(causes: &mut Causes, config: &FieldValue) {
    let field = config.path_of("url");
    let url = match Url::parse(config.text("url")) {
        Ok(url) => url,
        Err(error) => {
            let why = format!("url must be a valid URL: {error}{URL_FORM}");
            return causes.push(Cause::required(&field, &why));
        }
    };
    let mut wrong =
        |value: &str, why: &str| causes.push(Cause::invalid(&field, &value.into(), why));
    if url.scheme != "https" {
        wrong(
            &url.scheme,
            &format!("'https' is the only allowed URL scheme{URL_FORM}"),
        );
    }
    if url.host.is_empty() {
        wrong("", &format!("host must be specified{URL_FORM}"));
    }
    if let Some(user) = url.user {
        wrong(user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        wrong(url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        wrong(url.query, "query parameters are not permitted in the URL");
    }
}

fn service(causes: &mut Causes, service: &FieldValue) {
    // Kubernetes reports a missing one under the name of the other.
    for (missing, reported) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(missing).is_empty() {
            causes.push(Cause::required(&service.path_of(reported), ""));
        }
    }
    let port = service.number("port");
    if port_number("", port).is_some() {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        causes.wrong(service, "port", why);
    }
    let path = service.text("path");
    let mut wrong = |why: &str| causes.wrong(service, "path", why);
    match path {
        "" | "/" => return,
        "//" => return wrong("segment[0] may not be empty"),
        _ => {}
    }
    if !path.starts_with('/') {
        wrong("must start with a '/'");
    }
    let mut letters = path.chars();
    letters.next();
    let steps = letters.as_str();
    let steps = steps.strip_suffix('/').unwrap_or(steps);
    for (at, step) in steps.split('/').enumerate() {
        if step.is_empty() {
            wrong(&format!("segment[{at}] may not be empty"));
            continue;
        }
        for why in name::dns1123_subdomain(step) {
            wrong(&format!("segment[{at}]: {why}"));
        }
    }
}

/// The parts of a URL that the rules are about, as Go finds them.
struct Url<'a> {
    scheme: String,
    user: Option<&'a str>,
    host: &'a str,
    query: &'a str,
    fragment: &'a str,
}

impl<'a> Url<'a> {
    fn parse(text: &'a str) -> Result<Url<'a>, String> {
        let fail = |why: String| Err(format!("parse {text:?}: {why}"));
        if text.chars().any(char::is_control) {
            return fail("net/url: invalid control character in URL".into());
        }
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (scheme, rest) = match rest.split_once(':') {
            Some(("", _)) => return fail("missing protocol scheme".into()),
            Some((scheme, below)) if is_scheme(scheme) => (scheme, below),
            _ => ("", rest),
        };
        let authority = rest.strip_prefix("//").unwrap_or_default();
        let authority = authority.split('/').next().unwrap_or_default();
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let port = host.rsplit(']').next().unwrap_or_default();
        if let Some((_, port)) = port.rsplit_once(':')
            && !port.chars().all(|c| c.is_ascii_digit())
        {
            return fail(format!("invalid port \":{port}\" after host"));
        }
        Ok(Url {
            scheme: scheme.to_ascii_lowercase(),
            user,
            host,
            query,
            fragment,
        })
    }
}

fn is_scheme(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(letter)
}

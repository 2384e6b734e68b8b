//! Admission policies and their bindings.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use machinery::cel;
use machinery::cel::admission::{Compiler, Wanted};
use machinery::name;
use machinery::object;
use machinery::schema::split_api_version;
use machinery::status::Cause;
use serde_json::{Value, json};

use super::webhook;
use crate::validate::words::expressions::{conditions, refusal};
use crate::validate::words::field::FieldValue;
use crate::validate::{Causes, named};

const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
const PATCH_TYPES: [&str; 2] = ["ApplyConfiguration", "JSONPatch"];
const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];
/// The operations that have an object to change.
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
/// The most audit annotations of one policy.
const ANNOTATIONS_MAX: usize = 20;
/// The longest expression of an audit annotation, in bytes.
const ANNOTATION_BYTES_MAX: usize = 5 * 1024;

/// Checks a ValidatingAdmissionPolicy.
pub(crate) fn validating(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", &object["spec"]);
    let has_params = spec.has("paramKind");
    let mut compiler = if spec.items("variables").is_empty() {
        Compiler::new(has_params)
    } else {
        Compiler::composing(has_params)
    };
    common(&mut causes, &spec, &mut compiler);
    let checks = ["validations", "auditAnnotations"];
    if checks.iter().all(|key| spec.items(key).is_empty()) {
        let why = "validations or auditAnnotations must contain at least one item";
        causes.extend(checks.map(|key| Cause::required(&spec.path_of(key), why)));
        return causes;
    }
    causes.each(&spec, "validations", |causes, one| {
        validation(causes, one, &compiler);
    });
    annotations(&mut causes, &spec, object::name(object), &compiler);
    causes
}

/// Checks a MutatingAdmissionPolicy.
pub(crate) fn mutating(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", &object["spec"]);
    let mut compiler = Compiler::composing(spec.has("paramKind"));
    common(&mut causes, &spec, &mut compiler);
    causes.below(&spec, "matchConstraints", mutating_operations);
    if spec.items("mutations").is_empty() {
        let why = "mutations must contain at least one item";
        causes.push(Cause::required(&spec.path_of("mutations"), why));
    }
    causes.each(&spec, "mutations", |causes, one| {
        mutation(causes, one, &compiler);
    });
    causes.choice(&spec, "reinvocationPolicy", &REINVOCATION_POLICIES);
    causes
}

/// Checks a ValidatingAdmissionPolicyBinding.
pub(crate) fn validating_binding(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", &object["spec"]);
    binding(&mut causes, &spec);
    let key = "validationActions";
    let mut seen = BTreeSet::new();
    causes.each(&spec, key, |causes, one| {
        let text = one.value.as_str().unwrap_or_default();
        if !ACTIONS.contains(&text) {
            causes.push(Cause::not_supported(&one.path, one.value, &ACTIONS));
        }
        if !seen.insert(text.to_owned()) {
            causes.push(Cause::duplicate(&one.path, one.value));
        }
    });
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure \
                   information in the API response and headers serves no purpose)";
        causes.wrong(&spec, key, why);
    }
    if seen.is_empty() {
        let why = "at least one validation action is required";
        causes.push(Cause::required(&spec.path_of(key), why));
    }
    causes
}

/// Checks a MutatingAdmissionPolicyBinding.
pub(crate) fn mutating_binding(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let spec = FieldValue::new("spec", &object["spec"]);
    binding(&mut causes, &spec);
    causes.below(&spec, "matchResources", mutating_operations);
    causes
}

/// Checks the status of a ValidatingAdmissionPolicy.
pub(crate) fn status(object: &Value) -> Causes {
    let mut causes = Causes::default();
    let status = FieldValue::new("status", &object["status"]);
    causes.below(&status, "typeChecking", |causes, checking| {
        causes.each(checking, "expressionWarnings", |causes, one| {
            causes.required(one, "warning");
            if one.text("fieldRef").trim().is_empty() {
                causes.push(Cause::required(&one.path_of("fieldRef"), ""));
            }
        });
    });
    causes.conditions(&status);
    causes
}

/// What policies of both kinds have; adds the variables to the compiler.
fn common(causes: &mut Causes, spec: &FieldValue, compiler: &mut Compiler) {
    causes.choice(spec, "failurePolicy", &FAILURE_POLICIES);
    causes.below(spec, "paramKind", param_kind);
    match spec.child("matchConstraints") {
        None => causes.push(Cause::required(&spec.path_of("matchConstraints"), "")),
        Some(constraints) => {
            match_resources(causes, &constraints);
            if constraints.items("resourceRules").is_empty() {
                causes.push(Cause::required(&constraints.path_of("resourceRules"), ""));
            }
        }
    }
    conditions(causes, spec, &Compiler::new(spec.has("paramKind")));
    causes.each(spec, "variables", |causes, one| {
        variable(causes, one, compiler);
    });
}

fn param_kind(causes: &mut Causes, at: &FieldValue) {
    if causes.required(at, "apiVersion") {
        let text = at.text("apiVersion");
        if text.matches('/').count() > 1 {
            let why = format!("unexpected GroupVersion string: {text}");
            causes.wrong(at, "apiVersion", &why);
        } else {
            let (group, version) = split_api_version(text);
            let mut wrong = |shown: &str, why: &str| {
                let field = at.path_of("apiVersion");
                causes.push(Cause::invalid(&field, &shown.into(), why));
            };
            let of_group = name::dns1123_subdomain(group);
            if !group.is_empty() && !of_group.is_empty() {
                wrong(group, &of_group.join(","));
            }
            let of_version = name::dns1035_label(version);
            if version.is_empty() {
                wrong(text, "version must be specified");
            } else if !of_version.is_empty() {
                wrong(version, &of_version.join(","));
            }
        }
    }
    if causes.required(at, "kind") {
        let wrong = name::dns1035_label(&at.text("kind").to_lowercase());
        if !wrong.is_empty() {
            let why = wrong.join(",");
            let why = format!("may have mixed case, but should otherwise match: {why}");
            causes.wrong(at, "kind", &why);
        }
    }
}

fn match_resources(causes: &mut Causes, at: &FieldValue) {
    causes.word_given(at, "matchPolicy", &MATCH_POLICIES);
    for selector in ["namespaceSelector", "objectSelector"] {
        if at.has(selector) {
            causes.label_selector(at, selector);
        } else {
            causes.push(Cause::required(&at.path_of(selector), ""));
        }
    }
    for rules in ["resourceRules", "excludeResourceRules"] {
        causes.each(at, rules, |causes, rule| {
            let mut seen = BTreeSet::new();
            causes.each(rule, "resourceNames", |causes, one| {
                let text = one.value.as_str().unwrap_or_default();
                causes.extend(named(&one.path, text, name::path_segment(text)));
                if !seen.insert(text.to_owned()) {
                    causes.push(Cause::duplicate(&one.path, one.value));
                }
            });
            webhook::rule(causes, rule);
        });
    }
}

/// Only what has an object can be changed.
fn mutating_operations(causes: &mut Causes, at: &FieldValue) {
    let field = format!("{}.resourceRules.operations", at.path);
    causes.each(at, "resourceRules", |causes, rule| {
        for operation in rule.items("operations") {
            let text = operation.as_str().unwrap_or_default();
            if !MUTATING_OPERATIONS.contains(&text) {
                let cause = Cause::not_supported(&field, operation, &MUTATING_OPERATIONS);
                causes.push(cause);
            }
        }
    });
}

fn variable(causes: &mut Causes, one: &FieldValue, compiler: &mut Compiler) {
    let (text, source) = (one.text("name"), one.text("expression"));
    if text.trim().is_empty() {
        let why = "name is not specified";
        causes.push(Cause::required(&one.path_of("name"), why));
    } else if !is_identifier(text) {
        causes.wrong(one, "name", "must be a valid CEL identifier");
    }
    if source.trim().is_empty() {
        let why = "expression is not specified";
        causes.push(Cause::required(&one.path_of("expression"), why));
    } else {
        let compiled = compiler.add(text, source);
        refusal(causes, &one.path_of("expression"), &compiled);
    }
}

fn is_identifier(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.chars().all(is_letter)
        && text.starts_with(|c: char| !c.is_ascii_digit())
        && !cel::is_reserved(text)
}

fn validation(causes: &mut Causes, one: &FieldValue, compiler: &Compiler) {
    let source = one.text("expression");
    if source.trim().is_empty() {
        let why = "expression is not specified";
        causes.push(Cause::required(&one.path_of("expression"), why));
    } else {
        let compiled = compiler.compile(source, Wanted::Bool, true);
        refusal(causes, &one.path_of("expression"), &compiled);
    }
    let source = one.text("messageExpression");
    if !source.is_empty() && source.trim().is_empty() {
        causes.wrong(one, "messageExpression", "must be non-empty if specified");
    } else if !source.is_empty() {
        let compiled = compiler.compile(source, Wanted::String, false);
        refusal(causes, &one.path_of("messageExpression"), &compiled);
    }
    let message = one.text("message");
    if !message.is_empty() && message.trim().is_empty() {
        causes.wrong(one, "message", "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        causes.wrong(one, "message", "must not contain line breaks");
    }
    if one.has("reason") && !REASONS.contains(&one.text("reason")) {
        causes.unknown(one, "reason", &REASONS);
    }
}

fn annotations(causes: &mut Causes, spec: &FieldValue, policy: &str, compiler: &Compiler) {
    let key = "auditAnnotations";
    let all = spec.items(key);
    if all.len() > ANNOTATIONS_MAX {
        let why = format!("must not have more than {ANNOTATIONS_MAX} auditAnnotations");
        // As Go shows them, with Go's names of the fields.
        let shown = all.iter().map(|one| {
            let text = |key: &str| object::text(one, &[key]);
            json!({"Key": text("key"), "ValueExpression": text("valueExpression")})
        });
        let shown = Value::from_iter(shown).to_string();
        causes.push(Cause::invalid_shown(&spec.path_of(key), &shown, &why));
    }
    let mut keys = BTreeSet::new();
    causes.each(spec, key, |causes, one| {
        annotation(causes, one, policy, compiler);
        let text = one.text("key");
        if !keys.insert(text) {
            causes.push(Cause::duplicate(&one.path_of("key"), &text.into()));
        }
    });
}

fn annotation(causes: &mut Causes, one: &FieldValue, policy: &str, compiler: &Compiler) {
    let key = format!("{policy}/{}", one.text("key"));
    if policy.is_empty() {
        causes.wrong_text(one, "key", "requires metadata.name be non-empty");
    } else {
        let wrong = name::qualified_name(&key);
        causes.extend(named(&one.path_of("key"), &key, wrong));
    }
    let field = one.path_of("valueExpression");
    let source = one.text("valueExpression").trim();
    if source.is_empty() {
        causes.push(Cause::required(&field, "valueExpression is not specified"));
    } else if source.len() > ANNOTATION_BYTES_MAX {
        let why = format!("must not exceed {ANNOTATION_BYTES_MAX} bytes in length");
        causes.push(Cause::required(&field, &why));
    } else {
        let compiled = compiler.compile(source, Wanted::StringOrNull, true);
        refusal(causes, &field, &compiled);
    }
}

fn mutation(causes: &mut Causes, one: &FieldValue, compiler: &Compiler) {
    let (of_type, other, wanted) = match one.text("patchType") {
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Wanted::JsonPatch),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Wanted::Object),
        _ => return causes.choice(one, "patchType", &PATCH_TYPES),
    };
    let patch_type = one.text("patchType");
    match one.child(of_type) {
        None => {
            let why = format!("must be specified when patchType is {patch_type}");
            causes.push(Cause::required(&one.path_of(of_type), &why));
        }
        Some(patch) => {
            let source = patch.text("expression").trim();
            if source.is_empty() {
                causes.push(Cause::required(&patch.path_of("expression"), ""));
            } else {
                let compiled = compiler.compile(source, wanted, true);
                refusal(causes, &patch.path_of("expression"), &compiled);
            }
        }
    }
    if one.has(other) {
        let why = format!("must not be specified when patchType is {patch_type}");
        let shown = format!("{{{other}}}");
        causes.push(Cause::invalid(&one.path_of(other), &shown.into(), &why));
    }
}

/// What bindings of both kinds have.
fn binding(causes: &mut Causes, spec: &FieldValue) {
    causes.must_be_named(spec, "policyName", name::dns1123_subdomain);
    causes.below(spec, "paramRef", param_ref);
    causes.below(spec, "matchResources", match_resources);
}

fn param_ref(causes: &mut Causes, at: &FieldValue) {
    let exclusive = "name and selector are mutually exclusive";
    let has_name = !at.text("name").is_empty();
    let has_selector = at.has("selector");
    causes.named(at, "name", name::path_segment);
    if has_name && has_selector {
        causes.push(Cause::forbidden(&at.path_of("name"), exclusive));
    }
    causes.label_selector(at, "selector");
    if has_name && has_selector {
        causes.push(Cause::forbidden(&at.path_of("selector"), exclusive));
    }
    if !has_name && !has_selector {
        let why = "one of name or selector must be specified";
        causes.push(Cause::required(&at.path, why));
    }
    causes.choice(at, "parameterNotFoundAction", &["Deny", "Allow"]);
}

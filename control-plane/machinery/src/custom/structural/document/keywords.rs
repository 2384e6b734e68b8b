//! The rules for single keywords of a schema.

use std::collections::HashSet;

use serde_json::Value;

use super::shape::{flag, get, is_set, list, properties, text};
use crate::custom::structural::causes::Causes;
use crate::custom::structural::node::{normalised, texts};
use crate::custom::structural::path::Path;
use crate::custom::structural::prune::META_FIELDS;
use crate::status::Cause;

/// The values of `type`, in the order of messages.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The reasons that a rule may give.
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Keywords of JSON Schema that are not supported.
const UNSUPPORTED: [&str; 6] = [
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
];

/// What depends on where a schema stands.
#[derive(Clone, Copy, Default)]
struct Context<'a> {
    /// Where this is, if defaults are forbidden there.
    no_defaults: Option<&'a str>,
    /// It is within the type or the metadata of an object.
    in_meta: bool,
}

/// The first keyword that keeps the schema from being read as a structural one.
pub(in crate::custom::structural) fn unsupported(schema: &Value, at: &Path) -> Option<Cause> {
    let why = unsupported_in(schema)?;
    Some(Cause::invalid(&at.to_string(), &"".into(), &why))
}

/// The keywords that are wrong.
pub(in crate::custom::structural) fn check(schema: &Value, at: &Path) -> Causes {
    let mut causes = Causes::default();
    if flag(schema, "nullable") {
        let why = "nullable cannot be true at the root";
        causes.push(forbidden(&at.field("nullable"), why));
    }
    walk(schema, at, true, Context::default(), &mut causes);
    causes
}

fn unsupported_in(schema: &Value) -> Option<String> {
    for keyword in UNSUPPORTED.into_iter().chain(["$schema"]) {
        if get(schema, keyword).is_some_and(is_set) {
            let word = if keyword == "$schema" {
                "schema"
            } else {
                keyword
            };
            return Some(format!("OpenAPIV3Schema '{word}' is not supported"));
        }
    }
    if schema.get("items").is_some_and(Value::is_array) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".into());
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let why =
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Some(why.into());
    }
    let single = ["items", "additionalProperties", "not"].into_iter();
    let single = single.filter_map(|keyword| get(schema, keyword));
    let several = ["allOf", "anyOf", "oneOf"].into_iter();
    let several = several.flat_map(|keyword| list(schema, keyword));
    let within = properties(schema).map(|(_, property)| property);
    single.chain(several).chain(within).find_map(unsupported_in)
}

fn walk(schema: &Value, at: &Path, is_root: bool, context: Context, causes: &mut Causes) {
    if causes.is_full() {
        return;
    }
    check_supported(schema, at, context, causes);
    if flag(schema, "uniqueItems") {
        let why =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(forbidden(&at.field("uniqueItems"), why));
    }
    if let Some(additional) = get(schema, "additionalProperties") {
        let at = at.field("additionalProperties");
        if properties(schema).next().is_some() && *additional != Value::Bool(true) {
            let why = "additionalProperties and properties are mutual exclusive";
            causes.push(forbidden(&at, why));
        }
        let mut context = context;
        if context.in_meta {
            context.no_defaults = Some("inside additionalProperties applying to object metadata");
        }
        walk(additional, &at, false, context, causes);
    }
    let of_properties = at.field("properties");
    for (name, property) in properties(schema) {
        let mut context = context;
        let reason = format!("in top-level {name}");
        let is_resource = is_root || flag(schema, "x-kubernetes-embedded-resource");
        if is_resource && META_FIELDS.contains(&name.as_str()) {
            context.in_meta = true;
            if is_root {
                context.no_defaults = Some(&reason);
            }
        }
        walk(property, &of_properties.key(name), false, context, causes);
    }
    if let Some(not) = get(schema, "not") {
        walk(not, &at.field("not"), false, context, causes);
    }
    for junctor in ["allOf", "oneOf", "anyOf"] {
        let at = at.field(junctor);
        for (index, each) in list(schema, junctor).iter().enumerate() {
            walk(each, &at.index(index), false, context, causes);
        }
    }
    if let Some(items) = get(schema, "items").filter(|items| items.is_object()) {
        walk(items, &at.field("items"), false, context, causes);
    }
    check_extensions(schema, at, causes);
}

fn check_supported(schema: &Value, at: &Path, context: Context, causes: &mut Causes) {
    let kind = text(schema, "type");
    let of_kind = at.field("type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        causes.push(Cause::not_supported(
            &of_kind.to_string(),
            &kind.into(),
            &TYPES,
        ));
    }
    if let Some(place) = context
        .no_defaults
        .filter(|_| get(schema, "default").is_some())
    {
        causes.push(forbidden(
            &at.field("default"),
            &format!("must not be set {place}"),
        ));
    }
    for keyword in UNSUPPORTED {
        let is_there = get(schema, keyword).is_some_and(|value| match keyword {
            "id" | "patternProperties" | "definitions" => is_set(value),
            _ => true,
        });
        if is_there {
            let why = format!("{keyword} is not supported");
            causes.push(forbidden(&at.field(keyword), &why));
        }
    }
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        causes.push(forbidden(&of_kind, why));
    }
    if schema
        .get("items")
        .is_some_and(|items| items.is_array() && is_set(items))
    {
        let why = "items must be a schema object and not an array";
        causes.push(forbidden(&at.field("items"), why));
    }
    if context.in_meta && flag(schema, "x-kubernetes-embedded-resource") {
        let why = "must not be used inside of resource meta";
        causes.push(forbidden(&at.field("x-kubernetes-embedded-resource"), why));
    }
}

fn check_extensions(schema: &Value, at: &Path, causes: &mut Causes) {
    let keyword = "x-kubernetes-preserve-unknown-fields";
    if schema.get(keyword) == Some(&Value::Bool(false)) {
        causes.push(invalid(
            &at.field(keyword),
            &false.into(),
            "must be true or undefined",
        ));
    }
    for (keyword, kind, words) in [
        (
            "x-kubernetes-map-type",
            "object",
            &["atomic", "granular"][..],
        ),
        (
            "x-kubernetes-list-type",
            "array",
            &["atomic", "set", "map"][..],
        ),
    ] {
        let Some(Value::String(word)) = get(schema, keyword) else {
            continue;
        };
        let is = text(schema, "type");
        if is != kind {
            let why = format!("must be {kind} if {keyword} is specified");
            causes.push(missing_or_invalid(&at.field("type"), is, &why));
        } else if word == "set" {
            check_items_of_set(schema, at, causes);
        }
        if !words.contains(&word.as_str()) {
            let field = at.field(keyword).to_string();
            causes.push(Cause::not_supported(&field, &word.as_str().into(), words));
        }
    }
    let list_type = text(schema, "x-kubernetes-list-type");
    if !list(schema, "x-kubernetes-list-map-keys").is_empty() && list_type != "map" {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        causes.push(missing_or_invalid(
            &at.field("x-kubernetes-list-type"),
            list_type,
            why,
        ));
    }
    if list_type == "map" {
        check_keys(schema, at, causes);
    }
    let items = schema.get("items").filter(|items| items.is_object());
    if let Some(items) = items.filter(|_| matches!(list_type, "set" | "map")) {
        let at = at.field("items");
        if flag(items, "nullable") {
            let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            causes.push(forbidden(&at.field("nullable"), &why));
        }
        if list_type == "map" {
            check_key_values(schema, items, &at, causes);
        }
    }
    let of_rules = at.field("x-kubernetes-validations");
    for (index, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        if causes.is_full() {
            return;
        }
        check_rule(rule, schema, &of_rules.index(index), causes);
    }
}

/// What is wrong with a rule in CEL besides its expressions.
fn check_rule(rule: &Value, schema: &Value, at: &Path, causes: &mut Causes) {
    let (expression, message) = (text(rule, "rule").trim(), text(rule, "message").trim());
    let empty = "must be non-empty if specified";
    let breaks = "must not contain line breaks";
    if expression.is_empty() {
        causes.push(required(&at.field("rule"), "rule is not specified"));
    } else if !text(rule, "message").is_empty() && message.is_empty() {
        causes.push(invalid(&at.field("message"), &rule["message"], empty));
    } else if message.contains('\n') {
        causes.push(invalid(&at.field("message"), &rule["message"], breaks));
    } else if expression.contains('\n') && message.is_empty() {
        let why = "message must be specified if rule contains line breaks";
        causes.push(required(&at.field("message"), why));
    }
    let of_message = text(rule, "messageExpression");
    if !of_message.is_empty() && of_message.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        causes.push(required(&at.field("messageExpression"), why));
    }
    if let Some(reason) = rule.get("reason").filter(|reason| !reason.is_null())
        && !REASONS.contains(&reason.as_str().unwrap_or_default())
    {
        let field = at.field("reason").to_string();
        causes.push(Cause::not_supported(&field, reason, &REASONS));
    }
    let path = text(rule, "fieldPath");
    let of_path = at.field("fieldPath");
    if !path.is_empty() && path.trim().is_empty() {
        causes.push(invalid(&of_path, &path.into(), empty));
    }
    if path.contains('\n') {
        causes.push(invalid(&of_path, &path.into(), breaks));
    }
    if !path.is_empty() && normalised(path, schema).is_none() {
        causes.push(invalid(&of_path, &path.into(), "must be a valid path"));
    }
}

/// The items of a set are compared as a whole, so they must be changed as a whole.
fn check_items_of_set(schema: &Value, at: &Path, causes: &mut Causes) {
    let Some(items) = get(schema, "items") else {
        return;
    };
    let (keyword, is_atomic) = match text(items, "type") {
        "array" => ("x-kubernetes-list-type", ["", "atomic"].as_slice()),
        "object" => ("x-kubernetes-map-type", ["atomic"].as_slice()),
        _ => return,
    };
    if !is_atomic.contains(&text(items, keyword)) {
        let at = at.field("items");
        // Kubernetes shows the type of the list in both cases.
        let is = items.get("x-kubernetes-list-type").unwrap_or(&Value::Null);
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        causes.push(invalid(&at.field(keyword), is, why));
    }
}

fn check_keys(schema: &Value, at: &Path, causes: &mut Causes) {
    let keys = texts(schema, "x-kubernetes-list-map-keys");
    let of_keys = at.field("x-kubernetes-list-map-keys");
    let at = at.field("items");
    if keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        causes.push(required(&of_keys, why));
    }
    let Some(items) = get(schema, "items") else {
        let why = "must have a schema if x-kubernetes-list-type is map";
        causes.push(required(&at, why));
        return;
    };
    if items.is_array() {
        let why = "must only have a single schema if x-kubernetes-list-type is map";
        causes.push(invalid(&at, items, why));
        return;
    }
    if text(items, "type") != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        causes.push(invalid(&at.field("type"), &text(items, "type").into(), why));
        return;
    }
    let of_properties = at.field("properties");
    let mut seen = HashSet::new();
    for key in &keys {
        if causes.is_full() {
            return;
        }
        match items.get("properties").and_then(|all| all.get(key)) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let at = of_properties.key(key);
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                causes.push(invalid(&at.field("type"), &"object".into(), why));
            }
            Some(_) => {}
            None => {
                let why = "entries must all be names of item properties";
                causes.push(invalid(&of_keys, &keys.clone().into(), why));
            }
        }
        if !seen.insert(key) {
            let why = "must not contain duplicate entries";
            causes.push(invalid(&of_keys, &keys.clone().into(), why));
        }
    }
}

/// Every item has values for its keys: they are required, or have defaults.
fn check_key_values(schema: &Value, items: &Value, at: &Path, causes: &mut Causes) {
    let required_fields: HashSet<String> = texts(items, "required").into_iter().collect();
    let of_properties = at.field("properties");
    for key in texts(schema, "x-kubernetes-list-map-keys") {
        if causes.is_full() {
            return;
        }
        let Some(property) = items.get("properties").and_then(|all| all.get(&key)) else {
            continue;
        };
        let at = of_properties.key(&key);
        if !required_fields.contains(&key) && get(property, "default").is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(required(&at.field("default"), why));
        }
        if flag(property, "nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(forbidden(&at.field("nullable"), why));
        }
    }
}

fn missing_or_invalid(at: &Path, is: &str, why: &str) -> Cause {
    if is.is_empty() {
        required(at, why)
    } else {
        invalid(at, &is.into(), why)
    }
}

fn required(at: &Path, why: &str) -> Cause {
    Cause::required(&at.to_string(), why)
}

fn forbidden(at: &Path, why: &str) -> Cause {
    Cause::forbidden(&at.to_string(), why)
}

fn invalid(at: &Path, value: &Value, why: &str) -> Cause {
    Cause::invalid(&at.to_string(), value, why)
}

//! What makes a schema structural.

use serde_json::Value;

use super::shape::{flag, get, is_set, list, properties, text};
use crate::custom::structural::causes::Causes;
use crate::custom::structural::path::Path;
use crate::status::Cause;
use crate::values::pattern::Patterns;

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Keywords that only the schema that describes a value may have, and what they must be in one
/// that restricts it.
const FORBIDDEN_IN_RESTRICTIONS: [(&str, &str); 13] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (
        "x-kubernetes-preserve-unknown-fields",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-embedded-resource",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-int-or-string",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-list-map-keys",
        "must be empty to be structural",
    ),
    ("x-kubernetes-validations", "must be empty to be structural"),
    (
        "x-kubernetes-list-type",
        "must be undefined to be structural",
    ),
    (
        "x-kubernetes-map-type",
        "must be undefined to be structural",
    ),
];

/// Keywords that count as present even when their value is empty.
const PRESENT_IF_EMPTY: [&str; 3] = ["default", "x-kubernetes-list-type", "x-kubernetes-map-type"];

/// What was found so far.
struct Found<'p> {
    causes: Causes,
    patterns: &'p mut Patterns,
}

/// Why a schema is not structural, sorted as Kubernetes does. Compiles its patterns.
pub(in crate::custom::structural) fn check(
    schema: &Value,
    at: &Path,
    patterns: &mut Patterns,
) -> Causes {
    let mut found = Found {
        causes: Causes::default(),
        patterns,
    };
    describes(schema, Level::Root, at, &mut found);
    restricts_known(schema, schema, at, at, &mut found.causes);
    found.causes.sort();
    found.causes
}

/// Checks a schema that describes a value.
fn describes(schema: &Value, level: Level, at: &Path, found: &mut Found<'_>) {
    if found.causes.is_full() {
        return;
    }
    let kind = text(schema, "type");
    match get(schema, "items") {
        Some(items) => describes(items, Level::Item, &at.field("items"), found),
        None if kind == "array" => {
            let why = "must be specified";
            found.causes.push(required(&at.field("items"), why));
        }
        None => {}
    }
    for (name, property) in properties(schema) {
        let of_properties = at.field("properties");
        describes(property, Level::Field, &of_properties.key(name), found);
    }
    if let Some(additional) = get(schema, "additionalProperties") {
        let at = at.field("additionalProperties");
        if level == Level::Root {
            let why = "must not be used at the root";
            found.causes.push(forbidden(&at, why));
        }
        if flag(schema, "x-kubernetes-embedded-resource") {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            found.causes.push(forbidden(&at, why));
        }
        if additional.is_object() {
            describes(additional, Level::Field, &at, found);
        }
    }
    check_type(schema, level, at, &mut found.causes);
    check_int_or_string(schema, at, &mut found.causes);
    let is_int_or_string = |schema: Option<&Value>| {
        schema.is_some_and(|schema| match list(schema, "anyOf") {
            [a, b] => is_only_type(a, "integer") && is_only_type(b, "string"),
            _ => false,
        })
    };
    let exempt = Exempt {
        any_of: is_int_or_string(Some(schema)),
        first_all_of: is_int_or_string(list(schema, "allOf").first()),
    };
    check_restrictions(schema, exempt, at, found);
    check_meta(schema, level, at, &mut found.causes);
}

fn check_type(schema: &Value, level: Level, at: &Path, causes: &mut Causes) {
    let kind = text(schema, "type");
    let of_kind = at.field("type");
    let may_lack = flag(schema, "x-kubernetes-int-or-string")
        || flag(schema, "x-kubernetes-preserve-unknown-fields");
    if flag(schema, "x-kubernetes-embedded-resource") && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        causes.push(if kind.is_empty() {
            required(&of_kind, why)
        } else {
            invalid(&of_kind, kind.into(), why)
        });
    } else if kind.is_empty() && !may_lack {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        causes.push(required(&of_kind, why));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        causes.push(invalid(&of_kind, kind.into(), "must be object at the root"));
    }
}

fn check_int_or_string(schema: &Value, at: &Path, causes: &mut Causes) {
    for other in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if flag(schema, "x-kubernetes-int-or-string") && flag(schema, other) {
            let why = "must be false if x-kubernetes-int-or-string is true";
            causes.push(invalid(&at.field(other), true.into(), why));
        }
    }
}

/// Checks what a schema says about the type and the metadata of a whole object.
fn check_meta(schema: &Value, level: Level, at: &Path, causes: &mut Causes) {
    let is_embedded = flag(schema, "x-kubernetes-embedded-resource");
    let is_resource = level == Level::Root || is_embedded;
    let of_properties = at.field("properties");
    for (name, kind) in [
        ("kind", "string"),
        ("apiVersion", "string"),
        ("metadata", "object"),
    ] {
        let property = schema.get("properties").and_then(|all| all.get(name));
        let is = property.map(|property| text(property, "type"));
        if let Some(is) = is.filter(|is| is_resource && *is != kind) {
            let at = of_properties.key(name);
            causes.push(invalid(
                &at.field("type"),
                is.into(),
                &format!("must be {kind}"),
            ));
        }
    }
    let metadata = schema.get("properties").and_then(|all| all.get("metadata"));
    if let Some(metadata) = metadata.filter(|_| level == Level::Root)
        && !says_only_names(metadata)
    {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        causes.push(forbidden(&of_properties.key("metadata"), why));
    }
    let is_empty = properties(schema).next().is_none();
    if is_embedded && is_empty && !flag(schema, "x-kubernetes-preserve-unknown-fields") {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        causes.push(required(&of_properties, why));
    }
}

fn says_only_names(metadata: &Value) -> bool {
    let fields = metadata.as_object().into_iter().flatten();
    fields
        .filter(|(_, value)| is_set(value))
        .all(|(keyword, value)| match keyword.as_str() {
            "type" | "default" => true,
            "properties" => value
                .as_object()
                .is_some_and(|all| all.keys().all(|it| it == "name" || it == "generateName")),
            _ => false,
        })
}

/// The alternatives that may name types: those that spell out an integer or a string.
#[derive(Clone, Copy, Default)]
struct Exempt {
    any_of: bool,
    /// The `anyOf` of the first schema of `allOf`.
    first_all_of: bool,
}

/// Checks the schemas that restrict a value, in this one or in one that restricts it too.
fn check_restrictions(schema: &Value, exempt: Exempt, at: &Path, found: &mut Found<'_>) {
    for junctor in ["anyOf", "allOf", "oneOf"] {
        if junctor == "anyOf" && exempt.any_of {
            continue;
        }
        let at = at.field(junctor);
        for (index, each) in list(schema, junctor).iter().enumerate() {
            let exempt = Exempt {
                any_of: junctor == "allOf" && index == 0 && exempt.first_all_of,
                first_all_of: false,
            };
            restricts(each, exempt, &at.index(index), found);
        }
    }
    if let Some(not) = get(schema, "not") {
        restricts(not, Exempt::default(), &at.field("not"), found);
    }
    let pattern = text(schema, "pattern");
    if let Err(error) = found.patterns.compile(pattern) {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        found
            .causes
            .push(invalid(&at.field("pattern"), pattern.into(), &why));
    }
}

/// Checks a schema that restricts a value which another one describes.
fn restricts(schema: &Value, exempt: Exempt, at: &Path, found: &mut Found<'_>) {
    if found.causes.is_full() {
        return;
    }
    check_restrictions(schema, exempt, at, found);
    if let Some(items) = get(schema, "items") {
        restricts(items, Exempt::default(), &at.field("items"), found);
    }
    let of_properties = at.field("properties");
    for (name, property) in properties(schema) {
        restricts(property, Exempt::default(), &of_properties.key(name), found);
        if name == "metadata" {
            let why = "must not be specified in a nested context";
            found.causes.push(forbidden(&of_properties.key(name), why));
        }
    }
    for (keyword, why) in FORBIDDEN_IN_RESTRICTIONS {
        let is_present = match get(schema, keyword) {
            None => false,
            Some(_) if PRESENT_IF_EMPTY.contains(&keyword) => true,
            Some(Value::Object(_)) => true,
            Some(value) => is_set(value),
        };
        if is_present {
            found.causes.push(forbidden(&at.field(keyword), why));
        }
    }
}

/// Checks that the root describes every field and list that its restrictions are about.
fn restricts_known(
    restriction: &Value,
    described: &Value,
    at: &Path,
    of_restriction: &Path,
    causes: &mut Causes,
) {
    for junctor in ["allOf", "anyOf", "oneOf"] {
        let of_junctor = of_restriction.field(junctor);
        for (index, each) in list(restriction, junctor).iter().enumerate() {
            fields_are_known(each, described, at, &of_junctor.index(index), causes);
        }
    }
    if let Some(not) = get(restriction, "not") {
        fields_are_known(not, described, at, &of_restriction.field("not"), causes);
    }
}

fn fields_are_known(
    restriction: &Value,
    described: &Value,
    at: &Path,
    of_restriction: &Path,
    causes: &mut Causes,
) {
    if causes.is_full() {
        return;
    }
    restricts_known(restriction, described, at, of_restriction, causes);
    if let Some(items) = get(restriction, "items") {
        let (at, of_items) = (at.field("items"), of_restriction.field("items"));
        match get(described, "items") {
            Some(described) => fields_are_known(items, described, &at, &of_items, causes),
            None => causes.push(undescribed(&at, &of_items)),
        }
    }
    let (at, of_restriction) = (at.field("properties"), of_restriction.field("properties"));
    for (name, property) in properties(restriction) {
        let (at, of_property) = (at.key(name), of_restriction.key(name));
        match described.get("properties").and_then(|all| all.get(name)) {
            Some(described) => fields_are_known(property, described, &at, &of_property, causes),
            None => causes.push(undescribed(&at, &of_property)),
        }
    }
}

fn undescribed(at: &Path, restriction: &Path) -> Cause {
    required(at, &format!("because it is defined in {restriction}"))
}

fn is_only_type(schema: &Value, kind: &str) -> bool {
    let fields = schema.as_object().into_iter().flatten();
    text(schema, "type") == kind && fields.filter(|(_, value)| is_set(value)).count() == 1
}

fn required(at: &Path, why: &str) -> Cause {
    Cause::required(&at.to_string(), why)
}

fn forbidden(at: &Path, why: &str) -> Cause {
    Cause::forbidden(&at.to_string(), why)
}

fn invalid(at: &Path, value: Value, why: &str) -> Cause {
    Cause::invalid(&at.to_string(), &value, why)
}

//! What the schema of a whole object may say if its status is written apart: the part about the
//! status is then read on its own, and nothing about it may be lost.

use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

const TYPE: &str = "type";
/// The keywords in Kubernetes' order, each with its name there if it may be used.
const KEYWORDS: [(&str, Option<&str>); 44] = [
    ("id", None),
    ("$schema", None),
    ("$ref", None),
    ("description", Some("Description")),
    (TYPE, Some("Type")),
    ("nullable", None),
    ("format", Some("Format")),
    ("title", Some("Title")),
    ("default", None),
    ("maximum", Some("Maximum")),
    ("exclusiveMaximum", Some("ExclusiveMaximum")),
    ("minimum", Some("Minimum")),
    ("exclusiveMinimum", Some("ExclusiveMinimum")),
    ("maxLength", Some("MaxLength")),
    ("minLength", Some("MinLength")),
    ("pattern", Some("Pattern")),
    ("maxItems", Some("MaxItems")),
    ("minItems", Some("MinItems")),
    ("uniqueItems", Some("UniqueItems")),
    ("multipleOf", Some("MultipleOf")),
    ("enum", None),
    ("maxProperties", None),
    ("minProperties", None),
    ("required", Some("Required")),
    ("items", Some("Items")),
    ("allOf", None),
    ("oneOf", None),
    ("anyOf", None),
    ("not", None),
    ("properties", Some("Properties")),
    ("additionalProperties", None),
    ("patternProperties", None),
    ("dependencies", None),
    ("additionalItems", None),
    ("definitions", None),
    ("externalDocs", Some("ExternalDocs")),
    ("example", Some("Example")),
    (
        "x-kubernetes-preserve-unknown-fields",
        Some("XPreserveUnknownFields"),
    ),
    ("x-kubernetes-embedded-resource", None),
    ("x-kubernetes-int-or-string", None),
    ("x-kubernetes-list-map-keys", None),
    ("x-kubernetes-list-type", None),
    ("x-kubernetes-map-type", None),
    ("x-kubernetes-validations", Some("XValidations")),
];
const BUT: &str = "at the root of the schema if the status subresource is enabled";

/// The first keyword that is not allowed.
pub(super) fn check(field: &str, schema: &Value) -> Option<Cause> {
    let given = KEYWORDS
        .iter()
        .filter(|(keyword, _)| schema.get(keyword).is_some_and(is_given));
    for (keyword, allowed) in given {
        let kind = object::text(schema, &[TYPE]);
        if *keyword == TYPE && kind != "object" {
            let why = format!("only \"object\" is allowed as the type {BUT}");
            return Some(Cause::invalid(
                &format!("{field}.{TYPE}"),
                &kind.into(),
                &why,
            ));
        }
        if allowed.is_none() {
            let known: Vec<&str> = KEYWORDS.iter().filter_map(|(_, name)| *name).collect();
            let why = format!("only [{}] fields are allowed {BUT}", known.join(" "));
            return Some(Cause::invalid(field, schema, &why));
        }
    }
    None
}

/// False for what Go takes for nothing.
fn is_given(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_about_the_whole_object_is_allowed() {
        let allowed = json!({
            "type": "object", "properties": {}, "nullable": false, "x-kubernetes-validations": [{}],
        });
        assert_eq!(check("f", &allowed), None);
        for (keyword, value) in [
            ("anyOf", json!([{}])),
            ("nullable", json!(true)),
            ("default", json!({})),
            ("x-kubernetes-map-type", json!("atomic")),
        ] {
            let cause = check("f", &json!({"type": "object", keyword: value})).unwrap();
            assert_eq!(cause.field, "f", "{keyword}");
            assert!(
                cause.message.contains("only [Description Type"),
                "{cause:?}"
            );
        }
        let cause = check("f", &json!({"type": "string", "anyOf": [{}]})).unwrap();
        assert_eq!(cause.field, "f.type");
    }
}

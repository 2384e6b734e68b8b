//! Which schemas are structural.

use serde_json::{Value, json};

use super::super::{CommonTexts, DEPTH_MAX, Schema};
use super::{cases, schema, told};
use crate::status::Cause;

/// The causes of a schema that has this one for the field `x`.
fn refused(x: &Value) -> Vec<String> {
    let document = json!({"type": "object", "properties": {"x": x}});
    match Schema::parse(&document) {
        Ok(_) => Vec::new(),
        Err(causes) => told(&causes),
    }
}

#[test]
fn schemas_are_checked() {
    for case in cases(include_str!("schemas.txt")) {
        assert_eq!(refused(&case.schema), case.errors, "{}", case.schema);
    }
}

#[test]
fn restrictions_are_about_described_fields() {
    let root = json!({"type": "object", "anyOf": [{"properties": {"a": {"minLength": 1}}}]});
    let causes = Schema::parse_at("spec.s", &root).unwrap_err();
    assert_eq!(
        told(&causes),
        [
            "spec.s.properties[a]: Required value: because it is defined in spec.s.anyOf[0].properties[a]"
        ]
    );
}

#[test]
fn the_root_is_an_object() {
    let table = [
        (
            json!({}),
            "type: Required value: must not be empty at the root",
        ),
        (
            json!({"type": "string"}),
            "type: Invalid value: \"string\": must be object at the root",
        ),
        (
            json!({"type": "object", "nullable": true}),
            "nullable: Forbidden: nullable cannot be true at the root",
        ),
        (
            json!({"type": "object", "additionalProperties": true}),
            "additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            json!({"type": "object", "properties": {"kind": {"type": "integer"}}}),
            "properties[kind].type: Invalid value: \"integer\": must be string",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
        (json!([]), ": Invalid value: []: must be an object"),
    ];
    for (document, expected) in table {
        let causes = Schema::parse(&document).unwrap_err();
        assert_eq!(told(&causes), [expected], "{document}");
    }
    schema(
        &json!({"type": "object", "properties": {"metadata": {"type": "object",
        "properties": {"name": {"type": "string", "pattern": "^a"}}}}}),
    );
}

#[test]
fn type_and_metadata_have_no_defaults() {
    let meta =
        json!({"type": "object", "properties": {"kind": {"type": "string", "default": "K"}}});
    let causes = Schema::parse(&meta).unwrap_err();
    assert_eq!(
        told(&causes),
        ["properties[kind].default: Forbidden: must not be set in top-level kind"]
    );
}

#[test]
fn patterns_are_gos() {
    let table = [
        (r"^\d+$", "12", "\u{0661}"),
        (r"^\w\S\D$", "aab", "\u{e9}aa"),
        (r"^[\d\s-]+$", "1 -", "a"),
        (r"^[]a]$", "]", "b"),
        (r"^[^]a]$", "b", "]"),
        (r"^[[a]$", "[", "b"),
        (r"^[a&&b]+$", "a&b", "c"),
        (r"^[[:alpha:]_]+$", "a_", "1"),
        (r"^{a}$", "{a}", "a"),
        (r"^a{2}b{1,}c{0,1}$", "aab", "ab"),
        (r"^\Qa.b\E$", "a.b", "acb"),
        (r"^\<a\>$", "<a>", "a"),
        (r"\bfoo\b", "a foo.", "afoo"),
        (r"^(?i)straße$", "STRAßE", "strasse"),
        (r"^\pL+$", "aé", "1"),
    ];
    for (pattern, yes, no) in table {
        let schema = schema(
            &json!({"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}}),
        );
        let is_valid = |text: &str| schema.validate(&json!({"x": text}), None).is_empty();
        assert!(is_valid(yes), "{pattern} {yes}");
        assert!(!is_valid(no), "{pattern} {no}");
    }
    for pattern in ["(", "[a", "a{1001}", r"\", r"\u0041", "(?=a)", r"(a)\1"] {
        let causes = refused(&json!({"type": "string", "pattern": pattern}));
        assert_eq!(causes.len(), 1, "{pattern}: {causes:?}");
        assert!(
            causes[0].contains("must be a valid regular expression"),
            "{causes:?}"
        );
    }
}

#[test]
fn the_depth_has_a_limit() {
    let nested = |depth: usize| {
        (1..depth).fold(
            json!({"type": "object"}),
            |inner, _| json!({"type": "object", "properties": {"a": inner}}),
        )
    };
    schema(&nested(DEPTH_MAX));
    let causes = Schema::parse(&nested(DEPTH_MAX + 1)).unwrap_err();
    assert!(causes[0].message.contains("must not nest"), "{causes:?}");
}

#[test]
fn the_patterns_of_a_schema_have_one_bound() {
    let large = |at: usize| format!("{at}\\pL{{100}}");
    let of_patterns = |pattern: &dyn Fn(usize) -> String| {
        let properties = (0..100).map(|at| {
            let property = json!({"type": "string", "pattern": pattern(at)});
            (format!("p{at}"), property)
        });
        let properties: serde_json::Map<String, Value> = properties.collect();
        Schema::parse(&json!({"type": "object", "properties": properties}))
    };
    assert!(of_patterns(&|_| large(0)).is_ok());
    let causes = of_patterns(&large).unwrap_err();
    assert!(causes.len() < 100);
    let why =
        "must be a valid regular expression, but isn't: error parsing regexp: expression too large";
    assert!(causes[0].message.contains(why), "{}", causes[0].message);
    let rule = |at| json!({"rule": format!("self.a.find(r'{}') == ''", large(at)), "message": "m"});
    let rules: Vec<Value> = (0..100).map(rule).collect();
    let schema = schema(&json!({"type": "object", "x-kubernetes-validations": rules,
        "properties": {"a": {"type": "string", "maxLength": 9}}}));
    let causes = schema.check_rules("");
    assert!((1..100).contains(&causes.len()), "{}", causes.len());
    assert!(
        causes[0].message.contains("expression too large"),
        "{}",
        causes[0].message
    );
}

/// Each error names its field, whose path may be as long as the schema.
#[test]
fn errors_are_told_up_to_a_bound() {
    let of_key = |each: Value| {
        let key = "k".repeat(64 << 10);
        json!({"type": "object", "properties": { key: each }})
    };
    let bytes = |causes: &[Cause]| told(causes).iter().map(String::len).sum::<usize>();
    let fields: serde_json::Map<String, Value> =
        (0..1000).map(|at| (format!("f{at}"), json!({}))).collect();
    let keys: Vec<String> = (0..1000).map(|at| at.to_string()).collect();
    for each in [
        json!({"type": "object", "properties": fields}),
        json!({"type": "object", "anyOf": vec![json!({"title": "t"}); 1000]}),
        json!({"type": "object", "x-kubernetes-validations": vec![json!({}); 1000]}),
        json!({"type": "array", "items": {"type": "object"},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}),
    ] {
        let told = bytes(&Schema::parse(&of_key(each.clone())).unwrap_err());
        assert!((4 << 20..5 << 20).contains(&told), "{told}");
    }
    let rules = vec![json!({"rule": "none"}); 1000];
    let schema = schema(&of_key(
        json!({"type": "object", "x-kubernetes-validations": rules}),
    ));
    let told = bytes(&schema.check_rules(""));
    assert!((4 << 20..5 << 20).contains(&told), "{told}");
}

#[test]
fn the_document_has_type_and_metadata() {
    let document = json!({"type": "object", "description": "d", "properties": {
        "spec": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": [{"rule": "true"}]}}});
    let schema = schema(&document);
    assert_eq!(schema.check_rules(""), []);
    let shown = schema.openapi(CommonTexts::default());
    assert_eq!(shown["description"], "d");
    for of_object in [&shown, &shown["properties"]["spec"]] {
        assert_eq!(of_object["properties"]["kind"]["type"], "string");
        assert!(of_object["properties"]["metadata"]["allOf"][0]["$ref"].is_string());
    }
    assert_eq!(
        shown["properties"]["spec"]["required"],
        json!(["kind", "apiVersion"])
    );
    assert!(shown.get("required").is_none());
}

#[test]
fn schemas_keep_alike_whatever_else_they_say() {
    let of_x = |x: Value| {
        let spec = json!({"type": "object", "properties": {"x": x}});
        schema(&json!({"type": "object", "properties": {"spec": spec}}))
    };
    let text = of_x(json!({"type": "string"}));
    for alike in [
        json!({"type": "string", "description": "d", "maxLength": 5, "enum": ["a"]}),
        json!({"type": "integer"}),
    ] {
        assert!(text.keeps_like(&of_x(alike)));
    }
    let list = |item: Value| json!({"type": "array", "items": item});
    let map = |each: Value| json!({"type": "object", "additionalProperties": each});
    let different = [
        json!({"type": "string"}),
        json!({"type": "string", "nullable": true}),
        json!({"type": "string", "default": "a"}),
        json!({"type": "string", "default": "b"}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        json!({"type": "object", "properties": {"b": {"type": "string"}}}),
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true}),
        list(json!({"type": "string"})),
        list(json!({"type": "string", "nullable": true})),
        map(json!({"type": "string"})),
        map(json!({"type": "string", "nullable": true})),
        map(json!(true)),
    ];
    let all: Vec<Schema> = different.into_iter().map(of_x).collect();
    for (at, one) in all.iter().enumerate() {
        for (other_at, other) in all.iter().enumerate() {
            assert_eq!(one.keeps_like(other), at == other_at, "{at} {other_at}");
        }
    }
}

#[test]
fn an_object_of_another_version_loses_what_this_one_does_not_have() {
    let schema = schema(&json!({"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": "string", "nullable": true},
        "c": {"type": "string", "default": "d"}}}));
    let mut object = json!({"kind": "K", "a": null, "b": null, "c": null, "e": 1});
    schema.coerce(&mut object);
    // A null that has a default stays until the defaults are filled in.
    assert_eq!(object, json!({"kind": "K", "b": null, "c": null}));
}

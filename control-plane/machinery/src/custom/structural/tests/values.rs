//! What schemas do to objects.

use serde_json::{Value, json};

use super::{cases, schema, told};

/// A schema with this one for `spec.x`.
fn of_x(x: Value) -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"x": x}},
    }})
}

/// Validates `spec.x`.
fn wrong(x: &Value, value: &Value) -> Vec<String> {
    let object = json!({"spec": {"x": value}});
    told(&schema(&of_x(x.clone())).validate(&object, None))
}

#[test]
fn values_are_checked() {
    for case in cases(include_str!("values.txt")) {
        let value = serde_json::from_str(case.value.unwrap()).unwrap();
        assert_eq!(
            wrong(&case.schema, &value),
            case.errors,
            "{} {value}",
            case.schema
        );
    }
}

#[test]
fn unknown_fields_go() {
    let table = [
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            json!({"a": "1", "b": 2}),
            json!({"a": "1"}),
            "spec.x.b",
        ),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}),
            json!([{"a": "1"}, {"b": 2}]),
            json!([{"a": "1"}, {}]),
            "spec.x[1].b",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "object"}}),
            json!({"k": {"b": 2}}),
            json!({"k": {}}),
            "spec.x.k.b",
        ),
        (
            json!({"type": "object", "additionalProperties": true}),
            json!({"k": {"b": 2}, "l": [[{"c": 1}]]}),
            json!({"k": {}, "l": [[{}]]}),
            "spec.x.k.b spec.x.l[0][0].c",
        ),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "object"}}}),
            json!({"a": {"gone": 1}, "b": {"stays": 1}}),
            json!({"a": {}, "b": {"stays": 1}}),
            "spec.x.a.gone",
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}}),
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {"b": 1}, "c": 1}),
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {}}),
            "spec.x.c spec.x.spec.b",
        ),
        (
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            json!([{"a": 1}]),
            json!([{"a": 1}]),
            "",
        ),
        (json!({"type": "object"}), json!("text"), json!("text"), ""),
    ];
    for (x, before, after, gone) in table {
        let schema = schema(&of_x(x.clone()));
        let object = |x| json!({"apiVersion": "g/v1", "kind": "X", "metadata": {"any": 1}, "spec": {"x": x}});
        let mut pruned = object(before);
        assert_eq!(schema.unknown(&pruned).join(" "), gone, "{x}");
        assert_eq!(schema.prune(&mut pruned).join(" "), gone, "{x}");
        assert_eq!(pruned, object(after), "{x}");
        assert_eq!(schema.unknown(&pruned), [""; 0], "{x}");
    }
}

/// Each has a path, which may be as long as the object.
#[test]
fn unknown_fields_are_told_up_to_a_bound() {
    let schema = schema(&of_x(
        json!({"type": "object", "additionalProperties": true}),
    ));
    let fields: serde_json::Map<String, Value> =
        (0..1000).map(|at| (format!("f{at}"), json!(at))).collect();
    let lists: Value = fields.keys().map(|name| json!([{ name: 1 }])).collect();
    for value in [Value::Object(fields), lists] {
        let key = "k".repeat(64 << 10);
        let mut object = json!({"spec": {"x": { key: value }}});
        let told = schema.prune(&mut object);
        let bytes: usize = told.iter().map(String::len).sum();
        assert!((4 << 20..5 << 20).contains(&bytes), "{bytes}");
        // What is not told is gone all the same.
        assert_eq!(schema.unknown(&object), [""; 0]);
    }
}

#[test]
fn defaults_fill_what_is_missing_or_null() {
    let port = json!({"type": "object", "default": {}, "properties": {
        "port": {"type": "integer", "default": 80},
        "nullable": {"type": "string", "nullable": true, "default": "a"},
        "none": {"type": "string"},
    }});
    let full = json!({"port": 80, "nullable": "a"});
    let table = [
        (
            port.clone(),
            json!({"spec": {}}),
            json!({"spec": {"x": full}}),
        ),
        (
            port.clone(),
            json!({"spec": {"x": null}}),
            json!({"spec": {"x": full}}),
        ),
        (
            port.clone(),
            json!({"spec": {"x": {"port": null, "nullable": null, "none": null}}}),
            json!({"spec": {"x": {"port": 80, "nullable": null}}}),
        ),
        (
            json!({"type": "array", "items": port}),
            json!({"spec": {"x": [{}, null, 5]}}),
            json!({"spec": {"x": [full, full, 5]}}),
        ),
        (
            json!({"type": "object", "additionalProperties": port}),
            json!({"spec": {"x": {"k": {}, "l": null}}}),
            json!({"spec": {"x": {"k": full, "l": full}}}),
        ),
        (port, json!({"spec": 5}), json!({"spec": 5})),
    ];
    for (x, before, after) in table {
        let mut object = before.clone();
        schema(&of_x(x.clone())).default(&mut object);
        assert_eq!(object, after, "{x} {before}");
    }
}

#[test]
fn defaults_do_not_make_a_huge_object_of_a_small_one() {
    let text = "t".repeat(1000);
    let items = json!({"type": "object", "properties": {
        "text": {"type": "string", "default": text}}});
    let schema = schema(&of_x(json!({"type": "array", "items": items})));
    let filled = |items: usize| {
        let mut object = json!({"spec": {"x": vec![json!({}); items]}});
        let is_whole = schema.default(&mut object);
        let items = object["spec"]["x"].as_array().unwrap();
        let filled = items.iter().filter(|item| item["text"] == *text);
        (filled.count(), is_whole)
    };
    assert_eq!(filled(10_000), (10_000, true));
    assert_eq!(filled(100_000), (0, false), "all of them or none");
}

#[test]
fn an_object_whose_defaults_are_too_large_is_renewed_without_them() {
    let text = "t".repeat(100_000);
    let default = json!({"type": "object", "default": {}, "properties": {
        "text": {"type": "string", "default": text}}});
    let items = json!({"type": "object", "properties": {"a": default}});
    let schema = schema(&of_x(json!({"type": "array", "items": items})));
    let mut object = json!({"spec": {"x": vec![json!({"gone": 1}); 200]}});
    let plain = json!({"spec": {"x": vec![json!({}); 200]}});
    assert!(schema.renew(&mut object), "it has lost fields");
    assert_eq!(object, plain);
    assert!(!schema.renew(&mut object), "the store has nothing else");
    assert_eq!(object, plain);
}

/// A list with the key `name`.
fn keyed() -> Value {
    json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "port": {"type": "integer", "maximum": 100}}}})
}

#[test]
fn what_did_not_change_may_stay_invalid() {
    let text = json!({"type": "string", "maxLength": 1});
    let x = json!({"type": "object", "required": ["new"], "properties": {
        "text": text, "plain": {"type": "array", "items": text}, "keyed": keyed(),
        "map": {"type": "object", "additionalProperties": text},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "free": {"type": "integer"}, "new": {"type": "integer"}}});
    let schema = schema(&of_x(x));
    let old = json!({"text": "long", "plain": ["long"], "map": {"k": "long"}, "set": ["a", "a"],
        "keyed": [{"name": "a", "port": 101}, {"name": "b"}], "free": 1});
    let invalid_now = |change: Value| {
        let mut new = old.clone();
        crate::object::map_mut(&mut new).extend(change.as_object().unwrap().clone());
        let object = |x: &Value| json!({"spec": {"x": x}});
        let causes = schema.validate(&object(&new), Some(&object(&old)));
        causes
            .into_iter()
            .map(|cause| cause.field)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let table = [
        (json!({}), ""),
        (json!({"free": 2}), "spec.x.new"),
        (json!({"new": 2}), ""),
        (json!({"new": 2, "text": "longer"}), "spec.x.text"),
        (json!({"new": 2, "plain": ["long", "b"]}), "spec.x.plain[0]"),
        (json!({"new": 2, "map": {"k": "long", "l": "b"}}), ""),
        (
            json!({"new": 2, "map": {"k": "long", "l": "long"}}),
            "spec.x.map.l",
        ),
        (
            json!({"new": 2, "keyed": [{"name": "b", "port": 1}, {"name": "a", "port": 101}]}),
            "",
        ),
        (
            json!({"new": 2, "keyed": [{"name": "a", "port": 102}]}),
            "spec.x.keyed[0].port",
        ),
        (
            json!({"new": 2, "keyed": [{"name": "c", "port": 101}]}),
            "spec.x.keyed[0].port",
        ),
        (json!({"new": 2, "set": ["b", "b"]}), ""),
    ];
    for (change, expected) in table {
        assert_eq!(invalid_now(change.clone()), expected, "{change}");
    }
}

#[test]
fn a_change_deep_in_an_object_is_told_with_all_that_is_wrong_around_it() {
    let levels = 20;
    let number = json!({"type": "integer", "maximum": 1});
    let mut x = json!({"type": "object", "properties": {"number": number}});
    let (mut old, mut new) = (json!({"number": 2}), json!({"number": 3}));
    for _ in 0..levels {
        x = json!({"type": "object", "required": ["other"], "properties": {
            "beside": {"type": "object", "properties": {"number": number}},
            "inner": x, "number": number, "other": number}});
        let around = |inner: Value| json!({"beside": {"number": 2}, "inner": inner, "number": 2});
        (old, new) = (around(old), around(new));
    }
    let schema = schema(&of_x(x));
    let object = |x: Value| json!({"spec": {"x": x}});
    let (old, new) = (object(old), object(new));
    assert!(schema.validate(&new, Some(&new)).is_empty());
    let causes = schema.validate(&new, Some(&old));
    let mut fields = causes.into_iter().map(|cause| cause.field);
    let place = |level: usize, name: &str| format!("spec.x{}.{name}", ".inner".repeat(level));
    assert_eq!(fields.next(), Some(place(levels, "number")));
    let around: Vec<String> = fields.collect();
    let expected = (0..levels).rev().map(|level| place(level, "other"));
    assert_eq!(around, expected.collect::<Vec<_>>());
}

#[test]
fn objects_within_objects_have_types_and_metadata() {
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let fields = |value: &Value| {
        let all = wrong(&embedded, value);
        all.iter()
            .map(|one| one.split(": ").next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        fields(&json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}})),
        ""
    );
    assert_eq!(fields(&json!({})), "spec.x.apiVersion spec.x.kind");
    assert_eq!(
        fields(&json!({"apiVersion": "", "kind": 1})),
        "spec.x.apiVersion spec.x.kind"
    );
    let bad = json!({"apiVersion": "a/b/c", "kind": "_", "metadata": {"name": "a/b", "labels": {"?": "ok"}}});
    let expected = "spec.x.apiVersion spec.x.kind spec.x.metadata.name spec.x.metadata.labels";
    assert_eq!(fields(&bad), expected);
}

#[test]
fn of_very_many_violations_only_the_first_are_told() {
    let ones = Value::from(vec![1; 100_000]);
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let rule = json!([{"rule": "self > 5"}]);
    let large = json!({"type": "array", "items": {
        "type": "integer", "x-kubernetes-validations": rule,
    }});
    for of_items in [texts, large] {
        assert_eq!(wrong(&of_items, &ones).len(), 10_000, "{of_items}");
    }
    // Nor more than 4 MiB, and the last one.
    let key = "k".repeat(64 << 10);
    let value = json!({ key: vec![1; 1000] });
    for of_items in [
        json!({"type": "string"}),
        json!({"type": "integer", "minimum": 2}),
        json!({"type": "integer", "anyOf": [{"minimum": 2}, {"maximum": 0}]}),
        json!({"type": "integer", "x-kubernetes-validations": rule}),
    ] {
        let of_lists = json!({"type": "array", "items": of_items});
        let told = wrong(
            &json!({"type": "object", "additionalProperties": of_lists}),
            &value,
        );
        let bytes: usize = told.iter().map(String::len).sum();
        assert!((4 << 20..5 << 20).contains(&bytes), "{of_items}: {bytes}");
    }
}

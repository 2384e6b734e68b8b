use super::*;
use crate::schema;
use serde_json::json;

#[test]
fn strategic_patches_end_as_in_go() {
    let (mut applied, mut refused) = (0, 0);
    for line in include_str!("../../../testdata/strategic.jsonl").lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let message = match line["kind"].as_str().unwrap() {
            "Pod" => schema::message("core/v1.Pod"),
            _ => schema::message("apps/v1.Deployment"),
        };
        let about = format!("{} onto {}", line["patch"], line["original"]);
        match strategic(&line["original"], &line["patch"], message.unwrap()) {
            Ok(result) => {
                assert_eq!(line["error"], "", "{about}");
                assert_eq!(result, line["result"], "{about}");
                applied += 1;
            }
            Err(error) => {
                assert_eq!(line["error"], error.to_string(), "{about}");
                refused += 1;
            }
        }
    }
    assert!(applied > 200 && refused > 5, "{applied} {refused}");
}

#[test]
fn json_patches_apply_in_order_or_not_at_all() {
    let object = json!({"a": {"b": [1, 2]}, "c": "d"});
    let patch = json!([
        {"op": "test", "path": "/c", "value": "d"},
        {"op": "add", "path": "/a/b/-", "value": 3},
        {"op": "remove", "path": "/c"},
    ]);
    assert_eq!(json(&object, &patch), Ok(json!({"a": {"b": [1, 2, 3]}})));
    let failing = json!([{"op": "test", "path": "/c", "value": "x"}]);
    assert!(matches!(json(&object, &failing), Err(Error::TestFailed(_))));
    let missing = json!([{"op": "remove", "path": "/zz"}]);
    assert!(matches!(
        json(&object, &missing),
        Err(Error::Unprocessable(_))
    ));
    assert!(matches!(
        json(&object, &json!({})),
        Err(Error::Malformed(_))
    ));
}

#[test]
fn a_field_that_is_absent_passes_a_test_for_null() {
    let object = json!({"a": {"b": null, "c": [1]}});
    let test = |path: &str| {
        json(
            &object,
            &json!([{"op": "test", "path": path, "value": null}]),
        )
    };
    for absent in ["/z", "/a/z", "/a/b"] {
        assert_eq!(test(absent), Ok(object.clone()), "{absent}");
    }
    for wrong in ["/a", "/a/z/y", "/a/c/0", "/a/c/1"] {
        assert!(test(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn copies_cannot_blow_an_object_up() {
    let object = json!({"a": ["x".repeat(1 << 16)]});
    let double: Vec<Value> = (0..40)
        .map(|_| json!({"op": "copy", "from": "/a", "path": "/a/-"}))
        .collect();
    assert!(matches!(
        json(&object, &double.into()),
        Err(Error::Malformed(_))
    ));
    let many = vec![json!({"op": "test", "path": "", "value": 0}); OPERATIONS_MAX + 1];
    assert!(matches!(
        json(&object, &many.into()),
        Err(Error::Malformed(_))
    ));
}

#[test]
fn null_takes_away_in_a_merge_patch() {
    let object = json!({"a": 1, "b": {"c": [1], "d": 2}});
    let patch = json!({"a": null, "b": {"c": [2], "e": {"f": null}}});
    assert_eq!(
        merge(&object, &patch),
        json!({"b": {"c": [2], "d": 2, "e": {}}})
    );
}

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
    let back_and_forth: Vec<Value> = [("/a", "/b"), ("/b", "/a")]
        .iter()
        .cycle()
        .take(OPERATIONS_MAX)
        .map(|(from, to)| json!({"op": "move", "from": from, "path": to}))
        .collect();
    let large = json!({"a": vec![0; 1000]});
    assert!(matches!(
        json(&large, &back_and_forth.clone().into()),
        Err(Error::Malformed(_))
    ));
    assert_eq!(json(&object, &back_and_forth.into()), Ok(object));
    let object = json!({"a": []});
    let many = vec![json!({"op": "test", "path": "", "value": 0}); OPERATIONS_MAX + 1];
    assert!(matches!(
        json(&object, &many.into()),
        Err(Error::Malformed(_))
    ));
}

#[test]
fn no_patch_nests_an_object_more_deeply_than_a_body() {
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"a": inner}));
    let path = |levels: usize| "/a".repeat(levels);
    // Each copy would double the depth.
    let object = nested(60);
    let doubled = |times: u32| -> Vec<Value> {
        let ends = (0..times).map(|time| path(61 * (1 << time)));
        ends.map(|end| json!({"op": "copy", "from": "", "path": end}))
            .collect()
    };
    assert!(json(&object, &doubled(1).into()).is_ok());
    let twice = json(&object, &doubled(2).into());
    assert_eq!(twice, Err(Error::Malformed(TOO_DEEP.into())));
    for op in ["add", "replace"] {
        let one = |value: Value| json!([{"op": op, "path": path(60), "value": value}]);
        assert_eq!(
            json(&object, &one(nested(67))),
            Err(Error::Malformed(TOO_DEEP.into()))
        );
        let deepest = json(&object, &one(nested(66))).unwrap();
        // Stored as text, it can be read again.
        assert!(serde_json::from_str::<Value>(&deepest.to_string()).is_ok());
    }
    let object = json!({"a": nested(60), "b": nested(70)});
    let moved = json!([{"op": "move", "from": "/b", "path": path(61)}]);
    assert_eq!(
        json(&object, &moved),
        Err(Error::Malformed(TOO_DEEP.into()))
    );
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

#[test]
fn a_patch_that_shifts_a_long_list_again_and_again_is_refused() {
    let object = json!({"list": vec![0; 700_000]});
    for operation in [
        json!({"op": "add", "path": "/list/0", "value": 1}),
        json!({"op": "remove", "path": "/list/0"}),
        json!({"op": "move", "from": "/list/0", "path": "/list/1"}),
    ] {
        let patch = Value::from(vec![operation; 10_000]);
        let error = super::json(&object, &patch).unwrap_err();
        assert!(error.to_string().contains("shift more than"), "{error}");
    }
    let end = json!({"op": "add", "path": "/list/-", "value": 1});
    let patched = super::json(&object, &Value::from(vec![end; 10_000])).unwrap();
    assert_eq!(patched["list"].as_array().map(Vec::len), Some(710_000));
}

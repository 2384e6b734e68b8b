use super::*;
use crate::{object, schema};

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        value => value,
    }
}

#[test]
fn bodies_are_read_and_refused_as_by_go() {
    for line in include_str!("../../testdata/decode.jsonl").lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let text = line["text"].as_str().unwrap().to_owned();
        let deployment = text.contains("Deployment");
        let message = match () {
            () if deployment => schema::message("apps/v1.Deployment"),
            () if text.contains("ConfigMap") => schema::message("core/v1.ConfigMap"),
            () if text.contains("Service") => schema::message("core/v1.Service"),
            () => schema::message("core/v1.Pod"),
        };
        let error = match decode(text.as_bytes(), message.unwrap()) {
            Ok(decoded) => {
                let object = without_nulls(line["object"].take());
                assert_eq!(decoded.object, object, "{text}");
                match decoded.problems.as_slice() {
                    [] => String::new(),
                    problems => strict_error(problems),
                }
            }
            Err(error) => error.0,
        };
        assert_eq!(line["error"], error, "{text}");
    }
}

#[test]
fn what_go_wrote_is_left_as_it_is() {
    for line in include_str!("../../testdata/objects.jsonl").lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let object = without_nulls(line["json"].take());
        let (group, version) = schema::split_api_version(object::api_version(&object));
        let message = schema::body(group, version, object::kind(&object)).unwrap();
        let conformed = prune(&object, message).unwrap();
        assert_eq!(conformed.problems, [""; 0]);
        assert_eq!(conformed.object, object);
    }
}

#[test]
fn deep_and_cut_bodies_are_refused() {
    let message = schema::message("core/v1.Pod").unwrap();
    let deep = "{\"spec\":".repeat(10_000);
    assert!(decode(deep.as_bytes(), message).is_err());
    assert!(parse("[".repeat(10_000).as_bytes()).is_err());
    assert!(decode(b"{} x", message).is_err() && decode(b"", message).is_err());
    assert!(
        decode(b"[]", message)
            .unwrap_err()
            .0
            .contains("Go value of type v1.Pod")
    );
}

#[test]
fn where_an_object_is_restored_a_type_that_reads_itself_does_not_tell_its_place() {
    let message = schema::message("core/v1.Service").unwrap();
    let read = serde_json::json!({"spec": {"ports": [{"targetPort": 3_000_000_000_i64}]}});
    let told = [prune(&read, message), restore(&read, message)].map(|told| told.unwrap_err().0);
    assert_eq!(
        told,
        [
            "json: cannot unmarshal number 3000000000 into Go struct field ServicePort.spec.ports.targetPort of type int32",
            "json: cannot unmarshal number 3000000000 into Go value of type int32",
        ]
    );
    let read = serde_json::json!({"metadata": {"creationTimestamp": true}});
    assert_eq!(
        restore(&read, message).unwrap_err().0,
        "json: cannot unmarshal bool into Go value of type string"
    );
    let read = serde_json::json!({"spec": {"sessionAffinity": true}});
    assert_eq!(
        restore(&read, message).unwrap_err().0,
        "json: cannot unmarshal bool into Go struct field ServiceSpec.spec.sessionAffinity of type v1.ServiceAffinity"
    );
}

#[test]
fn an_empty_list_is_told_from_a_missing_one_where_kubernetes_does() {
    let kind = crate::schema::kind("", "v1", "ResourceQuota").unwrap();
    let body = br#"{"metadata": {"finalizers": []}, "spec": {"scopes": [], "hard": {}}}"#;
    let mut quota = super::decode(body, kind.message()).unwrap().object;
    assert_eq!(quota["spec"], serde_json::json!({"scopes": []}));
    assert!(quota["metadata"].get("finalizers").is_none());
    let again = super::prune(&quota, kind.message()).unwrap().object;
    assert_eq!(again, quota);
    super::as_written(&mut quota, kind.message());
    assert_eq!(quota["spec"], serde_json::json!({}));
    let stored = super::as_stored(&again, kind.message()).unwrap().object;
    assert_eq!(stored, quota);
}

/// Each names its field, whose path may be as long as the body.
#[test]
fn problems_are_told_up_to_a_bound_in_bytes() {
    let fields: Vec<String> = (0..100)
        .map(|at| format!("\"f{at}\":1,\"f{at}\":2"))
        .collect();
    let body = format!("{{\"{}\":{{{}}}}}", "k".repeat(256 << 10), fields.join(","));
    let (_, problems) = parse(body.as_bytes()).unwrap();
    let bytes: usize = problems.iter().map(String::len).sum();
    assert!((4 << 20..5 << 20).contains(&bytes), "{bytes}");
}

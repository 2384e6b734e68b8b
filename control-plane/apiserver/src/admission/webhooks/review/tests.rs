use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Question, V1, V1BETA1, refused};

fn question(version: &'static str) -> Question {
    Question {
        version,
        uid: "u".into(),
        review: Value::Null,
    }
}

fn review(response: Value) -> Value {
    json!({"kind": "AdmissionReview", "apiVersion": V1, "response": response})
}

#[test]
fn an_answer_names_its_question_and_has_a_patch_with_its_type() {
    let patch = STANDARD.encode("[]");
    for (answer, mutates, why) in [
        (json!({}), true, "webhook response was absent"),
        (
            review(json!({"uid": "v", "allowed": true})),
            true,
            "expected response.uid=\"u\", got \"v\"",
        ),
        (
            json!({"response": {"uid": "u"}}),
            true,
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
        ),
        (
            review(json!({"uid": "u", "patch": patch})),
            true,
            "webhook returned response.patch but not response.patchType",
        ),
        (
            review(json!({"uid": "u", "patchType": "JSONPatch"})),
            true,
            "webhook returned response.patchType but not response.patch",
        ),
        (
            review(json!({"uid": "u", "patch": patch, "patchType": "Merge"})),
            true,
            "unsupported patch type \"Merge\"",
        ),
        (
            review(json!({"uid": "u", "patch": patch})),
            false,
            "validating webhook may not return response.patch",
        ),
        (
            review(json!({"uid": "u", "patchType": "JSONPatch"})),
            false,
            "validating webhook may not return response.patchType",
        ),
    ] {
        let read = question(V1).read(&answer, mutates);
        assert_eq!(read.unwrap_err(), why, "{answer}");
    }
    let good = review(json!({"uid": "u", "allowed": true, "patch": patch,
        "patchType": "JSONPatch", "warnings": ["w"]}));
    let read = question(V1).read(&good, true).unwrap();
    assert_eq!((&*read.patch, read.refusal), (&b"[]"[..], None));
    assert_eq!(read.warnings, ["w"]);
    // Reviews of the older version say less.
    let old = json!({"response": {"allowed": false, "patch": patch}});
    let read = question(V1BETA1).read(&old, true).unwrap();
    assert_eq!(
        (&*read.patch, read.refusal),
        (&b"[]"[..], Some(Value::Null))
    );
}

#[test]
fn a_refusal_has_code_and_reason_of_the_answer() {
    let told = |status: Value| {
        let object = refused("w.x.y", &status).to_object();
        (
            object["code"].clone(),
            object["reason"].clone(),
            object["message"].clone(),
        )
    };
    let denied = "admission webhook \"w.x.y\" denied the request";
    let without = (
        400.into(),
        Value::Null,
        format!("{denied} without explanation").into(),
    );
    assert_eq!(told(Value::Null), without);
    assert_eq!(
        told(json!({"code": 200, "status": "Success"})),
        without,
        "a refusal is no success"
    );
    assert_eq!(
        told(json!({"code": 409, "reason": "Busy", "message": "later"})),
        (409.into(), "Busy".into(), format!("{denied}: later").into())
    );
    assert_eq!(
        told(json!({"reason": "Forbidden"})),
        (
            400.into(),
            "Forbidden".into(),
            format!("{denied}: Forbidden").into()
        )
    );
    let status = refused(
        "w.x.y",
        &json!({"details": {"retryAfterSeconds": 3, "name": "n"}}),
    );
    assert_eq!(status.details.retry_after_seconds, 3);
    assert_eq!(status.to_object()["details"]["name"], "n");
}

use std::convert::Infallible;

use http::{Method, Request, Response};
use kube::client::Body;
use tower::service_fn;

use super::*;
use crate::tests::{info, pod};

fn grant(allotment: Option<Allotment>) -> Grant {
    Grant {
        claim: "chip".to_owned(),
        uid: "u".to_owned(),
        allotment,
    }
}

/// A call without its body, and the body.
fn shown(call: &Call) -> (String, Value) {
    let Call::Patch { patch, .. } = call else {
        panic!("{call:?}");
    };
    (call.to_string(), patch.clone())
}

#[test]
fn a_claim_is_allocated_and_reserved_at_once_if_nobody_has_changed_it() {
    let pod = info(&pod("p", json!({})));
    let allotment = Allotment {
        version: "6".to_owned(),
        finalizers: None,
        allocation: json!({"devices": {"results": []}}),
        devices: Vec::new(),
    };
    let now = Timestamp::parse("2026-01-02T03:04:05Z").unwrap();
    let call = allocate(&pod, &grant(None), &allotment, "7", now);
    let (line, patch) = shown(&call);
    assert_eq!(line, "patch status of resourceclaims default/chip");
    let expected = json!({
        "metadata": {"uid": "u", "resourceVersion": "7"},
        "status": {
            "allocation": {
                "devices": {"results": []}, "allocationTimestamp": "2026-01-02T03:04:05Z",
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}],
        },
    });
    assert_eq!(patch, expected);
}

#[test]
fn a_pod_is_added_to_those_that_use_a_claim_and_taken_off_again() {
    let pod = info(&pod("p", json!({})));
    let (line, patch) = shown(&reserve(&pod, &grant(None)));
    assert_eq!(line, "patch status of resourceclaims default/chip");
    assert_eq!(
        patch["status"]["reservedFor"],
        json!([{"resource": "pods", "name": "p", "uid": "p"}])
    );
    let call = unreserve(&pod, &grant(None));
    let Call::Patch { form, .. } = &call else {
        panic!("{call:?}");
    };
    assert_eq!(*form, PatchForm::Strategic);
    assert_eq!(
        shown(&call).1["status"]["reservedFor"],
        json!([{"$patch": "delete", "uid": "p"}])
    );
}

#[test]
fn a_claim_is_freed_in_the_state_that_was_looked_at() {
    let pod = info(&pod("p", json!({})));
    let freed = Freed {
        claim: "chip".to_owned(),
        uid: "u".to_owned(),
        version: "7".to_owned(),
    };
    let expected = json!({
        "metadata": {"uid": "u", "resourceVersion": "7"},
        "status": {"allocation": null, "devices": null, "reservedFor": null},
    });
    assert_eq!(shown(&free(&pod, &freed)).1, expected);
}

/// An apiserver that does not answer writes. The claim is reserved for this pod, or not there.
fn silent(user: Option<&'static str>) -> Client {
    let server = service_fn(move |request: Request<Body>| async move {
        let is_read = *request.method() == Method::GET;
        let (code, body) = match user {
            _ if !is_read => (503, json!({"code": 503, "status": "Failure"})),
            Some(uid) => (
                200,
                json!({
                    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                    "metadata": {"name": "chip", "uid": "u", "resourceVersion": "8"},
                    "status": {"allocation": {}, "reservedFor": [{"uid": uid}]},
                }),
            ),
            None => (
                404,
                json!({"code": 404, "status": "Failure", "reason": "NotFound"}),
            ),
        };
        let mut answer = Response::new(Body::from(body.to_string().into_bytes()));
        *answer.status_mut() = http::StatusCode::from_u16(code).unwrap();
        Ok::<_, Infallible>(answer)
    });
    Client::new(kube::Client::new(server, "default"))
}

#[tokio::test]
async fn what_became_of_an_allocation_without_an_answer_is_asked() {
    let pod = info(&pod("p", json!({})));
    let allotment = Allotment {
        version: "6".to_owned(),
        finalizers: None,
        allocation: json!({"devices": {"results": []}}),
        devices: Vec::new(),
    };
    let grants = [grant(Some(allotment))];
    for (user, expected) in [(Some("p"), true), (Some("q"), false), (None, false)] {
        let (got, result) = give(&silent(user), &pod, &grants).await;
        let versions: &[&str] = if expected { &["8"] } else { &[] };
        assert_eq!(got, versions);
        assert_eq!(result.is_ok(), expected);
    }
}

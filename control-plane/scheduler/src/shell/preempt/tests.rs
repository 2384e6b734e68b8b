use std::convert::Infallible;
use std::sync::Mutex;

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use tower::service_fn;

use super::*;
use crate::tests::{info, pod};

/// Carries out the preemption of `victims` on node `a` for `p`; the names of those in `gone` are not
/// known any more, and those in `kept` cannot be deleted. Another pod has the name `replaced`, and
/// a webhook keeps `guarded`. Returns the calls, and the outcome.
async fn carried_out(
    victims: &[&str],
    gone: &'static [&'static str],
    kept: &'static [&'static str],
) -> (Vec<(String, Value)>, Outcome) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&calls);
    let server = service_fn(move |request: Request<Body>| {
        let heard = Arc::clone(&heard);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
            let (method, path) = (head.method.to_string(), head.uri.path().to_owned());
            let name = last(path.trim_end_matches("/status"));
            let line = format!("{method} {path}");
            let body = serde_json::from_slice(&body).unwrap_or_default();
            heard.lock().unwrap().push((line, body));
            let (code, reason, why) = match method.as_str() {
                _ if gone.contains(&&*name) => (StatusCode::NOT_FOUND, "NotFound", ""),
                "DELETE" if kept.contains(&&*name) => (StatusCode::FORBIDDEN, "Forbidden", ""),
                "DELETE" if name == "replaced" => {
                    let why =
                        "the UID in the precondition (a) does not match the UID in record (b)";
                    (StatusCode::CONFLICT, "Conflict", why)
                }
                "DELETE" if name == "guarded" => {
                    let why = "admission webhook \"w\" denied the request: not now";
                    (StatusCode::CONFLICT, "Conflict", why)
                }
                _ => (StatusCode::OK, "", ""),
            };
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                "status": if reason.is_empty() { "Success" } else { "Failure" },
                "reason": reason, "message": why, "code": code.as_u16()});
            let mut response = Response::new(Body::from(status.to_string().into_bytes()));
            *response.status_mut() = code;
            Ok::<_, Infallible>(response)
        }
    });
    let client = Client::new(kube::Client::new(server, "default"));
    let named = |name: &&str| Arc::new(info(&pod(name, json!({}))));
    let preemption = Preemption {
        node: "a".to_owned(),
        victims: victims.iter().map(named).collect(),
        outdone: vec![named(&"outdone")],
        sent_back: Vec::new(),
    };
    let outcome = preempt(client, named(&"p"), preemption).await;
    let calls = std::mem::take(&mut *calls.lock().unwrap());
    (calls, outcome)
}

fn names(pods: &[Arc<PodInfo>]) -> Vec<&str> {
    pods.iter().map(|pod| pod.name.as_str()).collect()
}

#[tokio::test]
async fn a_victim_is_told_why_and_deleted_and_who_was_outdone_is_nominated_no_more() {
    let (calls, outcome) = carried_out(&["x"], &[], &[]).await;
    let lines: Vec<&str> = calls.iter().map(|(line, _)| line.as_str()).collect();
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(
        lines,
        [
            &*format!("PATCH {pods}/outdone/status"),
            &*format!("PATCH {pods}/x/status"),
            &*format!("DELETE {pods}/x"),
        ]
    );
    assert_eq!(calls[0].1["status"], json!({"nominatedNodeName": null}));
    let condition = &calls[1].1["status"]["conditions"][0];
    assert_eq!(condition["type"], "DisruptionTarget");
    assert_eq!(condition["reason"], "PreemptionByScheduler");
    let why = "default-scheduler: preempting to accommodate a higher priority pod";
    assert_eq!(condition["message"], why);
    assert_eq!(calls[2].1["preconditions"]["uid"], "x");
    let Outcome::Preempted { gone, failure, .. } = outcome else {
        panic!("another outcome");
    };
    assert_eq!((names(&gone), failure), (vec!["x"], None));
}

#[tokio::test]
async fn who_is_gone_already_is_no_failure_and_who_cannot_be_deleted_is() {
    let (_, outcome) = carried_out(&["x", "vanished", "y"], &["vanished"], &["y"]).await;
    let Outcome::Preempted { gone, failure, .. } = outcome else {
        panic!("another outcome");
    };
    assert_eq!(names(&gone), ["x"]);
    assert_eq!(failure.unwrap().reason, "Forbidden");
}

#[tokio::test]
async fn a_victim_that_a_webhook_keeps_is_not_gone() {
    for (victims, reason) in [
        (["x", "replaced"], None),
        (["x", "guarded"], Some("Conflict")),
    ] {
        let (_, outcome) = carried_out(&victims, &[], &[]).await;
        let Outcome::Preempted { gone, failure, .. } = outcome else {
            panic!("another outcome");
        };
        assert_eq!(names(&gone), ["x"]);
        assert_eq!(failure.map(|status| status.reason), reason);
    }
}

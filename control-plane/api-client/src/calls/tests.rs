use std::sync::Arc;

use kube::client::Body;
use machinery::api::DeleteOptions;
use machinery::schema;

use super::*;

fn kind(group: &str, kind: &str) -> Arc<Kind> {
    schema::kind(group, "v1", kind).unwrap().clone()
}

#[test]
fn calls_go_to_the_paths_of_the_api() {
    let pod = json!({"metadata": {"namespace": "n", "name": "p"}});
    let node = json!({"metadata": {"name": "m"}});
    let calls = [
        Call::Get {
            kind: kind("apps", "Deployment"),
            namespace: "n".into(),
            name: "d".into(),
        },
        Call::List {
            kind: kind("", "Pod"),
            namespace: String::new(),
        },
        Call::Create {
            kind: kind("", "Pod"),
            object: pod.clone(),
        },
        Call::Update {
            kind: kind("", "Node"),
            subresource: "status",
            object: node,
        },
        Call::Delete {
            kind: kind("", "Pod"),
            namespace: "n".into(),
            name: "p".into(),
            options: DeleteOptions::of("u"),
        },
        Call::Bind {
            namespace: "n".into(),
            pod: "p".into(),
            uid: "u".into(),
            node: "m".into(),
        },
        Call::Evict {
            namespace: "n".into(),
            pod: "p".into(),
            options: DeleteOptions::default(),
        },
        Call::Discover { core: true },
        Call::Discover { core: false },
    ];
    let lines: Vec<String> = calls
        .iter()
        .map(|call| {
            let (method, path, ..) = request(call);
            format!("{method} {path}")
        })
        .collect();
    assert_eq!(
        lines,
        [
            "GET /apis/apps/v1/namespaces/n/deployments/d",
            "GET /api/v1/pods",
            "POST /api/v1/namespaces/n/pods",
            "PUT /api/v1/nodes/m/status",
            "DELETE /api/v1/namespaces/n/pods/p",
            "POST /api/v1/namespaces/n/pods/p/binding",
            "POST /api/v1/namespaces/n/pods/p/eviction",
            "GET /api",
            "GET /apis",
        ]
    );
    let (.., body) = request(&calls[4]);
    assert_eq!(body.unwrap()["preconditions"], json!({"uid": "u"}));
}

#[test]
fn an_apply_names_its_manager_and_takes_fields_from_others() {
    let call = Call::Patch {
        kind: kind("", "Node"),
        namespace: String::new(),
        name: "m".into(),
        subresource: "",
        form: PatchForm::Apply("a-loop"),
        patch: json!({}),
    };
    let (method, path, content, _) = request(&call);
    assert_eq!(method, Method::PATCH);
    assert_eq!(path, "/api/v1/nodes/m?fieldManager=a-loop&force=true");
    assert_eq!(content, "application/apply-patch+yaml");
}

#[test]
fn errors_keep_what_loops_ask_for() {
    let answer = json!({
        "status": "Failure", "code": 409, "reason": "Conflict", "message": "m",
        "details": {"name": "p", "kind": "pods"},
    });
    let answer: response::Status = serde_json::from_value(answer).unwrap();
    let status = of_answer(&answer);
    assert_eq!((status.code, status.reason), (409, "Conflict"));
    assert_eq!(status.details.name, "p");
}

#[tokio::test]
async fn a_server_that_never_answers_holds_nobody_for_good() {
    type Never = std::future::Pending<Result<http::Response<Body>, std::convert::Infallible>>;
    let never = tower::service_fn(|_: Request<Body>| -> Never { std::future::pending() });
    let client = Client {
        kube: kube::Client::new(never, "default"),
        patience: Duration::ZERO,
    };
    let error = client
        .call(Call::Discover { core: true })
        .await
        .unwrap_err();
    assert_eq!(error.reason, "ServiceUnavailable");
}

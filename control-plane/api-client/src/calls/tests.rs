use std::sync::Arc;

use kube::client::Body;
use machinery::api::DeleteOptions;
use machinery::schema;

use super::*;

fn kind(group: &str, kind: &str) -> Arc<Kind> {
    schema::kind(group, "v1", kind).unwrap().clone()
}

/// A read that another server answers.
fn metrics() -> Call {
    Call::Read {
        path: "/apis/metrics.k8s.io/v1beta1/namespaces/n/pods?labelSelector=a%3Db".into(),
        what: "pods.metrics.k8s.io".into(),
    }
}

/// What becomes of this answer to a read.
async fn read(code: u16, body: Vec<u8>) -> Result<Object, Status> {
    read_as("text/plain", code, body).await
}

/// What becomes of an answer with this type.
async fn read_as(content: &'static str, code: u16, body: Vec<u8>) -> Result<Object, Status> {
    let answers = tower::service_fn(move |_: Request<Body>| {
        let answer = http::Response::builder().status(code);
        let answer = answer.header(header::CONTENT_TYPE, content);
        let answer = answer.body(Body::from(body.clone())).unwrap();
        async move { Ok::<_, std::convert::Infallible>(answer) }
    });
    let client = Client::new(kube::Client::new(answers, "default"));
    client.call(metrics()).await
}

#[tokio::test]
async fn a_read_that_is_refused_without_a_status_has_the_error_of_gos_client() {
    let (not_found, away) = (b"404 page not found\n", b"service unavailable\n");
    for (code, body, message) in [
        (
            404,
            not_found.to_vec(),
            "the server could not find the requested resource (get pods.metrics.k8s.io)",
        ),
        (
            503,
            away.to_vec(),
            "the server is currently unable to handle the request (get pods.metrics.k8s.io)",
        ),
        (
            500,
            b"oh".to_vec(),
            "an error on the server (\"oh\") has prevented the request from succeeding (get \
             pods.metrics.k8s.io)",
        ),
        (
            418,
            Vec::new(),
            "the server responded with the status code 418 but did not return more information \
             (get pods.metrics.k8s.io)",
        ),
    ] {
        let error = read(code, body).await.unwrap_err();
        assert_eq!((error.code, &*error.message), (code, message));
    }
    let told = json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
        "message": "no such pod"});
    let error = read(404, told.to_string().into_bytes()).await.unwrap_err();
    assert_eq!((error.reason, &*error.message), ("NotFound", "no such pod"));
}

#[tokio::test]
async fn an_answer_without_an_end_is_not_read_to_the_end() {
    let list = json!({"items": []});
    assert_eq!(read(200, list.to_string().into_bytes()).await, Ok(list));
    let error = read(200, vec![b' '; 9 << 20]).await.unwrap_err();
    let beginning = "the answer about pods.metrics.k8s.io cannot be read: ";
    assert!(error.message.starts_with(beginning), "{}", error.message);
}

#[tokio::test]
async fn an_error_quotes_only_the_beginning_of_what_a_server_says() {
    let error = read(500, vec![b'x'; 1 << 20]).await.unwrap_err();
    assert_eq!(error.message.matches('x').count(), 2048);
    let error = read_as("application/json", 500, b"[1]".to_vec());
    let message = error.await.unwrap_err().message;
    assert!(message.starts_with("an error on the server (\"unknown\")"));
    // No letter is cut in two.
    let told = json!({"kind": "Status", "status": "Failure", "code": 500,
        "message": format!("a{}", "é".repeat(1 << 20))});
    let error = read(500, told.to_string().into_bytes()).await.unwrap_err();
    assert_eq!(error.message.len(), (32 << 10) - 1);
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
        metrics(),
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
            "GET /apis/metrics.k8s.io/v1beta1/namespaces/n/pods?labelSelector=a%3Db",
        ]
    );
    let (.., body) = request(&calls[4]);
    assert_eq!(body.unwrap()["preconditions"], json!({"uid": "u"}));
}

#[test]
fn a_name_is_one_segment_of_the_path_whatever_its_letters_mean_there() {
    for (name, segment) in [
        ("system:node", "system:node"),
        ("a?b=c", "a%3Fb%3Dc"),
        ("my role#1", "my%20role%231"),
    ] {
        let call = Call::Patch {
            kind: kind("rbac.authorization.k8s.io", "ClusterRole"),
            namespace: String::new(),
            name: name.into(),
            subresource: "",
            form: PatchForm::Merge,
            patch: json!({}),
        };
        let (_, path, ..) = request(&call);
        let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        assert_eq!(path, format!("{roles}/{segment}"));
    }
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

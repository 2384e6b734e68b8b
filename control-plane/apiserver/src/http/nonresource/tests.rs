use http::Request;

use super::*;
use crate::Config;

/// The code of the answer of a server of which nothing runs, or its error.
async fn ask(path: &str, all_known: bool) -> Result<u16, Status> {
    let api = crate::without_store(Config::default());
    let (parts, ()) = Request::get(path).body(()).unwrap().into_parts();
    let decoded = request::decoded(parts.uri.path()).unwrap();
    let segments = request::segments(&decoded);
    let answer = answer(&api, &parts, &segments, all_known).await;
    answer.map(|answer| answer.status().as_u16())
}

#[tokio::test]
async fn what_may_be_a_custom_resource_is_not_called_absent_before_all_are_known() {
    for path in [
        "/apis/example.com",
        "/apis/example.com/v1",
        "/apis/example.com/v1/namespaces/n/widgets/a",
    ] {
        let not_yet = ask(path, false).await.unwrap_err();
        assert_eq!((not_yet.code, not_yet.reason), (503, "ServiceUnavailable"));
        assert_eq!(not_yet.message, NOT_YET);
        assert_eq!(not_yet.details.retry_after_seconds, 5);
        assert_eq!(ask(path, true).await.unwrap(), 404);
    }
    // What is there is shown, and no definition adds to the groups of Kubernetes.
    assert_eq!(ask("/apis/apps/v1", false).await.unwrap(), 200);
    assert_eq!(ask("/apis/apps/v7", false).await.unwrap_err().code, 404);
}

#[tokio::test]
async fn only_the_path_that_was_authorized_is_served() {
    for (path, code) in [
        ("/metrics", 200),
        ("/livez/ping", 200),
        ("/api", 200),
        ("/api/", 200),
        ("//metrics", 404),
        ("/metrics/", 404),
        ("/%2Fmetrics", 404),
        ("/metrics%2F", 404),
        ("/livez%2Fping", 200),
        ("/livez/ping/", 404),
    ] {
        assert_eq!(ask(path, true).await.unwrap(), code, "{path}");
    }
}

#[test]
fn a_document_may_be_kept_if_it_is_asked_for_by_its_hash() {
    let documents = openapi::Documents::new();
    let path = "apis/apps/v1";
    let document = openapi::document(&documents, path);
    let hash = &document.unwrap().hash;
    let ask = |query: &str, accept: &str| {
        let request = Request::get(format!("/openapi/v3/{path}{query}")).header("Accept", accept);
        let (parts, ()) = request.body(()).unwrap().into_parts();
        schema(&parts, path, document)
    };
    let protobuf = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
    let by_hash = format!("?hash={hash}");
    for (query, accept, code, control) in [
        ("", "*/*", 200, "no-cache, private"),
        ("", "application/json", 200, "no-cache, private"),
        ("", protobuf, 406, "no-cache, private"),
        (&*by_hash, "application/json", 200, "public, immutable"),
        ("?hash=older", "application/json", 301, "no-cache, private"),
    ] {
        let answer = ask(query, accept);
        assert_eq!(answer.status(), code, "{query} {accept}");
        assert_eq!(answer.headers()["Cache-Control"], control, "{query}");
        let kept = answer.headers().contains_key("Expires");
        assert_eq!(kept, control.starts_with("public"), "{query}");
        let moved = answer.headers().get("Location");
        let moved = moved.map(|place| place.to_str().unwrap());
        let expected = format!("/openapi/v3/{path}{by_hash}");
        assert_eq!(moved, (code == 301).then_some(expected.as_str()), "{query}");
    }
}

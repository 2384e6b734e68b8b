use axum::body::to_bytes;
use http::Request;

use super::*;
use crate::Config;

/// A server without a store, of which nothing runs.
fn api() -> Api {
    crate::without_store(Config::default())
}

async fn ask(api: &Api, path: &str) -> (u16, String) {
    let (parts, ()) = Request::get(path).body(()).unwrap().into_parts();
    let words: Vec<&str> = parts.uri.path()[1..].split('/').collect();
    let Some(answer) = answer(api, &parts, &words).await else {
        return (404, String::new());
    };
    let code = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_server_is_ready_when_its_start_is_complete() {
    let api = api();
    let roles = "/readyz/poststarthook/rbac/bootstrap-roles";
    let not_finished = "internal server error: not finished\n".to_owned();
    assert_eq!(ask(&api, roles).await, (500, not_finished));
    let ready = "/readyz?exclude=etcd&exclude=etcd-readiness&verbose";
    let (code, told) = ask(&api, ready).await;
    assert_eq!(code, 500);
    for line in [
        "[+]ping ok\n",
        "[+]etcd excluded: ok\n",
        "[-]informer-sync failed: reason withheld\n",
        "[-]poststarthook/rbac/bootstrap-roles failed: reason withheld\n",
        "[+]shutdown ok\nreadyz check failed\n",
    ] {
        assert!(told.contains(line), "{line}{told}");
    }
    for (name, step) in HOOKS {
        assert!(!told.contains(&format!("[+]{HOOK}{name} ok")), "{told}");
        api.0.registry.steps.done(step);
    }
    let ok = (200, "ok".to_owned());
    assert_eq!(ask(&api, roles).await, ok);
    let (code, told) = ask(&api, ready).await;
    assert!(
        code == 200 && told.ends_with("\nreadyz check passed\n"),
        "{told}"
    );
    assert_eq!(ask(&api, "/livez?exclude=etcd").await, ok);
    let (_, told) = ask(&api, "/livez?exclude=etcd&exclude=no,such&verbose=0").await;
    let warning = "warn: some health checks cannot be excluded: no matches for \"no,such\"\n";
    assert!(
        told.ends_with(&format!("{warning}livez check passed\n")),
        "{told}"
    );

    api.0.stopping.send_replace(true);
    let (_, told) = ask(&api, "/readyz/shutdown").await;
    assert_eq!(told, "internal server error: process is shutting down\n");
    assert_eq!(ask(&api, "/livez?exclude=etcd").await, ok);
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_seen() {
    let api = api();
    for path in ["/livez/etcd", "/healthz/etcd", "/readyz/etcd-readiness"] {
        let (code, told) = ask(&api, path).await;
        let begin = "internal server error: error getting data from etcd: ";
        assert!(code == 500 && told.starts_with(begin), "{told}");
    }
    for path in [
        "/livez/shutdown",
        "/livez/etcd-readiness",
        "/readyz/nothing",
        "/readyz/kms-providers",
    ] {
        assert_eq!(ask(&api, path).await.0, 404, "{path}");
    }
}

use std::convert::Infallible;
use std::sync::Mutex;

use http::Response;
use machinery::schema;
use serde_json::json;

use super::*;

/// One object and the end of the initial state, then nothing more.
fn state() -> String {
    let object = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7"}});
    let end = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"resourceVersion": "9",
            "annotations": {"k8s.io/initial-events-end": "true"}}});
    let events = [("ADDED", object), ("BOOKMARK", end)];
    let lines = events.map(|(kind, object)| json!({"type": kind, "object": object}).to_string());
    lines.join("\n") + "\n"
}

#[tokio::test]
async fn a_watch_begins_with_the_newest_state_and_goes_on_from_there() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    let server = service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let is_first = query.contains("sendInitialEvents");
        heard.lock().unwrap().push(query);
        async move {
            if !is_first {
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(Response::new(Body::from(state().into_bytes())))
        }
    });
    let client = Client::new(kube::Client::new(server, "default"));
    let pods = schema::kind("", "v1", "Pod").unwrap().clone();
    let informer = Informer::of(pods).with_fields("spec.nodeName!=");
    let mut notices = std::pin::pin!(informer.run(&client));
    match notices.next().await {
        Some(Notice::Replaced(all)) => assert_eq!(object::name(&all[0]), "p"),
        other => panic!("{other:?}"),
    }
    tokio::select! {
        other = notices.next() => panic!("{other:?}"),
        () = async {
            while asked.lock().unwrap().len() < 2 {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    let asked = asked.lock().unwrap();
    let versions = asked.iter().map(|query| {
        let mut pairs = query.split('&');
        pairs.find_map(|pair| pair.strip_prefix("resourceVersion="))
    });
    assert_eq!(versions.collect::<Vec<_>>(), [None, Some("9")]);
    let first = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    assert!(asked[0].contains(first) && asked[0].contains("fieldSelector="));
}

#[tokio::test]
async fn a_watch_that_is_never_answered_is_tried_again() {
    let asked = Arc::new(Mutex::new(0));
    let heard = Arc::clone(&asked);
    let server = service_fn(move |_: Request<Body>| {
        let is_first = {
            let mut asked = heard.lock().unwrap();
            *asked += 1;
            *asked == 1
        };
        async move {
            if is_first {
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(Response::new(Body::from(state().into_bytes())))
        }
    });
    let mut client = Client::new(kube::Client::new(server, "default"));
    client.patience = Duration::from_millis(100);
    let pods = schema::kind("", "v1", "Pod").unwrap().clone();
    let mut notices = std::pin::pin!(Informer::of(pods).run(&client));
    match notices.next().await {
        Some(Notice::Replaced(all)) => assert_eq!(object::name(&all[0]), "p"),
        other => panic!("{other:?}"),
    }
    assert!(*asked.lock().unwrap() > 1);
}

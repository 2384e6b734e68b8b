use std::convert::Infallible;
use std::sync::Mutex;
use std::time::Duration;

use api_client::Notice;
use http::{Request, Response, StatusCode};
use k8s_openapi::api::core::v1::Namespace;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;
use crate::cache::Destination;
use crate::decision::Note;
use crate::known::kind_of;
use crate::loops::Loop;
use crate::loops::namespace::Namespaces;
use crate::loops::pod_gc::PodGc;
use crate::manager::{Manager, Moment};
use crate::recorder::Recorder;
use crate::tests::fixtures::{ago, caches_since, now, pod};

type Calls = Arc<Mutex<Vec<String>>>;

/// A server that fails for everything about objects of this name, and the calls to it. It has no nodes.
fn server(failing: &'static str, code: StatusCode, reason: &'static str) -> (Client, Calls) {
    let calls = Calls::default();
    let heard = Arc::clone(&calls);
    let server = service_fn(move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        let line = format!("{} {path}", request.method());
        heard.lock().unwrap().push(line);
        let failure = if path.split('/').any(|part| part == failing) {
            Some((code, reason))
        } else if path.starts_with("/api/v1/nodes/") {
            Some((StatusCode::NOT_FOUND, "NotFound"))
        } else {
            None
        };
        let (code, reason) = failure.unwrap_or((StatusCode::OK, ""));
        let name = path.rsplit('/').next();
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": if failure.is_some() { "Failure" } else { "Success" },
            "reason": reason, "details": {"name": name}, "code": code.as_u16()});
        let mut response = Response::new(Body::from(status.to_string().into_bytes()));
        *response.status_mut() = code;
        std::future::ready(Ok::<_, Infallible>(response))
    });
    (Client::new(kube::Client::new(server, "default")), calls)
}

/// Carries a decision out at a server that refuses everything about objects of this name. Returns the
/// calls, and what came of them.
async fn carried_out(work: Work, refused: &'static str) -> (Vec<String>, Arc<Work>, Outcome) {
    let (client, calls) = server(refused, StatusCode::FORBIDDEN, "Forbidden");
    let (report, mut reports) = mpsc::channel(64);
    carry_out(client, work, report).await;
    while let Some(one) = reports.recv().await {
        if let Report::Done { work, outcome } = one {
            let calls = std::mem::take(&mut *calls.lock().unwrap());
            return (calls, work, outcome);
        }
    }
    panic!("the decision has no end")
}

fn at(seconds: u64) -> Moment {
    Moment {
        since_start: Duration::from_secs(seconds),
        wall: now(),
    }
}

/// A manager of one loop that has known these objects for a minute.
fn manager(works: Box<dyn Loop>, objects: &[Value]) -> Manager {
    let mut manager = Manager::new(vec![works]);
    let mut then = now();
    then.seconds -= 60;
    manager.caches = caches_since(objects, then);
    manager
}

#[tokio::test]
async fn a_pod_that_cannot_be_deleted_does_not_keep_others_on_a_node_that_is_gone() {
    let pods = [pod("p", "gone", true), pod("q", "gone", true)];
    let mut manager = manager(Box::new(PodGc), &pods);
    let work = manager.next(at(0)).unwrap();
    let (calls, work, outcome) = carried_out(work, "p").await;
    let pods = "/api/v1/namespaces/n/pods";
    let expected = [
        "GET /api/v1/nodes/gone".to_owned(),
        format!("PATCH {pods}/p/status"),
        format!("PATCH {pods}/q/status"),
        format!("DELETE {pods}/q"),
    ];
    assert_eq!(calls, expected);
    assert_eq!(outcome.as_ref().unwrap_err().0, 1);
    // However often that fails, the loop looks as often as ever.
    manager.done(&work, outcome.clone(), at(0));
    for round in 1..30 {
        let work = manager.next(at(round * 20)).expect("its turn");
        manager.done(&work, outcome.clone(), at(round * 20));
    }
}

#[tokio::test]
async fn an_object_that_cannot_be_deleted_does_not_keep_others_in_a_namespace() {
    let config = |name: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "n", "name": name}})
    };
    let namespace = |version: &str| {
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "n", "uid": "n", "resourceVersion": version,
                "deletionTimestamp": ago(1)},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"}})
    };
    let objects = [namespace("1"), config("a"), config("b"), config("c")];
    let mut manager = manager(Box::new(Namespaces), &objects);
    let notice = Notice::Applied(namespace("9"));
    manager.observe(kind_of::<Namespace>(), Destination::Both, notice, at(0));
    let work = manager.next(at(0)).unwrap();
    let (calls, _, outcome) = carried_out(work, "a").await;
    let configs = "/api/v1/namespaces/n/configmaps";
    let expected = ["a", "b", "c"].map(|name| format!("DELETE {configs}/{name}"));
    assert_eq!(calls[1..], expected);
    assert!(outcome.is_err());
}

#[tokio::test]
async fn an_event_that_is_gone_is_made_anew_when_its_note_comes_again() {
    let mut recorder = Recorder::default();
    let note = Note::new(&Namespace::default(), "Seen", "It was seen".into());
    let first = recorder.record("c", &note, "", now());
    let Call::Create { object, .. } = &first.call else {
        panic!("it is new");
    };
    let name = machinery::object::name(object).to_owned();
    let (client, calls) = server(name.leak(), StatusCode::NOT_FOUND, "NotFound");
    let (events, sending) = mpsc::channel(2);
    let again = recorder.record("c", &note, "", now());
    for telling in [first, again] {
        events.try_send(telling).unwrap();
    }
    drop(events);
    send_events(client, sending).await;
    let calls = calls.lock().unwrap();
    let methods = calls.iter().map(|call| call.split(' ').next().unwrap());
    assert_eq!(methods.collect::<Vec<_>>(), ["POST", "PATCH", "POST"]);
}

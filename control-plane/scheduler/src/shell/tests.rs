use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use kube::client::Body;
use serde_json::Value;
use tower::service_fn;

use super::*;

/// More than the calls in flight.
const PODS: usize = 3 * CALLS_AT_ONCE;

/// Pods that wait, and one node that has room for all of them; of everything else there is nothing.
fn objects(plural: &str) -> Vec<Value> {
    match plural {
        "pods" => (0..PODS)
            .map(|at| {
                json!({"apiVersion": "v1", "kind": "Pod",
                    "metadata": {"name": format!("p{at}"), "namespace": "default",
                        "uid": format!("u{at}"), "resourceVersion": "1"},
                    "spec": {"schedulerName": DEFAULT_SCHEDULER,
                        "containers": [{"name": "c", "image": "i"}]},
                    "status": {"phase": "Pending"}})
            })
            .collect(),
        "nodes" => vec![json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "n", "uid": "n", "resourceVersion": "1"},
            "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "1000"}}})],
        _ => Vec::new(),
    }
}

/// The first events of a streamed list: all objects, and the bookmark that ends them. The watch ends
/// there, too, and begins again later.
fn watched(plural: &str) -> String {
    let added = objects(plural)
        .into_iter()
        .map(|object| json!({"type": "ADDED", "object": object}));
    let end = json!({"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "Any",
        "metadata": {"resourceVersion": "1",
            "annotations": {"k8s.io/initial-events-end": "true"}}}});
    let events = added.chain([end]);
    events.map(|event| format!("{event}\n")).collect()
}

#[tokio::test]
async fn events_that_nobody_takes_hold_back_no_pod() {
    let bound = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&bound);
    let server = service_fn(move |request: Request<Body>| {
        let bound = Arc::clone(&counted);
        async move {
            let path = request.uri().path().to_owned();
            let last = path.rsplit('/').next().unwrap_or_default();
            let body = match last {
                "events" => std::future::pending().await,
                "binding" => {
                    bound.fetch_add(1, Ordering::Relaxed);
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}).to_string()
                }
                plural => watched(plural),
            };
            Ok::<_, Infallible>(Response::new(Body::from(body.into_bytes())))
        }
    });
    let client = Client::new(kube::Client::new(server, "default"));
    let config = Config::default();
    let all = async {
        while bound.load(Ordering::Relaxed) < PODS {
            tokio::task::yield_now().await;
        }
    };
    let work = async {
        tokio::select! {
            () = schedule(client, &config) => {}
            () = all => {}
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(30), work).await;
    assert!(done.is_ok(), "{} pods", bound.load(Ordering::Relaxed));
}

/// An apiserver that answers bindings with this code and no other call with an error.
fn failing_to_bind(code: u16, calls: &Arc<AtomicUsize>) -> Client {
    let calls = Arc::clone(calls);
    let server = service_fn(move |request: Request<Body>| {
        calls.fetch_add(1, Ordering::Relaxed);
        let is_binding = request.uri().path().ends_with("/binding");
        let code = if is_binding { code } else { 200 };
        let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "metadata": {"resourceVersion": "2"}, "message": "no"});
        async move {
            let answer = Response::builder().status(code);
            answer.body(Body::from(body.to_string().into_bytes()))
        }
    });
    Client::new(kube::Client::new(server, "default"))
}

#[tokio::test]
async fn a_pod_that_may_be_bound_keeps_its_claims() {
    let pod = Arc::new(crate::tests::info(&crate::tests::pod("p", json!({}))));
    // It is reserved, then the pod is bound, and if that was refused it is taken back.
    for (code, expected) in [(409, 3), (404, 3), (504, 2), (503, 2)] {
        let calls = Arc::new(AtomicUsize::new(0));
        let client = failing_to_bind(code, &calls);
        let grant = Grant {
            claim: "chip".to_owned(),
            uid: "u".to_owned(),
            allotment: None,
        };
        let outcome = bind(client, Arc::clone(&pod), "n".to_owned(), vec![grant]).await;
        let Outcome::Bound { result, got, .. } = outcome else {
            panic!("it was a binding");
        };
        assert_eq!((result.is_err(), got.len()), (true, 1));
        assert_eq!(calls.load(Ordering::Relaxed), expected, "{code}");
    }
}

#[test]
fn services_are_followed_by_their_selectors() {
    let service = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"app": name}}})
    };
    let pod = json!({"metadata": {"name": "p", "namespace": "default", "labels": {"app": "web"}}});
    let pod = PodInfo::read(Arc::new(serde_json::from_value(pod).unwrap()));
    let (mut core, mut known) = (Core::new(DEFAULT_SCHEDULER, 1), Known::default());
    for (notice, expected) in [
        (Notice::Applied(service("db")), false),
        (Notice::Applied(service("web")), true),
        (Notice::Deleted(service("web")), false),
        (Notice::Applied(service("web")), true),
        (Notice::Replaced(vec![service("db")]), false),
        (Notice::Replaced(vec![service("web")]), true),
    ] {
        let heard = Heard::Services(notice);
        hear(&mut core, &mut known, heard, Duration::ZERO);
        let found = core.cache().services.selector(&pod);
        assert_eq!(found.is_some(), expected);
    }
    assert!(known.services);
}

#[test]
fn a_list_of_namespaces_ends_those_that_it_lacks() {
    let namespace = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"team": name}}})
    };
    let mut core = Core::new(DEFAULT_SCHEDULER, 1);
    let mut tell = |names: &[&str]| {
        let all = names.iter().map(|name| namespace(name)).collect();
        let heard = Heard::Namespaces(Notice::Replaced(all));
        hear(&mut core, &mut Known::default(), heard, Duration::ZERO);
        let known = core.cache().namespaces.keys().cloned();
        known.collect::<BTreeSet<String>>()
    };
    assert_eq!(tell(&["a", "b"]).len(), 2);
    assert_eq!(tell(&["b"]), BTreeSet::from(["b".to_owned()]));
}

/// A claim may be deleted, and another made with its name, while the call is on its way.
#[test]
fn only_the_claim_that_was_looked_at_gets_a_node() {
    let pod = crate::tests::info(&crate::tests::pod("p", json!({})));
    let selection = Selection {
        claim: "data".to_owned(),
        version: "7".to_owned(),
    };
    let Call::Patch { name, patch, .. } = select_node(&pod, selection, "n") else {
        panic!("no patch");
    };
    assert_eq!(name, "data");
    let annotations = json!({claims::SELECTED_NODE: "n"});
    let expected = json!({"resourceVersion": "7", "annotations": annotations});
    assert_eq!(patch["metadata"], expected);
}

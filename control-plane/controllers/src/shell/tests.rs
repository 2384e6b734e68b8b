use std::convert::Infallible;
use std::future::{pending, ready};

use http::{Request, Response};
use k8s_openapi::api::core::v1::Pod;
use kube::client::Body;
use tower::service_fn;

use super::*;
use crate::known::kind_of;
use crate::tests::fixtures::pod;

/// A shell without loops that knows one informer, of pods, as number 0.
fn shell() -> (Shell, Inboxes) {
    let server = service_fn(|_: Request<Body>| {
        let nothing = Response::new(Body::from(Vec::new()));
        ready(Ok::<_, Infallible>(nothing))
    });
    let client = Client::new(kube::Client::new(server, "default"));
    let config = Config {
        elect: None,
        root_ca: String::new(),
        signer: None,
        node_ranges: None,
        loops: Selection::parse(&[]).unwrap(),
    };
    let mut shell = Shell::new(client, &config);
    let (notice, notices) = mpsc::channel(NOTICES_MAX);
    let (report, reports) = mpsc::channel(REPORTS_MAX);
    let (mut tasks, groups) = (JoinSet::new(), mpsc::channel(1).1);
    let source = Source {
        kind: Arc::clone(kind_of::<Pod>()),
        destination: Destination::Both,
        task: tasks.spawn(pending()),
    };
    shell.sources.insert(0, source);
    let inboxes = Inboxes {
        notices,
        notice,
        groups,
        reports,
        report,
        events: mpsc::channel(EVENTS_MAX).0,
        tasks,
    };
    (shell, inboxes)
}

#[tokio::test]
async fn what_has_come_is_taken_before_the_loops_decide_again() {
    let (mut shell, mut inboxes) = shell();
    let come = |inboxes: &Inboxes, number: usize| {
        let mut one = pod(&format!("p{number}"), "a", true);
        one["metadata"]["uid"] = format!("pods/p{number}").into();
        inboxes.notice.try_send((0, Notice::Applied(one))).unwrap();
    };
    let taken = |shell: &Shell| shell.manager.caches.pods.all().count();
    let mut stop = pending();
    (0..3).for_each(|number| come(&inboxes, number));
    let ended = shell.take_next(&mut inboxes, 0, &mut stop).await;
    assert_eq!((ended, taken(&shell)), (Some(0), 3));
    // There is an end to it, however fast they come.
    let first = 3 + 1 + TAKEN_AT_ONCE;
    (3..=first).for_each(|number| come(&inboxes, number));
    shell.take_next(&mut inboxes, 0, &mut stop).await;
    assert_eq!(taken(&shell), first);
    shell.take_next(&mut inboxes, 0, &mut stop).await;
    assert_eq!(taken(&shell), first + 1);
    let mut stop = ready(());
    let ended = shell.take_next(&mut inboxes, 0, &mut stop).await;
    assert_eq!(ended, None);
}

use std::convert::Infallible;
use std::future::ready;

use http::{Request, Response};
use kube::client::Body;
use tower::service_fn;

use super::*;

/// The seconds, since its start, at which discovery is read within two minutes. Something that makes
/// kinds changes at these milliseconds.
async fn read_at(is_watched: bool, changes: &[u64]) -> Vec<f64> {
    let server = service_fn(|_: Request<Body>| {
        let document = Response::new(Body::from(br#"{"items":[]}"#.to_vec()));
        ready(Ok::<_, Infallible>(document))
    });
    let client = Client::new(kube::Client::new(server, "default"));
    let (group, mut groups) = mpsc::channel(1);
    let changed = Arc::new(Notify::new());
    let start = Instant::now();
    tokio::spawn(follow(client, group, Arc::clone(&changed), is_watched));
    for at in changes.iter().copied().map(Duration::from_millis) {
        let changed = Arc::clone(&changed);
        tokio::spawn(async move {
            tokio::time::sleep_until(start + at).await;
            changed.notify_one();
        });
    }
    let mut all = Vec::new();
    let end = start + Duration::from_secs(120);
    while let Ok(Some(_)) = tokio::time::timeout_at(end, groups.recv()).await {
        all.push((start.elapsed().as_secs_f64() * 10.0).round() / 10.0);
    }
    all
}

#[tokio::test(start_paused = true)]
async fn discovery_is_read_soon_after_a_change_and_seldom_without_one() {
    assert_eq!(read_at(true, &[]).await, [60.0]);
    assert_eq!(read_at(true, &[10_000]).await, [10.5, 12.5, 72.5]);
    // A change before it is read once more, and one of the same time.
    let twice = read_at(true, &[10_000, 11_000, 11_000]).await;
    assert_eq!(twice, [10.5, 11.5, 13.5, 73.5]);
    let many: Vec<u64> = (0..20).map(|number| 10_000 + number * 100).collect();
    let many = read_at(true, &many).await;
    assert_eq!(many.len(), 6, "{many:?}");
    assert_eq!((many[0], many[1]), (10.5, 11.1));
}

#[tokio::test(start_paused = true)]
async fn discovery_is_read_often_if_changes_are_not_watched() {
    let all = read_at(false, &[]).await;
    assert_eq!((all.len(), all[1] - all[0]), (23, 5.0));
}

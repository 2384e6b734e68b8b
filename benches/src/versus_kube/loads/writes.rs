//! Objects written in the ways that clients write them: by one client, which waits for each answer,
//! and by many at once.

use std::ops::Range;
use std::time::Instant;

use futures_util::future::try_join_all;
use serde_json::{Value, json};

use super::{PODS, PROTOBUF, Result, Size, WIDGETS, timed};
use crate::versus_kube::asker::Asker;
use crate::versus_kube::report::Report;
use crate::versus_kube::side::{Server, Side};

/// Clients that write at once.
const CLIENTS: usize = 20;
/// A label's value in protobuf before and after an update: of one length, so that no other byte of the
/// object changes.
const UPDATED: [&[u8]; 2] = [b"round\x12\x03two", b"round\x12\x03six"];

/// Pods, which are also got. The second half of them is created by many clients.
pub(super) async fn pods(
    side: Side,
    server: &Server,
    size: &Size,
    report: &mut Report,
) -> Result<()> {
    let asker = &server.asker;
    let half = size.pods / 2;
    timed(side, server, "create pod", half, report, async |at| {
        asker.post(PODS, &pod(at)).await
    })
    .await?;
    fill(side, server, half..size.pods, report).await?;
    timed(side, server, "get pod", size.pods, report, async |at| {
        asker.get(&format!("{PODS}/pod-{at}")).await
    })
    .await?;
    timed(side, server, "patch pod", size.pods, report, async |at| {
        patch(asker, at, "two").await
    })
    .await?;
    let title = "update pod in protobuf";
    let updates = updates(asker, size.pods).await?;
    timed(side, server, title, size.pods, report, async |at| {
        let path = format!("{PODS}/pod-{at}");
        asker.put_as(&path, PROTOBUF, updates[at].clone()).await
    })
    .await?;
    drop(updates);
    timed(side, server, "apply pod", size.pods, report, async |at| {
        apply(asker, at, "yes").await
    })
    .await?;
    at_once(side, server, "patch pod", size.pods, report, async |at| {
        patch(asker, at, "ten").await
    })
    .await?;
    at_once(side, server, "apply pod", size.pods, report, async |at| {
        apply(asker, at, "too").await
    })
    .await
}

/// Custom resources.
pub(super) async fn custom(
    side: Side,
    server: &Server,
    size: &Size,
    report: &mut Report,
) -> Result<()> {
    let asker = &server.asker;
    let title = "create custom resource";
    timed(side, server, title, size.pods, report, async |at| {
        asker.post(WIDGETS, &widget(at)).await
    })
    .await?;
    let title = "apply custom resource";
    let apply = async |at: usize, weight: u32| {
        let patch = json!({"apiVersion": "bench.example.com/v1", "kind": "Widget",
            "metadata": {"name": format!("widget-{at}")}, "spec": {"size": weight}});
        asker.apply(&format!("{WIDGETS}/widget-{at}"), &patch).await
    };
    timed(side, server, title, size.pods, report, async |at| {
        apply(at, 7).await
    })
    .await?;
    at_once(side, server, title, size.pods, report, async |at| {
        apply(at, 8).await
    })
    .await
}

/// Pods with these numbers, created by many clients at once.
pub(super) async fn fill(
    side: Side,
    server: &Server,
    pods: Range<usize>,
    report: &mut Report,
) -> Result<()> {
    let asker = &server.asker;
    let from = pods.start;
    at_once(side, server, "create pod", pods.len(), report, async |at| {
        asker.post(PODS, &pod(from + at)).await
    })
    .await
}

/// Measures calls of many clients at once.
async fn at_once<T>(
    side: Side,
    server: &Server,
    title: &str,
    count: usize,
    report: &mut Report,
    call: impl AsyncFn(usize) -> Result<T>,
) -> Result<()> {
    let (before, begun) = (server.usage()?.cpu, Instant::now());
    let clients = (0..CLIENTS).map(async |client| {
        for at in (client..count).step_by(CLIENTS) {
            call(at).await?;
        }
        Result::Ok(())
    });
    try_join_all(clients).await?;
    let (took, cpu) = (begun.elapsed(), server.usage()?.cpu - before);
    let title = format!("{title}, {CLIENTS} clients");
    report.at_once(side, &title, count, took, cpu);
    Ok(())
}

async fn patch(asker: &Asker, at: usize, round: &str) -> Result<String> {
    let patch = json!({"metadata": {"labels": {"round": round}}});
    asker.patch(&format!("{PODS}/pod-{at}"), &patch).await
}

async fn apply(asker: &Asker, at: usize, applied: &str) -> Result<String> {
    let patch = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{at}"), "labels": {"applied": applied}}});
    asker.apply(&format!("{PODS}/pod-{at}"), &patch).await
}

/// The bytes of all pods, as a typed client sends them back with another label.
async fn updates(asker: &Asker, pods: usize) -> Result<Vec<Vec<u8>>> {
    let [before, after] = UPDATED;
    let mut updates = Vec::with_capacity(pods);
    for at in 0..pods {
        let mut pod = asker.get_as(&format!("{PODS}/pod-{at}"), PROTOBUF).await?;
        let place = pod.windows(before.len()).position(|some| some == before);
        let place = place.ok_or("a pod has no label to update")?;
        pod[place..place + after.len()].copy_from_slice(after);
        updates.push(pod);
    }
    Ok(updates)
}

fn pod(at: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{at}"), "labels": {"app": "web", "round": "one"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1",
            "ports": [{"name": "http", "containerPort": 80}],
            "env": [{"name": "COLOUR", "value": "blue"}],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]}})
}

fn widget(at: usize) -> Value {
    json!({"apiVersion": "bench.example.com/v1", "kind": "Widget",
        "metadata": {"name": format!("widget-{at}"), "labels": {"app": "web"}},
        "spec": {"size": 3, "colour": "blue", "parts": [{"name": "a", "weight": 1}, {"name": "b", "weight": 2}]}})
}

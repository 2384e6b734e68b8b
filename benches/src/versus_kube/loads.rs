//! The loads for an apiserver: one call after the other, then many watchers at once.

use std::time::{Duration, Instant};

use clap::ArgMatches;
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tokio::task::LocalSet;

use super::Result;
use super::asker::Asker;
use super::fan_out::{Watches, fan_out};
use super::report::Report;
use super::side::{Server, Side};

const PODS: &str = "/api/v1/namespaces/default/pods";
const WIDGETS: &str = "/apis/bench.example.com/v1/namespaces/default/widgets";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The forms that clients list in besides plain JSON: typed ones, kubectl, those that follow owners.
const FORMS: [(&str, &str); 4] = [
    ("protobuf", PROTOBUF),
    ("a table", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    (
        "metadata",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ),
    (
        "metadata in protobuf",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ),
];
const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// A label's value in protobuf before and after an update: of one length, so that no other byte of the
/// object changes.
const UPDATED: [&[u8]; 2] = [b"round\x12\x03two", b"round\x12\x03six"];
/// Clients that fill the store.
const FILLING: usize = 20;
const SERVED_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// Time for the garbage of a fill to be collected.
const SETTLE: Duration = Duration::from_secs(10);

/// The size of the loads.
pub(super) struct Size {
    pods: usize,
    lists: usize,
    pub(super) watchers: usize,
    pub(super) changes: usize,
    /// Pods in all when memory is measured; 0: not measured.
    filled: usize,
}

impl Size {
    pub(super) fn of(options: &ArgMatches) -> Size {
        let number = |name: &str| options.get_one(name).copied().unwrap_or(1);
        Size {
            pods: number("pods"),
            lists: number("lists"),
            watchers: number("watchers"),
            changes: number("changes"),
            filled: number("filled"),
        }
    }
}

pub(super) async fn run(
    side: Side,
    server: &Server,
    size: &Size,
    report: &mut Report,
) -> Result<()> {
    let asker = &server.asker;
    // A pod needs its service account, which a control loop would create.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default"}});
    asker
        .post("/api/v1/namespaces/default/serviceaccounts", &account)
        .await?;
    write(side, server, size, report).await?;
    list(side, server, size, report).await?;
    custom(side, server, size, report).await?;
    let watches = [
        Watches::all("watched", "JSON", JSON),
        Watches::all("watched-too", "protobuf", PROTOBUF),
        Watches::by_name("watched-by-name", "JSON", JSON),
    ];
    for watches in &watches {
        LocalSet::new()
            .run_until(fan_out(side, server, watches, size, report))
            .await?;
    }
    report.end(side, &server.usage()?);
    if size.filled > 0 {
        fill(asker, size.pods..size.filled).await?;
        tokio::time::sleep(SETTLE).await;
        report.filled(side, size.filled, &server.usage()?);
    }
    Ok(())
}

/// Pods written in the ways that clients write them, and got.
async fn write(side: Side, server: &Server, size: &Size, report: &mut Report) -> Result<()> {
    let asker = &server.asker;
    timed(side, server, "create pod", size.pods, report, async |at| {
        asker.post(PODS, &pod(at)).await
    })
    .await?;
    timed(side, server, "get pod", size.pods, report, async |at| {
        asker.get(&format!("{PODS}/pod-{at}")).await
    })
    .await?;
    timed(side, server, "patch pod", size.pods, report, async |at| {
        let patch = json!({"metadata": {"labels": {"round": "two"}}});
        asker.patch(&format!("{PODS}/pod-{at}"), &patch).await
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
        let patch = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("pod-{at}"), "labels": {"applied": "yes"}}});
        asker.apply(&format!("{PODS}/pod-{at}"), &patch).await
    })
    .await
}

async fn list(side: Side, server: &Server, size: &Size, report: &mut Report) -> Result<()> {
    let asker = &server.asker;
    let title = format!("list {} pods", size.pods);
    timed(side, server, &title, size.lists, report, async |_| {
        asker.get(PODS).await
    })
    .await?;
    let title = format!("list {} pods from the cache", size.pods);
    timed(side, server, &title, size.lists, report, async |_| {
        asker.get(&format!("{PODS}?resourceVersion=0")).await
    })
    .await?;
    for (form, accept) in FORMS {
        let title = format!("list {} pods as {form}", size.pods);
        let path = format!("{PODS}?resourceVersion=0");
        timed(side, server, &title, size.lists, report, async |_| {
            asker.get_as(&path, accept).await
        })
        .await?;
    }
    Ok(())
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

/// As many custom resources as pods.
async fn custom(side: Side, server: &Server, size: &Size, report: &mut Report) -> Result<()> {
    let asker = &server.asker;
    asker.post(DEFINITIONS, &definition()).await?;
    let begun = Instant::now();
    while asker.get(WIDGETS).await.is_err() {
        if begun.elapsed() > SERVED_WITHIN {
            return Err("the custom resource is not served".into());
        }
        tokio::time::sleep(POLL).await;
    }
    let title = "create custom resource";
    timed(side, server, title, size.pods, report, async |at| {
        asker.post(WIDGETS, &widget(at)).await
    })
    .await?;
    let title = "apply custom resource";
    timed(side, server, title, size.pods, report, async |at| {
        let patch = json!({"apiVersion": "bench.example.com/v1", "kind": "Widget",
            "metadata": {"name": format!("widget-{at}")}, "spec": {"size": 7}});
        asker.apply(&format!("{WIDGETS}/widget-{at}"), &patch).await
    })
    .await?;
    let title = format!("list {} custom resources", size.pods);
    timed(side, server, &title, size.lists, report, async |_| {
        asker.get(&format!("{WIDGETS}?resourceVersion=0")).await
    })
    .await
}

async fn fill(asker: &Asker, pods: std::ops::Range<usize>) -> Result<()> {
    let clients = (0..FILLING).map(async |client| {
        for at in pods.clone().skip(client).step_by(FILLING) {
            asker.post(PODS, &pod(at)).await?;
        }
        Result::Ok(())
    });
    try_join_all(clients).await?;
    Ok(())
}

/// Times calls, one after the other.
async fn timed<T>(
    side: Side,
    server: &Server,
    title: &str,
    count: usize,
    report: &mut Report,
    call: impl AsyncFn(usize) -> Result<T>,
) -> Result<()> {
    let before = server.usage()?.cpu;
    let mut took = Vec::with_capacity(count);
    for at in 0..count {
        let begun = Instant::now();
        call(at).await?;
        took.push(begun.elapsed());
    }
    let cpu = server.usage()?.cpu - before;
    report.load(side, title, took, cpu);
    Ok(())
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

fn definition() -> Value {
    let text = json!({"type": "string"});
    let part =
        json!({"type": "object", "properties": {"name": text, "weight": {"type": "integer"}}});
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer", "minimum": 1},
        "colour": text, "parts": {"type": "array", "items": part}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.bench.example.com"},
        "spec": {"group": "bench.example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]}})
}

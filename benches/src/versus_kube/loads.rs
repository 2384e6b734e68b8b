//! The loads for an apiserver: one call after the other, writes of many clients, then many watchers.

mod writes;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::LocalSet;

use super::fan_out::{Watches, fan_out};
use super::report::Report;
use super::side::{Server, Side};
use super::{Result, Size};

const PODS: &str = "/api/v1/namespaces/default/pods";
const WIDGETS: &str = "/apis/bench.example.com/v1/namespaces/default/widgets";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The forms that clients list in: plain, typed ones, kubectl, those that follow owners.
const FORMS: [(&str, &str); 5] = [
    ("JSON from the cache", JSON),
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
const SERVED_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// Time for the garbage of a fill to be collected.
const SETTLE: Duration = Duration::from_secs(10);

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
    writes::pods(side, server, size, report).await?;
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
        writes::fill(side, server, size.pods..size.filled, report).await?;
        tokio::time::sleep(SETTLE).await;
        report.filled(side, size.filled, &server.usage()?);
    }
    Ok(())
}

async fn list(side: Side, server: &Server, size: &Size, report: &mut Report) -> Result<()> {
    let asker = &server.asker;
    let title = format!("list {} pods", size.pods);
    timed(side, server, &title, size.lists, report, async |_| {
        asker.get_as(PODS, JSON).await
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
    writes::custom(side, server, size, report).await?;
    let title = format!("list {} custom resources", size.pods);
    timed(side, server, &title, size.lists, report, async |_| {
        asker
            .get_as(&format!("{WIDGETS}?resourceVersion=0"), JSON)
            .await
    })
    .await
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

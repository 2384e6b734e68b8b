//! Autoscalers, with a server of metrics behind the apiserver and without one.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::admission::webhooks::server::{Hook, Reply};
use crate::admission::webhooks::world::World;
use crate::harness::cluster::WITHIN;

const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const METRICS: &str = "/apis/external.metrics.k8s.io/v1beta1";

/// A world with a server for metrics of things outside, which knows the length of a queue.
async fn world() -> World {
    let hook = Hook::start(&["metrics.default.svc"]).await;
    hook.on(METRICS, |_| {
        let length = json!({"name": "length", "singularName": "", "namespaced": true,
            "kind": "ExternalMetricValueList", "verbs": ["get"]});
        let list = json!({"kind": "APIResourceList", "resources": [length],
            "groupVersion": "external.metrics.k8s.io/v1beta1"});
        Reply::Raw(200, list.to_string())
    });
    hook.on(&format!("{METRICS}/namespaces/default/length"), |_| {
        let items = json!([{"metricName": "length", "value": "10"},
            {"metricName": "length", "value": "20"}]);
        let list = json!({"kind": "ExternalMetricValueList", "items": items});
        Reply::Raw(200, list.to_string())
    });
    let world = World::with(hook).await;
    // Endpoints may not be on loopback; a name outside may.
    let service = json!({"kind": "Service", "metadata": {"name": "metrics"},
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    world
        .given("/api/v1/namespaces/default/services", &service)
        .await;
    let port = world.hook.address.port();
    let behind = json!({"kind": "APIService",
        "metadata": {"name": "v1beta1.external.metrics.k8s.io"}, "spec": {
            "group": "external.metrics.k8s.io", "version": "v1beta1",
            "groupPriorityMinimum": 100, "versionPriority": 100, "caBundle": world.hook.bundle,
            "service": {"namespace": "default", "name": "metrics", "port": port}}});
    world
        .given("/apis/apiregistration.k8s.io/v1/apiservices", &behind)
        .await;
    world
}

/// Runs the loop for autoscalers, until the end of the test.
fn run_loop(address: SocketAddr) {
    let name = "horizontal-pod-autoscaler-controller".to_owned();
    let config = controllers::Config {
        elect: None,
        root_ca: String::new(),
        signer: None,
        node_ranges: None,
        loops: controllers::Selection::parse(&[name]).unwrap(),
    };
    tokio::spawn(async move {
        let address = format!("http://{address}");
        let client = kube::Client::try_from(kube::Config::new(address.parse().unwrap()));
        controllers::run(client.unwrap(), config, std::future::pending()).await
    });
}

fn deployment(name: &str) -> Value {
    let container = json!({"name": "c", "image": "nginx:1"});
    json!({"kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}}})
}

/// An autoscaler of the deployment of this name, with one metric.
fn autoscaler(name: &str, metric: Value) -> Value {
    json!({"kind": "HorizontalPodAutoscaler", "metadata": {"name": name}, "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "maxReplicas": 9, "metrics": [metric]}})
}

/// Waits until what is at a path is as it should be.
async fn until(world: &World, path: &str, is: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let found = world.ask("GET", path, &Value::Null).await.body;
        if is(&found) {
            return found;
        }
        assert!(begun.elapsed() < WITHIN, "{path}: {found}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn condition<'a>(autoscaler: &'a Value, kind: &str) -> &'a Value {
    let mut all = autoscaler["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter();
    all.find(|one| one["type"] == kind).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_follows_a_metric_of_another_server_and_stays_where_there_is_none() {
    let world = world().await;
    for name in ["web", "other"] {
        world.given(DEPLOYMENTS, &deployment(name)).await;
    }
    let two = json!({"status": {"replicas": 2}});
    let path = format!("{DEPLOYMENTS}/web/status");
    let told = world.ask("PATCH", &path, &two).await;
    assert_eq!(told.code, 200, "{}", told.body);
    let target = json!({"type": "AverageValue", "averageValue": "10"});
    let external = json!({"metric": {"name": "length"}, "target": target});
    let length = json!({"type": "External", "external": external});
    let target = json!({"type": "Utilization", "averageUtilization": 50});
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    world.given(AUTOSCALERS, &autoscaler("web", length)).await;
    world.given(AUTOSCALERS, &autoscaler("other", cpu)).await;
    run_loop(world.listen().await);

    let path = format!("{AUTOSCALERS}/web");
    let web = until(&world, &path, |one| one["status"]["desiredReplicas"] == 3).await;
    assert_eq!(
        condition(&web, "ScalingActive")["reason"],
        "ValidMetricFound"
    );
    let current = &web["status"]["currentMetrics"][0]["external"]["current"];
    assert_eq!(*current, json!({"averageValue": "15"}));
    let path = format!("{DEPLOYMENTS}/web");
    let scaled = world.ask("GET", &path, &Value::Null).await.body;
    assert_eq!(scaled["spec"]["replicas"], 3);
    let message = "New size: 3; reason: external metric length(nil) above target";
    until(&world, EVENTS, |events| {
        let mut events = events["items"].as_array().unwrap().iter();
        events.any(|one| one["reason"] == "SuccessfulRescale" && one["message"] == message)
    })
    .await;

    let path = format!("{AUTOSCALERS}/other");
    let other = until(&world, &path, |one| {
        one["status"]["conditions"][1].is_object()
    })
    .await;
    let active = condition(&other, "ScalingActive");
    assert_eq!(active["reason"], "FailedGetResourceMetric");
    let why = "the HPA was unable to compute the replica count: failed to get cpu utilization: \
               unable to get metrics for resource cpu: unable to fetch metrics from resource \
               metrics API: the server could not find the requested resource (get \
               pods.metrics.k8s.io)";
    assert_eq!(active["message"], why);
    world.stop();
}

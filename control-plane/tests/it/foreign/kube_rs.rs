//! kube-rs, with its own client, watcher and reflector; none of our client code is involved.

use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::cluster::{Cluster, WITHIN};

const POLL: Duration = Duration::from_millis(20);

/// A client with or without kube-rs' default retries of refused requests.
fn client(cluster: &Cluster, patient: bool) -> Client {
    let address = format!("http://{}", cluster.address);
    let mut config = Config::new(address.parse().unwrap());
    config.default_retry = patient;
    Client::try_from(config).unwrap()
}

fn typed<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn deployment() -> Deployment {
    let template = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    typed(json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template,
    }}))
}

/// A reflector that follows the deployments until it is aborted.
fn follow(client: &Client, config: watcher::Config) -> (Store<Deployment>, JoinHandle<()>) {
    let (store, writer) = reflector::store();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let stream = watcher(deployments, config).default_backoff();
    let stream = reflector::reflector(writer, stream);
    // Errors are ignored here: the watcher retries, which is what the test is about.
    let task = tokio::spawn(stream.for_each(|_| std::future::ready(())));
    (store, task)
}

/// Waits until `holds` is true for the deployment in every store.
async fn until(stores: &[Store<Deployment>], holds: impl Fn(Option<&Deployment>) -> bool) {
    let reached = async {
        let key = ObjectRef::new("web").within("default");
        while !stores.iter().all(|store| holds(store.get(&key).as_deref())) {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(WITHIN, reached).await.unwrap();
}

fn replicas(deployment: Option<&Deployment>) -> Option<i32> {
    deployment?.spec.as_ref()?.replicas
}

#[tokio::test]
async fn kube_rs_makes_follows_changes_evicts_and_outlives_a_restart() {
    let mut cluster = Cluster::start();
    let impatient = client(&cluster, false);
    let client = client(&cluster, true);
    let (listing, first) = follow(&client, watcher::Config::default());
    let (streaming, second) = follow(&client, watcher::Config::default().streaming_lists());
    let stores = [listing, streaming];
    for store in &stores {
        let ready = tokio::time::timeout(WITHIN, store.wait_until_ready()).await;
        ready.unwrap().unwrap();
    }
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let made = deployments
        .create(&PostParams::default(), &deployment())
        .await
        .unwrap();
    until(&stores, |one| one == Some(&made)).await;

    let params = PatchParams::default();
    let image = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "c", "image": "nginx:2"}, {"name": "d", "image": "envoy"}]}}}});
    let patched = deployments
        .patch("web", &params, &Patch::Strategic(image))
        .await
        .unwrap();
    let pod = patched.spec.as_ref().unwrap().template.spec.as_ref();
    assert_eq!(pod.unwrap().containers.len(), 2);
    let scale = json!({"spec": {"replicas": 3}});
    let scaled = deployments
        .patch_scale("web", &params, &Patch::Merge(scale))
        .await
        .unwrap();
    assert_eq!(scaled.spec.unwrap().replicas, Some(3));
    let scale = deployments.get_scale("web").await.unwrap();
    assert_eq!(scale.status.unwrap().selector.as_deref(), Some("app=web"));
    until(&stores, |one| replicas(one) == Some(3)).await;
    evict(&impatient).await;

    cluster.restart_apiserver_in_place();
    let scale = json!({"spec": {"replicas": 5}});
    deployments
        .patch_scale("web", &params, &Patch::Merge(scale))
        .await
        .unwrap();
    until(&stores, |one| replicas(one) == Some(5)).await;
    let listed = deployments.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    let mut gone = DeleteParams::foreground();
    gone.dry_run = true;
    deployments.delete("web", &gone).await.unwrap();
    deployments
        .delete("web", &DeleteParams::background())
        .await
        .unwrap();
    until(&stores, |one| one.is_none()).await;
    let missing = deployments.get_opt("web").await.unwrap();
    assert!(missing.is_none());
    first.abort();
    second.abort();
}

/// Evicts a pod; a disruption budget prevents it while it exists.
async fn evict(client: &Client) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client.clone());
    let params = PostParams::default();
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "kept"}},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    pods.create(&params, &typed(pod)).await.unwrap();
    let status = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status("p", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    let budget = json!({"metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}});
    budgets.create(&params, &typed(budget)).await.unwrap();
    match pods.evict("p", &EvictParams::default()).await {
        Err(kube::Error::Api(status)) => {
            assert_eq!((status.code, &*status.reason), (429, "TooManyRequests"));
        }
        other => panic!("{other:?}"),
    }
    budgets.delete("b", &DeleteParams::default()).await.unwrap();
    pods.evict("p", &EvictParams::default()).await.unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
}

//! The operator with kube-rs: its controller, finalizers, server-side apply and recorder of events.
//!
//! Each shop gets a config map and a service, and a ledger that only the shop's deletion removes.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event as Told, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::runtime::watcher;
use kube::{Api, Client, Config, Resource};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::oneshot;

const OPERATOR: &str = "operator-rust";
const FINALIZER: &str = "stele.test/ledger";
const LABEL: &str = "stele.test/shop";
/// A refused reconciliation is repeated after this time.
const AGAIN: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Shop {
    metadata: ObjectMeta,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Spec {
    greeting: String,
    replicas: i32,
    port: i32,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    observed_generation: i64,
    conditions: Vec<Condition>,
}

impl Resource for Shop {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Shop".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "stele.test".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "shops".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// An operator that runs in its thread until this is dropped.
pub(super) struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Running {
    pub(super) fn begin(kubeconfig: &Path) -> Running {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            runtime.block_on(operate(kubeconfig, stopped));
        });
        Running { stop, thread }
    }

    pub(super) fn end(self) {
        drop(self.stop);
        self.thread.join().unwrap();
    }
}

async fn operate(kubeconfig: Kubeconfig, stopped: oneshot::Receiver<()>) {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let client = Client::try_from(config.unwrap()).unwrap();
    let operator = Operator {
        recorder: Recorder::new(client.clone(), Reporter::from(OPERATOR)),
        client,
    };
    let children = watcher::Config::default().labels(LABEL);
    Controller::new(operator.api::<Shop>(), watcher::Config::default())
        .owns(operator.api::<ConfigMap>(), children.clone())
        .owns(operator.api::<Service>(), children)
        .graceful_shutdown_on(async {
            // Fails because the sender is dropped: that is the end.
            let _ = stopped.await;
        })
        .run(
            reconcile,
            |_, _, _| Action::requeue(AGAIN),
            Arc::new(operator),
        )
        .for_each(|done| {
            if let Err(error) = done {
                eprintln!("{OPERATOR}: {error}");
            }
            std::future::ready(())
        })
        .await;
}

async fn reconcile(
    shop: Arc<Shop>,
    operator: Arc<Operator>,
) -> Result<Action, finalizer::Error<kube::Error>> {
    let shops = operator.api();
    finalizer(&shops, FINALIZER, shop, async |event| {
        match event {
            Event::Apply(shop) => operator.keep(&shop).await?,
            Event::Cleanup(shop) => operator.close(&shop).await?,
        }
        Ok(Action::await_change())
    })
    .await
}

struct Operator {
    client: Client,
    recorder: Recorder,
}

impl Operator {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::default_namespaced(self.client.clone())
    }

    async fn keep(&self, shop: &Shop) -> kube::Result<()> {
        let name = name(shop);
        let port = json!({"name": "web", "port": shop.spec.port, "targetPort": 8080});
        let owned = json!({"name": name, "labels": {LABEL: name},
            "ownerReferences": [shop.controller_owner_ref(&())]});
        let ledger = ledger(shop);
        self.apply::<ConfigMap>(
            &ledger,
            json!({"metadata": {"name": ledger}, "data": {"shop": name}}),
        )
        .await?;
        self.apply::<ConfigMap>(
            name,
            json!({"metadata": owned, "data": {"greeting": shop.spec.greeting}}),
        )
        .await?;
        self.apply::<Service>(
            name,
            json!({"metadata": owned, "spec": {"selector": {"app": name}, "ports": [port]}}),
        )
        .await?;
        self.tell(name).await
    }

    /// Server-side apply of a whole object.
    async fn apply<K>(&self, name: &str, mut object: Value) -> kube::Result<()>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        object["apiVersion"] = K::api_version(&()).into();
        object["kind"] = K::kind(&()).into();
        let params = PatchParams::apply(OPERATOR);
        self.api::<K>()
            .patch(name, &params, &Patch::Apply(object))
            .await?;
        Ok(())
    }

    /// Writes the status, and one event for each generation of the shop.
    async fn tell(&self, name: &str) -> kube::Result<()> {
        // The controller's cache may not have the last status yet.
        let shop = self.api::<Shop>().get(name).await?;
        let generation = shop.metadata.generation.unwrap_or_default();
        let before = shop.status.as_ref();
        if before.is_some_and(|status| status.observed_generation == generation) {
            return Ok(());
        }
        let says = format!("says {}", shop.spec.greeting);
        let since =
            before.and_then(|status| Some(status.conditions.first()?.last_transition_time.0));
        let ready = json!({"type": "Ready", "status": "True", "reason": "Open", "message": says,
            "lastTransitionTime": since.unwrap_or_else(Timestamp::now)});
        let status = json!({"apiVersion": Shop::api_version(&()), "kind": Shop::kind(&()),
            "status": {"replicas": shop.spec.replicas, "selector": format!("app={name}"),
                "observedGeneration": generation, "conditions": [ready]}});
        let params = PatchParams::apply(OPERATOR);
        self.api::<Shop>()
            .patch_status(name, &params, &Patch::Apply(status))
            .await?;
        let told = Told {
            type_: EventType::Normal,
            reason: "Open".into(),
            note: Some(says),
            action: "Reconciling".into(),
            secondary: None,
        };
        self.recorder.publish(&told, &shop.object_ref(&())).await
    }

    async fn close(&self, shop: &Shop) -> kube::Result<()> {
        let ledgers = self.api::<ConfigMap>();
        let params = DeleteParams::default();
        ledgers.delete(&ledger(shop), &params).await?;
        Ok(())
    }
}

fn name(shop: &Shop) -> &str {
    shop.metadata.name.as_deref().unwrap_or_default()
}

fn ledger(shop: &Shop) -> String {
    format!("{}-ledger", name(shop))
}

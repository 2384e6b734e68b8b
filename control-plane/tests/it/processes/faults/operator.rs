//! A small operator, once as it should be and three times with a classic bug.
//!
//! Orders are config maps with an amount. The operator keeps one receipt for each order, charges it to
//! a ledger, and marks it as charged. A receipt that is deleted is written again.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

/// What all its config maps are labelled with.
const OURS: &str = "app=shop";
/// Marks orders that are charged.
pub(super) const CHARGED: &str = "charged";
/// Time after which the operator starts again after an error, as a pod does.
const RESTART_AFTER: Duration = Duration::from_millis(50);

/// What is wrong with an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    Nothing,
    /// It believes a list that may be old: what is not in it does not exist.
    TrustsStaleCache,
    /// It learns of deletions from events alone, which do not come while it does not watch.
    MissesDelete,
    /// It adds to the ledger, so that an order is charged twice if it fails in between.
    NotIdempotent,
}

/// Runs an operator for ever; an error is a crash, after which it starts again.
pub(super) async fn run(maps: Api<ConfigMap>, bug: Bug) -> Infallible {
    loop {
        let mut operator = Operator {
            maps: maps.clone(),
            bug,
            known: BTreeMap::new(),
        };
        let Err(error) = operator.work().await;
        eprintln!("the operator with {bug:?} crashes: {error}");
        tokio::time::sleep(RESTART_AFTER).await;
    }
}

struct Operator {
    maps: Api<ConfigMap>,
    bug: Bug,
    /// The orders and receipts that there are, by name.
    known: BTreeMap<String, ConfigMap>,
}

impl Operator {
    async fn work(&mut self) -> Result<Infallible, kube::Error> {
        loop {
            let mut params = ListParams::default().labels(OURS);
            if self.bug == Bug::TrustsStaleCache {
                params = params.match_any();
            }
            let list = self.maps.list(&params).await?;
            if self.bug != Bug::MissesDelete {
                // What is not in the list is gone.
                self.known.clear();
            }
            list.items.into_iter().for_each(|map| self.learn(map));
            self.reconcile().await?;
            let version = list.metadata.resource_version.unwrap_or_default();
            let params = WatchParams::default().labels(OURS);
            let mut events = pin!(self.maps.watch(&params, &version).await?);
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Added(map) | WatchEvent::Modified(map) => self.learn(map),
                    WatchEvent::Deleted(map) => drop(self.known.remove(&map.name_any())),
                    WatchEvent::Bookmark(_) => {}
                    // The version is too old: list again.
                    WatchEvent::Error(_) => break,
                }
                self.reconcile().await?;
            }
        }
    }

    fn learn(&mut self, map: ConfigMap) {
        self.known.insert(map.name_any(), map);
    }

    /// Does for every order what is left to do, in the order of their names.
    async fn reconcile(&mut self) -> Result<(), kube::Error> {
        let orders: Vec<ConfigMap> = self
            .known
            .values()
            .filter(|map| map.labels().get("kind").is_some_and(|kind| kind == "order"))
            .cloned()
            .collect();
        for order in orders {
            let name = order.name_any();
            let is_receipt =
                |map: &ConfigMap| map.labels().get("order").is_some_and(|of| *of == name);
            if !self.known.values().any(is_receipt) {
                self.write_receipt(&name).await?;
            }
            if !order.annotations().contains_key(CHARGED) {
                self.charge(&order).await?;
                let marked = self.mark(order.clone()).await?;
                self.learn(marked);
            }
        }
        Ok(())
    }

    async fn charge(&self, order: &ConfigMap) -> Result<(), kube::Error> {
        if self.bug == Bug::NotIdempotent {
            let mut ledger = self.maps.get("ledger").await?;
            let data = ledger.data.get_or_insert_default();
            let total = data.entry("total".into()).or_default();
            *total = (number(total) + amount(order)).to_string();
            let params = PostParams::default();
            self.maps.replace("ledger", &params, &ledger).await?;
        } else {
            let entry = json!({"data": {order.name_any(): amount(order).to_string()}});
            let params = PatchParams::default();
            let patch = Patch::Merge(entry);
            self.maps.patch("ledger", &params, &patch).await?;
        }
        Ok(())
    }

    /// Marks an order as charged, unless somebody else has changed it.
    async fn mark(&self, mut order: ConfigMap) -> Result<ConfigMap, kube::Error> {
        order
            .annotations_mut()
            .insert(CHARGED.into(), "true".into());
        let params = PostParams::default();
        self.maps.replace(&order.name_any(), &params, &order).await
    }

    async fn write_receipt(&mut self, order: &str) -> Result<(), kube::Error> {
        let name = match self.bug {
            Bug::TrustsStaleCache => json!({"generateName": format!("receipt-{order}-")}),
            _ => json!({"name": format!("receipt-{order}")}),
        };
        let mut receipt = json!({"metadata": name});
        receipt["metadata"]["labels"] = json!({"app": "shop", "order": order});
        let receipt: ConfigMap = serde_json::from_value(receipt).unwrap();
        match self.maps.create(&PostParams::default(), &receipt).await {
            Ok(written) => self.learn(written),
            // Written before a crash.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// The amount of an order.
fn amount(order: &ConfigMap) -> u64 {
    let data = order.data.as_ref();
    data.and_then(|data| data.get("amount"))
        .map_or(0, |text| number(text))
}

/// The number of a text; an empty one is 0.
pub(super) fn number(text: &str) -> u64 {
    if text.is_empty() {
        0
    } else {
        text.parse().unwrap()
    }
}

//! The parts that are clients of the API.

use std::error::Error;
use std::sync::Arc;

use apiserver::Server;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use kube::Client;
use node::Family;
use tokio::sync::watch;

use super::{Plan, Running, inside};
use crate::connection;

/// A part of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Component {
    Store,
    Apiserver,
    ControllerManager,
    Scheduler,
    Node,
}

impl ValueEnum for Component {
    fn value_variants<'a>() -> &'a [Component] {
        &[
            Component::Store,
            Component::Apiserver,
            Component::ControllerManager,
            Component::Scheduler,
            Component::Node,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(match self {
            Component::Store => "store",
            Component::Apiserver => "apiserver",
            Component::ControllerManager => "controller-manager",
            Component::Scheduler => "scheduler",
            Component::Node => "node",
        }))
    }
}

impl Plan {
    /// Starts the parts that need a client; each ends when `running.stop` becomes true.
    pub(super) async fn start_parts(
        &self,
        server: Option<&Arc<Server>>,
        running: &mut Running,
    ) -> Result<(), Box<dyn Error>> {
        if self.has(Component::ControllerManager) {
            let client = self.client(server, "controller-manager").await?;
            let stop = stopped(running.stop.subscribe());
            let config = controllers::Config {
                elect: None,
                root_ca: self.read_authority("ca.crt")?,
                signer: self.signer()?,
                // The nodes are hollow, and have ranges already.
                node_ranges: None,
                loops: self.loops.clone(),
            };
            running.tasks.spawn(async move {
                let ended = controllers::run(client, config, stop).await;
                ended.map_err(|error| format!("the controllers: {error}"))
            });
        }
        if self.has(Component::Scheduler) {
            let client = self.client(server, "scheduler").await?;
            let stop = stopped(running.stop.subscribe());
            running.tasks.spawn(async move {
                let ended = scheduler::run(client, scheduler::Config::default(), stop).await;
                ended.map_err(|error| format!("the scheduler: {error}"))
            });
        }
        if self.has(Component::Node) && self.nodes > 0 {
            let client = self.client(server, "node").await?;
            let stop = stopped(running.stop.subscribe());
            let config = node::Config {
                count: self.nodes,
                families: self.families(),
                ..node::Config::default()
            };
            running.tasks.spawn(async move {
                node::run(client, config, stop).await;
                Ok(())
            });
            let client = self.client(server, "volume-provisioner").await?;
            let stop = stopped(running.stop.subscribe());
            running.tasks.spawn(async move {
                node::provisioner::run(client, stop).await;
                Ok(())
            });
        }
        Ok(())
    }

    /// Pods have addresses of the families that services have.
    fn families(&self) -> Vec<Family> {
        let names = self.service_ranges.family_names().into_iter();
        names.filter_map(Family::named).collect()
    }

    async fn client(
        &self,
        server: Option<&Arc<Server>>,
        part: &str,
    ) -> Result<Client, Box<dyn Error>> {
        match server {
            Some(server) => Ok(inside::client(server, part)),
            None => connection::client_of(&self.kubeconfig()).await,
        }
    }
}

/// Waits until the parts have to stop.
pub(super) async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that the sender is gone, which also means stop.
    let _ = stopping.wait_for(|stop| *stop).await;
}

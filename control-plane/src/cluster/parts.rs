//! The parts that are clients of the API, started in one process.

use std::error::Error;

use clap::builder::PossibleValue;
use clap::{ArgMatches, ValueEnum};
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A part that `up` can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
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

/// The parts to run.
pub(super) struct Parts {
    components: Vec<Component>,
    nodes: usize,
}

impl Parts {
    pub(super) fn of(arguments: &ArgMatches) -> Parts {
        let components = arguments.get_many::<Component>("components");
        Parts {
            components: components.into_iter().flatten().copied().collect(),
            nodes: arguments.get_one("nodes").copied().unwrap_or_default(),
        }
    }

    pub(super) fn has(&self, component: Component) -> bool {
        self.components.contains(&component)
    }

    /// Starts the parts that need a client; each ends when `stopping` becomes true.
    pub(super) async fn start(
        &self,
        connect: &impl AsyncFn(&'static str) -> Result<Client, Box<dyn Error>>,
        root_ca: &str,
        stopping: &watch::Receiver<bool>,
        running: &mut JoinSet<Result<(), String>>,
    ) -> Result<(), Box<dyn Error>> {
        if self.has(Component::ControllerManager) {
            let client = connect("controller-manager").await?;
            let stop = stopped(stopping.clone());
            let config = controllers::Config {
                elect: None,
                root_ca: root_ca.to_owned(),
            };
            running.spawn(async move {
                let ended = controllers::run(client, config, stop).await;
                ended.map_err(|error| format!("the controllers: {error}"))
            });
        }
        if self.has(Component::Scheduler) {
            let client = connect("scheduler").await?;
            let stop = stopped(stopping.clone());
            running.spawn(async move {
                let ended = scheduler::run(client, scheduler::Config::default(), stop).await;
                ended.map_err(|error| format!("the scheduler: {error}"))
            });
        }
        if self.has(Component::Node) && self.nodes > 0 {
            let client = connect("node").await?;
            let stop = stopped(stopping.clone());
            let config = node::Config {
                count: self.nodes,
                ..node::Config::default()
            };
            running.spawn(async move {
                node::run(client, config, stop).await;
                Ok(())
            });
        }
        Ok(())
    }
}

async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that the sender is gone, which also means stop.
    let _ = stopping.wait_for(|stop| *stop).await;
}

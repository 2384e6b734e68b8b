//! The shell of the fleet: informers, a clock, and calls.

use std::future::Future;
use std::time::Duration;

use api_client::{Client, Informer, Notice};
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use machinery::api::{Api, Call};
use machinery::object::Object;
use machinery::schema;
use machinery::status::Status;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::address::{Family, PODS_MAX};
use crate::fleet::{Fleet, Job, Now, Periods, Work};
use crate::host::{Host, Size};
use crate::pod;

/// Maximum number of jobs with a call in flight, all nodes together.
const CALLS_AT_ONCE: usize = 32;
/// Maximum number of queued Events; more are dropped, as Events are informational.
const EVENTS_MAX: usize = 1024;
/// Maximum number of Events in flight.
const EVENTS_AT_ONCE: usize = 4;

/// The nodes to run.
#[derive(Debug, Clone)]
pub struct Config {
    /// The number of nodes.
    pub count: usize,
    /// The prefix of their names; a number from 0 follows.
    pub prefix: String,
    /// The families of the addresses of nodes and pods, the primary one first.
    pub families: Vec<Family>,
    /// The capacity of each node.
    pub size: Size,
    /// Between two renewals of a node's Lease.
    pub lease_period: Duration,
    /// Between two writes of an unchanged status.
    pub status_period: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            count: 1,
            prefix: "node-".to_owned(),
            families: vec![Family::V4],
            size: Size::default(),
            lease_period: Duration::from_secs(10),
            status_period: Duration::from_secs(300),
        }
    }
}

/// Runs the nodes until `stop` completes. Their objects stay, like those of machines without power.
pub async fn run(kube: kube::Client, config: Config, stop: impl Future<Output = ()>) {
    let client = Client::new(kube);
    let size = Size {
        pods: config.size.pods.min(PODS_MAX),
        ..config.size.clone()
    };
    let host = |number: usize| Host {
        name: format!("{}{number}", config.prefix),
        number: u32::try_from(number).unwrap_or(u32::MAX),
        families: config.families.clone(),
        size: size.clone(),
        labels: Vec::new(),
    };
    let periods = Periods {
        lease: config.lease_period,
        status: config.status_period,
    };
    let mut fleet = Fleet::new((0..config.count).map(host).collect(), periods);

    let kind = |kind| {
        schema::kind("", "v1", kind)
            .expect("the table has it")
            .clone()
    };
    let pods = Informer::of(kind("Pod")).with_fields("spec.nodeName!=");
    let mut pods = std::pin::pin!(pods.run(&client));
    let mut nodes = std::pin::pin!(Informer::of(kind("Node")).run(&client));
    let (events, waiting) = mpsc::channel(EVENTS_MAX);
    let mut telling = std::pin::pin!(tell(&client, waiting));
    let mut calls = FuturesUnordered::new();
    let mut stop = std::pin::pin!(stop);
    let start = Instant::now();
    loop {
        while calls.len() < CALLS_AT_ONCE
            && let Some(work) = fleet.next(now(start))
        {
            calls.push(make(client.clone(), work, events.clone()));
        }
        // With the maximum number of calls in flight no new job can start, so only the end of a
        // call matters and no timer is needed.
        let full = calls.len() >= CALLS_AT_ONCE;
        let wake_at = fleet.wake_at().filter(|_| !full).map(|at| start + at);
        tokio::select! {
            () = &mut stop => return,
            Some((job, answer)) = calls.next() => fleet.done(&job, answer, now(start)),
            Some(notice) = pods.next() => match notice {
                Notice::Replaced(all) => fleet.pods_replaced(all),
                Notice::Applied(pod) => fleet.pod_applied(pod),
                Notice::Deleted(pod) => fleet.pod_deleted(&pod),
            },
            Some(notice) = nodes.next() => match notice {
                Notice::Replaced(all) => fleet.nodes_replaced(all),
                Notice::Applied(node) => fleet.node_applied(node),
                Notice::Deleted(node) => fleet.node_deleted(&node),
            },
            () = &mut telling => {}
            () = api_client::until(wake_at) => {}
        }
    }
}

/// Sends Events. One that fails is dropped.
async fn tell(client: &Client, mut waiting: mpsc::Receiver<Call>) {
    let waiting = stream::poll_fn(move |context| waiting.poll_recv(context));
    let sent = waiting.for_each_concurrent(EVENTS_AT_ONCE, async |event| {
        if let Err(error) = client.call(event).await {
            tracing::debug!(%error, "an Event was lost");
        }
    });
    sent.await;
}

async fn make(
    client: Client,
    work: Work,
    events: mpsc::Sender<Call>,
) -> (Job, Result<Object, Status>) {
    let mut answer = Ok(Value::Null);
    for call in work.calls {
        let reads_claim = matches!(call, Call::Get { .. });
        answer = client.call(call).await;
        if reads_claim {
            answer = pod::bound(answer);
        }
        if answer.is_err() {
            break;
        }
    }
    if answer.is_ok() {
        for event in work.events {
            // If the queue is full the Event is dropped.
            let _ = events.try_send(event);
        }
    }
    (work.job, answer)
}

fn now(start: Instant) -> Now {
    Now {
        elapsed: start.elapsed(),
        wall: api_client::now(),
    }
}

/// `stele-kube up` spawns all parts in one process, so the future must be `Send`.
#[cfg(test)]
#[test]
fn it_can_be_spawned() {
    fn spawnable<F: Future + Send>(_: fn(kube::Client) -> F) {}
    spawnable(|kube| run(kube, Config::default(), std::future::ready(())));
}

//! The audit log: events about requests, as the audit policy says, for a file and for a webhook.
//!
//! - `policy` decides what is recorded of a request;
//! - `event` is what is recorded, and how Kubernetes writes it;
//! - `record` collects it while the request is served;
//! - `sink` hands events over, at once or in batches, to `file` or `webhook`;
//! - `options` is what a command line says about all of it.
//!
//! A server without an audit log does nothing for it: there is no [`Log`].

mod event;
mod file;
mod metrics;
pub mod options;
pub mod policy;
mod record;
mod rotation;
mod sink;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use machinery::time::Timestamp;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use event::Event;
use metrics::Metrics;
use policy::Policy;
use sink::Sink;

pub(crate) use event::{ResponseStatus, as_go};
pub(crate) use policy::{Level, Stage};
pub(crate) use record::{Beginning, Record};

/// How long a server that stops waits for events to be handed over.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

/// Where events go, and which ones. It belongs to the tokio runtime that it was opened in.
pub struct Log {
    policy: Policy,
    sinks: Vec<Sink>,
    metrics: Arc<Metrics>,
    /// Events that no request waits for.
    detached: Mutex<JoinSet<bool>>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Log").finish_non_exhaustive()
    }
}

impl Log {
    /// Hands an event over to all sinks. False if one failed whose requests must then fail.
    async fn process(&self, rendered: Vec<Option<Bytes>>) -> bool {
        let sinks = self.sinks.iter().zip(rendered);
        let taken = sinks.filter_map(|(sink, event)| Some(sink.take(event?)));
        // All at once: if the request is given up meanwhile, each of them has the event.
        let taken = join_all(taken).await;
        taken.into_iter().all(|good| good)
    }

    /// An event as each sink writes it; `None` for a sink that it is too large for.
    fn render(&self, event: &Event, stage: Stage, at: Timestamp) -> Vec<Option<Bytes>> {
        self.metrics.count_event();
        let sinks = self.sinks.iter();
        sinks.map(|sink| sink.render(event, stage, at)).collect()
    }

    /// Counts a request that is refused because its event could not be stored.
    pub(crate) fn count_rejected(&self) {
        self.metrics.count_rejected();
    }

    /// The counters of events, under Kubernetes' names.
    pub(crate) fn metrics(&self) -> String {
        self.metrics.to_text()
    }

    /// Hands an event over without waiting for that.
    fn process_detached(self: &Arc<Log>, rendered: Vec<Option<Bytes>>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            tracing::warn!("an audit event is lost: the server has stopped");
            return;
        };
        let log = Arc::clone(self);
        let mut detached = self.detached.lock();
        while detached.try_join_next().is_some() {}
        detached.spawn_on(async move { log.process(rendered).await }, &runtime);
    }

    /// Waits until all events so far are handed over, but not for long. Later events of batches are
    /// dropped and counted.
    pub async fn close(&self) {
        let handed_over = tokio::time::timeout(CLOSE_PATIENCE, self.hand_over()).await;
        if handed_over.is_err() {
            tracing::error!("audit events are lost: they could not be handed over in time");
        }
    }

    async fn hand_over(&self) {
        let mut detached = std::mem::take(&mut *self.detached.lock());
        while detached.join_next().await.is_some() {}
        for sink in &self.sinks {
            sink.close().await;
        }
    }
}

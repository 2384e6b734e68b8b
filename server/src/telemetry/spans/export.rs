//! Sends spans to a collector: OTLP over gRPC. Spans that do not fit in the queue are dropped. If
//! the collector does not answer, only spans are lost.

use std::time::Duration;

use etcd_api::otlp::trace_service_client::TraceServiceClient;
use etcd_api::otlp::{ExportTraceServiceRequest, Resource, ResourceSpans, Scope, ScopeSpans, Span};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tonic::transport::{Channel, Endpoint};

use super::text;
use crate::config::TracingConfig;

/// Finished calls in the queue. This and the next three are OpenTelemetry's defaults.
const WAITING_MAX: usize = 2048;
const BATCH_MAX: usize = 512;
const SEND_EVERY: Duration = Duration::from_secs(5);
const SEND_PATIENCE: Duration = Duration::from_secs(10);

/// How long a stopping server waits to send the remaining spans.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Names of the instrumentation libraries in etcd, by which collectors distinguish the spans.
const CALLS: (&str, &str) = (
    "go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc",
    "0.68.0",
);
const SERVER: (&str, &str) = ("go.etcd.io/etcd", "");

/// The spans of a finished call.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) call: Span,
    pub(super) inner: Option<Span>,
}

/// The queue of finished spans.
#[derive(Clone, Debug)]
pub(super) struct Queue(mpsc::Sender<Finished>);

/// The task that sends spans.
pub(crate) struct Exporter {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

pub(super) fn start(config: &TracingConfig) -> Result<(Queue, Exporter), String> {
    let endpoint = Endpoint::from_shared(format!("http://{}", config.address))
        .map_err(|error| format!("--distributed-tracing-address={}: {error}", config.address))?;
    let (sender, waiting) = mpsc::channel(WAITING_MAX);
    let (stop, stopped) = oneshot::channel();
    let mut attributes = Vec::new();
    if !config.instance_id.is_empty() {
        attributes.push(text("service.instance.id", &config.instance_id));
    }
    attributes.push(text("service.name", &config.service_name));
    let sending = Sending {
        client: TraceServiceClient::new(endpoint.connect_lazy()),
        resource: Resource { attributes },
        waiting,
        batch: Vec::new(),
        failed: false,
    };
    let task = tokio::spawn(sending.run(stopped));
    Ok((Queue(sender), Exporter { stop, task }))
}

impl Queue {
    pub(super) fn put(&self, finished: Finished) {
        // Fails if the queue is full or the server is stopping; the spans are dropped.
        let _ = self.0.try_send(finished);
    }
}

impl Exporter {
    /// Sends the remaining spans, up to a time limit.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        let _ = timeout(LAST_PATIENCE, self.task).await;
    }
}

struct Sending {
    client: TraceServiceClient<Channel>,
    resource: Resource,
    waiting: mpsc::Receiver<Finished>,
    batch: Vec<Finished>,
    /// True if the last batch did not reach the collector.
    failed: bool,
}

impl Sending {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut due = interval(SEND_EVERY);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let room = BATCH_MAX - self.batch.len();
            let is_due = tokio::select! {
                _ = &mut stopped => break,
                _ = due.tick() => true,
                // The queue is closed: no more spans will come.
                count = self.waiting.recv_many(&mut self.batch, room) => match count {
                    0 => break,
                    _ => false,
                },
            };
            if is_due || self.batch.len() == BATCH_MAX {
                self.send().await;
            }
        }
        while let Ok(finished) = self.waiting.try_recv() {
            self.batch.push(finished);
        }
        self.send().await;
    }

    async fn send(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let request = self.request();
        let sent = timeout(SEND_PATIENCE, self.client.export(request)).await;
        let error = match sent {
            Ok(Ok(_)) => None,
            Ok(Err(status)) => Some(status.to_string()),
            Err(_) => Some("the collector does not answer".to_owned()),
        };
        let has_failed = std::mem::replace(&mut self.failed, error.is_some());
        if let Some(error) = error.filter(|_| !has_failed) {
            tracing::warn!(
                error,
                "failed to send traces; they are dropped until it works again"
            );
        }
    }

    fn request(&mut self) -> ExportTraceServiceRequest {
        let (mut calls, mut inner) = (Vec::new(), Vec::new());
        for finished in self.batch.drain(..) {
            calls.push(finished.call);
            inner.extend(finished.inner);
        }
        let scopes = [(SERVER, inner), (CALLS, calls)].into_iter();
        let scopes = scopes.filter(|(_, spans)| !spans.is_empty());
        let scope_spans = scopes.map(|((name, version), spans)| ScopeSpans {
            scope: Some(Scope {
                name: name.to_owned(),
                version: version.to_owned(),
            }),
            spans,
        });
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: scope_spans.collect(),
                schema_url: String::new(),
            }],
        }
    }
}

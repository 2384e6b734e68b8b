//! Hands events over to a file or a webhook: while their requests wait, or later in batches.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use machinery::time::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::event::Event;
use super::file::Writer;
use super::metrics::{Metrics, Plugin};
use super::policy::{Level, Stage};
use super::webhook::Sender;

/// Upper bound of the bytes of the events that one sink has taken and not delivered.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Upper bound of batches on their way to a webhook at one time.
const SENDING_MAX: usize = 64;

/// Whether requests wait for their events.
#[derive(Debug, Clone)]
pub(super) enum Mode {
    /// They wait, and go on if an event could not be stored.
    Blocking,
    /// They wait, and fail if the event of their beginning could not be stored.
    Strict,
    /// They do not wait. An event that has no room in the queue is dropped.
    Batch(Batching),
}

/// How events are collected.
#[derive(Debug, Clone)]
pub(super) struct Batching {
    /// Upper bound of events in the queue.
    pub(super) queue_events: usize,
    /// Upper bound of events in one batch.
    pub(super) batch_events: usize,
    /// Upper bound of the bytes of one batch; a batch has at least one event.
    pub(super) batch_bytes: usize,
    /// How long the first event of a batch waits for others.
    pub(super) wait: Duration,
    /// Upper bound of batches a second, and how many may follow each other without a pause.
    pub(super) throttle: Option<(f64, f64)>,
}

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    JsonLine,
    LegacyLine,
    JsonItem,
}

/// Where events end.
pub(super) enum Target {
    File(Writer),
    Webhook(Box<Sender>),
}

/// A way to a target.
pub(super) struct Sink {
    pub(super) form: Form,
    /// Upper bound of an event, in bytes. A larger one loses its objects, or is dropped.
    pub(super) event_bytes: Option<usize>,
    way: Way,
    target: Arc<Target>,
    metrics: Arc<Metrics>,
    /// Bytes of events that may still be taken before others are delivered.
    room: Arc<Semaphore>,
}

enum Way {
    Blocking,
    Strict,
    Batch(Queue),
}

struct Queue {
    /// `None` once the queue is closed.
    sender: Mutex<Option<mpsc::Sender<Queued>>>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

/// An event, and its bytes of the queue until it is delivered.
struct Queued {
    event: Bytes,
    room: OwnedSemaphorePermit,
}

impl Target {
    fn plugin(&self) -> Plugin {
        match self {
            Target::File(_) => Plugin::Log,
            Target::Webhook(_) => Plugin::Webhook,
        }
    }

    /// Delivers events; false if they were not, which is counted.
    async fn deliver(&self, events: Vec<Bytes>, metrics: &Metrics) -> bool {
        let count = events.len();
        let delivered = match self {
            Target::File(file) => file.write(events).await,
            Target::Webhook(webhook) => webhook.send(&events).await,
        };
        if let Err(why) = &delivered {
            metrics.fail(self.plugin(), why, count);
        }
        delivered.is_ok()
    }
}

impl Sink {
    /// A sink; with batches it starts a task.
    pub(super) fn new(
        form: Form,
        event_bytes: Option<usize>,
        mode: Mode,
        target: Target,
        metrics: &Arc<Metrics>,
    ) -> Sink {
        let target = Arc::new(target);
        let way = match mode {
            Mode::Blocking => Way::Blocking,
            Mode::Strict => Way::Strict,
            Mode::Batch(batching) => {
                let (sender, queue) = mpsc::channel(batching.queue_events);
                let (to, counted) = (Arc::clone(&target), Arc::clone(metrics));
                let worker = tokio::spawn(work(queue, batching, to, counted));
                Way::Batch(Queue {
                    sender: Mutex::new(Some(sender)),
                    worker: Mutex::new(Some(worker)),
                })
            }
        };
        Sink {
            form,
            event_bytes,
            way,
            target,
            metrics: Arc::clone(metrics),
            room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)),
        }
    }

    /// An event in this sink's form; `None` if it is too large, which is counted.
    pub(super) fn render(&self, event: &Event, stage: Stage, at: Timestamp) -> Option<Bytes> {
        let Some(most) = self.event_bytes else {
            return Some(self.written(event, stage, at));
        };
        // The size that counts is that of the event in JSON, whatever the form.
        let size = |event: &Event| event.json_line(stage, at).len();
        if size(event) <= most {
            return Some(self.written(event, stage, at));
        }
        if event.level >= Level::Request {
            let smaller = event.without_objects();
            if size(&smaller) <= most {
                return Some(self.written(&smaller, stage, at));
            }
        }
        let why = "event is too large even after truncating";
        self.metrics.fail(Plugin::Truncate, why, 1);
        None
    }

    fn written(&self, event: &Event, stage: Stage, at: Timestamp) -> Bytes {
        match self.form {
            Form::JsonLine => event.json_line(stage, at),
            Form::JsonItem => event.json_item(stage, at),
            Form::LegacyLine => event.legacy_line(stage),
        }
        .into()
    }

    /// Takes an event. False if its request must fail.
    pub(super) async fn take(&self, event: Bytes) -> bool {
        match &self.way {
            Way::Strict => self.deliver(event).await,
            Way::Blocking => {
                self.deliver(event).await;
                true
            }
            Way::Batch(queue) => {
                if let Err(why) = queue.offer(event, &self.room) {
                    self.metrics.fail(Plugin::Buffered, why, 1);
                }
                true
            }
        }
    }

    /// Delivers an event. It has a task of its own: whoever gives up a request when it is served
    /// must not keep it out of the log by that.
    async fn deliver(&self, event: Bytes) -> bool {
        let mut waiting = Waiting(Some(&self.metrics));
        let bytes = weight(&event);
        let room = Arc::clone(&self.room).acquire_many_owned(bytes).await;
        waiting.0 = None;
        let (target, metrics) = (Arc::clone(&self.target), Arc::clone(&self.metrics));
        let delivery = tokio::spawn(async move {
            let delivered = target.deliver(vec![event], &metrics).await;
            drop(room);
            delivered
        });
        // A panic is no delivery.
        delivery.await.unwrap_or(false)
    }

    /// Waits until all that was taken is delivered. A queue takes nothing after that.
    pub(super) async fn close(&self) {
        let Way::Batch(queue) = &self.way else {
            // Whoever has all the room is alone.
            let all = u32::try_from(QUEUE_BYTES_MAX).unwrap_or(u32::MAX);
            drop(self.room.acquire_many(all).await);
            return;
        };
        drop(queue.sender.lock().take());
        let worker = queue.worker.lock().take();
        if let Some(worker) = worker
            && let Err(error) = worker.await
        {
            tracing::error!(%error, "the queue of audit events failed");
        }
    }
}

impl Queue {
    fn offer(&self, event: Bytes, room: &Arc<Semaphore>) -> Result<(), &'static str> {
        const FULL: &str = "audit buffer queue blocked";
        let sender = self.sender.lock();
        let sender = sender.as_ref().ok_or("audit backend shut down")?;
        let room = Arc::clone(room).try_acquire_many_owned(weight(&event));
        let room = room.map_err(|_| FULL)?;
        sender.try_send(Queued { event, room }).map_err(|_| FULL)
    }
}

/// The room that an event takes. The largest events take all of it.
fn weight(event: &Bytes) -> u32 {
    u32::try_from(event.len().min(QUEUE_BYTES_MAX)).unwrap_or(u32::MAX)
}

/// An event that waits for room; if its request ends meanwhile, it is lost.
struct Waiting<'a>(Option<&'a Metrics>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(metrics) = self.0 {
            let why = "the request ended while its event waited for room";
            metrics.fail(Plugin::Buffered, why, 1);
        }
    }
}

/// Delivers what is queued, until the queue is closed and empty.
async fn work(
    mut queue: mpsc::Receiver<Queued>,
    batching: Batching,
    target: Arc<Target>,
    metrics: Arc<Metrics>,
) {
    let throttle = batching.throttle;
    let mut throttle = throttle.map(|limits| Throttle::new(limits, Instant::now()));
    let mut sending = JoinSet::new();
    let mut next = None;
    while let Some(batch) = collect(&mut queue, &mut next, &batching).await {
        if let Some(throttle) = &mut throttle {
            tokio::time::sleep(throttle.take(Instant::now())).await;
        }
        let (events, rooms): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|one| (one.event, one.room)).unzip();
        let (to, counted) = (Arc::clone(&target), Arc::clone(&metrics));
        let delivery = async move {
            to.deliver(events, &counted).await;
            drop(rooms);
        };
        if let Target::File(_) = *target {
            delivery.await;
            continue;
        }
        // A slow webhook must not hold up the batches after this one, as they have a room of
        // their own; only so many are on their way.
        while sending.try_join_next().is_some() {}
        if sending.len() >= SENDING_MAX {
            sending.join_next().await;
        }
        sending.spawn(delivery);
    }
    while sending.join_next().await.is_some() {}
}

/// The next batch; `None` at the end. `next` is an event that had no place in the batch before.
async fn collect(
    queue: &mut mpsc::Receiver<Queued>,
    next: &mut Option<Queued>,
    batching: &Batching,
) -> Option<Vec<Queued>> {
    let first = match next.take() {
        Some(first) => first,
        None => queue.recv().await?,
    };
    let mut bytes = first.event.len();
    let mut batch = vec![first];
    let until = Instant::now() + batching.wait;
    while batch.len() < batching.batch_events {
        let more = tokio::time::timeout_at(until, queue.recv()).await;
        let Ok(Some(more)) = more else { break };
        bytes += more.event.len();
        if bytes > batching.batch_bytes {
            *next = Some(more);
            break;
        }
        batch.push(more);
    }
    Some(batch)
}

/// A bucket of tokens that fills at a steady rate; each batch takes one.
struct Throttle {
    per_second: f64,
    burst: f64,
    tokens: f64,
    since: Instant,
}

impl Throttle {
    fn new((per_second, burst): (f64, f64), now: Instant) -> Throttle {
        Throttle {
            per_second,
            burst,
            tokens: burst,
            since: now,
        }
    }

    /// Takes a token; returns how long to wait for it.
    fn take(&mut self, now: Instant) -> Duration {
        let gained = now.duration_since(self.since).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + gained).min(self.burst) - 1.0;
        self.since = now;
        let wait = (-self.tokens / self.per_second).max(0.0);
        Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX)
    }
}

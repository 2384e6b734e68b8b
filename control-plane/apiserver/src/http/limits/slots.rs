//! Limits on concurrent work: requests that read, requests that write, and bytes of bodies. Health
//! probes and the cluster's owners are exempt.
//!
//! Priority and fairness takes the place of the first two limits, unless it is off.

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use machinery::status::Status;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::basics::waits;
use crate::flow::rules::Flow;
use crate::flow::{FlowControl, Seats};
use crate::http::limits::Limits;
use crate::http::question::body::BODY_BYTES_MAX;

/// Upper bound of the bytes of all bodies in memory, complete or not.
const BODIES_BYTES_MAX: usize = 256 << 20;

/// The slots for concurrent requests.
pub(crate) struct Slots {
    reads: Semaphore,
    writes: Semaphore,
    bodies: Semaphore,
    /// Reads and writes in progress, also of those that need no slot.
    busy: [AtomicUsize; 2],
}

impl Slots {
    pub(crate) fn new(limits: &Limits) -> Slots {
        let slots = |limit: usize| match limit {
            0 => Semaphore::new(Semaphore::MAX_PERMITS),
            limit => Semaphore::new(limit.min(Semaphore::MAX_PERMITS)),
        };
        Slots {
            reads: slots(limits.reads),
            writes: slots(limits.writes),
            bodies: Semaphore::new(BODIES_BYTES_MAX),
            busy: Default::default(),
        }
    }

    /// Number of reads and writes in progress.
    pub(crate) fn busy(&self) -> (usize, usize) {
        let [reads, writes] = &self.busy;
        (
            reads.load(Ordering::Relaxed),
            writes.load(Ordering::Relaxed),
        )
    }
}

/// What one request may take.
pub(crate) struct Turn<'a> {
    pub(crate) slots: &'a Slots,
    /// True if its body has room however full the server is.
    pub(crate) exempt: bool,
    pub(crate) reads: bool,
    pub(crate) limit: Limit<'a>,
}

/// What a request needs to run.
pub(crate) enum Limit<'a> {
    Nothing,
    /// One of the slots for its kind of requests.
    Slots,
    /// So many seats of the level of its flow.
    Seats {
        control: &'a FlowControl,
        flow: &'a Flow,
        seats: u32,
    },
}

/// What a request holds while it runs.
pub(crate) struct Running<'a> {
    busy: &'a AtomicUsize,
    #[expect(dead_code, reason = "its end lets another request in")]
    permit: Permit<'a>,
}

#[expect(dead_code, reason = "dropping it gives it back")]
enum Permit<'a> {
    Nothing,
    Slot(SemaphorePermit<'a>),
    Seats(Seats<'a>),
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A body, and the bytes reserved for it until this value is dropped.
#[derive(Default)]
pub(crate) struct Received<'a> {
    bytes: Bytes,
    #[expect(dead_code, reason = "its end gives the room back")]
    room: Option<SemaphorePermit<'a>>,
}

impl Received<'_> {
    /// Takes the body; its bytes stay reserved.
    pub(crate) fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.bytes)
    }
}

impl<'a> Turn<'a> {
    /// Takes what the request needs. `counts` is false for a request that has had it before.
    pub(crate) async fn enter(&self, counts: bool) -> Result<Running<'a>, Status> {
        let permit = match self.limit {
            Limit::Nothing => Permit::Nothing,
            Limit::Slots => {
                let slots = if self.reads {
                    &self.slots.reads
                } else {
                    &self.slots.writes
                };
                Permit::Slot(slots.try_acquire().map_err(|_| too_many())?)
            }
            Limit::Seats {
                control,
                flow,
                seats,
            } => {
                let entered = waits::wait(control.enter(flow, seats, counts)).await;
                Permit::Seats(entered.map_err(|_| no_seats())?)
            }
        };
        let busy = &self.slots.busy[usize::from(!self.reads)];
        busy.fetch_add(1, Ordering::Relaxed);
        Ok(Running { busy, permit })
    }

    /// Reads a body. A request whose body is slow gives its permit back in the meantime, because
    /// others need it.
    pub(crate) async fn receive_from(
        &self,
        running: Running<'a>,
        body: Body,
    ) -> Result<(Running<'a>, Received<'a>), Status> {
        let mut receiving = pin!(self.receive(body));
        let there = poll_fn(|context| Poll::Ready(receiving.as_mut().poll(context)));
        if let Poll::Ready(received) = there.await {
            return Ok((running, received?));
        }
        drop(running);
        let received = receiving.await?;
        Ok((self.enter(false).await?, received))
    }

    /// Reads a body. Bytes are reserved as they arrive, so a body that is only announced reserves
    /// none.
    pub(crate) async fn receive(&self, mut body: Body) -> Result<Received<'a>, Status> {
        let mut bytes = BytesMut::new();
        let mut room: Option<SemaphorePermit<'a>> = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                Status::bad_request(format!("the body cannot be read: {error}"))
            })?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if bytes.len() + data.len() > BODY_BYTES_MAX {
                return Err(Status::too_large(BODY_BYTES_MAX));
            }
            if !self.exempt {
                // Below the limit of a body, so it fits.
                let more = u32::try_from(data.len()).unwrap_or(u32::MAX);
                let more = self.slots.bodies.try_acquire_many(more);
                let more = more.map_err(|_| too_many())?;
                match &mut room {
                    Some(room) => room.merge(more),
                    None => room = Some(more),
                }
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Received {
            bytes: bytes.freeze(),
            room,
        })
    }
}

/// The refusal of priority and fairness.
fn no_seats() -> Status {
    Status::too_many_requests("Too many requests, please try again later.", 1)
}

/// The error of a request that must wait for others.
pub(crate) fn too_many() -> Status {
    let text = "the server has received too many requests and has asked us to try again later";
    Status::too_many_requests(text, 1)
}

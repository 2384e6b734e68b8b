//! Limits on concurrent work: requests that read, requests that write, and bytes of bodies. Health
//! probes and the cluster's owners are exempt.

#[cfg(test)]
mod tests;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use machinery::status::Status;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::http::body::BODY_BYTES_MAX;

/// Upper bounds of concurrent requests. A watch counts only until it has started.
const READS_MAX: usize = 400;
const WRITES_MAX: usize = 200;
/// Upper bound of the bytes of all bodies in memory, complete or not.
const BODIES_BYTES_MAX: usize = 256 << 20;

/// The slots for concurrent requests.
pub(crate) struct Slots {
    reads: Semaphore,
    writes: Semaphore,
    bodies: Semaphore,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots {
            reads: Semaphore::new(READS_MAX),
            writes: Semaphore::new(WRITES_MAX),
            bodies: Semaphore::new(BODIES_BYTES_MAX),
        }
    }
}

impl Slots {
    /// Number of reads and writes in progress.
    pub(crate) fn taken(&self) -> (usize, usize) {
        let (reads, writes) = (&self.reads, &self.writes);
        (
            READS_MAX - reads.available_permits(),
            WRITES_MAX - writes.available_permits(),
        )
    }
}

/// The slots that one request may take.
pub(crate) struct Turn<'a> {
    pub(crate) slots: &'a Slots,
    /// True if the request needs no slot.
    pub(crate) exempt: bool,
    pub(crate) reads: bool,
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
    /// Takes a slot, unless the request is exempt.
    pub(crate) fn enter(&self) -> Result<Option<SemaphorePermit<'a>>, Status> {
        if self.exempt {
            return Ok(None);
        }
        let slots = if self.reads {
            &self.slots.reads
        } else {
            &self.slots.writes
        };
        slots.try_acquire().map(Some).map_err(|_| too_many())
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

/// The error of a request that must wait for others.
pub(crate) fn too_many() -> Status {
    let text = "the server has received too many requests and has asked us to try again later";
    Status::too_many_requests(text, 1)
}

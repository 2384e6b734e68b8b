//! Limits the memory that all large replies hold together.
//!
//! A reply up to [`SMALL_BYTES`] never waits. A larger reply takes its turn: one reply grows at a
//! time, first come first served, and reserves the bytes of its next step before it reads them. A
//! reply that has been read waits for nothing but its client. So only the growing reply can wait
//! for bytes, and those bytes are always released: when clients take their pieces, when clients
//! leave, or when an idle client is cut off. A reply larger than the whole budget may grow when no
//! other reply is left.
//!
//! While a reply waits for bytes, any reply of which the client took nothing for `PATIENCE` is
//! cut off: its call fails. So a client that reads nothing delays others for that long; a client
//! that takes one piece at a time delays them up to that long per piece. While no reply waits, none
//! is cut off.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Response};
use http_body::{Body, Frame};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::time::{Instant, timeout};
use tonic::{Code, Status};

use crate::basics::error::Error;
use crate::state::MESSAGE_BYTES_MAX;
use crate::telemetry::metrics::Metrics;

/// For all large replies together. A list of all pods of a large Kubernetes cluster fits.
pub(crate) const BUDGET_BYTES: usize = 256 << 20;
/// A reply up to this size is not counted.
pub(crate) const SMALL_BYTES: usize = 1 << 20;

/// Time a client gets to take one piece of its reply while another reply waits.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a waiting reply looks for idle clients.
const LOOK: Duration = Duration::from_secs(1);

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Budget(Arc<Inner>);

struct Inner {
    total: usize,
    patience: Duration,
    look: Duration,
    held: Mutex<InUse>,
    metrics: Arc<Metrics>,
    /// Wakes the reply that waits for bytes.
    freed: Notify,
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct InUse {
    bytes: usize,
    sending: Vec<Weak<Mutex<Sending>>>,
}

impl Budget {
    pub(crate) fn new(total: usize, metrics: Arc<Metrics>) -> Budget {
        Budget::with_patience(total, PATIENCE, LOOK, metrics)
    }

    fn with_patience(
        total: usize,
        patience: Duration,
        look: Duration,
        metrics: Arc<Metrics>,
    ) -> Budget {
        Budget(Arc::new(Inner {
            total,
            patience,
            look,
            held: Mutex::default(),
            metrics,
            freed: Notify::new(),
            turn: Arc::default(),
        }))
    }

    /// Waits until a reply may start to grow.
    pub(crate) async fn turn(&self) -> Growing {
        let turn = Arc::clone(&self.0.turn).lock_owned().await;
        Growing {
            share: Share {
                inner: Arc::clone(&self.0),
                bytes: 0,
            },
            _turn: turn,
        }
    }
}

/// The reply whose turn it is to grow.
pub(crate) struct Growing {
    share: Share,
    _turn: OwnedMutexGuard<()>,
}

impl Growing {
    /// Waits until the reply may hold `bytes` in total.
    pub(crate) async fn to(&mut self, bytes: usize) {
        let inner = Arc::clone(&self.share.inner);
        while !self.share.grow(bytes) {
            if timeout(inner.look, inner.freed.notified()).await.is_err() {
                inner.cut_off_idle();
            }
        }
    }

    /// Ends the turn. `pieces` are the whole message to send.
    pub(crate) fn done(self, pieces: Vec<Bytes>) -> Result<LargeReply, Status> {
        LargeReply::new(pieces, self.share)
    }
}

/// A share of the budget; dropping it releases the bytes.
struct Share {
    inner: Arc<Inner>,
    bytes: usize,
}

impl Share {
    /// Returns false if the bytes do not fit now.
    fn grow(&mut self, bytes: usize) -> bool {
        let mut held = self.inner.held.lock();
        let others = held.bytes - self.bytes;
        if others > 0 && others.saturating_add(bytes) > self.inner.total {
            return false;
        }
        held.bytes = others + bytes.max(self.bytes);
        self.inner.metrics.replies_held.set(held.bytes as i64);
        self.bytes = self.bytes.max(bytes);
        true
    }

    fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        let mut held = self.inner.held.lock();
        held.bytes -= less;
        self.inner.metrics.replies_held.set(held.bytes as i64);
        drop(held);
        self.inner.freed.notify_one();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

impl Inner {
    /// Cuts off the client that has been idle longest, if it has been idle for too long. Clients
    /// that hold no bytes do not count, because nothing is gained by them. One that was cut off
    /// before may be among them: it stays until it reads so, and would hide all others for ever.
    fn cut_off_idle(&self) {
        let sending: Vec<_> = {
            let mut held = self.held.lock();
            held.sending.retain(|reply| reply.strong_count() > 0);
            held.sending.iter().filter_map(Weak::upgrade).collect()
        };
        let holding = sending.iter().filter(|reply| reply.lock().holds_bytes());
        let idle = holding.min_by_key(|reply| reply.lock().taken_at);
        if let Some(reply) = idle {
            reply.lock().cut_off_if_idle(self.patience);
        }
    }
}

/// The body of a large reply: one gRPC message, in the pieces in which it was written. A handler
/// attaches it to an empty response; [`LargeReply::into_body`] puts it in place before sending.
#[derive(Clone)]
pub(crate) struct LargeReply(Arc<Mutex<Sending>>);

struct Sending {
    /// The five-byte gRPC prefix; not counted.
    prefix: Option<Bytes>,
    pieces: VecDeque<Bytes>,
    share: Option<Share>,
    taken_at: Instant,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Message,
    CutOff,
    Over,
}

impl LargeReply {
    /// Replaces the body of `response` by the large reply attached to it, if there is one.
    pub(crate) fn into_body(
        mut response: Response<tonic::body::Body>,
    ) -> Response<tonic::body::Body> {
        if let Some(large) = response.extensions_mut().remove::<LargeReply>() {
            *response.body_mut() = tonic::body::Body::new(large);
        }
        response
    }

    fn new(message: Vec<Bytes>, mut share: Share) -> Result<LargeReply, Status> {
        let bytes = message.iter().map(Bytes::len).sum();
        let prefix = Some(prefix(bytes)?);
        share.shrink(bytes);
        let inner = Arc::clone(&share.inner);
        let reply = Arc::new(Mutex::new(Sending {
            prefix,
            pieces: message.into(),
            share: Some(share),
            taken_at: Instant::now(),
            state: State::Message,
        }));
        let mut held = inner.held.lock();
        held.sending.retain(|reply| reply.strong_count() > 0);
        held.sending.push(Arc::downgrade(&reply));
        Ok(LargeReply(reply))
    }
}

/// The prefix of a gRPC message.
fn prefix(bytes: usize) -> Result<Bytes, Status> {
    check_size(bytes)?;
    let mut prefix = BytesMut::with_capacity(5);
    prefix.put_u8(0);
    prefix.put_u32(bytes as u32);
    Ok(prefix.freeze())
}

/// Refuses a message too large for etcd to send.
pub(crate) fn check_size(bytes: usize) -> Result<(), Error> {
    if bytes <= MESSAGE_BYTES_MAX {
        Ok(())
    } else {
        Err(too_large(bytes))
    }
}

/// The error of a message with so many bytes.
pub(crate) fn too_large(bytes: usize) -> Error {
    let text =
        format!("grpc: trying to send message larger than max ({bytes} vs. {MESSAGE_BYTES_MAX})");
    Error::Other(Code::ResourceExhausted, text)
}

impl Sending {
    fn next(&mut self) -> Option<Result<Frame<Bytes>, Status>> {
        self.taken_at = Instant::now();
        match self.state {
            State::Message => {}
            State::CutOff => {
                self.state = State::Over;
                let text = "the reply was not read while others waited for memory";
                return Some(Err(Status::resource_exhausted(text)));
            }
            State::Over => return None,
        }
        if let Some(prefix) = self.prefix.take() {
            return Some(Ok(Frame::data(prefix)));
        }
        let Some(piece) = self.pieces.pop_front() else {
            self.state = State::Over;
            self.share = None;
            let mut trailers = HeaderMap::new();
            let ended = Status::ok("").add_header(&mut trailers);
            return Some(ended.map(|()| Frame::trailers(trailers)));
        };
        if let Some(share) = &mut self.share {
            share.shrink(share.bytes - piece.len());
        }
        Some(Ok(Frame::data(piece)))
    }

    fn holds_bytes(&self) -> bool {
        self.share.as_ref().is_some_and(|share| share.bytes > 0)
    }

    fn cut_off_if_idle(&mut self, patience: Duration) {
        if self.state == State::Message && self.taken_at.elapsed() >= patience {
            tracing::warn!(
                bytes = self.share.as_ref().map_or(0, |share| share.bytes),
                "a client does not read its reply while others wait for memory: cut off"
            );
            self.state = State::CutOff;
            self.pieces.clear();
            self.share = None;
        }
    }
}

impl Body for LargeReply {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.lock().next())
    }
}

#[cfg(test)]
mod tests;

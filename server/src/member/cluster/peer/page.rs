//! The answers to requests of other members, as HTTP, and what is read of these requests.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::codec::{Encoder, Kind};
use super::outgoing::{Outgoing, Pieces};
use crate::telemetry::metrics::Traffic;

/// As in etcd: a third of the time after which readers give up.
const LINK_HEARTBEAT: Duration = Duration::from_millis(1667);
/// Bytes collected for one write.
const WRITE_BYTES: usize = 256 << 10;

/// A page, or messages without end.
pub(crate) type PeerResponse = Response<Either<Full<Bytes>, MessageStream>>;

/// The body of a request. It must be here within `patience`.
pub(crate) async fn body_of(
    request: Request<Incoming>,
    bytes_max: usize,
    patience: Duration,
) -> Result<Bytes, PeerResponse> {
    let body = Limited::new(request.into_body(), bytes_max);
    match tokio::time::timeout(patience, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        _ => Err(text(StatusCode::BAD_REQUEST, "error reading raft message")),
    }
}

pub(crate) fn header_of<'a, B>(request: &'a Request<B>, name: &str) -> Option<&'a str> {
    request.headers().get(name).and_then(|v| v.to_str().ok())
}

pub(crate) fn json(body: String) -> PeerResponse {
    page(StatusCode::OK, "application/json", body.into())
}

pub(crate) fn text(status: StatusCode, body: &str) -> PeerResponse {
    page(
        status,
        "text/plain; charset=utf-8",
        format!("{body}\n").into(),
    )
}

/// An error in the format of etcd's Raft handlers.
pub(crate) fn message(status: StatusCode, what: &str) -> PeerResponse {
    let body = serde_json::json!({ "message": what }).to_string();
    page(status, "application/json", body.into())
}

pub(crate) fn page(status: StatusCode, kind: &'static str, body: Bytes) -> PeerResponse {
    let mut response = Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static(kind);
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, kind);
    response
}

/// A body that ends only when the peer opens a new stream or is no longer a peer.
pub(crate) struct MessageStream {
    messages: Receiver<Outgoing>,
    encoder: Encoder,
    /// Encoded and not sent.
    pieces: Pieces,
    beat: Interval,
    traffic: Arc<Traffic>,
}

impl MessageStream {
    pub(super) fn new(
        kind: Kind,
        messages: Receiver<Outgoing>,
        traffic: Arc<Traffic>,
    ) -> MessageStream {
        let mut beat = interval(LINK_HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        MessageStream {
            messages,
            encoder: Encoder::new(kind),
            pieces: Pieces::default(),
            beat,
            traffic,
        }
    }
}

impl Body for MessageStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let mut has_ended = false;
        while this.pieces.bytes() < WRITE_BYTES && !has_ended {
            match this.messages.poll_recv(cx) {
                Poll::Ready(Some(message)) => this.encoder.outgoing(&message, &mut this.pieces),
                Poll::Ready(None) => has_ended = true,
                Poll::Pending => break,
            }
        }
        let piece = match this.pieces.pop() {
            Some(piece) => piece,
            None if has_ended => return Poll::Ready(None),
            None => {
                ready!(this.beat.poll_tick(cx));
                let mut beat = Vec::new();
                this.encoder.heartbeat(&mut beat);
                beat.into()
            }
        };
        this.traffic.sent_bytes.add(piece.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

//! The bodies of gRPC requests and responses: counts them, limits their size, and watches for the
//! status they end with. Messages are recognized by their five-byte prefix; nothing is copied.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::watch;
use tonic::Status;

use super::call::Ended;
use super::cost::Charge;
use super::framing::Framing;
use super::stats::Heard;
use crate::basics::error::Error;
use crate::member::event::admission::CountedBytes;
use crate::telemetry::metrics::Metrics;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Compression flag and big-endian length.
const PREFIX_BYTES: usize = 5;

/// Status code of a call that ends without one.
const UNKNOWN: usize = 2;

/// Follows message boundaries through a stream of bytes cut anywhere.
#[derive(Debug)]
struct Messages(Framing<PREFIX_BYTES>);

impl Messages {
    fn new() -> Messages {
        Messages(Framing::behind(0))
    }

    /// Calls `begun` with the length of each message that begins in `data`; stops at its first
    /// error.
    fn feed<E>(
        &mut self,
        data: &[u8],
        mut begun: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        self.0.feed(data, |&[_, length @ ..]| {
            let length = u32::from_be_bytes(length) as usize;
            begun(length).map(|()| length)
        })
    }

    /// True between two messages: none has begun without having ended.
    fn is_between(&self) -> bool {
        self.0.is_between()
    }
}

/// A request's body. A message over the limit fails the call before it is read.
pub(crate) struct RequestBody<B> {
    inner: B,
    messages: Messages,
    metrics: Arc<Metrics>,
    sent: Sent,
    max_message_bytes: usize,
    /// Bytes received of a message that is not complete yet.
    held: CountedBytes,
}

/// What is known of a request before its body arrives.
pub(crate) struct Sent {
    /// Position in the table of methods.
    pub(crate) method: usize,
    pub(crate) charge: Charge,
    pub(crate) heard: Option<Heard>,
}

impl<B> RequestBody<B> {
    pub(crate) fn new(
        inner: B,
        metrics: Arc<Metrics>,
        sent: Sent,
        max_message_bytes: usize,
        held: CountedBytes,
    ) -> Self {
        RequestBody {
            inner,
            messages: Messages::new(),
            metrics,
            sent,
            max_message_bytes,
            held,
        }
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let body = self.get_mut();
        let frame = match ready!(Pin::new(&mut body.inner).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        let Some(data) = frame.data_ref() else {
            return Poll::Ready(Some(Ok(frame)));
        };
        let (metrics, max) = (&body.metrics, body.max_message_bytes);
        let Sent {
            method,
            charge,
            heard,
        } = &body.sent;
        let prefix = heard
            .as_ref()
            .and_then(|heard| heard.add(data, *charge, metrics));
        let fed = body.messages.feed(data, |bytes| {
            if bytes > max {
                return Err(Status::resource_exhausted(format!(
                    "grpc: received message larger than max ({bytes} vs. {max})"
                )));
            }
            metrics.calls.of(*method).received.inc();
            metrics.client_received_bytes.add(bytes as u64);
            charge.received(metrics, prefix, bytes);
            Ok(())
        });
        let fed = fed.and_then(|()| {
            if body.messages.is_between() {
                body.held.give_back();
                Ok(())
            } else {
                body.held.grow(data.len()).map_err(Status::from)
            }
        });
        Poll::Ready(Some(fed.map(|()| frame).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A response's body. The call ends when the body ends or is dropped.
pub(super) struct ResponseBody {
    inner: tonic::body::Body,
    messages: Messages,
    ended: Ended,
    /// Completes when the cluster has lost its leader; a stream whose client requires a leader is
    /// then cut.
    leader_lost: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl ResponseBody {
    pub(super) fn new(
        inner: tonic::body::Body,
        ended: Ended,
        leader_lost: Option<watch::Receiver<()>>,
    ) -> Self {
        ResponseBody {
            inner,
            messages: Messages::new(),
            ended,
            leader_lost: leader_lost.map(|lost| Box::pin(lost_for_long(lost)) as _),
        }
    }

    /// Ends the stream early with the error `NoLeader`.
    fn cut(&mut self) -> Frame<Bytes> {
        self.leader_lost = None;
        self.inner = tonic::body::Body::empty();
        let status = Status::from(Error::NoLeader);
        self.ended.with(status.code() as usize);
        let mut trailers = HeaderMap::new();
        // Cannot fail: the text is plain ASCII.
        let _ = status.add_header(&mut trailers);
        Frame::trailers(trailers)
    }
}

async fn lost_for_long(mut lost: watch::Receiver<()>) {
    if lost.changed().await.is_err() {
        // The server is stopping, which ends streams elsewhere.
        std::future::pending::<()>().await;
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let body = self.get_mut();
        if let Some(lost) = &mut body.leader_lost
            && lost.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Some(Ok(body.cut())));
        }
        let mut frame = ready!(Pin::new(&mut body.inner).poll_frame(context));
        if let Some(Ok(frame)) = &mut frame {
            if let Some(data) = frame.data_ref() {
                let ended = &mut body.ended;
                let _ = body.messages.feed(data, |bytes| {
                    ended.sent(bytes);
                    Ok::<(), std::convert::Infallible>(())
                });
            } else if let Some(trailers) = frame.trailers_mut() {
                body.ended.with_status(trailers);
                // Ignored if the trailers had a status: the first one counts.
                body.ended.with(UNKNOWN);
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_they_are_cut() {
        let mut bytes = Vec::new();
        for length in [0usize, 3, 300, 0] {
            bytes.push(0);
            bytes.extend((length as u32).to_be_bytes());
            bytes.extend(vec![7; length]);
        }
        for cut in 1..bytes.len() {
            let (mut messages, mut lengths) = (Messages::new(), Vec::new());
            for part in bytes.chunks(cut) {
                let fed = messages.feed(part, |length| {
                    lengths.push(length);
                    Ok::<(), ()>(())
                });
                assert_eq!(fed, Ok(()));
            }
            assert_eq!(lengths, [0, 3, 300, 0], "cut at {cut}");
        }
    }
}

//! Large answers on their way to a client. One that is not read must not stay in memory for good.

#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// Answers from this size on are large; bytes.
const LARGE: u64 = 64 << 10;
/// Upper bound of one piece of a large answer, in bytes. A connection keeps one of each answer that
/// is not read.
const PIECE: usize = 64 << 10;
/// Upper bound of the bytes of all large answers that are on their way. One that is larger waits
/// until it is the only one.
const ANSWERS_BYTES_MAX: usize = 512 << 20;

/// Bounds the bytes of all large answers that are on their way.
pub(crate) struct LargeAnswers(Arc<Semaphore>);

impl Default for LargeAnswers {
    fn default() -> LargeAnswers {
        LargeAnswers(Arc::new(Semaphore::new(ANSWERS_BYTES_MAX)))
    }
}

impl LargeAnswers {
    /// Lets an answer on its way, once there is room for it, and gives the client `time` to read it.
    /// Small answers, and those whose end is open, need no room.
    pub(crate) async fn send(&self, answer: Response<Body>, time: Duration) -> Response<Body> {
        let size = answer.body().size_hint().exact();
        let Some(size) = size.filter(|size| *size >= LARGE) else {
            return answer;
        };
        let (head, body) = answer.into_parts();
        // A body of known size is one piece in memory already.
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return Response::from_parts(head, failing(error)),
        };
        let wanted = usize::try_from(size).unwrap_or(usize::MAX);
        let wanted = u32::try_from(wanted.min(ANSWERS_BYTES_MAX)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let room = Arc::clone(&self.0).acquire_many_owned(wanted).await.ok();
        Response::from_parts(head, Body::new(Sending::of(body, room, time)))
    }
}

fn failing(error: axum::Error) -> Body {
    Body::from_stream(futures_util::stream::once(async { Err::<Bytes, _>(error) }))
}

/// What is left of a large answer. When its time is over it is dropped, and the client sees an
/// error: the end must not look like that of the whole answer.
struct Sending {
    rest: Arc<Mutex<Option<Rest>>>,
    ending: AbortHandle,
}

struct Rest {
    bytes: Bytes,
    #[expect(dead_code, reason = "its end gives the room back")]
    room: Option<OwnedSemaphorePermit>,
}

impl Sending {
    fn of(bytes: Bytes, room: Option<OwnedSemaphorePermit>, time: Duration) -> Sending {
        let rest = Arc::new(Mutex::new(Some(Rest { bytes, room })));
        let late = Arc::clone(&rest);
        // Not a timer of this value: a connection whose client does not read never asks it.
        let ending = tokio::spawn(async move {
            tokio::time::sleep(time).await;
            late.lock().take();
        });
        Sending {
            rest,
            ending: ending.abort_handle(),
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.ending.abort();
        // The task may live a little longer.
        self.rest.lock().take();
    }
}

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut rest = self.rest.lock();
        let Some(rest) = rest.as_mut() else {
            let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
            return Poll::Ready(Some(Err(axum::Error::new(late))));
        };
        let piece = rest.bytes.len().min(PIECE);
        if piece == 0 {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(rest.bytes.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        let rest = self.rest.lock();
        rest.as_ref().is_some_and(|rest| rest.bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.lock();
        let left = rest.as_ref().map_or(0, |rest| rest.bytes.len());
        SizeHint::with_exact(left as u64)
    }
}

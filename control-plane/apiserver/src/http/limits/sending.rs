//! Large answers on their way to a client. One that is not read must not stay in memory for good.

#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// Answers from this size on are large; bytes.
const LARGE: u64 = 64 << 10;
/// Upper bound of one piece of a large answer, in bytes. A connection keeps one of each answer that
/// is not read.
const PIECE: usize = 64 << 10;
/// Upper bound of the bytes of all large answers that are on their way, as if none shared the bytes
/// of its objects with others. One that is larger waits until it is the only one.
const ANSWERS_BYTES_MAX: usize = 512 << 20;

/// Bounds the bytes of all large answers that are on their way.
pub(crate) struct LargeAnswers(Arc<Semaphore>);

impl Default for LargeAnswers {
    fn default() -> LargeAnswers {
        LargeAnswers(Arc::new(Semaphore::new(ANSWERS_BYTES_MAX)))
    }
}

impl LargeAnswers {
    /// The bytes that further answers may have.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.0.available_permits()
    }

    /// Lets an answer on its way, once there is room for it, and gives the client `time` to read it.
    /// Small answers, and those whose end is open, need no room.
    pub(crate) async fn send(&self, answer: Response<Body>, time: Duration) -> Response<Body> {
        let size = answer.body().size_hint().exact();
        let Some(size) = size.filter(|size| *size >= LARGE) else {
            return answer;
        };
        let wanted = usize::try_from(size).unwrap_or(usize::MAX);
        let wanted = u32::try_from(wanted.min(ANSWERS_BYTES_MAX)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let permit = Arc::clone(&self.0).acquire_many_owned(wanted).await.ok();
        let room = Room {
            permit: permit.map(Arc::new),
            time,
        };
        let mut answer = answer.map(|body| Body::new(Sending::of(body, room.clone())));
        answer.extensions_mut().insert(room);
        answer
    }
}

/// What a large answer on its way takes, in its extensions. Its clones are one.
#[derive(Clone)]
pub(crate) struct Room {
    #[expect(dead_code, reason = "its end gives the room back")]
    permit: Option<Arc<OwnedSemaphorePermit>>,
    /// How long the client may take to read it.
    time: Duration,
}

impl Room {
    /// The body of an answer that was read from the one with this room.
    pub(crate) fn keep(self, body: Body) -> Body {
        Body::new(Sending::of(body, self))
    }
}

/// What is left of a large answer. When its time is over it is dropped, and the client sees an
/// error: the end must not look like that of the whole answer.
struct Sending {
    rest: Arc<Mutex<Option<Rest>>>,
    ending: AbortHandle,
}

struct Rest {
    body: Body,
    /// Taken from the body, and not sent.
    taken: Bytes,
    #[expect(dead_code, reason = "its end gives the room back")]
    room: Room,
}

impl Rest {
    fn left(&self) -> u64 {
        // A body whose size was known at first knows what is left.
        let body = self.body.size_hint().exact().unwrap_or_default();
        self.taken.len() as u64 + body
    }
}

impl Sending {
    fn of(body: Body, room: Room) -> Sending {
        let time = room.time;
        let rest = Arc::new(Mutex::new(Some(Rest {
            body,
            taken: Bytes::new(),
            room,
        })));
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
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut rest = self.rest.lock();
        let Some(rest) = rest.as_mut() else {
            let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
            return Poll::Ready(Some(Err(axum::Error::new(late))));
        };
        if rest.taken.is_empty() {
            let Some(frame) = ready!(Pin::new(&mut rest.body).poll_frame(context)) else {
                return Poll::Ready(None);
            };
            rest.taken = frame?.into_data().unwrap_or_default();
        }
        let piece = rest.taken.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(rest.taken.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        let rest = self.rest.lock();
        rest.as_ref().is_some_and(|rest| rest.left() == 0)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.lock();
        SizeHint::with_exact(rest.as_ref().map_or(0, Rest::left))
    }
}

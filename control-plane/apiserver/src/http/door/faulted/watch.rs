//! Watches with faults: their events late and in bursts, and an end before their time. All events
//! up to the end stay in order and complete, bookmarks among them.

use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::Response;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;

use super::{Cut, Faulted};
use crate::http::answer::watch::{error_frame, fell_behind};
use crate::http::faults::{Faults, Kind, Meeting};
use crate::http::media::Encoding;

/// How the media type of protobuf begins.
const PROTOBUF: &[u8] = b"application/vnd.kubernetes.protobuf";
/// Bytes of the length before a protobuf message.
const LENGTH_BYTES: usize = 4;

/// How a watch ends before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As if its time were up.
    Clean,
    /// With 410 as an event.
    Expired,
    /// With the connection.
    Cut,
}

/// The events of one watch.
struct Events {
    faults: Arc<Faults>,
    meeting: Meeting,
    body: Body,
    encoding: Encoding,
    /// Bytes of the body that are not split into events.
    unread: BytesMut,
    /// Number of events that were sent.
    sent: u64,
    /// Events before this one pass without a hold.
    free_until: u64,
    /// The event in whose place the watch ends, and how.
    end: Option<(u64, End)>,
    over: bool,
}

/// The response of a watch with the faults that it meets. One that is refused meets no more.
pub(super) fn faulted(
    faulted: &Faulted<'_>,
    end: Option<End>,
    response: Response<Body>,
) -> Response<Body> {
    let (faults, meeting) = (Arc::clone(faulted.faults), faulted.meeting.clone());
    let media_type = response.headers().get(CONTENT_TYPE);
    let is_protobuf = media_type.is_some_and(|value| value.as_bytes().starts_with(PROTOBUF));
    let encoding = if is_protobuf {
        Encoding::Protobuf
    } else {
        Encoding::Json
    };
    let end = end.map(|end| (faults.end(end.kind(), &meeting), end));
    response.map(|body| {
        let events = Events {
            faults,
            meeting,
            body,
            encoding,
            unread: BytesMut::new(),
            sent: 0,
            free_until: 0,
            end,
            over: false,
        };
        Body::from_stream(stream::unfold(events, |mut events| async move {
            let event = events.next().await;
            event.map(|event| (event, events))
        }))
    })
}

impl End {
    fn kind(self) -> Kind {
        match self {
            End::Clean | End::Expired => Kind::WatchExpiry,
            End::Cut => Kind::Cuts,
        }
    }

    fn told(self) -> &'static str {
        match self {
            End::Clean => "a watch ended",
            End::Expired => "a watch ended with 410",
            End::Cut => "a watch was cut",
        }
    }
}

impl Events {
    /// The next event; `None` at the end. An error cuts the connection.
    async fn next(&mut self) -> Option<Result<Bytes, axum::Error>> {
        if self.over {
            return None;
        }
        let event = match self.read().await {
            Some(Ok(event)) => event,
            other => return other,
        };
        if let Some((at, end)) = self.end
            && at == self.sent
        {
            self.over = true;
            self.faults.note(end.kind(), &self.meeting, end.told());
            return match end {
                End::Clean => None,
                End::Expired => Some(Ok(error_frame(&fell_behind(), self.encoding))),
                End::Cut => Some(Err(axum::Error::new(Cut))),
            };
        }
        if self.sent >= self.free_until
            && let Some((time, burst)) = self.faults.hold(&self.meeting, self.sent)
        {
            self.free_until = self.sent + burst;
            let told = "events of a watch held back";
            self.faults.note(Kind::WatchDelay, &self.meeting, told);
            // What comes meanwhile waits in the body, and comes in a burst.
            tokio::time::sleep(time).await;
        }
        self.sent += 1;
        Some(Ok(event))
    }

    /// Reads one event of the body.
    async fn read(&mut self) -> Option<Result<Bytes, axum::Error>> {
        loop {
            if let Some(length) = complete(&self.unread, self.encoding) {
                return Some(Ok(self.unread.split_to(length).freeze()));
            }
            match self.body.frame().await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        self.unread.extend_from_slice(&data);
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The length in bytes of the first event, if it is complete: a line of JSON, or a protobuf message
/// behind its length.
fn complete(unread: &[u8], encoding: Encoding) -> Option<usize> {
    if encoding == Encoding::Json {
        return unread
            .iter()
            .position(|byte| *byte == b'\n')
            .map(|at| at + 1);
    }
    let length = u32::from_be_bytes(*unread.first_chunk()?);
    let whole = LENGTH_BYTES.checked_add(usize::try_from(length).ok()?)?;
    (unread.len() >= whole).then_some(whole)
}

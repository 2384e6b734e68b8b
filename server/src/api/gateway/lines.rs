//! The answer to a call: one line of JSON per message.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use etcd_api::descriptor::Method;
use http::Response;
use http_body::{Body, Frame};
use tokio::sync::OwnedSemaphorePermit;
use tonic::{Code, Status, body};

use super::encode::{Escape, Malformed, encode};
use super::{Late, out_of_time, put_status};

/// A compression flag and the length, in front of each message.
const PREFIX_BYTES: usize = 5;

pub(super) struct Lines {
    /// `None` when the call is over.
    body: Option<body::Body>,
    /// The status, if the response's headers contain it.
    status: Option<Status>,
    read: BytesMut,
    method: &'static Method,
    /// A line read ahead.
    peeked: Option<Option<Result<Bytes, Status>>>,
    late: Late,
    /// Holds one slot of the limit on concurrent calls.
    _permit: OwnedSemaphorePermit,
}

impl Lines {
    pub(super) fn new(
        response: Response<body::Body>,
        method: &'static Method,
        late: Late,
        permit: OwnedSemaphorePermit,
    ) -> Lines {
        Lines {
            status: Status::from_header_map(response.headers()),
            body: Some(response.into_body()),
            read: BytesMut::new(),
            method,
            peeked: None,
            late,
            _permit: permit,
        }
    }

    /// The message of a call that answers with exactly one.
    pub(super) async fn only_message(&mut self) -> Result<Bytes, Status> {
        let message = poll_fn(|context| self.poll_message(context)).await;
        message.unwrap_or_else(|| Err(Status::internal("cardinality violation")))
    }

    /// Reads the first line ahead; it remains the first line.
    pub(super) async fn peek(&mut self) -> Option<&Result<Bytes, Status>> {
        let line = poll_fn(|context| self.poll_line(context)).await;
        self.peeked.insert(line).as_ref()
    }

    /// The next message; then the status, if it is an error; then `None`.
    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Status>>> {
        loop {
            if let Some(message) = self.take_message() {
                return Poll::Ready(Some(Ok(message)));
            }
            let Some(body) = &mut self.body else {
                let status = self.status.take();
                let error = status.filter(|status| status.code() != Code::Ok);
                return Poll::Ready(error.map(Err));
            };
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.read.extend_from_slice(&data),
                    Err(frame) => {
                        self.status = frame
                            .trailers_ref()
                            .and_then(Status::from_header_map)
                            .or(self.status.take());
                    }
                },
                Some(Err(status)) => {
                    self.body = None;
                    self.status = Some(status);
                }
                None => self.body = None,
            }
        }
    }

    fn take_message(&mut self) -> Option<Bytes> {
        let prefix = self.read.get(1..PREFIX_BYTES)?;
        let length = u32::from_be_bytes(prefix.try_into().ok()?) as usize;
        if self.read.len() - PREFIX_BYTES < length {
            return None;
        }
        self.read.advance(PREFIX_BYTES);
        Some(self.read.split_to(length).freeze())
    }

    fn poll_line(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Status>>> {
        if let Some(peeked) = self.peeked.take() {
            return Poll::Ready(peeked);
        }
        let late = self.late.as_mut();
        if late.is_some_and(|late| late.as_mut().poll(context).is_ready()) {
            self.late = None;
            self.body = None;
            self.read.clear();
            self.status = None;
            return Poll::Ready(Some(Err(out_of_time())));
        }
        let message = ready!(self.poll_message(context));
        Poll::Ready(message.map(|message| {
            let mut line = b"{\"result\":".to_vec();
            encode(&message?, self.method.output, Escape::Html, &mut line)
                .map_err(|Malformed| Status::internal("failed to marshal the response"))?;
            line.extend(b"}\n");
            Ok(line.into())
        }))
    }
}

impl Body for Lines {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let line = ready!(self.poll_line(context)).map(|line| {
            line.unwrap_or_else(|status| {
                let mut line = b"{\"error\":".to_vec();
                put_status(&status, Escape::Html, &mut line);
                line.extend(b"}\n");
                line.into()
            })
        });
        Poll::Ready(line.map(|line| Ok(Frame::data(line))))
    }
}

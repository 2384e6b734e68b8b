//! The JSON values of a request's body, and the calls made from them.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut as _, Bytes, BytesMut};
use etcd_api::descriptor::Message;
use http_body::{Body, Frame};
use tonic::Status;

use super::decode::decode;
use super::scan::Scanner;
use crate::api::calls::body::BoxError;
use crate::member::event::admission::CountedBytes;

/// Limit on JSON bytes per byte of the largest message. Base64 takes four for three; this leaves
/// three times as much again for names and blanks.
const JSON_PER_MESSAGE: usize = 4;

/// A compression flag and the length, in front of each message.
const PREFIX_BYTES: usize = 5;

/// A message with its gRPC prefix.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len().try_into().unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// Reads one value after the other; holds at most one at a time.
pub(super) struct Values<B> {
    /// `None` when the body is over.
    body: Option<B>,
    /// Read, but not yet part of a value.
    rest: Bytes,
    scanner: Scanner,
    value: Vec<u8>,
    max_message_bytes: usize,
    /// Admission's count of the bytes of `value`.
    held: CountedBytes,
}

impl<B> Values<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    pub(super) fn new(body: Option<B>, max_message_bytes: usize, held: CountedBytes) -> Values<B> {
        Values {
            body,
            rest: Bytes::new(),
            scanner: Scanner::new(),
            value: Vec::new(),
            max_message_bytes,
            held,
        }
    }

    /// The first value.
    pub(super) async fn first(&mut self) -> Result<Option<Vec<u8>>, Status> {
        poll_fn(|context| self.poll_value(context))
            .await
            .transpose()
    }

    /// Reads the body to its end and discards it.
    pub(super) async fn discard(&mut self) {
        self.rest = Bytes::new();
        while let Some(body) = &mut self.body {
            match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => self.body = None,
            }
        }
    }

    fn poll_value(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, Status>>> {
        loop {
            if !self.rest.is_empty() {
                let fed = self.scanner.feed(&self.rest);
                let fed = fed.map_err(Status::invalid_argument);
                match fed.and_then(|end| self.take(end)) {
                    Ok(None) => {}
                    Ok(Some(value)) => return Poll::Ready(Some(Ok(value))),
                    Err(status) => return Poll::Ready(Some(Err(status))),
                }
            }
            let Some(body) = &mut self.body else {
                return Poll::Ready(self.last());
            };
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    self.body = None;
                    let error: BoxError = error.into();
                    let status = Status::invalid_argument(error.to_string());
                    return Poll::Ready(Some(Err(status)));
                }
                None => self.body = None,
            }
        }
    }

    /// Moves bytes of the current value from `rest` to `value`. `end`: where the value ends in
    /// `rest`.
    fn take(&mut self, end: Option<usize>) -> Result<Option<Vec<u8>>, Status> {
        let part = self.rest.split_to(end.unwrap_or(self.rest.len()));
        let length = self.value.len() + part.len();
        if length > self.max_message_bytes.saturating_mul(JSON_PER_MESSAGE) {
            let max = self.max_message_bytes;
            return Err(Status::resource_exhausted(format!(
                "grpc: received message larger than max ({length} vs. {max})"
            )));
        }
        self.held.grow(part.len())?;
        self.value.extend_from_slice(&part);
        Ok(end.map(|_| self.whole()))
    }

    /// Takes the complete value; from here on its bytes are counted by its receiver.
    fn whole(&mut self) -> Vec<u8> {
        self.held.give_back();
        std::mem::take(&mut self.value)
    }

    /// Handles the end of the body.
    fn last(&mut self) -> Option<Result<Vec<u8>, Status>> {
        match std::mem::replace(&mut self.scanner, Scanner::new()).end() {
            Ok(true) => Some(Ok(self.whole())),
            Ok(false) => None,
            Err(text) => Some(Err(Status::invalid_argument(text))),
        }
    }
}

/// The body of a streaming call: every JSON value becomes one message.
pub(super) struct Calls<B> {
    values: Values<B>,
    message: &'static Message,
    over: bool,
}

impl<B> Calls<B> {
    pub(super) fn new(values: Values<B>, message: &'static Message) -> Calls<B> {
        Calls {
            values,
            message,
            over: false,
        }
    }
}

impl<B> Body for Calls<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let value = ready!(self.values.poll_value(context));
        let message =
            value.map(|value| decode(&value?, self.message).map_err(Status::invalid_argument));
        Poll::Ready(match message {
            Some(Ok(message)) => Some(Ok(Frame::data(framed(&message)))),
            // As in etcd: the stream ends here, and the client gets no error.
            Some(Err(status)) => {
                tracing::warn!(error = status.message(), "failed to decode request");
                self.over = true;
                None
            }
            None => {
                self.over = true;
                None
            }
        })
    }
}

//! Calls that go to the cluster as they are, and come back as they are: messages are not decoded.

use std::sync::{Arc, OnceLock};

use bytes::{Buf as _, BufMut as _, Bytes};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use prost::Message;
use tokio_stream::StreamExt as _;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status, Streaming};

use super::upstream::Upstream;
use crate::api::calls::body::{BoxError, RequestBody};
use crate::api::calls::metadata::{CLIENT_API_VERSION, GRPC_TIMEOUT, HAS_LEADER, TOKEN};

/// What of a client's call goes along to the cluster: who asks, and for how long.
#[derive(Clone, Debug, Default)]
pub(super) struct Along(HeaderMap);

impl Along {
    pub(super) fn of(headers: &HeaderMap) -> Along {
        let timeless = [&HAS_LEADER, &CLIENT_API_VERSION, &GRPC_TIMEOUT];
        let mut along = Along::credentials(headers);
        along.copy(headers, &timeless);
        along
    }

    /// Only who asks: for a stream that several calls share.
    pub(super) fn credentials(headers: &HeaderMap) -> Along {
        let mut along = Along::default();
        along.copy(headers, &[&TOKEN, &http::header::AUTHORIZATION]);
        along
    }

    pub(super) fn requiring_leader() -> Along {
        let mut headers = HeaderMap::new();
        headers.insert(HAS_LEADER.clone(), HeaderValue::from_static("true"));
        Along(headers)
    }

    pub(super) fn wants_leader(&self) -> bool {
        let wish = self.0.get(&HAS_LEADER);
        wish.is_some_and(|value| value == "true")
    }

    /// The same without what concerns a single call.
    pub(super) fn user_alone(&self) -> Along {
        Along::credentials(&self.0)
    }

    /// The user's token; empty if there is none. Equal for the calls of one user.
    pub(super) fn user(&self) -> Vec<u8> {
        let mut user = Vec::new();
        for name in [&TOKEN, &http::header::AUTHORIZATION] {
            for value in self.0.get_all(name) {
                user.extend_from_slice(value.as_bytes());
                // No header has such a byte.
                user.push(0);
            }
        }
        user
    }

    fn copy(&mut self, from: &HeaderMap, names: &[&HeaderName]) {
        for name in names {
            for value in from.get_all(*name) {
                self.0.append((*name).clone(), value.clone());
            }
        }
    }

    /// A request for the cluster.
    pub(super) fn with<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        *request.metadata_mut() = MetadataMap::from_headers(self.0.clone());
        request
    }
}

impl Upstream {
    /// Makes a call with one request and one answer.
    pub(super) async fn ask<Q, A>(
        &self,
        path: &'static str,
        along: &Along,
        message: &Q,
    ) -> Result<A, Status>
    where
        Q: Message,
        A: Message + Default,
    {
        let message = Bytes::from(message.encode_to_vec());
        check_size(&message, self.how().max_send_bytes)?;
        let request = along.with(message);
        let path = PathAndQuery::from_static(path);
        let answer = self.client().unary(request, path, Plain).await;
        let answer = answer.map_err(|status| reworded(&status))?.into_inner();
        A::decode(answer).map_err(|error| Status::internal(error.to_string()))
    }

    /// Passes a call of any kind on to the cluster, and its answers back.
    pub(super) async fn forward<B>(
        &self,
        request: Request<RequestBody<B>>,
    ) -> Response<tonic::body::Body>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError> + Send,
    {
        self.forward_and_show(request, |_| {}).await
    }

    /// The same. `show` gets each answer before the client.
    pub(super) async fn forward_and_show<B>(
        &self,
        request: Request<RequestBody<B>>,
        show: impl Fn(&Bytes) + Clone + Send + 'static,
    ) -> Response<tonic::body::Body>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError> + Send,
    {
        let along = Along::of(request.headers());
        let path = request.uri().path_and_query().cloned();
        let path = path.unwrap_or(PathAndQuery::from_static("/"));
        let upstream = self.clone();
        let service = tower::service_fn(move |call: tonic::Request<Streaming<Bytes>>| {
            let (upstream, along, path) = (upstream.clone(), along.clone(), path.clone());
            let show = show.clone();
            async move {
                let max = upstream.how().max_send_bytes;
                let too_large = Arc::new(OnceLock::new());
                let refused = Arc::clone(&too_large);
                // A client's stream that breaks ends its call, and so the cluster's.
                let messages = call.into_inner().map_while(move |message| {
                    let message = message.ok()?;
                    check_size(&message, max)
                        .map_err(|status| too_large.set(status))
                        .ok()?;
                    Some(message)
                });
                let answered = upstream
                    .client()
                    .streaming(along.with(messages), path, Plain)
                    .await;
                if let Some(status) = refused.get() {
                    return Err(status.clone());
                }
                let answered = answered.map_err(|status| reworded(&status))?;
                let answers = answered.into_inner();
                let answers = answers.map(move |answer| {
                    let answer = answer.map_err(|status| reworded(&status));
                    answer.inspect(&show)
                });
                Ok(tonic::Response::new(answers))
            }
        });
        tonic::server::Grpc::new(Plain)
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX)
            .streaming(service, request)
            .await
    }

    fn client(&self) -> tonic::client::Grpc<Upstream> {
        tonic::client::Grpc::new(self.clone())
            .max_encoding_message_size(usize::MAX)
            .max_decoding_message_size(self.how().max_recv_bytes)
    }
}

/// The error is Go's.
fn check_size(message: &Bytes, max: usize) -> Result<(), Status> {
    let bytes = message.len();
    if bytes > max {
        let text = format!("trying to send message larger than max ({bytes} vs. {max})");
        return Err(Status::resource_exhausted(text));
    }
    Ok(())
}

/// The same error without the headers it came with, and with Go's words about sizes.
pub(super) fn reworded(status: &Status) -> Status {
    let text = status.message();
    if status.code() == Code::OutOfRange && text.starts_with("Error, decoded message") {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit());
        let mut next = || numbers.find(|part| !part.is_empty()).unwrap_or("?");
        return Status::resource_exhausted(format!(
            "grpc: received message larger than max ({} vs. {})",
            next(),
            next()
        ));
    }
    Status::with_details(
        status.code(),
        text,
        Bytes::copy_from_slice(status.details()),
    )
}

/// The codec of messages that are bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Plain;
    type Decoder = Plain;

    fn encoder(&mut self) -> Plain {
        Plain
    }

    fn decoder(&mut self) -> Plain {
        Plain
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.len());
        buffer.put(message);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_refused_in_gos_words() {
        let status = Status::out_of_range(
            "Error, decoded message length too large: found 2000000 bytes, the limit is: 1572864 bytes",
        );
        let now = reworded(&status);
        assert_eq!(now.code(), Code::ResourceExhausted);
        let text = "grpc: received message larger than max (2000000 vs. 1572864)";
        assert_eq!(now.message(), text);
    }

    #[test]
    fn only_known_headers_go_along() {
        let mut headers = HeaderMap::new();
        for name in ["token", "hasleader", "content-type", "x-other"] {
            headers.insert(name, "a".parse().unwrap());
        }
        let names = |along: &Along| along.0.keys().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(&Along::of(&headers)), ["token", "hasleader"]);
        assert_eq!(names(&Along::credentials(&headers)), ["token"]);
    }
}

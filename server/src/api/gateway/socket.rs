//! Streams over WebSocket: each received message is one value of the request's body; each line of
//! the answer is sent as one message.

use std::pin::Pin;
use std::task::{Context, Poll};

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{
    AUTHORIZATION, CONNECTION, COOKIE, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Method as Verb, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tonic::body;

use super::Translator;
use crate::api::calls::caller::Caller;
use crate::api::page;

/// The protocol appends this to a client's key before hashing.
const ACCEPT_SALT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The only defined version.
const VERSION: &str = "13";

/// Limit on JSON bytes per byte of the largest message, as in a request's body.
const JSON_PER_MESSAGE: usize = 4;

/// True if a client asks for a WebSocket.
pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    holds(headers, CONNECTION, "upgrade") && holds(headers, UPGRADE, "websocket")
}

/// Accepts a WebSocket upgrade, and serves the socket once the upgrade is complete.
pub(super) fn upgrade<B>(translator: Translator, request: &mut Request<B>) -> Response<body::Body> {
    let headers = request.headers();
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty());
    let known = holds(headers, SEC_WEBSOCKET_VERSION, VERSION);
    let key = match key {
        _ if request.method() != Verb::GET => return refused(StatusCode::METHOD_NOT_ALLOWED),
        Some(key) if known => key,
        _ => return refused(StatusCode::BAD_REQUEST),
    };
    let mut response = Response::new(body::Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(UPGRADE, HeaderValue::from_static("websocket"));
    answer.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    if let Ok(accept) = HeaderValue::from_str(&accept(key.as_bytes())) {
        answer.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    let offered = headers.get(SEC_WEBSOCKET_PROTOCOL);
    if offered.is_some_and(|offered| offered.as_bytes().starts_with(b"Bearer")) {
        answer.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("Bearer"));
    }
    let (values, body) = Incoming::new();
    let inner = inner(request, body);
    let socket = hyper::upgrade::on(request);
    tokio::spawn(serve(translator, inner, values, socket));
    response
}

/// The HTTP request that the WebSocket represents.
fn inner<B>(outer: &Request<B>, body: Incoming) -> Request<Incoming> {
    let mut request = Request::new(body);
    *request.method_mut() = Verb::POST;
    *request.uri_mut() = outer.uri().clone();
    if let Some(caller) = outer.extensions().get::<Caller>() {
        request.extensions_mut().insert(caller.clone());
    }
    if let Some(token) = token(outer.headers())
        && let Ok(value) = HeaderValue::from_str(&format!("Bearer {token}"))
    {
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    request
}

/// The token of a client. Browsers cannot set headers, so it comes in a cookie, or else as a
/// subprotocol.
fn token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter();
    let cookie = cookies
        .filter_map(|cookies| cookies.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .find_map(|cookie| cookie.trim().strip_prefix("token="));
    let protocol = || {
        let offered = headers.get(SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
        Some(offered.split_once("Bearer,")?.1.trim_matches(' '))
    };
    cookie.or_else(protocol)
}

async fn serve(
    translator: Translator,
    request: Request<Incoming>,
    values: mpsc::Sender<Bytes>,
    socket: OnUpgrade,
) {
    // The client left before the response was sent.
    let Ok(socket) = socket.await else { return };
    let max = translator
        .max_message_bytes
        .saturating_mul(JSON_PER_MESSAGE);
    let config = WebSocketConfig::default()
        .max_message_size(Some(max))
        .max_frame_size(Some(max));
    let socket = TokioIo::new(socket);
    let socket = WebSocketStream::from_raw_socket(socket, Role::Server, Some(config)).await;
    let (mut outgoing, mut incoming) = socket.split();
    let mut stopping = translator.stopping.clone();
    let read = async {
        while let Some(Ok(message)) = incoming.next().await {
            let value = match message {
                Message::Text(text) => Bytes::from(text),
                Message::Binary(bytes) => bytes,
                Message::Close(_) => return,
                _ => continue,
            };
            // As in etcd, a newline separates two values. Once the call accepts no more, messages
            // are read only to notice when the client leaves.
            let _ = values.send(value).await;
            let _ = values.send(Bytes::from_static(b"\n")).await;
        }
    };
    let write = async {
        let mut body = translator.answer_socket(request).await.into_body();
        let mut lines = BytesMut::new();
        while let Some(Ok(frame)) = body.frame().await {
            lines.extend_from_slice(&frame.into_data().unwrap_or_default());
            while let Some(end) = lines.iter().position(|byte| *byte == b'\n') {
                let line = lines.split_to(end + 1);
                outgoing.send(text(&line[..end])).await?;
            }
        }
        if !lines.is_empty() {
            outgoing.send(text(&lines)).await?;
        }
        outgoing.close().await
    };
    tokio::select! {
        () = read => {}
        // How the connection ends does not matter to the server.
        _ = write => {}
        _ = stopping.wait_for(|stop| *stop) => {}
    }
}

fn text(line: &[u8]) -> Message {
    Message::text(String::from_utf8_lossy(line).into_owned())
}

/// A request body whose pieces arrive over a channel.
pub(super) struct Incoming(mpsc::Receiver<Bytes>);

impl Incoming {
    fn new() -> (mpsc::Sender<Bytes>, Incoming) {
        let (sender, receiver) = mpsc::channel(1);
        (sender, Incoming(receiver))
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0
            .poll_recv(context)
            .map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// True if `word` is among the comma-separated values of the header.
fn holds(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|found| found.trim().eq_ignore_ascii_case(word))
}

fn accept(key: &[u8]) -> String {
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key);
    hash.update(ACCEPT_SALT.as_bytes());
    STANDARD.encode(hash.finish())
}

fn refused(status: StatusCode) -> Response<body::Body> {
    let mut response = page::text(status, status.canonical_reason().unwrap_or_default());
    let version = HeaderValue::from_static(VERSION);
    response
        .headers_mut()
        .insert(SEC_WEBSOCKET_VERSION, version);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_key_is_the_protocols_own_example() {
        let key = b"dGhlIHNhbXBsZSBub25jZQ==";
        assert_eq!(accept(key), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_token_comes_as_a_cookie_or_as_a_protocol() {
        let mut headers = HeaderMap::new();
        headers.insert(
            SEC_WEBSOCKET_PROTOCOL,
            HeaderValue::from_static("Bearer, abc"),
        );
        assert_eq!(token(&headers), Some("abc"));
        headers.insert(COOKIE, HeaderValue::from_static("a=b; token=xyz"));
        assert_eq!(token(&headers), Some("xyz"));
        assert_eq!(token(&HeaderMap::new()), None);
    }
}

//! Watches over WebSocket, as fabric8's client for Java asks for them: each event is one message.

use aws_lc_rs::digest;
use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{
    CONNECTION, CONTENT_TYPE, HeaderValue, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use machinery::protobuf::WATCH_MEDIA_TYPE;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::auth::authenticate::web_socket;

/// The protocol appends this to a client's key before hashing.
const ACCEPT_SALT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The only defined version.
const VERSION: &str = "13";
/// Upper bound of what a client sends, in bytes. It has nothing to send but pings.
const RECEIVED_BYTES_MAX: usize = 64 << 10;
/// The length that precedes each event in protobuf.
const LENGTH_BYTES: usize = 4;

/// Marks a response whose body is a sequence of events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watched;

/// A request for a WebSocket.
pub(crate) struct Asked {
    headers: HeaderMap,
    upgrade: OnUpgrade,
}

impl Asked {
    /// `None` if a request with these headers asks for none. `upgrade` is what its connection
    /// becomes.
    pub(crate) fn of(headers: &HeaderMap, upgrade: &OnUpgrade) -> Option<Asked> {
        if !web_socket::is_wanted(headers) {
            return None;
        }
        let mut headers = headers.clone();
        let names = web_socket::protocols(&headers);
        headers.remove(SEC_WEBSOCKET_PROTOCOL);
        headers.extend(names.map(|names| (SEC_WEBSOCKET_PROTOCOL, names)));
        Some(Asked {
            headers,
            upgrade: upgrade.clone(),
        })
    }

    /// The response in place of a watch, and the socket, to be served after it. A client without a
    /// correct handshake gets no socket.
    pub(crate) fn answer(self, watch: Response<Body>) -> (Response<Body>, Option<Socket>) {
        let key = match self.key() {
            Ok(key) => key,
            Err(code) => {
                let mut refused = Response::new(Body::empty());
                *refused.status_mut() = code;
                let version = HeaderValue::from_static(VERSION);
                refused.headers_mut().insert(SEC_WEBSOCKET_VERSION, version);
                return (refused, None);
            }
        };
        let (parts, body) = watch.into_parts();
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let head = response.headers_mut();
        head.insert(UPGRADE, HeaderValue::from_static("websocket"));
        head.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        if let Ok(accept) = HeaderValue::from_str(&accept(key.as_bytes())) {
            head.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        if let Some(protocol) = self.headers.get(SEC_WEBSOCKET_PROTOCOL) {
            head.insert(SEC_WEBSOCKET_PROTOCOL, protocol.clone());
        }
        let media_type = parts.headers.get(CONTENT_TYPE);
        let socket = Socket {
            upgrade: self.upgrade,
            text: media_type.is_none_or(|one| one != WATCH_MEDIA_TYPE),
            body,
        };
        (response, Some(socket))
    }

    /// The client's key, or the code of the refusal, as Kubernetes checks the handshake.
    fn key(&self) -> Result<&HeaderValue, StatusCode> {
        let headers = &self.headers;
        let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty());
        let version = headers.get(SEC_WEBSOCKET_VERSION);
        let origin = headers.get(ORIGIN).filter(|origin| !origin.is_empty());
        let protocols = headers.get(SEC_WEBSOCKET_PROTOCOL);
        match (key, origin) {
            (None, _) => Err(StatusCode::BAD_REQUEST),
            _ if version.is_none_or(|version| version != VERSION) => Err(StatusCode::BAD_REQUEST),
            (_, None) => Err(StatusCode::FORBIDDEN),
            // It would have to choose one of several.
            _ if protocols.is_some_and(|one| one.as_bytes().contains(&b',')) => {
                Err(StatusCode::BAD_REQUEST)
            }
            (Some(key), _) => Ok(key),
        }
    }
}

/// A socket that sends the events of a watch.
pub(crate) struct Socket {
    upgrade: OnUpgrade,
    text: bool,
    body: Body,
}

impl Socket {
    /// Sends events until the watch ends or the client leaves.
    pub(crate) async fn serve(self) {
        // The client left before the response was sent.
        let Ok(upgraded) = self.upgrade.await else {
            return;
        };
        let config = WebSocketConfig::default()
            .max_message_size(Some(RECEIVED_BYTES_MAX))
            .max_frame_size(Some(RECEIVED_BYTES_MAX));
        let stream = TokioIo::new(upgraded);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        let (mut outgoing, mut incoming) = socket.split();
        let (text, mut body) = (self.text, self.body);
        let write = async {
            let mut bytes = BytesMut::new();
            while let Some(Ok(frame)) = body.frame().await {
                bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
                while let Some(event) = next_event(&mut bytes, text) {
                    outgoing.feed(message(event, text)).await?;
                }
                outgoing.flush().await?;
            }
            outgoing.close().await
        };
        // Pings are answered by reading them; other messages have no meaning.
        let read = async { while let Some(Ok(_)) = incoming.next().await {} };
        tokio::select! {
            () = read => {}
            // How the connection ends does not matter to the server.
            _ = write => {}
        }
    }
}

/// Takes the first event from the bytes of a watch; `None` if it is not complete. One in JSON ends
/// with its line.
fn next_event(bytes: &mut BytesMut, text: bool) -> Option<Bytes> {
    if text {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        return Some(bytes.split_to(end + 1).freeze());
    }
    let length = u32::from_be_bytes(*bytes.first_chunk()?);
    let length = usize::try_from(length).ok()?;
    if bytes.len() - LENGTH_BYTES < length {
        return None;
    }
    bytes.advance(LENGTH_BYTES);
    Some(bytes.split_to(length).freeze())
}

fn message(event: Bytes, text: bool) -> Message {
    match String::from_utf8(event.into()) {
        Ok(event) if text => Message::text(event),
        Ok(event) => Message::binary(event.into_bytes()),
        Err(event) => Message::binary(event.into_bytes()),
    }
}

fn accept(key: &[u8]) -> String {
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key);
    hash.update(ACCEPT_SALT.as_bytes());
    STANDARD.encode(hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_one_by_one_when_they_are_complete() {
        let mut bytes = BytesMut::from(&b"{\"a\":1}\n{\"b\""[..]);
        assert_eq!(next_event(&mut bytes, true).unwrap(), "{\"a\":1}\n");
        assert_eq!(next_event(&mut bytes, true), None);
        bytes.extend_from_slice(b":2}\n");
        assert_eq!(next_event(&mut bytes, true).unwrap(), "{\"b\":2}\n");
        let mut bytes = BytesMut::from(&[0, 0, 0, 2, 7, 8, 0, 0][..]);
        assert_eq!(next_event(&mut bytes, false).unwrap(), &[7, 8][..]);
        assert_eq!(next_event(&mut bytes, false), None);
        bytes.extend_from_slice(&[0, 0]);
        assert_eq!(next_event(&mut bytes, false).unwrap(), "");
        assert!(bytes.is_empty());
    }

    #[test]
    fn the_answer_to_a_key_is_the_protocols_own_example() {
        let key = b"dGhlIHNhbXBsZSBub25jZQ==";
        assert_eq!(accept(key), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}

//! Calls of webhooks: programs outside that the server asks about objects, over HTTPS.
//!
//! An [`Endpoint`] is where one webhook is and whom it is believed to be. Its connections live as
//! long as itself: whoever drops it, because the configuration changed, closes them.

pub(crate) mod address;
pub(crate) mod answer;
pub(crate) mod caller;
pub(crate) mod client;
pub(crate) mod kept;
mod kubeconfig;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod trust;

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use machinery::object;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use crate::storage::reader::Reader;
use address::Place;

/// Upper bound of an answer, in bytes. A patch in base64 of the largest object is far below.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Upper bound of concurrent calls of one webhook; others wait, and their timeouts pass.
const CALLS_MAX: usize = 128;
/// Upper bound of connections without a call that are kept for the next ones.
const IDLE_MAX: usize = 16;
/// How long a connection without a call is used again.
const IDLE_TIME_MAX: Duration = Duration::from_secs(60);

/// Where a webhook is, whom it has to be, and the connections to it.
pub(crate) struct Endpoint {
    place: Place,
    server_name: ServerName<'static>,
    connector: TlsConnector,
    calls: Semaphore,
    /// The one used last is the last.
    idle: Mutex<Vec<Idle>>,
}

/// A connection without a call.
struct Idle {
    /// A service's addresses change, and a connection stays with the one that it was made to.
    address: String,
    sender: SendRequest<Full<Bytes>>,
    since: Instant,
}

/// Why an exchange failed, and whether a connection was to blame that had been kept too long.
struct Failure {
    why: String,
    on_kept: bool,
}

impl Endpoint {
    /// Reads a `clientConfig`; an error if its webhook could never be called.
    pub(crate) fn of(config: &Value) -> Result<Endpoint, String> {
        let place = Place::of(config)?;
        let name = place.server_name();
        let server_name = ServerName::try_from(name.clone())
            .map_err(|_| format!("{name:?} is no name of a server"))?;
        let connector = trust::connector(object::text(config, &["caBundle"]), None)?;
        Ok(Endpoint {
            place,
            server_name,
            connector,
            calls: Semaphore::new(CALLS_MAX),
            idle: Mutex::default(),
        })
    }

    /// Posts a review and returns the webhook's. Waiting for its turn and for the connection is
    /// part of `patience`. The error says why there is no answer, in the words of Go's client.
    pub(crate) async fn call(
        &self,
        reader: &Reader,
        review: &Value,
        patience: Duration,
    ) -> Result<Value, String> {
        let body = Bytes::from(review.to_string());
        let query = format!("{}?timeout={}s", self.place.path(), patience.as_secs());
        let told = |why: String| format!("Post \"https://{}{query}\": {why}", self.place.host());
        let exchange = self.exchange(reader, &query, body);
        let answered = tokio::time::timeout(patience, exchange).await;
        let answered = answered.unwrap_or_else(|_| Err("context deadline exceeded".into()));
        let (code, bytes) = answered.map_err(told)?;
        answer::read(code, &bytes)
    }

    async fn exchange(
        &self,
        reader: &Reader,
        query: &str,
        body: Bytes,
    ) -> Result<(u16, Bytes), String> {
        let _turn = self.calls.acquire().await.map_err(|e| e.to_string())?;
        let address = self.place.address(reader)?;
        match self.attempt(&address, query, body.clone(), true).await {
            // The webhook may close a connection while nobody uses it. Reviews may be repeated.
            Err(failure) if failure.on_kept => self.attempt(&address, query, body, false).await,
            first => first,
        }
        .map_err(|failure| failure.why)
    }

    async fn attempt(
        &self,
        address: &str,
        query: &str,
        body: Bytes,
        may_be_kept: bool,
    ) -> Result<(u16, Bytes), Failure> {
        let kept = if may_be_kept {
            self.kept(address)
        } else {
            None
        };
        let on_kept = kept.is_some();
        let fail = |why: String| Failure { why, on_kept };
        let mut sender = match kept {
            Some(sender) => sender,
            None => self.connect(address).await.map_err(fail)?,
        };
        let request = self.request(query, body).map_err(fail)?;
        let sent = sender.send_request(request).await;
        let answer = sent.map_err(|error| fail(error.to_string()))?;
        let code = answer.status().as_u16();
        let bytes = Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await
            .map_err(|error| Failure {
                why: error.to_string(),
                // The answer had begun: the connection was alive.
                on_kept: false,
            })?
            .to_bytes();
        self.keep(address, sender);
        Ok((code, bytes))
    }

    fn request(&self, query: &str, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
        let host = HeaderValue::from_str(&self.place.host()).map_err(|e| e.to_string())?;
        Request::builder()
            .method(Method::POST)
            .uri(query)
            .header(HOST, host)
            .header(USER_AGENT, "kube-apiserver-admission")
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, body.len())
            .body(Full::new(body))
            .map_err(|error| error.to_string())
    }

    async fn connect(&self, address: &str) -> Result<SendRequest<Full<Bytes>>, String> {
        let dialed = TcpStream::connect(address).await;
        let stream = dialed.map_err(|error| address::not_reached(address, &error))?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        let name = self.server_name.clone();
        let stream = self.connector.connect(name, stream).await;
        let stream = stream.map_err(|error| trust::told(&error))?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| error.to_string())?;
        // It ends with its sender. What fails on it is told to the call.
        tokio::spawn(connection);
        Ok(sender)
    }

    /// The connection to an address that was used last.
    fn kept(&self, address: &str) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle.lock();
        idle.retain(|one| one.since.elapsed() < IDLE_TIME_MAX && !one.sender.is_closed());
        let at = idle.iter().rposition(|one| one.address == address)?;
        Some(idle.remove(at).sender)
    }

    fn keep(&self, address: &str, sender: SendRequest<Full<Bytes>>) {
        let mut idle = self.idle.lock();
        if idle.len() == IDLE_MAX {
            idle.remove(0);
        }
        idle.push(Idle {
            address: address.to_owned(),
            sender,
            since: Instant::now(),
        });
    }
}

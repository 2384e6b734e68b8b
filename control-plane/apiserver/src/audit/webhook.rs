//! Sends batches of events to a webhook, over HTTP or HTTPS, and tries again if that fails.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

use super::kubeconfig::{Credentials, Kubeconfig};
use crate::clock;
use crate::webhook::trust;

/// How often a batch is sent before its events are lost.
const ATTEMPTS: u32 = 5;
/// By how much the pause between two attempts grows, and how much of it is random.
const GROWTH: f64 = 1.5;
const JITTER: f64 = 0.2;
/// Time for one attempt.
const PATIENCE: Duration = Duration::from_secs(30);
/// Upper bound of attempts at one time; others wait.
const CALLS_MAX: usize = 64;
/// Upper bound of an answer, in bytes. What is in it does not matter.
const ANSWER_BYTES_MAX: usize = 1 << 20;

type Connection = SendRequest<Full<Bytes>>;

/// The client of one webhook.
pub(super) struct Caller {
    address: String,
    host: String,
    /// Path and query.
    path: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    credentials: Credentials,
    /// The pause after the first attempt.
    pause: Duration,
    calls: Semaphore,
    /// Connections that are not in use.
    idle: Mutex<Vec<Connection>>,
}

impl Caller {
    /// Reads a kubeconfig. `pause` is the time before the second attempt.
    pub(super) fn read(path: &Path, pause: Duration) -> Result<Caller, String> {
        let config = Kubeconfig::read(path)?;
        let uri: Uri = config
            .server
            .parse()
            .map_err(|error| format!("server {:?}: {error}", config.server))?;
        let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else {
            return Err(format!("server {:?} is no URL", config.server));
        };
        let (tls, default_port) = match scheme {
            "http" => (None, 80),
            "https" => (Some(encrypted(&config, host)?), 443),
            other => return Err(format!("server: the scheme {other:?} is not supported")),
        };
        let port = uri.port_u16().unwrap_or(default_port);
        Ok(Caller {
            address: format!("{host}:{port}"),
            host: uri.authority().map(ToString::to_string).unwrap_or_default(),
            path: format!("{}?timeout={}s", uri.path(), PATIENCE.as_secs()),
            tls,
            credentials: config.credentials,
            pause,
            calls: Semaphore::new(CALLS_MAX),
            idle: Mutex::default(),
        })
    }

    /// Sends events, in JSON and without their kind, as one list.
    pub(super) async fn send(&self, events: &[Bytes]) -> Result<(), String> {
        let mut body =
            br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"#.to_vec();
        body.extend_from_slice(b"\"items\":[");
        body.extend_from_slice(&events.join(&b","[..]));
        body.extend_from_slice(b"]}\n");
        let body = Bytes::from(body);
        let mut pause = self.pause;
        let mut tried = 1;
        loop {
            let called = tokio::time::timeout(PATIENCE, self.call(body.clone())).await;
            let called = called.unwrap_or_else(|_| Err("context deadline exceeded".into()));
            match called {
                Err(why) if tried < ATTEMPTS => {
                    tracing::debug!(why, tried, "audit events are sent again");
                }
                result => return result,
            }
            let random = clock::below(1000) as f64 / 1000.0;
            tokio::time::sleep(pause.mul_f64(1.0 + JITTER * random)).await;
            pause = pause.mul_f64(GROWTH);
            tried += 1;
        }
    }

    async fn call(&self, body: Bytes) -> Result<(), String> {
        let _turn = self.calls.acquire().await.map_err(|e| e.to_string())?;
        let kept = self.kept();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let sent = connection.send_request(self.request(body)?).await;
        let answer = sent.map_err(|error| error.to_string())?;
        let code = answer.status();
        let rest = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
        let rest = rest.collect().await.map_err(|error| error.to_string())?;
        self.idle.lock().push(connection);
        if code.is_success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&rest.to_bytes()).into_owned();
        Err(format!("the webhook answered {code}: {}", why.trim()))
    }

    fn request(&self, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.path)
            .header(HOST, &self.host)
            .header(USER_AGENT, "kube-apiserver")
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, body.len());
        if let Some(value) = self.credentials.header()? {
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::new(body));
        request.map_err(|error| error.to_string())
    }

    async fn connect(&self) -> Result<Connection, String> {
        let dialed = TcpStream::connect(&self.address).await;
        let stream = dialed.map_err(|error| format!("dial tcp {}: {error}", self.address))?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        match &self.tls {
            None => shake(TokioIo::new(stream)).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                let stream = stream.map_err(|error| trust::told(&error))?;
                shake(TokioIo::new(stream)).await
            }
        }
    }

    /// A connection that is still open.
    fn kept(&self) -> Option<Connection> {
        let mut idle = self.idle.lock();
        idle.retain(|connection| !connection.is_closed());
        idle.pop()
    }
}

fn encrypted(
    config: &Kubeconfig,
    host: &str,
) -> Result<(TlsConnector, ServerName<'static>), String> {
    let name = match config.server_name.as_str() {
        "" => host.trim_matches(['[', ']']),
        name => name,
    };
    let name = ServerName::try_from(name.to_owned())
        .map_err(|_| format!("{name:?} is no name of a server"))?;
    let identity = config.identity.as_ref();
    let identity = identity.map(|(certificate, key)| (certificate.as_slice(), key.as_slice()));
    let connector = trust::connector_to(config.authority.as_deref(), identity)?;
    Ok((connector, name))
}

async fn shake<S>(stream: TokioIo<S>) -> Result<Connection, String>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let shaken = http1::handshake(stream).await;
    let (sender, connection) = shaken.map_err(|error| error.to_string())?;
    // It ends with its sender. What fails on it is told to the call.
    tokio::spawn(connection);
    Ok(sender)
}

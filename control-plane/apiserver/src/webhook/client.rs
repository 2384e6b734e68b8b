//! A client of one server that somebody names by its URL, over HTTP or HTTPS.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

use super::trust;

/// Upper bound of exchanges at one time; others wait, and their timeouts pass.
const CALLS_MAX: usize = 64;
/// Upper bound of connections without an exchange that are kept for the next ones.
const IDLE_MAX: usize = 16;

type Connection = SendRequest<Full<Bytes>>;

/// The client of one server.
pub(crate) struct Client {
    address: String,
    host: HeaderValue,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    calls: Semaphore,
    /// Connections that are not in use.
    idle: Mutex<Vec<Connection>>,
}

/// What a server answered.
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) why: String,
    /// The server broke the connection: it may answer the next time.
    pub(crate) is_reset: bool,
    on_kept: bool,
}

impl Client {
    /// A client of the server at a URL, whose path does not matter. The server has to be
    /// `server_name`; if that is empty, the URL's host. `connector` is called for HTTPS alone.
    pub(crate) fn of(
        url: &Uri,
        server_name: &str,
        connector: impl FnOnce() -> Result<TlsConnector, String>,
    ) -> Result<Client, String> {
        let (Some(scheme), Some(host)) = (url.scheme_str(), url.host()) else {
            return Err(format!("server {:?} is no URL", url.to_string()));
        };
        let (tls, default_port) = match scheme {
            "http" => (None, 80),
            "https" => {
                let name = match server_name {
                    "" => host.trim_matches(['[', ']']),
                    name => name,
                };
                let name = ServerName::try_from(name.to_owned())
                    .map_err(|_| format!("{name:?} is no name of a server"))?;
                (Some((connector()?, name)), 443)
            }
            other => return Err(format!("server: the scheme {other:?} is not supported")),
        };
        let port = url.port_u16().unwrap_or(default_port);
        // What is before an `@` is for us, not for the server.
        let shown = match url.port_u16() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        Ok(Client {
            address: format!("{host}:{port}"),
            host: HeaderValue::from_str(&shown).map_err(|error| error.to_string())?,
            tls,
            calls: Semaphore::new(CALLS_MAX),
            idle: Mutex::default(),
        })
    }

    /// Sends a request, which may be sent twice, and returns the whole answer, of at most
    /// `bytes_max` bytes. Waiting for its turn and for the connection is part of `patience`.
    pub(crate) async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
        bytes_max: usize,
        patience: Duration,
    ) -> Result<Answer, Failure> {
        request.headers_mut().insert(HOST, self.host.clone());
        let exchanged = async {
            let _turn = self.calls.acquire().await.map_err(|e| Failure::of(&e))?;
            match self.attempt(request.clone(), bytes_max, true).await {
                // The server may close a connection while nobody uses it.
                Err(failure) if failure.on_kept => self.attempt(request, bytes_max, false).await,
                first => first,
            }
        };
        let exchanged = tokio::time::timeout(patience, exchanged).await;
        exchanged.unwrap_or_else(|_| Err(Failure::of(&"context deadline exceeded")))
    }

    async fn attempt(
        &self,
        request: Request<Full<Bytes>>,
        bytes_max: usize,
        may_be_kept: bool,
    ) -> Result<Answer, Failure> {
        let kept = if may_be_kept { self.kept() } else { None };
        let on_kept = kept.is_some();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect().await.map_err(|why| Failure::of(&why))?,
        };
        let sent = connection.send_request(request).await;
        let answer = sent.map_err(|error| Failure {
            on_kept,
            is_reset: is_reset(&error),
            ..Failure::of(&error)
        })?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, bytes_max).collect().await;
        let body = body.map_err(|error| Failure {
            is_reset: is_reset(&*error),
            ..Failure::of(&error)
        })?;
        self.keep(connection);
        Ok(Answer {
            code: parts.status,
            headers: parts.headers,
            body: body.to_bytes(),
        })
    }

    async fn connect(&self) -> Result<Connection, String> {
        let dialed = TcpStream::connect(&self.address).await;
        let stream = dialed.map_err(|error| super::address::not_reached(&self.address, &error))?;
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

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.len() == IDLE_MAX {
            idle.remove(0);
        }
        idle.push(connection);
    }
}

impl Failure {
    /// A failure that is none of the connection.
    pub(crate) fn of(why: &dyn std::fmt::Display) -> Failure {
        Failure {
            why: why.to_string(),
            is_reset: false,
            on_kept: false,
        }
    }
}

/// True if a connection was reset, somewhere below this error.
fn is_reset(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut error = Some(error);
    while let Some(one) = error {
        let io = one.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionReset) {
            return true;
        }
        error = one.source();
    }
    false
}

async fn shake<S>(stream: TokioIo<S>) -> Result<Connection, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shaken = http1::handshake(stream).await;
    let (sender, connection) = shaken.map_err(|error| error.to_string())?;
    // It ends with its sender. What fails on it is told to the exchange.
    tokio::spawn(connection);
    Ok(sender)
}

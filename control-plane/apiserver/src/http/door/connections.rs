//! Connections of clients, encrypted or not, each with its own task.
//!
//! A silent client delays nobody. A connection without a request in progress is closed after some
//! time, and one of HTTP/2 after a request without credentials. When there are too many
//! connections, one is closed at once: `room` says which. So a client that opens connections, and
//! sends parts of requests or watches, competes only with itself.

pub(crate) mod keep_alive;
#[cfg(test)]
mod tests;

use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::auth::certificate::Peer;
use crate::auth::tls::Tls;
use crate::http::api::Api;
use crate::http::door::faulted::Cut;
use crate::http::door::room::{AtWork, Connection, Places, Through};
use crate::http::door::serve;
use crate::http::door::socket::{Asked, Socket, Watched};
use crate::http::limits::Limits;
use crate::http::pass::tunnel::Tunnel;
use crate::http::question::request::Remote;

/// Pause of accepting after a failure, which happens when file descriptors run out.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Time that a closing connection may stay open without a request.
const FAREWELL: Duration = Duration::from_secs(1);
/// Time for requests to complete after a stop.
const GRACE: Duration = Duration::from_secs(3);
/// Interval of pings on an HTTP/2 connection, and time for their answer.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_PATIENCE: Duration = Duration::from_secs(15);
/// Upper bound of concurrent requests on one connection.
const STREAMS_MAX: u32 = 250;
/// Upper bound of a request's head, in bytes.
const HEAD_BYTES_MAX: usize = 128 << 10;
/// One in this many file descriptors may be a connection; the rest is for the store and its files.
const FILES_PER_CONNECTION: u64 = 2;

/// Serves requests on a listener until the server stops.
pub(crate) async fn serve(api: &Api, listener: TcpListener, tls: Option<Tls>) -> io::Result<()> {
    let mut stopping = api.0.stopping.subscribe();
    let limits = bounded_by_files(api.0.limits);
    let all = Arc::new(Connections {
        api: api.clone(),
        tls,
        limits,
        places: Places::new(limits.connections),
    });
    // Every connection holds a sender: the channel closes when all connections are gone.
    let (alive, mut gone) = mpsc::channel::<()>(1);
    let mut number = 0;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // An error means that the server is dropped, which is a stop too.
            _ = stopping.wait_for(|stop| *stop) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                number += 1;
                let connection = all.places.admit(number, Some(peer.ip()));
                let (all, alive) = (Arc::clone(&all), alive.clone());
                tokio::spawn(async move {
                    all.run(stream, &connection).await;
                    all.places.leave(&connection);
                    drop(alive);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
    drop((alive, listener));
    // Slower requests end with the runtime.
    let _ = tokio::time::timeout(GRACE, gone.recv()).await;
    Ok(())
}

fn bounded_by_files(limits: Limits) -> Limits {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = files.map_or(usize::MAX, |files| {
        usize::try_from(files / FILES_PER_CONNECTION).unwrap_or(usize::MAX)
    });
    Limits {
        connections: limits.connections.min(most.max(1)),
        ..limits
    }
}

struct Connections {
    api: Api,
    tls: Option<Tls>,
    limits: Limits,
    places: Places,
}

impl Connections {
    async fn run(&self, stream: TcpStream, connection: &Arc<Connection>) {
        // Responses are written whole; waiting for more data would only delay them.
        let _ = stream.set_nodelay(true);
        let remote = stream.peer_addr().ok().map(|address| address.ip());
        let Some(tls) = &self.tls else {
            let peer = (Peer::Nobody, remote);
            return self.answer(stream, peer, connection).await;
        };
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(self.limits.head, tls.accept(stream)) => shaken,
            () = connection.ended() => return,
        };
        match shaken {
            Ok(Ok((stream, peer))) => self.answer(stream, (peer, remote), connection).await,
            Ok(Err(error)) => tracing::debug!(%error, "no handshake"),
            Err(_) => tracing::debug!("no handshake in time"),
        }
    }

    /// Answers requests of a peer with this address.
    async fn answer<S>(
        &self,
        stream: S,
        (peer, remote): (Peer, Option<IpAddr>),
        connection: &Arc<Connection>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (api, shared) = (self.api.clone(), Arc::clone(connection));
        let address = remote.map(Remote);
        // What the connection becomes when its request is answered.
        let becomes: Arc<Mutex<Option<(Becomes, AtWork)>>> = Arc::default();
        let next = Arc::clone(&becomes);
        let service = service_fn(move |request: Request<Incoming>| {
            let at_work = AtWork::begin(&shared);
            let (api, mut request) = (api.clone(), request.map(Body::new));
            let next = Arc::clone(&next);
            request.extensions_mut().insert(ConnectInfo(peer.clone()));
            request.extensions_mut().insert(Through::new(&shared));
            if let Some(address) = address {
                request.extensions_mut().insert(address);
            }
            async move { answered(&api, request, at_work, &next).await }
        });
        let builder = builder();
        let mut served =
            pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        let mut stopping = self.api.0.stopping.subscribe();
        let opened = Instant::now();
        tokio::select! {
            ended = &mut served => {
                told(ended);
                let becomes = becomes.lock().take();
                if let Some((becomes, _at_work)) = becomes {
                    tokio::select! {
                        () = becomes.serve(stopping) => {}
                        () = connection.ended() => {}
                    }
                }
                return;
            }
            () = connection.silent(opened, self.limits) => {}
            // A watch, or a body that never ends, would keep its place.
            () = connection.ended() => if connection.is_cut() {
                return;
            },
            () = stopped(&mut stopping) => {}
        }
        served.as_mut().graceful_shutdown();
        // A request that has just arrived is still answered.
        let farewell = Limits {
            head: FAREWELL,
            idle: FAREWELL,
            ..self.limits
        };
        tokio::select! {
            ended = &mut served => told(ended),
            () = connection.silent(Instant::now(), farewell) => {}
            () = connection.cut() => {}
        }
    }
}

/// Answers a request. `next` gets what its connection becomes, if that is something else.
async fn answered(
    api: &Api,
    mut request: Request<Body>,
    mut at_work: AtWork,
    next: &Mutex<Option<(Becomes, AtWork)>>,
) -> Result<Response<Answered>, Cut> {
    let upgrade = hyper::upgrade::on(&mut request);
    let asked = Asked::of(request.headers(), &upgrade);
    let with = |response: Response<Body>, at_work| response.map(|body| Answered { body, at_work });
    let mut response = serve::serve(api.clone(), request).await;
    if let Some(cut) = response.extensions().get::<Cut>() {
        return Err(*cut);
    }
    if let Some(tunnel) = response.extensions_mut().remove::<Tunnel>() {
        *next.lock() = Some((Becomes::Tunnel(tunnel, upgrade), at_work));
        return Ok(with(response, None));
    }
    let is_watched = response.extensions().get::<Watched>().is_some();
    if is_watched {
        at_work.watches();
    }
    let Some(asked) = asked.filter(|_| is_watched) else {
        return Ok(with(response, Some(at_work)));
    };
    let (response, upgraded) = asked.answer(response);
    *next.lock() = upgraded.map(|socket| (Becomes::Socket(socket), at_work));
    Ok(with(response, None))
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_PATIENCE)
        .max_concurrent_streams(STREAMS_MAX);
    builder
}

/// What a connection becomes when its request is answered.
enum Becomes {
    Socket(Socket),
    /// The connection of an aggregated server, and the client's.
    Tunnel(Tunnel, OnUpgrade),
}

impl Becomes {
    /// Until its client goes, or the server stops.
    async fn serve(self, mut stopping: watch::Receiver<bool>) {
        match self {
            Becomes::Socket(socket) => socket.serve().await,
            Becomes::Tunnel(tunnel, client) => tokio::select! {
                () = tunnel.serve(client) => {}
                () = stopped(&mut stopping) => {}
            },
        }
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the server is dropped, which is a stop too.
    let _ = stopping.wait_for(|stop| *stop).await;
}

fn told(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection failed");
    }
}

/// A response; its request is in progress until it is sent or dropped.
struct Answered {
    body: Body,
    #[expect(dead_code, reason = "its end is what counts")]
    at_work: Option<AtWork>,
}

impl http_body::Body for Answered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! The connections of one listener: accepts them, detects their protocol, and runs them to their
//! end.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1::{self, UpgradeableConnection};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::{mpsc, watch};

use super::Door;
use super::gather::Gather;
use super::pings::Policed;
use super::preface::{self, PREFACE_PATIENCE, Protocol};
use crate::api::calls::caller::Caller;
use crate::api::calls::open_calls::OpenCalls;
use crate::api::calls::router::Router;
use crate::api::http::{Port, Site};
use crate::config::Config;
use crate::net::rewound::Rewound;
use crate::net::socket::Socket;
use crate::net::tls::{Acceptor, Secured};
use crate::net::workers::{self, Workers};

/// Pause after a failed accept: most likely the process is out of file descriptors, which takes
/// time to pass.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Time that open calls get when the server stops; then their connections are closed, because
/// watches never end by themselves.
const STOP_PATIENCE: Duration = Duration::from_millis(500);

/// Bytes a client may send ahead, per stream and per connection. Large enough that a request of
/// 1.5 MB needs no second round trip for the window, and that a hundred clients on one connection
/// do not wait for each other; small enough to bound what an unread connection holds.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Response bytes buffered for one stream of a slow client.
const STREAM_SEND_BYTES_MAX: usize = 256 << 10;

/// Limit on a request's headers. Ample room for tokens and certificate names.
const HEADER_BYTES_MAX: u32 = 64 << 10;

/// Streams a client may reset before they are accepted; more counts as an attack.
const PENDING_RESETS_MAX: usize = 1024;

/// The ALPN name of HTTP/2.
const H2: &[u8] = b"h2";

/// State shared by all connections of a listener.
#[derive(Clone)]
pub(super) struct Connections {
    pub(super) router: Router,
    pub(super) site: Arc<Site>,
    pub(super) config: Arc<Config>,
    pub(super) port: Port,
    pub(super) workers: Arc<Workers>,
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) open: mpsc::Sender<()>,
}

/// What the requests of one HTTP/2 connection share.
struct Shared {
    router: Router,
    site: Arc<Site>,
    port: Port,
    caller: Caller,
}

impl Shared {
    /// False for a request for a page.
    fn is_call(&self, request: &Request<Incoming>) -> bool {
        match self.port {
            Port::Grpc => true,
            Port::Client => !self.caller.tls || is_grpc(request),
            Port::Http | Port::Metrics | Port::Peer => false,
        }
    }
}

/// A connection on its way from one event loop to another.
enum Arrival {
    Plain(Socket),
    /// Clear text on a listener that also accepts TLS.
    ClearText(Rewound<Socket>),
    Secured(Box<Secured>),
}

impl Arrival {
    fn socket(&mut self) -> &mut Socket {
        match self {
            Arrival::Plain(socket) => socket,
            Arrival::ClearText(stream) => stream.get_mut(),
            Arrival::Secured(secured) => secured.stream.get_mut().0.get_mut(),
        }
    }
}

impl Connections {
    pub(super) async fn accept(mut self, door: Door) {
        let Door {
            bound,
            tls,
            is_plain,
            quota,
            ..
        } = door;
        let listener = match bound.listen() {
            Ok(listener) => listener,
            Err(error) => crate::telemetry::fatal("failed to listen to clients", &error),
        };
        loop {
            let accepted = tokio::select! {
                accepted = async {
                    let place = quota.admit().await;
                    listener.accept().await.map(|socket| socket.holding(place))
                } => accepted,
                _ = stopped(&mut self.stopping) => return,
            };
            match (accepted, &tls) {
                (Ok(socket), None) => self.hand_over(Arrival::Plain(socket)),
                (Ok(socket), Some(acceptor)) => {
                    self.shake_hands(socket, acceptor.clone(), is_plain);
                }
                (Err(error), _) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    pub(super) async fn accept_local(mut self, mut connections: mpsc::Receiver<DuplexStream>) {
        loop {
            let connection = tokio::select! {
                connection = connections.recv() => connection,
                _ = stopped(&mut self.stopping) => return,
            };
            let Some(stream) = connection else { return };
            let mut server = self.clone();
            let caller = self.router.known(Caller::default());
            tokio::spawn(async move { server.http2(stream, caller).await });
        }
    }

    /// Runs the TLS handshake on separate threads that serve no requests.
    fn shake_hands(&self, mut socket: Socket, acceptor: Acceptor, is_plain: bool) {
        let mut server = self.clone();
        let parked = socket.park();
        acceptor.clone().spawn(async move {
            let taken_over = parked.and_then(|()| socket.unpark());
            if let Err(error) = taken_over {
                tracing::warn!(%error, "failed to take over a connection");
                return;
            }
            let arrival = async {
                // If clear text is not accepted, every connection is treated as TLS.
                let (is_tls, stream) = if is_plain {
                    preface::detect_tls(socket).await?
                } else {
                    (true, Rewound::new(socket))
                };
                Some(if is_tls {
                    Arrival::Secured(Box::new(acceptor.accept(stream).await?))
                } else {
                    Arrival::ClearText(stream)
                })
            };
            let arrival = tokio::select! {
                arrival = arrival => arrival,
                _ = stopped(&mut server.stopping) => None,
            };
            if let Some(arrival) = arrival {
                server.hand_over(arrival);
            }
        });
    }

    /// Passes a connection to the next worker in turn.
    fn hand_over(&self, mut arrival: Arrival) {
        let (server, worker) = (self.clone(), self.workers.next());
        let is_here = worker == workers::here() && matches!(arrival, Arrival::Plain(_));
        let parked = if is_here {
            Ok(())
        } else {
            arrival.socket().park()
        };
        self.workers.spawn(worker, async move {
            match parked.and_then(|()| arrival.socket().unpark()) {
                Ok(()) => server.connection(arrival).await,
                Err(error) => tracing::warn!(%error, "failed to take over a connection"),
            }
        });
    }

    async fn connection(self, mut arrival: Arrival) {
        let mut caller = Caller {
            remote: arrival.socket().remote(),
            local: arrival.socket().local(),
            ..Caller::default()
        };
        match arrival {
            Arrival::Plain(socket) => {
                let caller = self.router.known(caller);
                self.detect(socket, caller).await;
            }
            Arrival::ClearText(stream) => {
                let caller = self.router.known(caller);
                self.detect(stream, caller).await;
            }
            Arrival::Secured(secured) => {
                let Secured {
                    stream,
                    common_name,
                } = *secured;
                caller.tls = true;
                caller.common_name = common_name;
                let caller = self.router.known(caller);
                match stream.get_ref().1.alpn_protocol() {
                    Some(H2) => self.run(Protocol::Http2, stream, caller).await,
                    // Without ALPN the client may speak either protocol.
                    _ => self.detect(stream, caller).await,
                }
            }
        }
    }

    async fn detect<S>(mut self, stream: S, caller: Caller)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let detected = tokio::select! {
            detected = preface::detect(stream) => detected,
            _ = stopped(&mut self.stopping) => None,
        };
        if let Some((protocol, stream)) = detected {
            self.run(protocol, stream, caller).await;
        }
    }

    async fn run<S>(mut self, protocol: Protocol, stream: S, caller: Caller)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match (protocol, self.port) {
            (Protocol::Http2, Port::Client | Port::Grpc) => self.http2(stream, caller).await,
            (Protocol::Http2, _) if caller.tls => self.http2(stream, caller).await,
            (Protocol::Http1, Port::Client | Port::Http | Port::Metrics | Port::Peer) => {
                self.http1(stream, caller).await;
            }
            // gRPC on an HTTP listener, or HTTP on a gRPC listener: close without an answer.
            (Protocol::Http2, _) | (Protocol::Http1, Port::Grpc) => {}
        }
        drop(self.open);
    }

    async fn http1<S>(&mut self, stream: S, caller: Caller)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (site, port) = (Arc::clone(&self.site), self.port);
        let service = service_fn(move |mut request| {
            request.extensions_mut().insert(caller.clone());
            Arc::clone(&site).answer(port, request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .title_case_headers(true)
            .header_read_timeout(PREFACE_PATIENCE)
            .max_buf_size(HEADER_BYTES_MAX as usize)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let shut = |connection: Pin<&mut UpgradeableConnection<_, _>>| {
            connection.graceful_shutdown();
        };
        drive(connection, shut, &mut self.stopping).await;
    }

    /// As in etcd: over TLS, HTTP/2 carries both calls and pages, told apart by content type; in
    /// clear text it carries calls only.
    async fn http2(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        caller: Caller,
    ) {
        let calls = OpenCalls::default();
        let stream = Policed::new(stream, self.config.keepalive.min_time, calls.clone());
        let shared = Arc::new(Shared {
            router: self.router.clone(),
            site: Arc::clone(&self.site),
            port: self.port,
            caller,
        });
        let service = service_fn(move |mut request: Request<Incoming>| {
            let (shared, call) = (Arc::clone(&shared), calls.begin());
            // Boxed, because a call becomes a task, and the way there moves its future several times.
            Box::pin(async move {
                let Shared {
                    router,
                    site,
                    port,
                    caller,
                } = &*shared;
                if shared.is_call(&request) {
                    router.answer(request, Some(caller), call).await
                } else {
                    request.extensions_mut().insert(caller.clone());
                    Arc::clone(site).answer(*port, request).await
                }
            })
        });
        let keepalive = self.config.keepalive;
        let connection = http2_builder(self.config.max_concurrent_streams)
            .keep_alive_interval(Some(keepalive.interval))
            .keep_alive_timeout(keepalive.timeout)
            .serve_connection(TokioIo::new(Gather::new(stream)), service);
        let shut = |connection: Pin<&mut http2::Connection<_, _, _>>| {
            connection.graceful_shutdown();
        };
        drive(connection, shut, &mut self.stopping).await;
    }
}

/// The limits of every HTTP/2 connection of a client.
pub(crate) fn http2_builder(max_concurrent_streams: u32) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(max_concurrent_streams)
        .max_header_list_size(HEADER_BYTES_MAX)
        .max_send_buf_size(STREAM_SEND_BYTES_MAX)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX);
    builder
}

pub(crate) fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(http::header::CONTENT_TYPE);
    kind.and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.contains("application/grpc"))
}

/// Runs a connection to its end. When the server stops, waits a short time for its open calls.
async fn drive<C: Future>(
    connection: C,
    shut: impl FnOnce(Pin<&mut C>),
    stopping: &mut watch::Receiver<bool>,
) {
    let mut connection = pin!(connection);
    tokio::select! {
        // How a connection ends does not matter to the server.
        _ = connection.as_mut() => return,
        _ = stopped(stopping) => shut(connection.as_mut()),
    }
    let _ = tokio::time::timeout(STOP_PATIENCE, connection).await;
}

/// Returns when the server stops, or when the sender of that signal is gone.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

#[cfg(test)]
mod tests {
    use http::{Response, StatusCode};
    use parking_lot::Mutex;
    use tokio::io::AsyncWriteExt as _;
    use tokio::sync::{Semaphore, oneshot};

    use super::*;
    use crate::config::Url;
    use crate::net::socket::Bound;

    #[tokio::test]
    async fn a_connection_keeps_its_place_when_a_websocket_follows_http() {
        let bound = Bound::bind(&Url::parse("http://127.0.0.1:0").unwrap(), false).unwrap();
        let address = bound.address().unwrap();
        let listener = bound.listen().unwrap();
        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
        let request =
            "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
        client.write_all(request.as_bytes()).await.unwrap();

        let places = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let mut socket = listener.accept().await.unwrap().holding(place);
        socket.park().unwrap();
        socket.unpark().unwrap();
        let (sender, upgraded) = oneshot::channel();
        let sender = Mutex::new(Some(sender));
        let service = service_fn(|mut request: Request<Incoming>| {
            if let Some(sender) = sender.lock().take() {
                let _ = sender.send(hyper::upgrade::on(&mut request));
            }
            let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
            std::future::ready(response.body(String::new()))
        });
        let http = http1::Builder::new()
            .serve_connection(TokioIo::new(socket), service)
            .with_upgrades();
        http.await.unwrap();
        assert_eq!(places.available_permits(), 0, "the end of HTTP");
        let websocket = upgraded.await.unwrap().await.unwrap();
        assert_eq!(places.available_permits(), 0, "the descriptor is open");
        drop(websocket);
        assert_eq!(places.available_permits(), 1);
    }
}

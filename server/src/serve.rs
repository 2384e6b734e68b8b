//! The listeners: binding them, accepting connections, and telling gRPC from HTTP on each.
//!
//! On a client port HTTP/2 is gRPC and HTTP/1 is the few pages of [`crate::http`]. Knows nothing
//! of what requests mean.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};

mod body;
mod call;
mod gather;
mod preface;
mod router;

pub use call::ReadonlyTxn;

use crate::config::{Config, Url};
use crate::http::{Port, Site};
use crate::logging::json;
use crate::metrics::Metrics;
use crate::node::Node;
use crate::workers::{self, Workers};
use gather::Gather;
use preface::{PREFACE_PATIENCE, Protocol};
use router::Router;

/// Connections the system may hold ready before they are accepted.
const BACKLOG: u32 = 4096;

/// Pause after a failed accept: out of files, most likely, and that takes a while to pass.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Calls still open when the server stops get this long, then their connections are closed:
/// watches never end by themselves.
const STOP_PATIENCE: Duration = Duration::from_millis(500);

/// Bytes a client may send ahead, per stream and per connection. Large enough that a request of
/// 1.5 MB needs no second round trip for the window, and that a hundred clients on one connection
/// do not wait for each other; small enough to bound what an unread connection holds.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Bytes of responses that wait for one stream of a slow client.
const STREAM_SEND_BYTES_MAX: usize = 256 << 10;

/// Bytes of a request's headers. Tokens and certificates' names fit many times over.
const HEADER_BYTES_MAX: u32 = 64 << 10;

/// Streams a client may reset before they are accepted; more is an attack.
const PENDING_RESETS_MAX: usize = 1024;

/// TCP keep-alive, as Go sets it: finds peers that vanished without a word.
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);

/// An address that cannot be listened on; the text names it.
#[derive(Debug)]
pub struct BindError(String);

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BindError {}

/// Bound sockets, not yet served.
pub struct Listeners {
    bound: Vec<(TcpListener, Port)>,
    /// Connections from within the program.
    local: Option<mpsc::Receiver<DuplexStream>>,
}

impl Listeners {
    /// Binds every URL to listen on. Runs inside the runtime.
    pub async fn bind(config: &Config) -> Result<Listeners, BindError> {
        let http_apart = !config.listen_client_http_urls.is_empty();
        let client = if http_apart { Port::Grpc } else { Port::Client };
        let mut listeners = Vec::new();
        let urls = |urls: &[Url]| urls.iter().map(Url::to_string).collect::<Vec<_>>();
        let peers = urls(&config.listen_peer_urls);
        tracing::info!("listen-peer-urls" = %json(&peers), "configuring peer listeners");
        let clients = urls(&config.listen_client_urls);
        for (urls, port) in [
            (&config.listen_peer_urls, Port::Peer),
            (&config.listen_client_urls, client),
            (&config.listen_client_http_urls, Port::Http),
            (&config.listen_metrics_urls, Port::Metrics),
        ] {
            if port == client {
                tracing::info!("listen-client-urls" = %json(&clients), "configuring client listeners");
            }
            for url in urls {
                listeners.push((listen(url, config)?, port));
            }
        }
        Ok(Listeners {
            bound: listeners,
            local: None,
        })
    }

    /// The addresses bound, in the order of the flags: peers, clients, HTTP, metrics.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.bound
            .iter()
            .filter_map(|(listener, _)| listener.local_addr().ok())
            .collect()
    }

    /// Serves these as well, as clients.
    pub fn add_local(&mut self, connections: mpsc::Receiver<DuplexStream>) {
        self.local = Some(connections);
    }

    /// The sockets for peers, which are served apart and before all others.
    pub fn take_peers(&mut self) -> io::Result<Vec<std::net::TcpListener>> {
        let all = std::mem::take(&mut self.bound);
        let (peers, rest) = all.into_iter().partition(|(_, port)| *port == Port::Peer);
        self.bound = rest;
        let peers: Vec<(TcpListener, Port)> = peers;
        let taken = peers.into_iter().map(|(listener, _)| {
            if let Ok(address) = listener.local_addr() {
                tracing::info!(%address, "serving peer traffic");
            }
            listener.into_std()
        });
        taken.collect()
    }

    /// Serves until `stopping` turns true, then until connections are done or out of time.
    pub async fn serve(
        self,
        node: Node,
        config: Arc<Config>,
        metrics: Arc<Metrics>,
        workers: Arc<Workers>,
        stopping: watch::Receiver<bool>,
    ) {
        let router = Router::new(node.clone(), &config, Arc::clone(&metrics));
        let site = Arc::new(Site::new(node, Arc::clone(&config), metrics));
        // Every connection holds a sender; when all are gone, so are the connections.
        let (open, mut closed) = mpsc::channel::<()>(1);
        let server = |port| Server {
            router: router.clone(),
            site: Arc::clone(&site),
            config: Arc::clone(&config),
            port,
            stopping: stopping.clone(),
            workers: Arc::clone(&workers),
            open: open.clone(),
        };
        if let Some(connections) = self.local {
            tokio::spawn(server(Port::Grpc).accept_local(connections));
        }
        for (listener, port) in self.bound {
            let address = listener
                .local_addr()
                .map_or(String::new(), |a| a.to_string());
            match port {
                Port::Peer => tracing::info!(address, "serving peer traffic"),
                Port::Client => tracing::info!(
                    traffic = "grpc+http",
                    address,
                    "serving client traffic insecurely; this is strongly discouraged!"
                ),
                Port::Grpc => tracing::info!(
                    traffic = "grpc",
                    address,
                    "serving client traffic insecurely; this is strongly discouraged!"
                ),
                Port::Http => tracing::info!(
                    traffic = "http",
                    address,
                    "serving client traffic insecurely; this is strongly discouraged!"
                ),
                Port::Metrics => tracing::info!(address, "serving metrics"),
            }
            tokio::spawn(server(port).accept(listener));
        }
        drop(open);
        let _ = closed.recv().await;
    }
}

/// Go's words for what the system said.
fn listen(url: &Url, config: &Config) -> Result<TcpListener, BindError> {
    let Ok(port) = url.port().parse::<u16>() else {
        return Err(BindError(format!(
            "listen tcp: address {}: invalid port",
            url.port()
        )));
    };
    let bind = |ip: IpAddr| -> io::Result<TcpListener> {
        let socket = if ip.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        // Go sets this on every listener; without it a restart would wait for old connections.
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(config.reuse_port)?;
        socket.bind(SocketAddr::new(ip, port))?;
        socket.listen(BACKLOG)
    };
    let bound = match url.host() {
        "" => bind(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| bind(Ipv4Addr::UNSPECIFIED.into())),
        "localhost" => bind(Ipv4Addr::LOCALHOST.into()),
        host => match host.parse() {
            Ok(ip) => bind(ip),
            Err(_) => {
                return Err(BindError(format!(
                    "listen tcp: lookup {host}: no such host"
                )));
            }
        },
    };
    bound.map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::AddrInUse => "address already in use".into(),
            io::ErrorKind::AddrNotAvailable => "cannot assign requested address".into(),
            io::ErrorKind::PermissionDenied => "permission denied".into(),
            _ => error.to_string(),
        };
        let address = url.address().replace("localhost", "127.0.0.1");
        BindError(format!("listen tcp {address}: bind: {reason}"))
    })
}

/// What every connection of a listener needs.
#[derive(Clone)]
struct Server {
    router: Router,
    site: Arc<Site>,
    config: Arc<Config>,
    port: Port,
    workers: Arc<Workers>,
    stopping: watch::Receiver<bool>,
    open: mpsc::Sender<()>,
}

impl Server {
    async fn accept(mut self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopped(&mut self.stopping) => return,
            };
            match accepted {
                Ok((stream, _)) => self.hand_over(stream),
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn accept_local(mut self, mut connections: mpsc::Receiver<DuplexStream>) {
        loop {
            let connection = tokio::select! {
                connection = connections.recv() => connection,
                _ = stopped(&mut self.stopping) => return,
            };
            let Some(stream) = connection else { return };
            let mut server = self.clone();
            tokio::spawn(async move { server.grpc(stream).await });
        }
    }

    /// Gives a connection to the worker whose turn it is.
    fn hand_over(&self, stream: TcpStream) {
        let (server, worker) = (self.clone(), self.workers.next());
        if worker == workers::here() {
            self.workers.spawn(worker, server.connection(stream));
            return;
        }
        // A socket belongs to one event loop, and is made anew to belong to another.
        let stream = stream.into_std();
        self.workers.spawn(worker, async move {
            match stream.and_then(TcpStream::from_std) {
                Ok(stream) => server.connection(stream).await,
                Err(error) => tracing::warn!(%error, "failed to take over a connection"),
            }
        });
    }

    async fn connection(mut self, stream: TcpStream) {
        // Both only tune; a socket that refuses them still works.
        let _ = stream.set_nodelay(true);
        let _ = keep_alive(&stream);
        let detected = tokio::select! {
            detected = preface::detect(stream) => detected,
            _ = stopped(&mut self.stopping) => None,
        };
        let Some((protocol, stream)) = detected else {
            return;
        };
        match (protocol, self.port) {
            (Protocol::Http2, Port::Client | Port::Grpc) => {
                self.grpc(stream).await;
            }
            (Protocol::Http1, Port::Client | Port::Http | Port::Metrics | Port::Peer) => {
                let (site, port) = (Arc::clone(&self.site), self.port);
                let service = service_fn(move |request| Arc::clone(&site).answer(port, request));
                let connection = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .title_case_headers(true)
                    .header_read_timeout(PREFACE_PATIENCE)
                    .max_buf_size(HEADER_BYTES_MAX as usize)
                    .serve_connection(TokioIo::new(stream), service);
                drive(connection, &mut self.stopping).await;
            }
            // gRPC where only HTTP is served, or the other way round: nothing to say to it.
            (Protocol::Http2, _) | (Protocol::Http1, Port::Grpc) => {}
        }
        drop(self.open);
    }

    async fn grpc(&mut self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        let router = self.router.clone();
        let service = service_fn(move |request| router.clone().answer(request));
        let connection = self
            .http2()
            .serve_connection(TokioIo::new(Gather::new(stream)), service);
        drive(connection, &mut self.stopping).await;
    }

    fn http2(&self) -> hyper::server::conn::http2::Builder<TokioExecutor> {
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_concurrent_streams(self.config.max_concurrent_streams)
            .max_header_list_size(HEADER_BYTES_MAX)
            .max_send_buf_size(STREAM_SEND_BYTES_MAX)
            .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
            .keep_alive_interval(self.config.keepalive.interval)
            .keep_alive_timeout(self.config.keepalive.timeout);
        builder
    }
}

/// Runs a connection to its end; once the server stops, to the end of its open calls, if that
/// comes soon.
async fn drive<C>(connection: C, stopping: &mut watch::Receiver<bool>)
where
    C: GracefulConnection + Future<Output = Result<(), <C as GracefulConnection>::Error>>,
{
    let mut connection = pin!(connection);
    tokio::select! {
        // How a connection ends is the client's affair.
        _ = connection.as_mut() => return,
        _ = stopped(stopping) => connection.as_mut().graceful_shutdown(),
    }
    let _ = tokio::time::timeout(STOP_PATIENCE, connection).await;
}

/// Returns when the server stops, or when whoever could say so is gone.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
    rustix::net::sockopt::set_tcp_keepidle(stream, TCP_KEEPALIVE)?;
    rustix::net::sockopt::set_tcp_keepintvl(stream, TCP_KEEPALIVE)?;
    Ok(())
}

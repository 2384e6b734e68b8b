//! The listeners: binds them and serves clients on them.
//!
//! The first bytes of a connection show its protocol: TLS if the listener has it, then HTTP/2 or
//! HTTP/1. This module does not know what requests mean.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::DuplexStream;
use tokio::sync::{mpsc, watch};

pub(crate) mod connection;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub(crate) mod gather;
pub(crate) mod pings;
pub(crate) mod preface;

pub(crate) use crate::net::socket::BindError;

use crate::api::calls::router::Router;
use crate::api::gateway::Translator;
use crate::api::http::{Port, Site};
use crate::config::{Config, Url};
use crate::net::descriptors::Quota;
use crate::net::socket::Bound;
use crate::net::tls::{Acceptor, End, Security};
use crate::net::workers::Workers;
use crate::runtime::etcd_server::EtcdServer;
use crate::telemetry::logging::json;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::spans::Tracer;
use connection::Connections;

/// Sockets that are bound and not served yet.
pub(crate) struct Listeners {
    clients: Vec<Door>,
    peers: Vec<Door>,
    /// Connections from within this process.
    local: Option<mpsc::Receiver<DuplexStream>>,
}

/// A bound socket and the protocols it accepts.
pub(crate) struct Door {
    pub(crate) bound: Bound,
    pub(crate) port: Port,
    /// Clear text is accepted.
    pub(crate) is_plain: bool,
    pub(crate) tls: Option<Acceptor>,
    pub(crate) quota: Quota,
    /// The URL, for log lines.
    url: String,
}

impl Listeners {
    /// Binds every listen URL. Must be called inside the runtime.
    pub(crate) fn bind(config: &Config, security: &Security) -> Result<Listeners, BindError> {
        let mut binder = Binder {
            config,
            security,
            clients: Quota::for_clients()?,
            metrics: Quota::for_metrics(),
            peers: Quota::for_peers(),
        };
        let listed = Url::texts(&config.listen_peer_urls);
        tracing::info!("listen-peer-urls" = %json(&listed), "configuring peer listeners");
        let peers = config.listen_peer_urls.iter();
        let peers = peers.map(|url| binder.open(&[url], Port::Peer));
        let peers = peers.collect::<Result<_, _>>()?;
        let listed = Url::texts(&config.listen_client_urls);
        tracing::info!("listen-client-urls" = %json(&listed), "configuring client listeners");
        let http_apart = !config.listen_client_http_urls.is_empty();
        let port = if http_apart { Port::Grpc } else { Port::Client };
        let mut clients = Vec::new();
        for (urls, port) in [
            (&config.listen_client_urls, port),
            (&config.listen_client_http_urls, Port::Http),
        ] {
            for together in by_address(urls) {
                clients.push(binder.open(&together, port)?);
            }
        }
        for url in &config.listen_metrics_urls {
            clients.push(binder.open(&[url], Port::Metrics)?);
        }
        Ok(Listeners {
            clients,
            peers,
            local: None,
        })
    }

    /// The bound addresses, in the order of the flags: peers, clients, HTTP, metrics.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let doors = self.peers.iter().chain(&self.clients);
        doors.filter_map(|door| door.bound.address()).collect()
    }

    /// Serves these connections too, as client connections.
    pub(crate) fn add_local(&mut self, connections: mpsc::Receiver<DuplexStream>) {
        self.local = Some(connections);
    }

    /// Takes the peer sockets, which are served separately and before all others.
    pub(crate) fn take_peers(&mut self) -> Vec<Door> {
        let peers = std::mem::take(&mut self.peers);
        for door in &peers {
            tracing::info!(address = door.bound.name(), "serving peer traffic");
        }
        peers
    }

    /// Serves until `stopping` turns true, then until all connections have ended or the grace
    /// period is over.
    pub(crate) async fn serve(
        self,
        server: EtcdServer,
        config: Arc<Config>,
        metrics: Arc<Metrics>,
        workers: Arc<Workers>,
        stopping: watch::Receiver<bool>,
        tracer: Option<Tracer>,
    ) {
        let router = Router::new(server.clone(), &config, Arc::clone(&metrics), tracer);
        let gateway = config
            .enable_grpc_gateway
            .then(|| Translator::new(router.clone(), &config, stopping.clone()));
        let site = Arc::new(Site::new(server, Arc::clone(&config), metrics, gateway));
        // Every connection holds a sender; the channel closes when the last connection ends.
        let (open, mut closed) = mpsc::channel::<()>(1);
        let connections = |port| Connections {
            router: router.clone(),
            site: Arc::clone(&site),
            config: Arc::clone(&config),
            port,
            stopping: stopping.clone(),
            workers: Arc::clone(&workers),
            open: open.clone(),
        };
        if let Some(arriving) = self.local {
            tokio::spawn(connections(Port::Grpc).accept_local(arriving));
        }
        for door in self.clients {
            door.announce();
            tokio::spawn(connections(door.port).accept(door));
        }
        drop(open);
        let _ = closed.recv().await;
    }
}

impl Door {
    fn announce(&self) {
        let address = self.bound.name();
        let traffic = match self.port {
            Port::Peer => return tracing::info!(address, "serving peer traffic"),
            Port::Metrics => return tracing::info!(address = self.url, "serving metrics"),
            Port::Client => "grpc+http",
            Port::Grpc => "grpc",
            Port::Http => "http",
        };
        if self.is_plain {
            tracing::info!(
                traffic,
                address,
                "serving client traffic insecurely; this is strongly discouraged!"
            );
        }
        if self.tls.is_some() {
            tracing::info!(traffic, address, "serving client traffic securely");
        }
    }
}

/// Opens the listeners one after the other.
struct Binder<'a> {
    config: &'a Config,
    security: &'a Security,
    clients: Quota,
    metrics: Quota,
    peers: Quota,
}

impl Binder<'_> {
    /// All `urls` have the same address.
    fn open(&mut self, urls: &[&Url], port: Port) -> Result<Door, BindError> {
        let is_secure = urls.iter().any(|url| url.is_secure());
        for url in urls {
            self.warn_of_unused(url, port);
        }
        let tls = if is_secure {
            Some(self.acceptor(urls[0], port)?)
        } else {
            None
        };
        let bound = Bound::bind(urls[0], self.config.reuse_port)?;
        Ok(Door {
            bound,
            port,
            is_plain: urls.iter().any(|url| !url.is_secure()),
            tls,
            quota: match port {
                Port::Peer => self.peers.clone(),
                Port::Metrics => self.metrics.clone(),
                Port::Client | Port::Grpc | Port::Http => self.clients.clone(),
            },
            url: urls[0].to_string(),
        })
    }

    fn acceptor(&self, url: &Url, port: Port) -> Result<Acceptor, BindError> {
        let end = end_of(port);
        let files = &self.security.identity(end).files;
        if files.is_empty() {
            return Err(BindError(match port {
                Port::Metrics => "client TLS key/cert (--cert-file, --key-file) must be provided \
                                  for metrics secure url"
                    .to_owned(),
                Port::Peer => format!(
                    "cannot listen on TLS for {}: KeyFile and CertFile are not presented",
                    url.address()
                ),
                _ => format!(
                    "TLS key/cert (--cert-file, --key-file) must be provided for client url {url} with HTTPS scheme"
                ),
            }));
        }
        // As in etcd, a client of the metrics listener must connect from a host that its
        // certificate names.
        let checks_host = match port {
            Port::Peer => !files.skip_client_san_verification,
            port => port == Port::Metrics,
        };
        Acceptor::new(self.security, end, checks_host).map_err(BindError)
    }

    /// Warns if TLS files are configured and the URL does not use TLS.
    fn warn_of_unused(&self, url: &Url, port: Port) {
        let files = &self.security.identity(end_of(port)).files;
        if url.is_secure() || port == Port::Metrics {
            return;
        }
        let url = url.to_string();
        if port == Port::Peer {
            if !files.is_empty() {
                tracing::warn!(
                    "peer-url" = url,
                    "scheme is HTTP while key and cert files are present; ignoring key and cert files"
                );
            }
            if files.client_cert_auth {
                tracing::warn!(
                    "peer-url" = url,
                    "scheme is HTTP while --peer-client-cert-auth is enabled; ignoring client cert auth for this URL"
                );
            }
            return;
        }
        if !files.is_empty() {
            tracing::warn!(
                "client-url" = url,
                "scheme is http or unix while key and cert files are present; ignoring key and cert files"
            );
        }
        if files.client_cert_auth {
            tracing::warn!(
                "client-url" = url,
                "scheme is http or unix while --client-cert-auth is enabled; ignoring client cert auth for this URL"
            );
        }
    }
}

fn end_of(port: Port) -> End {
    match port {
        Port::Peer => End::Peer,
        _ => End::Client,
    }
}

/// Groups URLs by address: like etcd, the server listens once per address.
fn by_address(urls: &[Url]) -> Vec<Vec<&Url>> {
    let mut groups: Vec<Vec<&Url>> = Vec::new();
    for url in urls {
        let address = url.address();
        // Port 0 requests a new port for each URL.
        let is_any = url.port() == "0";
        let known = groups
            .iter_mut()
            .find(|group| group[0].address() == address && !is_any);
        match known {
            Some(group) => group.push(url),
            None => groups.push(vec![url]),
        }
    }
    groups
}

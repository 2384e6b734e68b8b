//! The HTTP pages that a server has besides gRPC: health, version, metrics, and the gateway.
//! Bodies, codes and headers are etcd's.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use tonic::body;

mod access;
mod health;
pub(crate) mod pprof;
mod scrape;
mod usage;
mod vars;

use crate::api::calls::body::BoxError;
use crate::api::gateway::Translator;
use crate::api::page::{Page, not_allowed, not_found, page};
use crate::api::version;
use crate::config::Config;
use crate::runtime::etcd_server::EtcdServer;
use crate::telemetry::metrics::Metrics;

const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
pub(crate) const PROMETHEUS: &str =
    "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// The kind of a listener: what it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// gRPC and HTTP.
    Client,
    /// gRPC only.
    Grpc,
    /// HTTP only.
    Http,
    /// Metrics and health only.
    Metrics,
    Peer,
}

pub(crate) struct Site {
    server: EtcdServer,
    config: Arc<Config>,
    metrics: Arc<Metrics>,
    /// `None` if the gateway is switched off.
    gateway: Option<Translator>,
}

impl Site {
    pub(crate) fn new(
        server: EtcdServer,
        config: Arc<Config>,
        metrics: Arc<Metrics>,
        gateway: Option<Translator>,
    ) -> Site {
        Site {
            server,
            config,
            metrics,
            gateway,
        }
    }

    /// Answers one non-gRPC request, over HTTP/1 or HTTP/2, on a listener of kind `port`.
    pub(crate) async fn answer<B>(
        self: Arc<Self>,
        port: Port,
        mut request: Request<B>,
    ) -> Result<Page, Infallible>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        if !matches!(port, Port::Client | Port::Http) {
            return Ok(self.page(port, &request).await);
        }
        access::rewrite(&mut request);
        if let Some(refused) = access::refused(&self.config, &self.server, &request) {
            return Ok(refused);
        }
        let origin = access::origin(&self.config, request.headers());
        let mut response = self.client(port, request).await;
        // A WebSocket upgrade is not a page; etcd adds no CORS headers to it.
        let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if let Some(origin) = origin.filter(|_| !switched) {
            access::allow(origin, response.headers_mut());
        }
        Ok(response)
    }

    async fn client<B>(&self, port: Port, request: Request<B>) -> Page
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        if request.method() == Method::OPTIONS {
            return Response::new(body::Body::empty());
        }
        let gateway = self.gateway.as_ref();
        if let Some(moved) = access::moved(&request, gateway.is_some()) {
            return moved;
        }
        match gateway.filter(|_| request.uri().path().starts_with(access::GATEWAY)) {
            Some(gateway) => gateway.answer(request).await,
            None => self.page(port, &request).await,
        }
    }

    async fn page<B>(&self, port: Port, request: &Request<B>) -> Page {
        let path = request.uri().path();
        let query = request.uri().query().unwrap_or_default();
        let get = request.method() == Method::GET;
        if port == Port::Peer {
            return match path {
                "/version" if get => page(StatusCode::OK, JSON, version::versions(&self.server)),
                "/version" => not_allowed(),
                _ => not_found(),
            };
        }
        let profiled = port != Port::Metrics && self.config.pprof;
        if let Some(found) = pprof::answer(path, &self.config.args).filter(|_| profiled) {
            return found;
        }
        let probe = health::probe(path);
        if !get && (path == "/health" || probe.is_some()) {
            health::log_refused(path);
            return not_allowed();
        }
        if let Some(probe) = probe {
            return health::checks(&self.server, &self.metrics, (path, probe), query).await;
        }
        match path {
            "/health" => health::health(&self.server, &self.metrics, query).await,
            "/metrics" => self.metrics_page().await,
            "/version" if port != Port::Metrics && !get => not_allowed(),
            "/version" if port != Port::Metrics => {
                page(StatusCode::OK, JSON, version::versions(&self.server))
            }
            "/debug/vars" if port != Port::Metrics => vars::vars(&self.server, &self.config).await,
            _ => not_found(),
        }
    }

    async fn metrics_page(&self) -> Page {
        let scrape = scrape::scrape(&self.server, &self.config).await;
        self.metrics.metrics_in_flight.add(1);
        let body = self.metrics.render(&scrape);
        self.metrics.metrics_in_flight.add(-1);
        self.metrics.scrapes.inc();
        page(StatusCode::OK, PROMETHEUS, body)
    }
}

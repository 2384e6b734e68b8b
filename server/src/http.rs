//! The pages a server has besides gRPC: health, version, metrics. Bodies, codes and headers are
//! etcd's.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;

mod health;
mod scrape;

use crate::config::{CLUSTER_VERSION, Config, ETCD_VERSION};
use crate::metrics::Metrics;
use crate::node::Node;

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// What a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// gRPC and HTTP.
    Client,
    /// gRPC alone.
    Grpc,
    /// HTTP alone.
    Http,
    /// Metrics and health alone.
    Metrics,
    Peer,
}

pub(crate) type Page = Response<Full<Bytes>>;

pub struct Site {
    node: Node,
    config: Arc<Config>,
    metrics: Arc<Metrics>,
}

impl Site {
    pub fn new(node: Node, config: Arc<Config>, metrics: Arc<Metrics>) -> Site {
        Site {
            node,
            config,
            metrics,
        }
    }

    /// Answers one request on a listener of the given kind.
    pub async fn answer<B>(
        self: Arc<Self>,
        port: Port,
        request: Request<B>,
    ) -> Result<Page, Infallible> {
        let client = matches!(port, Port::Client | Port::Http);
        if client && !self.host_allowed(&request) {
            return Ok(page(StatusCode::MISDIRECTED_REQUEST, TEXT, ""));
        }
        let mut response = match request.method() == Method::OPTIONS && client {
            true => page(StatusCode::OK, TEXT, ""),
            false => self.page(port, &request).await,
        };
        if client {
            self.allow_origins(request.headers(), response.headers_mut());
        }
        Ok(response)
    }

    async fn page<B>(&self, port: Port, request: &Request<B>) -> Page {
        let path = request.uri().path();
        let query = request.uri().query().unwrap_or_default();
        let get = request.method() == Method::GET;
        if port == Port::Peer {
            return match path {
                "/version" if get => self.version(),
                "/version" => not_allowed(),
                _ => not_found(),
            };
        }
        let health = path == "/health" || health::probe(path).is_some();
        match path {
            _ if health && !get => not_allowed(),
            "/health" => health::health(&self.node, &self.metrics, query).await,
            _ if health => health::checks(&self.node, &self.metrics, path, query).await,
            "/metrics" => self.metrics_page(),
            "/version" if port != Port::Metrics && !get => not_allowed(),
            "/version" if port != Port::Metrics => self.version(),
            "/debug/vars" if port != Port::Metrics => self.variables(),
            _ => not_found(),
        }
    }

    fn version(&self) -> Page {
        let decided = self.node.cluster_version().ok().flatten();
        let cluster = decided.as_deref().unwrap_or("not_decided");
        let storage = if decided.is_some() {
            CLUSTER_VERSION
        } else {
            "unknown"
        };
        let body = format!(
            "{{\"etcdserver\":\"{ETCD_VERSION}\",\"etcdcluster\":\"{cluster}\",\"storage\":\"{storage}\"}}"
        );
        page(StatusCode::OK, JSON, body)
    }

    fn metrics_page(&self) -> Page {
        self.metrics.metrics_in_flight.add(1);
        let body = self
            .metrics
            .render(&scrape::scrape(&self.node, &self.config));
        self.metrics.metrics_in_flight.add(-1);
        self.metrics.scrapes.inc();
        page(StatusCode::OK, PROMETHEUS, body)
    }

    fn variables(&self) -> Page {
        let status = self.node.status().ok();
        let raft = status.map(|status| {
            serde_json::json!({
                "id": format!("{:x}", self.node.identity().member_id),
                "term": status.term,
                "lead": format!("{:x}", status.leader),
                "commit": status.raft_index,
                "applied": status.applied_index,
            })
        });
        let body = serde_json::json!({
            "cmdline": self.config.args,
            "file_descriptor_limit": scrape::open_files_max(),
            "memstats": {},
            "raft.status": raft,
        });
        page(
            StatusCode::OK,
            "application/json; charset=utf-8",
            format!("{body}\n"),
        )
    }

    fn host_allowed<B>(&self, request: &Request<B>) -> bool {
        let allowed = &self.config.host_whitelist;
        if allowed.iter().any(|host| host == "*") {
            return true;
        }
        let host = request
            .headers()
            .get(http::header::HOST)
            .and_then(|host| host.to_str().ok());
        let host = host.unwrap_or_default();
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        allowed
            .iter()
            .any(|allowed| allowed == name || allowed == host)
    }

    fn allow_origins(&self, asked: &HeaderMap, headers: &mut HeaderMap) {
        let any = self.config.cors.iter().any(|origin| origin == "*");
        let origin = asked.get(http::header::ORIGIN);
        let origin = match origin.filter(|origin| self.config.cors.iter().any(|o| o == *origin)) {
            Some(listed) => listed.clone(),
            None if any => HeaderValue::from_static("*"),
            None => return,
        };
        headers.insert(
            "access-control-allow-methods",
            HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE"),
        );
        headers.insert("access-control-allow-origin", origin);
        headers.insert(
            "access-control-allow-headers",
            HeaderValue::from_static("accept, content-type, authorization"),
        );
    }
}

fn page(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Page {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A page as Go's error helper writes it: text, a newline, no sniffing.
fn text(status: StatusCode, body: impl std::fmt::Display) -> Page {
    let mut response = page(status, TEXT, format!("{body}\n"));
    response.headers_mut().insert(
        "x-content-type-options",
        HeaderValue::from_static("nosniff"),
    );
    response
}

fn not_found() -> Page {
    text(StatusCode::NOT_FOUND, "404 page not found")
}

fn not_allowed() -> Page {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static("GET"));
    response
}

//! The pages of a proxy: the cluster's metrics and health as seen through it, and its own.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use http::{Method, Request, StatusCode};
use tokio::time::timeout;
use tonic::{Code, Status};

use super::forward::Along;
use super::upstream::{Endpoint, Upstream};
use crate::api::http::{PROMETHEUS, pprof};
use crate::api::page::{Page, TEXT, not_allowed, not_found, page, text};
use crate::member::cluster::peer::Dialer;
use crate::telemetry::metrics::{Metrics, Scrape};

/// Type of the cluster's metrics, as in etcd's proxy.
const FORWARDED: &str = "text/plain; version=0.0.4";

/// Limits for the answers that health is judged by, as in etcd.
const GET_PATIENCE: Duration = Duration::from_secs(1);
const WATCH_PATIENCE: Duration = Duration::from_secs(3);

/// Limit for the cluster's metrics.
const METRICS_PATIENCE: Duration = Duration::from_secs(10);

/// The key that is read to see whether reading works.
const HEALTH_KEY: &[u8] = b"a";

pub(super) struct Pages {
    pub(super) metrics: Arc<Metrics>,
    /// Reads the cluster's metrics from one member.
    pub(super) dialer: Dialer,
    /// With a scheme, if it was given one.
    pub(super) member: String,
    /// The way that clients' calls take.
    pub(super) cluster: Upstream,
    /// The way of a client to this proxy, by the address that it advertises. `None` if it has none.
    pub(super) myself: Option<Upstream>,
    pub(super) pprof: bool,
    pub(super) args: Vec<String>,
}

impl Pages {
    pub(super) async fn answer<B>(
        &self,
        request: &Request<B>,
        is_secure: bool,
    ) -> Result<Page, Infallible> {
        let path = request.uri().path();
        let get = request.method() == Method::GET;
        if let Some(found) = pprof::answer(path, &self.args).filter(|_| self.pprof) {
            return Ok(found);
        }
        Ok(match path {
            "/health" | "/proxy/health" if !get => not_allowed(),
            "/health" => health(read(&self.cluster).await),
            "/proxy/health" => health(self.check_myself().await),
            "/metrics" => self.metrics_of_member(is_secure).await,
            "/proxy/metrics" => {
                let body = self.metrics.render(&Scrape::default());
                page(StatusCode::OK, PROMETHEUS, body)
            }
            _ => not_found(),
        })
    }

    async fn metrics_of_member(&self, is_secure: bool) -> Page {
        let failed = || text(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error");
        // As in etcd, an endpoint without a scheme is asked in the same way as the proxy was.
        let Ok(endpoint) = Endpoint::parse(&self.member, is_secure) else {
            return failed();
        };
        let url = endpoint.url().as_str();
        match self.dialer.get(url, "/metrics", METRICS_PATIENCE).await {
            Ok(answer) => page(StatusCode::OK, FORWARDED, answer.body),
            Err(error) => {
                tracing::debug!(%error, url, "failed to read the metrics of a member");
                failed()
            }
        }
    }

    /// Asks this proxy as a client does: reads, and begins a watch.
    async fn check_myself(&self) -> Result<(), String> {
        let Some(myself) = &self.myself else {
            return Err("no connection to proxy".to_owned());
        };
        read(myself).await?;
        let watched = timeout(WATCH_PATIENCE, watch(myself)).await;
        match watched {
            Ok(Ok(())) => Ok(()),
            Ok(Err(status)) => Err(status.message().to_owned()),
            Err(_) => Err("WATCH TIMEOUT".to_owned()),
        }
    }
}

async fn read(upstream: &Upstream) -> Result<(), String> {
    let request = pb::RangeRequest {
        key: HEALTH_KEY.into(),
        ..pb::RangeRequest::default()
    };
    let along = Along::default();
    let asked = upstream.ask::<_, pb::RangeResponse>("/etcdserverpb.KV/Range", &along, &request);
    match timeout(GET_PATIENCE, asked).await {
        Ok(Ok(_)) => Ok(()),
        // Then reading works for those who may.
        Ok(Err(status)) if status.code() == Code::PermissionDenied => Ok(()),
        Ok(Err(status)) => Err(format!("GET ERROR:{}", status.message())),
        Err(_) => Err("GET ERROR:context deadline exceeded".to_owned()),
    }
}

async fn watch(upstream: &Upstream) -> Result<(), Status> {
    let create = pb::watch_request::RequestUnion::CreateRequest(pb::WatchCreateRequest {
        key: HEALTH_KEY.into(),
        ..pb::WatchCreateRequest::default()
    });
    let request = pb::WatchRequest {
        request_union: Some(create),
    };
    let requests =
        tokio_stream::StreamExt::chain(tokio_stream::once(request), tokio_stream::pending());
    let mut client = pb::watch_client::WatchClient::new(upstream.clone());
    let mut answers = client.watch(requests).await?.into_inner();
    // Anything that comes says that watches are served.
    answers.message().await.map(drop)
}

fn health(checked: Result<(), String>) -> Page {
    let body = |healthy: bool, reason: &str| {
        let reason = serde_json::to_string(reason).unwrap_or_default();
        format!("{{\"health\":\"{healthy}\",\"reason\":{reason}}}")
    };
    match checked {
        Ok(()) => page(StatusCode::OK, TEXT, body(true, "")),
        Err(reason) => {
            let body = body(false, &reason);
            tracing::warn!(output = body, "status-code" = 503, "/health error");
            text(StatusCode::SERVICE_UNAVAILABLE, body)
        }
    }
}

//! From a path to the service that answers it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use etcd_api::{etcdserverpb as pb, health, raw};
use http::{Request, Response};
use hyper::body::Incoming;
use tonic::Status;
use tower_service::Service as _;

use super::body::{RequestBody, ResponseBody, status_code};
use super::call::{self, CallLimits, Ended, ReadonlyTxn};
use crate::config::Config;
use crate::grpc::auth::AuthService;
use crate::grpc::budget::LargeReply;
use crate::grpc::cluster::ClusterService;
use crate::grpc::health::HealthService;
use crate::grpc::kv::KvService;
use crate::grpc::lease::LeaseService;
use crate::grpc::lock;
use crate::grpc::maintenance::MaintenanceService;
use crate::grpc::watch::WatchService;
use crate::metrics::{self, CallType, METHODS, Metrics, Service};
use crate::node::Node;

type Servers = (
    raw::kv_server::KvServer<KvService>,
    pb::cluster_server::ClusterServer<ClusterService>,
    pb::maintenance_server::MaintenanceServer<MaintenanceService>,
    pb::auth_server::AuthServer<AuthService>,
    health::health_server::HealthServer<HealthService>,
    pb::lease_server::LeaseServer<LeaseService>,
    WatchService,
);

/// What Go's context says.
const OUT_OF_TIME: &str = "context deadline exceeded";

/// Cheap to clone: every call gets its own.
#[derive(Clone)]
pub(super) struct Router {
    node: Node,
    metrics: Arc<Metrics>,
    limits: CallLimits,
    max_message_bytes: usize,
    servers: Arc<Servers>,
}

impl Router {
    pub(super) fn new(node: Node, config: &Config, metrics: Arc<Metrics>) -> Router {
        // Sizes are checked by `RequestBody`, in etcd's words.
        let servers = (
            raw::kv_server::KvServer::new(KvService::new(node.clone()))
                .max_decoding_message_size(usize::MAX),
            pb::cluster_server::ClusterServer::new(ClusterService::new(node.clone()))
                .max_decoding_message_size(usize::MAX),
            pb::maintenance_server::MaintenanceServer::new(MaintenanceService::new(
                node.clone(),
                Arc::clone(&metrics),
            ))
            .max_decoding_message_size(usize::MAX),
            pb::auth_server::AuthServer::new(AuthService::new(node.clone()))
                .max_decoding_message_size(usize::MAX),
            health::health_server::HealthServer::new(HealthService)
                .max_decoding_message_size(usize::MAX),
            pb::lease_server::LeaseServer::new(LeaseService::new(node.clone()))
                .max_decoding_message_size(usize::MAX),
            WatchService::new(
                node.clone(),
                config.max_message_bytes(),
                config.watch_progress_notify_interval,
            ),
        );
        Router {
            node,
            limits: CallLimits {
                slow: config.warning_unary_request_duration,
                extensive: config.extensive_metrics,
            },
            max_message_bytes: config.max_message_bytes(),
            metrics,
            servers: Arc::new(servers),
        }
    }

    /// Answers one call. Its end is counted when the response's body has gone out.
    pub(super) async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<tonic::body::Body>, Infallible> {
        if let Err(response) = call::check_http(&request) {
            return Ok(response.map(|()| tonic::body::Body::empty()));
        }
        let path = request.uri().path();
        let Some(index) = metrics::find_method(path) else {
            return Ok(call::unknown(path).into_http());
        };
        let method = &METHODS[index];
        self.metrics.calls.of(index).started.inc();
        let mut ended = Ended::new(Arc::clone(&self.metrics), index, self.limits, now());
        let streaming = method.call_type != CallType::Unary;
        let checked = call::check_learner(path, &self.node).and_then(|()| {
            call::check_metadata(request.headers(), streaming, &self.node, &self.metrics)
        });
        // Only streams live long enough to lose one.
        let leader_lost =
            (streaming && call::wants_leader(request.headers())).then(|| self.node.leader_lost());
        let patience = checked
            .map_err(Status::from)
            .and_then(|()| call::patience(request.headers()));
        let request = request.map(|body| {
            let metrics = Arc::clone(&self.metrics);
            RequestBody::new(body, metrics, index, self.max_message_bytes)
        });
        let dispatched = self.dispatch(method.service, request);
        let mut response = match patience {
            Err(status) => status.into_http(),
            // A stream's client ends it by itself when its time is over.
            Ok(Some(patience)) if !streaming => {
                match tokio::time::timeout(patience, dispatched).await {
                    Ok(response) => response,
                    Err(_) => Status::deadline_exceeded(OUT_OF_TIME).into_http(),
                }
            }
            Ok(_) => dispatched.await,
        };
        if let Some(large) = response.extensions_mut().remove::<LargeReply>() {
            *response.body_mut() = tonic::body::Body::new(large);
        }
        if response.extensions().get::<ReadonlyTxn>().is_some() {
            ended.readonly();
        }
        if let Some(code) = status_code(response.headers()) {
            call::reword(response.headers_mut());
            ended.with(code);
        }
        Ok(
            response
                .map(|body| tonic::body::Body::new(ResponseBody::new(body, ended, leader_lost))),
        )
    }

    async fn dispatch(
        &self,
        service: Service,
        request: Request<RequestBody<Incoming>>,
    ) -> Response<tonic::body::Body> {
        let (kv, cluster, maintenance, auth, health, lease, watch) = &*self.servers;
        let Ok(response) = match service {
            Service::Kv => kv.clone().call(request).await,
            Service::Cluster => cluster.clone().call(request).await,
            Service::Maintenance => maintenance.clone().call(request).await,
            Service::Auth => auth.clone().call(request).await,
            Service::Health => health.clone().call(request).await,
            Service::Lease => lease.clone().call(request).await,
            Service::Watch => Ok(watch.call(request)),
            Service::Election | Service::Lock => Ok(lock::missing(service).into_http()),
        };
        response
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "calls are timed where they enter, in the shell"
)]
fn now() -> Instant {
    Instant::now()
}

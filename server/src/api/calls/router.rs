//! Routes a path to its service.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use etcd_api::usage::usage_server::UsageServer;
use etcd_api::v3electionpb::election_server::ElectionServer;
use etcd_api::v3lockpb::lock_server::LockServer;
use etcd_api::{etcdserverpb as pb, health, raw};
use http::{Request, Response};
use http_body::Body;
use tokio::sync::watch;
use tonic::Status;
use tower_service::Service as _;

use super::body::{BoxError, RequestBody, ResponseBody, Sent};
use super::call::{self, Began, CallLimits, Ended};
use super::caller::{self, Caller};
use super::cost::Charge;
use super::open_calls::{OpenCall, OpenCalls};
use super::stats::Heard;
use crate::api::grpc::auth::AuthService;
use crate::api::grpc::cluster::ClusterService;
use crate::api::grpc::contenders::election::ElectionService;
use crate::api::grpc::contenders::lock::LockService;
use crate::api::grpc::contenders::on_behalf::Services;
use crate::api::grpc::health::{HealthNotifier, HealthService};
use crate::api::grpc::kv::{KvService, ReadonlyTxn};
use crate::api::grpc::lease::LeaseService;
use crate::api::grpc::limits::budget::LargeReply;
use crate::api::grpc::limits::slow::Counted;
use crate::api::grpc::maintenance::MaintenanceService;
use crate::api::grpc::usage::UsageService;
use crate::api::grpc::watch::WatchService;
use crate::auth::Credentials;
use crate::config::Config;
use crate::member::event::admission::CountedBytes;
use crate::runtime::etcd_server::EtcdServer;
use crate::telemetry::metrics::{self, CallType, METHODS, Metrics, Service};
use crate::telemetry::spans::Tracer;

type Servers = (
    Arc<Services>,
    pb::cluster_server::ClusterServer<ClusterService>,
    pb::maintenance_server::MaintenanceServer<MaintenanceService>,
    pb::auth_server::AuthServer<AuthService>,
    health::health_server::HealthServer<HealthService>,
    LockServer<LockService>,
    ElectionServer<ElectionService>,
    UsageServer<UsageService>,
);

/// The text of Go's `context.DeadlineExceeded`.
const OUT_OF_TIME: &str = "context deadline exceeded";

/// One for each connection, which lends it to its calls.
#[derive(Clone)]
pub(crate) struct Router {
    server: EtcdServer,
    metrics: Arc<Metrics>,
    limits: CallLimits,
    max_message_bytes: usize,
    client_cert_auth: bool,
    /// `None` if calls are not traced.
    tracer: Option<Arc<Tracer>>,
    servers: Arc<Servers>,
}

impl Router {
    /// Starts counting the bytes of a message that is being received.
    pub(crate) fn receiving(&self) -> CountedBytes {
        self.server.admission().receiving()
    }

    pub(crate) fn new(
        server: EtcdServer,
        config: &Config,
        metrics: Arc<Metrics>,
        tracer: Option<Tracer>,
    ) -> Router {
        // `RequestBody` checks sizes, with etcd's texts.
        let services = Arc::new(Services {
            kv: raw::kv_server::KvServer::new(KvService::new(server.clone()))
                .max_decoding_message_size(usize::MAX),
            lease: pb::lease_server::LeaseServer::new(LeaseService::new(server.clone()))
                .max_decoding_message_size(usize::MAX),
            watch: WatchService::new(
                server.clone(),
                config.max_message_bytes(),
                config.watch_progress_notify_interval,
            ),
        });
        let health = HealthNotifier::new(config.gate("StopGRPCServiceOnDefrag"));
        let health_service = health.service();
        let servers = (
            Arc::clone(&services),
            pb::cluster_server::ClusterServer::new(ClusterService::new(server.clone()))
                .max_decoding_message_size(usize::MAX),
            pb::maintenance_server::MaintenanceServer::new(MaintenanceService::new(
                server.clone(),
                Arc::clone(&metrics),
                health,
            ))
            .max_decoding_message_size(usize::MAX),
            pb::auth_server::AuthServer::new(AuthService::new(server.clone()))
                .max_decoding_message_size(usize::MAX),
            health::health_server::HealthServer::new(health_service)
                .max_decoding_message_size(usize::MAX),
            LockServer::new(LockService::new(Arc::clone(&services)))
                .max_decoding_message_size(usize::MAX),
            ElectionServer::new(ElectionService::new(services))
                .max_decoding_message_size(usize::MAX),
            UsageServer::new(UsageService::new(server.clone()))
                .max_decoding_message_size(usize::MAX),
        );
        Router {
            server,
            limits: CallLimits {
                slow: config.warning_unary_request_duration,
                extensive: config.extensive_metrics,
            },
            max_message_bytes: config.max_message_bytes(),
            client_cert_auth: config.client_cert_auth,
            metrics,
            tracer: tracer.map(Arc::new),
            servers: Arc::new(servers),
        }
    }

    /// Completes a caller when its connection is known: its calls are counted under its name.
    pub(crate) fn known(&self, caller: Caller) -> Caller {
        caller.named(&self.metrics)
    }

    /// Answers a call made inside the process, for the [`Caller`] in its extensions if there is one.
    pub(crate) async fn call<B>(
        self,
        mut request: Request<B>,
    ) -> Result<Response<tonic::body::Body>, Infallible>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError> + Send,
    {
        let caller = request.extensions_mut().remove::<Caller>();
        let open = OpenCalls::default().begin();
        self.answer(request, caller.as_ref(), open).await
    }

    /// Answers one call. The call is counted as ended when the response's body has been sent.
    pub(crate) async fn answer<B>(
        &self,
        mut request: Request<B>,
        caller: Option<&Caller>,
        open: OpenCall,
    ) -> Result<Response<tonic::body::Body>, Infallible>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError> + Send,
    {
        if let Err(response) = call::check_http(&request) {
            return Ok(response.map(|()| tonic::body::Body::empty()));
        }
        let path = request.uri().path();
        let Some(index) = metrics::find_method(path) else {
            return Ok(call::unknown(path).into_http());
        };
        let method = &METHODS[index];
        let (mut ended, sent, who) = self.begin(index, &request, caller, open);
        let streaming = method.call_type != CallType::Unary;
        let checked = call::check_learner(path, &self.server).and_then(|()| {
            call::check_metadata(request.headers(), streaming, &self.server, &self.metrics)
        });
        // Only streams last long enough to lose the leader.
        let leader_lost =
            (streaming && call::wants_leader(request.headers())).then(|| self.server.leader_lost());
        let patience = checked
            .map_err(Status::from)
            .and_then(|()| call::patience(request.headers()));
        if let Some(who) = who {
            request.extensions_mut().insert(who);
        }
        let request = request.map(|body| {
            let metrics = Arc::clone(&self.metrics);
            let (max, held) = (self.max_message_bytes, self.receiving());
            RequestBody::new(body, metrics, sent, max, held)
        });
        let handed_over = patience.is_ok().then(|| ended.handed_over());
        let dispatched = self.dispatch(method.service, request);
        let response = match patience {
            Err(status) => status.into_http(),
            // The client itself ends a stream at its deadline.
            Ok(Some(patience)) if !streaming => {
                match tokio::time::timeout(patience, dispatched).await {
                    Ok(response) => response,
                    Err(_) => Status::deadline_exceeded(OUT_OF_TIME).into_http(),
                }
            }
            Ok(_) => dispatched.await,
        };
        ended.served(handed_over);
        Ok(finish(response, ended, leader_lost))
    }

    /// Starts counting, recording and tracing a call. Also returns its credentials.
    fn begin<B>(
        &self,
        index: usize,
        request: &Request<B>,
        caller: Option<&Caller>,
        open: OpenCall,
    ) -> (Ended, Sent, Option<Credentials>) {
        let call = self.metrics.calls.of(index);
        call.started.inc();
        let headers = request.headers();
        let who = call::credentials(headers, caller.filter(|_| self.client_cert_auth));
        let payer = caller::payer(caller, who.as_ref(), &self.server, &self.metrics);
        let charge = Charge::begin(call, payer, &self.metrics);
        let heard = Heard::of(call.form, &METHODS[index], caller);
        let sent = Sent {
            method: index,
            charge,
            heard: heard.clone(),
        };
        let began = Began {
            at: now(),
            heard,
            charge,
            _open: open,
        };
        let mut ended = Ended::new(Arc::clone(&self.metrics), index, self.limits, began);
        if let Some(tracer) = &self.tracer {
            let local = caller.and_then(|caller| caller.local);
            ended.trace(tracer.begin(headers, local, crate::basics::clock::unix_time));
        }
        (ended, sent, who)
    }

    async fn dispatch<B>(
        &self,
        service: Service,
        request: Request<RequestBody<B>>,
    ) -> Response<tonic::body::Body>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError> + Send,
    {
        let (services, cluster, maintenance, auth, health, lock, election, usage) = &*self.servers;
        let Ok(response) = match service {
            Service::Kv => services.kv.clone().call(request).await,
            Service::Cluster => cluster.clone().call(request).await,
            Service::Maintenance => maintenance.clone().call(request).await,
            Service::Auth => auth.clone().call(request).await,
            Service::Health => health.clone().call(request).await,
            Service::Lease => services.lease.clone().call(request).await,
            Service::Watch => Ok(services.watch.call(request)),
            Service::Lock => lock.clone().call(request).await,
            Service::Election => election.clone().call(request).await,
            Service::Usage => usage.clone().call(request).await,
        };
        response
    }
}

/// The response with everything known about the end of the call.
fn finish(
    response: Response<tonic::body::Body>,
    mut ended: Ended,
    leader_lost: Option<watch::Receiver<()>>,
) -> Response<tonic::body::Body> {
    let mut response = LargeReply::into_body(response);
    if let Some(Counted(count)) = response.extensions().get() {
        ended.counted(*count);
    }
    if response.extensions().get::<ReadonlyTxn>().is_some() {
        ended.readonly();
    }
    ended.with_status(response.headers_mut());
    response.map(|body| tonic::body::Body::new(ResponseBody::new(body, ended, leader_lost)))
}

#[expect(
    clippy::disallowed_methods,
    reason = "calls are timed where they enter, in the shell"
)]
fn now() -> Instant {
    Instant::now()
}

//! Calls that the server makes to its own services on behalf of a caller. Locks and elections are
//! built from them, so each step is authorized like a request of the caller's own.
//!
//! Only this module passes on a caller's identity: its credentials in the metadata, and the facts
//! about its connection in the extensions.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use etcd_api::etcdserverpb::kv_client::KvClient;
use etcd_api::etcdserverpb::lease_client::LeaseClient;
use etcd_api::etcdserverpb::lease_server::LeaseServer;
use etcd_api::etcdserverpb::watch_client::WatchClient;
use etcd_api::raw::kv_server::KvServer;
use http::{Extensions, HeaderMap};
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

use crate::api::grpc::kv::KvService;
use crate::api::grpc::lease::LeaseService;
use crate::api::grpc::limits::budget::LargeReply;
use crate::api::grpc::watch::WatchService;

/// Metadata keys that identify a caller.
const CREDENTIALS: [&str; 2] = ["token", "authorization"];

/// The services that locks and elections call.
pub(crate) struct Services {
    pub kv: KvServer<KvService>,
    pub lease: LeaseServer<LeaseService>,
    pub watch: WatchService,
}

/// A transport for tonic's generated clients. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OnBehalf {
    services: Arc<Services>,
    credentials: HeaderMap,
    extensions: Extensions,
}

impl OnBehalf {
    /// Calls made on behalf of the caller that sent `call`.
    pub(crate) fn of<T>(services: &Arc<Services>, call: &tonic::Request<T>) -> OnBehalf {
        let metadata = call.metadata().as_ref();
        let mut credentials = HeaderMap::new();
        for name in CREDENTIALS {
            for value in metadata.get_all(name) {
                credentials.append(name, value.clone());
            }
        }
        OnBehalf {
            services: Arc::clone(services),
            credentials,
            extensions: call.extensions().clone(),
        }
    }

    pub(crate) fn kv(&self) -> KvClient<OnBehalf> {
        KvClient::new(self.clone()).max_decoding_message_size(usize::MAX)
    }

    pub(crate) fn lease(&self) -> LeaseClient<OnBehalf> {
        LeaseClient::new(self.clone())
    }

    pub(crate) fn watch(&self) -> WatchClient<OnBehalf> {
        WatchClient::new(self.clone()).max_decoding_message_size(usize::MAX)
    }
}

impl Service<http::Request<Body>> for OnBehalf {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        request.headers_mut().extend(self.credentials.clone());
        request.extensions_mut().extend(self.extensions.clone());
        let services = Arc::clone(&self.services);
        Box::pin(async move {
            let path = request.uri().path();
            if path.starts_with("/etcdserverpb.KV/") {
                let response = services.kv.clone().call(request).await?;
                Ok(LargeReply::into_body(response))
            } else if path.starts_with("/etcdserverpb.Lease/") {
                services.lease.clone().call(request).await
            } else if path.starts_with("/etcdserverpb.Watch/") {
                Ok(services.watch.call(request))
            } else {
                Ok(Status::unimplemented(path).into_http())
            }
        })
    }
}

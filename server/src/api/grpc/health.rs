//! `grpc.health.v1.Health` with one service, named "". It reports SERVING, except during a
//! defragmentation if the feature gate `StopGRPCServiceOnDefrag` is on.

use std::collections::HashMap;
use std::pin::Pin;

use etcd_api::health::health_check_response::ServingStatus;
use etcd_api::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse, health_server,
};
use tokio::sync::watch::{self, Receiver, Sender};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request as Call, Response, Status};

pub(crate) struct HealthService {
    status: Receiver<ServingStatus>,
}

/// Sets the status that the health service reports.
#[derive(Debug)]
pub(crate) struct HealthNotifier {
    status: Sender<ServingStatus>,
    stops_on_defragment: bool,
}

/// Reports NOT_SERVING until dropped.
pub(super) struct Defragmenting<'a>(&'a HealthNotifier);

impl HealthNotifier {
    pub(crate) fn new(stops_on_defragment: bool) -> HealthNotifier {
        HealthNotifier {
            status: watch::channel(ServingStatus::Serving).0,
            stops_on_defragment,
        }
    }

    pub(crate) fn service(&self) -> HealthService {
        HealthService {
            status: self.status.subscribe(),
        }
    }

    pub(super) fn defragment(&self) -> Defragmenting<'_> {
        if self.stops_on_defragment {
            tracing::warn!(
                service = "",
                status = ServingStatus::NotServing.as_str_name(),
                reason = "defrag is active",
                "grpc service status changed"
            );
            self.status.send_replace(ServingStatus::NotServing);
        }
        Defragmenting(self)
    }
}

impl Drop for Defragmenting<'_> {
    fn drop(&mut self) {
        if self.0.stops_on_defragment {
            tracing::info!(
                service = "",
                status = ServingStatus::Serving.as_str_name(),
                "grpc service status changed"
            );
            self.0.status.send_replace(ServingStatus::Serving);
        }
    }
}

type Statuses = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

#[tonic::async_trait]
impl health_server::Health for HealthService {
    async fn check(
        &self,
        call: Call<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match call.into_inner().service.as_str() {
            "" => Ok(Response::new(response(*self.status.borrow()))),
            _ => Err(Status::not_found("unknown service")),
        }
    }

    async fn list(
        &self,
        _: Call<HealthListRequest>,
    ) -> Result<Response<HealthListResponse>, Status> {
        let serving = (String::new(), response(*self.status.borrow()));
        let statuses = HashMap::from([serving]).into_iter().collect();
        Ok(Response::new(HealthListResponse { statuses }))
    }

    type WatchStream = Statuses;

    /// The current status, then each change.
    async fn watch(&self, call: Call<HealthCheckRequest>) -> Result<Response<Statuses>, Status> {
        let stream: Statuses = match call.into_inner().service.as_str() {
            "" => {
                let statuses = WatchStream::new(self.status.clone());
                Box::pin(statuses.map(|status| Ok(response(status))))
            }
            _ => {
                let unknown = Ok(response(ServingStatus::ServiceUnknown));
                Box::pin(tokio_stream::once(unknown).chain(tokio_stream::pending()))
            }
        };
        Ok(Response::new(stream))
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_defragmentation_stops_the_service_where_the_gate_says_so() {
        for stops in [false, true] {
            let notifier = HealthNotifier::new(stops);
            let service = notifier.service();
            let check = async || {
                let call = Call::new(HealthCheckRequest::default());
                let answer = health_server::Health::check(&service, call).await;
                answer.unwrap().into_inner().status()
            };
            let call = Call::new(HealthCheckRequest::default());
            let watch = health_server::Health::watch(&service, call).await;
            let mut watch = watch.unwrap().into_inner();
            let first = watch.next().await.unwrap().unwrap().status();
            assert_eq!(first, ServingStatus::Serving);
            let defragmenting = notifier.defragment();
            let expected = if stops {
                ServingStatus::NotServing
            } else {
                ServingStatus::Serving
            };
            assert_eq!(check().await, expected);
            if stops {
                let told = watch.next().await.unwrap().unwrap().status();
                assert_eq!(told, ServingStatus::NotServing);
            }
            drop(defragmenting);
            assert_eq!(check().await, ServingStatus::Serving);
        }
    }
}

//! `grpc.health.v1.Health`: one service, named "", which serves for as long as it answers.

use std::collections::HashMap;
use std::pin::Pin;

use etcd_api::health::health_check_response::ServingStatus;
use etcd_api::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse, health_server,
};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request as Call, Response, Status};

pub struct HealthService;

type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

#[tonic::async_trait]
impl health_server::Health for HealthService {
    async fn check(
        &self,
        call: Call<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match call.into_inner().service.as_str() {
            "" => Ok(Response::new(response(ServingStatus::Serving))),
            _ => Err(Status::not_found("unknown service")),
        }
    }

    async fn list(
        &self,
        _: Call<HealthListRequest>,
    ) -> Result<Response<HealthListResponse>, Status> {
        let serving = (String::new(), response(ServingStatus::Serving));
        let statuses = HashMap::from([serving]).into_iter().collect();
        Ok(Response::new(HealthListResponse { statuses }))
    }

    type WatchStream = WatchStream;

    /// The status, and then nothing: it never changes while the connection lives.
    async fn watch(&self, call: Call<HealthCheckRequest>) -> Result<Response<WatchStream>, Status> {
        let status = match call.into_inner().service.as_str() {
            "" => ServingStatus::Serving,
            _ => ServingStatus::ServiceUnknown,
        };
        let stream = tokio_stream::once(Ok(response(status))).chain(tokio_stream::pending());
        Ok(Response::new(Box::pin(stream)))
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status as i32,
    }
}

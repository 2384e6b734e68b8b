//! The way of a call to its service.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tonic::Status;

use super::upstream::Upstream;
use crate::api::calls::body::{BoxError, RequestBody};
use crate::api::calls::call;
use crate::api::calls::counted::Counting;
use crate::api::calls::open_calls::OpenCall;
use crate::telemetry::metrics::{self, CallType, METHODS, Service};

/// The text of Go's `context.DeadlineExceeded`.
const OUT_OF_TIME: &str = "context deadline exceeded";

/// Answers calls. Cheap to clone.
#[derive(Clone)]
pub(super) struct Calls {
    pub(super) counting: Counting,
    pub(super) upstream: Upstream,
}

impl Calls {
    /// Answers one call. It is counted as ended when the response's body has been sent.
    pub(super) async fn answer<B>(
        self,
        request: Request<B>,
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
        // As in etcd, a proxy has no health service.
        let known = metrics::find_method(path).filter(|at| METHODS[*at].service != Service::Health);
        let Some(index) = known else {
            return Ok(call::unknown(path).into_http());
        };
        let patience = call::patience(request.headers());
        let (request, begun) = self.counting.begin(index, request, open);
        let answered = self.dispatch(request);
        let response = match patience {
            Err(status) => status.into_http(),
            // The client itself ends a stream at its deadline.
            Ok(Some(patience)) if METHODS[index].call_type == CallType::Unary => {
                let answered = tokio::time::timeout(patience, answered).await;
                answered.unwrap_or_else(|_| Status::deadline_exceeded(OUT_OF_TIME).into_http())
            }
            Ok(_) => answered.await,
        };
        Ok(begun.finish(response))
    }

    async fn dispatch<B>(&self, request: Request<RequestBody<B>>) -> Response<tonic::body::Body>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError> + Send,
    {
        match request.uri().path() {
            "/etcdserverpb.KV/RangeStream" => {
                let text = "RangeStream is not supported by the gRPC proxy";
                Status::unimplemented(text).into_http()
            }
            _ => self.upstream.forward(request).await,
        }
    }
}

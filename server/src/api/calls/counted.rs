//! The calls of a program that answers for others: counted and limited in size, and logged if it
//! likes, but neither charged nor traced.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tonic::body;

use super::body::{BoxError, RequestBody, ResponseBody, Sent};
use super::call::{Began, CallLimits, Ended};
use super::cost::Charge;
use super::open_calls::OpenCall;
use crate::member::event::admission::Admission;
use crate::telemetry::metrics::Metrics;

/// What the calls of a program share.
#[derive(Clone)]
pub(crate) struct Counting {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) max_message_bytes: usize,
    /// Counts the bytes of messages that are being received.
    pub(crate) admission: Admission,
}

/// A call that has begun. It ends when this is dropped, or with its response.
pub(crate) struct Begun(Ended);

impl Counting {
    /// `index` is the call's place in the table of methods.
    pub(crate) fn begin<B>(
        &self,
        index: usize,
        request: Request<B>,
        open: OpenCall,
    ) -> (Request<RequestBody<B>>, Begun)
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError> + Send,
    {
        const LIMITS: CallLimits = CallLimits {
            slow: Duration::MAX,
            extensive: false,
        };
        self.metrics.calls.of(index).started.inc();
        let sent = Sent {
            method: index,
            charge: Charge::default(),
            heard: None,
        };
        let began = Began {
            at: now(),
            heard: None,
            charge: Charge::default(),
            _open: open,
        };
        let request = request.map(|body| {
            let (metrics, held) = (Arc::clone(&self.metrics), self.admission.receiving());
            RequestBody::new(body, metrics, sent, self.max_message_bytes, held)
        });
        let metrics = Arc::clone(&self.metrics);
        (request, Begun(Ended::new(metrics, index, LIMITS, began)))
    }
}

impl Begun {
    /// Logs the end of the call, which came from `peer`.
    pub(crate) fn log(&mut self, peer: SocketAddr) {
        self.0.log(peer);
    }

    /// The response with everything known about the end of the call.
    pub(crate) fn finish(mut self, mut response: Response<body::Body>) -> Response<body::Body> {
        self.0.with_status(response.headers_mut());
        response.map(|body| body::Body::new(ResponseBody::new(body, self.0, None)))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "calls are timed where they enter, in the shell"
)]
fn now() -> Instant {
    Instant::now()
}

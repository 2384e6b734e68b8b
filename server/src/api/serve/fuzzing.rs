//! For the fuzzer: the connections of a client port, without the services behind them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;

use super::connection::http2_builder;
use super::gather::Gather;
use super::pings::Policed;
use crate::api::calls::body::{RequestBody, Sent};
use crate::api::calls::call;
use crate::api::calls::cost::Charge;
use crate::api::calls::open_calls::OpenCalls;
use crate::member::event::admission::{Admission, Limits};
use crate::telemetry::metrics::Metrics;

/// Largest message that the bodies accept.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
const METHOD: usize = 0;

/// Serves `data` as a connection until it ends.
pub(crate) fn connection(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime").block_on(async {
        let (mut client, server) = tokio::io::duplex(data.len().max(1) + 64);
        client.write_all(data).await.expect("room for all");
        client.shutdown().await.expect("an open pipe");
        let calls = OpenCalls::default();
        let stream = Policed::new(server, Duration::from_secs(5), calls.clone());
        let service = service_fn(move |request| answer(request, calls.clone()));
        let stream = TokioIo::new(Gather::new(stream));
        let serving = http2_builder(1_000).serve_connection(stream, service);
        let reading = async {
            let mut answer = Vec::new();
            tokio::io::AsyncReadExt::read_to_end(&mut client, &mut answer).await
        };
        // The fuzzer checks that the connection ends, not how.
        let _ = tokio::join!(serving, reading);
    });
}

async fn answer(
    request: Request<Incoming>,
    calls: OpenCalls,
) -> Result<Response<tonic::body::Body>, Infallible> {
    let _open = calls.begin();
    if call::check_http(&request).is_ok() && call::patience(request.headers()).is_ok() {
        let metrics = Arc::new(Metrics::default());
        let admission = Admission::new(Limits {
            requests: 1,
            bytes: MESSAGE_BYTES_MAX,
        });
        let sent = Sent {
            method: METHOD,
            charge: Charge::default(),
            heard: None,
        };
        let body = RequestBody::new(
            request.into_body(),
            metrics,
            sent,
            MESSAGE_BYTES_MAX,
            admission.receiving(),
        );
        let _ = body.collect().await;
    }
    Ok(Response::new(tonic::body::Body::empty()))
}

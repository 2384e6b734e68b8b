//! The way of a call to its service.

use std::convert::Infallible;
use std::future::ready;
use std::net::SocketAddr;

use bytes::Bytes;
use etcd_api::codec::ProtoCodec;
use etcd_api::etcdserverpb as pb;
use futures_util::Stream;
use http::{Request, Response};
use http_body::Body;
use prost::Message;
use tonic::server::Grpc;
use tonic::{Status, Streaming};

use super::forward::Along;
use super::kv::Kv;
use super::lease::KeepAlives;
use super::members::Members;
use super::upstream::Upstream;
use super::watch::Watches;
use crate::api::calls::body::{BoxError, RequestBody};
use crate::api::calls::call;
use crate::api::calls::counted::Counting;
use crate::api::calls::open_calls::OpenCall;
use crate::telemetry::metrics::{self, CallType, METHODS, Service};

/// The text of Go's `context.DeadlineExceeded`.
const OUT_OF_TIME: &str = "context deadline exceeded";

/// Calls that change keys, or who may read them, and that do not name the keys. They are passed on
/// as they are, so the cache forgets all it has.
const WRITES_UNSEEN: [&str; 7] = [
    "/etcdserverpb.Auth/AuthEnable",
    "/etcdserverpb.Lease/LeaseRevoke",
    "/v3electionpb.Election/Campaign",
    "/v3electionpb.Election/Proclaim",
    "/v3electionpb.Election/Resign",
    "/v3lockpb.Lock/Lock",
    "/v3lockpb.Lock/Unlock",
];

/// Answers calls. Cheap to clone.
#[derive(Clone)]
pub(super) struct Calls {
    pub(super) counting: Counting,
    /// Each call has a line in the log.
    pub(super) log: bool,
    pub(super) upstream: Upstream,
    pub(super) kv: Kv,
    pub(super) watches: Watches,
    pub(super) keep_alives: KeepAlives,
    pub(super) members: Members,
}

impl Calls {
    /// Answers one call of `peer`. It is counted as ended when the response's body has been sent.
    pub(super) async fn answer<B>(
        self,
        request: Request<B>,
        open: OpenCall,
        peer: Option<SocketAddr>,
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
        let (request, mut begun) = self.counting.begin(index, request, open);
        if let Some(peer) = peer.filter(|_| self.log) {
            begun.log(peer);
        }
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
        let along = &Along::of(request.headers());
        let kv = &self.kv;
        match request.uri().path() {
            "/etcdserverpb.KV/Range" => unary(request, |asked| kv.range(along, asked)).await,
            "/etcdserverpb.KV/RangeStream" => {
                let text = "RangeStream is not supported by the gRPC proxy";
                Status::unimplemented(text).into_http()
            }
            "/etcdserverpb.KV/Put" => unary(request, |put| kv.put(along, put)).await,
            "/etcdserverpb.KV/DeleteRange" => {
                unary(request, |range| kv.delete_range(along, range)).await
            }
            "/etcdserverpb.KV/Txn" => unary(request, |txn| kv.txn(along, txn)).await,
            "/etcdserverpb.KV/Compact" => unary(request, |at| kv.compact(along, at)).await,
            "/etcdserverpb.Lease/LeaseTimeToLive" if !kv.namespace().is_empty() => {
                unary(request, |asked| kv.time_to_live(along, asked)).await
            }
            "/etcdserverpb.Lease/LeaseKeepAlive" => {
                let serve = |renewals| self.keep_alives.clone().serve(along.clone(), renewals);
                streaming(request, serve).await
            }
            "/etcdserverpb.Watch/Watch" => {
                let serve = |requests| self.watches.clone().serve(along.clone(), requests);
                streaming(request, serve).await
            }
            "/etcdserverpb.Cluster/MemberList" => match self.members.list() {
                Some(list) => {
                    let list = |_: pb::MemberListRequest| ready(Ok(list.clone()));
                    unary(request, list).await
                }
                None => self.upstream.forward(request).await,
            },
            path if WRITES_UNSEEN.contains(&path) => {
                kv.forget_everything();
                let shown = kv.clone();
                let show = move |answer: &Bytes| shown.written_unseen(answer);
                let response = self.upstream.forward_and_show(request, show).await;
                kv.forget_everything();
                response
            }
            _ => self.upstream.forward(request).await,
        }
    }
}

/// Answers a call with one request and one answer.
async fn unary<B, Q, A, F>(
    request: Request<RequestBody<B>>,
    serve: impl Fn(Q) -> F,
) -> Response<tonic::body::Body>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError> + Send,
    Q: Message + Default + 'static,
    A: Message + 'static,
    F: Future<Output = Result<A, Status>>,
{
    let service = tower::service_fn(|call: tonic::Request<Q>| {
        let answered = serve(call.into_inner());
        async { answered.await.map(tonic::Response::new) }
    });
    grpc::<A, Q>().unary(service, request).await
}

/// Answers a call of many requests and many answers.
async fn streaming<B, Q, A, F, S>(
    request: Request<RequestBody<B>>,
    serve: impl Fn(Streaming<Q>) -> F + Sync,
) -> Response<tonic::body::Body>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError> + Send,
    Q: Message + Default + 'static,
    A: Message + 'static,
    F: Future<Output = Result<S, Status>>,
    S: Stream<Item = Result<A, Status>> + Send + 'static,
{
    let service = tower::service_fn(|call: tonic::Request<Streaming<Q>>| {
        let answered = serve(call.into_inner());
        async { answered.await.map(tonic::Response::new) }
    });
    grpc::<A, Q>().streaming(service, request).await
}

/// The server side of gRPC. The bodies of requests have been limited already.
fn grpc<A: Message + 'static, Q: Message + Default + 'static>() -> Grpc<ProtoCodec<A, Q>> {
    Grpc::new(ProtoCodec::default())
        .max_decoding_message_size(usize::MAX)
        .max_encoding_message_size(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_write_unseen_are_calls() {
        for path in WRITES_UNSEEN {
            assert!(metrics::find_method(path).is_some(), "{path}");
        }
    }
}

//! An empty gRPC server. Its throughput is the most that any server on this gRPC library can reach,
//! and its CPU per request is the part of ours that we cannot improve.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;

use bytes::Bytes;
use etcd_api::etcdserverpb::lease_server::{Lease, LeaseServer};
use etcd_api::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse,
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, PutRequest, PutResponse, RangeRequest,
    ResponseHeader, TxnRequest,
};
use etcd_api::mvccpb::KeyValue;
use etcd_api::raw::kv_server::{Kv, KvServer};
use etcd_api::raw::{RangeResponse, RangeStreamResponse, TxnResponse};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpListener;
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::{Request, Response, Status, Streaming};
use tower_service::Service;

use super::Result;
use super::loads::{READ_KEY, VALUE_BYTES};

/// Options of the empty server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Floor {
    pub(super) listen: SocketAddr,
    pub(super) threads: usize,
}

/// Serves until it is killed.
pub(super) fn serve(floor: &Floor) -> Result<()> {
    let mut builder = match floor.threads {
        0 | 1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder
        .worker_threads(floor.threads.max(1))
        .enable_all()
        .build()?;
    runtime.block_on(accept(floor.listen))
}

async fn accept(listen: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(listen).await?;
    eprintln!("{}", testkit::READY_LINE);
    let services = Services {
        kv: KvServer::new(Empty::new()),
        lease: LeaseServer::new(Empty::new()),
    };
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let services = services.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| services.clone().call(request));
            // A client that disconnects is no error here.
            let _ = http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// The generated services without a router: only what every server must do.
#[derive(Clone)]
struct Services {
    kv: KvServer<Empty>,
    lease: LeaseServer<Empty>,
}

impl Services {
    async fn call(
        mut self,
        request: http::Request<Incoming>,
    ) -> std::result::Result<http::Response<Body>, Infallible> {
        if request.uri().path().starts_with("/etcdserverpb.KV/") {
            self.kv.call(request).await
        } else {
            self.lease.call(request).await
        }
    }
}

/// Answers every request of the loads, and stores nothing.
struct Empty {
    key_value: Bytes,
}

type Reply<T> = std::result::Result<Response<T>, Status>;
type Replies<T> = Pin<Box<dyn Stream<Item = std::result::Result<T, Status>> + Send>>;

impl Empty {
    fn new() -> Empty {
        let key_value = KeyValue {
            key: READ_KEY.into(),
            create_revision: 2,
            mod_revision: 2,
            version: 1,
            value: vec![b'v'; VALUE_BYTES].into(),
            lease: 0,
        };
        Empty {
            key_value: key_value.encode_to_vec().into(),
        }
    }
}

fn header() -> Option<ResponseHeader> {
    Some(ResponseHeader {
        cluster_id: u64::MAX,
        member_id: u64::MAX,
        revision: 1_000_000,
        raft_term: 2,
    })
}

fn missing<T>() -> Reply<T> {
    Err(Status::unimplemented("not part of any load"))
}

#[tonic::async_trait]
impl Kv for Empty {
    type RangeStreamStream = Replies<RangeStreamResponse>;

    async fn range(&self, _: Request<RangeRequest>) -> Reply<RangeResponse> {
        Ok(Response::new(RangeResponse {
            header: header(),
            kvs: [self.key_value.clone()].into_iter().collect(),
            more: false,
            count: 1,
        }))
    }

    async fn put(&self, _: Request<PutRequest>) -> Reply<PutResponse> {
        Ok(Response::new(PutResponse {
            header: header(),
            prev_kv: None,
        }))
    }

    async fn txn(&self, _: Request<TxnRequest>) -> Reply<TxnResponse> {
        Ok(Response::new(TxnResponse {
            header: header(),
            succeeded: true,
            responses: Vec::new(),
        }))
    }

    async fn range_stream(&self, _: Request<RangeRequest>) -> Reply<Self::RangeStreamStream> {
        missing()
    }

    async fn delete_range(&self, _: Request<DeleteRangeRequest>) -> Reply<DeleteRangeResponse> {
        missing()
    }

    async fn compact(&self, _: Request<CompactionRequest>) -> Reply<CompactionResponse> {
        missing()
    }
}

#[tonic::async_trait]
impl Lease for Empty {
    type LeaseKeepAliveStream = Replies<LeaseKeepAliveResponse>;

    async fn lease_grant(&self, request: Request<LeaseGrantRequest>) -> Reply<LeaseGrantResponse> {
        Ok(Response::new(LeaseGrantResponse {
            header: header(),
            id: request.get_ref().id.max(1),
            ttl: request.get_ref().ttl,
            error: String::new(),
        }))
    }

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Reply<Self::LeaseKeepAliveStream> {
        let replies = request.into_inner().map(|request| {
            request.map(|request| LeaseKeepAliveResponse {
                header: header(),
                id: request.id,
                ttl: 60,
            })
        });
        Ok(Response::new(Box::pin(replies)))
    }

    async fn lease_revoke(&self, _: Request<LeaseRevokeRequest>) -> Reply<LeaseRevokeResponse> {
        missing()
    }

    async fn lease_time_to_live(
        &self,
        _: Request<LeaseTimeToLiveRequest>,
    ) -> Reply<LeaseTimeToLiveResponse> {
        missing()
    }

    async fn lease_leases(&self, _: Request<LeaseLeasesRequest>) -> Reply<LeaseLeasesResponse> {
        missing()
    }
}

//! A store in memory that answers what the registry asks. It has no watches, so caches stay empty.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::kv_server::{Kv, KvServer};
use etcd_api::mvccpb::KeyValue;
use http::Uri;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use pb::compare::TargetUnion;
use pb::{request_op, response_op};
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status};

/// Bytes on their way in each direction.
const WINDOW_BYTES: usize = 64 << 10;

/// Keys, values and revisions.
#[derive(Clone, Default)]
pub(super) struct FakeStore(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    revision: i64,
    items: BTreeMap<Bytes, KeyValue>,
    /// What another client does right before the next transaction.
    meanwhile: Vec<request_op::Request>,
    /// The keys that were deleted, in order.
    deleted: Vec<Bytes>,
    /// The keys that were read outside of transactions, in order.
    read: Vec<Bytes>,
}

type Answer<T> = Result<Response<T>, Status>;

impl FakeStore {
    /// Lets another client do this right before the next transaction.
    pub(super) fn meanwhile(&self, does: request_op::Request) {
        self.0.lock().meanwhile.push(does);
    }

    /// How often a key was deleted.
    pub(super) fn deletions(&self, key: &str) -> usize {
        count(&self.0.lock().deleted, key)
    }

    /// How often a key was read outside of transactions.
    pub(super) fn reads(&self, key: &str) -> usize {
        count(&self.0.lock().read, key)
    }

    /// A client of it; connections end with the runtime.
    pub(super) fn client(&self) -> etcd_api::Client {
        let service = KvServer::new(self.clone());
        let connect = tower::service_fn(move |_: Uri| {
            let (ours, its) = tokio::io::duplex(WINDOW_BYTES);
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let builder = auto::Builder::new(TokioExecutor::new());
                builder.serve_connection(TokioIo::new(its), service).await
            });
            std::future::ready(Ok::<_, Infallible>(TokioIo::new(ours)))
        });
        let endpoint = Endpoint::from_static("http://store");
        etcd_api::Client::new(endpoint.connect_with_connector_lazy(connect))
    }
}

impl State {
    fn header(&self) -> Option<pb::ResponseHeader> {
        Some(pb::ResponseHeader {
            revision: self.revision,
            ..Default::default()
        })
    }

    fn range(&self, asked: &pb::RangeRequest) -> pb::RangeResponse {
        let kvs: Vec<KeyValue> = if asked.range_end.is_empty() {
            self.items.get(&asked.key).cloned().into_iter().collect()
        } else {
            let found = self.items.range(asked.key.clone()..asked.range_end.clone());
            found.map(|(_, kv)| kv.clone()).collect()
        };
        pb::RangeResponse {
            header: self.header(),
            count: kvs.len() as i64,
            kvs,
            more: false,
        }
    }

    fn carry_out(&mut self, request: request_op::Request) -> Option<response_op::Response> {
        match request {
            request_op::Request::RequestRange(asked) => {
                return Some(response_op::Response::ResponseRange(self.range(&asked)));
            }
            request_op::Request::RequestPut(put) => {
                self.revision += 1;
                let kv = KeyValue {
                    key: put.key.clone(),
                    value: put.value,
                    mod_revision: self.revision,
                    ..Default::default()
                };
                self.items.insert(put.key, kv);
            }
            request_op::Request::RequestDeleteRange(delete) => {
                self.revision += 1;
                self.items.remove(&delete.key);
                self.deleted.push(delete.key);
            }
            request_op::Request::RequestTxn(_) => unreachable!("nobody asks for it"),
        }
        None
    }
}

#[tonic::async_trait]
impl Kv for FakeStore {
    type RangeStreamStream = tokio_stream::Empty<Result<pb::RangeStreamResponse, Status>>;

    async fn range(&self, request: Request<pb::RangeRequest>) -> Answer<pb::RangeResponse> {
        let asked = request.into_inner();
        let mut state = self.0.lock();
        state.read.push(asked.key.clone());
        Ok(Response::new(state.range(&asked)))
    }

    async fn range_stream(&self, _: Request<pb::RangeRequest>) -> Answer<Self::RangeStreamStream> {
        Err(Status::unimplemented("nobody asks for it"))
    }

    async fn put(&self, request: Request<pb::PutRequest>) -> Answer<pb::PutResponse> {
        let put = request_op::Request::RequestPut(request.into_inner());
        self.0.lock().carry_out(put);
        Ok(Response::new(pb::PutResponse::default()))
    }

    async fn delete_range(
        &self,
        request: Request<pb::DeleteRangeRequest>,
    ) -> Answer<pb::DeleteRangeResponse> {
        let delete = request_op::Request::RequestDeleteRange(request.into_inner());
        self.0.lock().carry_out(delete);
        Ok(Response::new(pb::DeleteRangeResponse::default()))
    }

    /// All transactions here compare the revision of a key.
    async fn txn(&self, request: Request<pb::TxnRequest>) -> Answer<pb::TxnResponse> {
        let mut state = self.0.lock();
        for request in std::mem::take(&mut state.meanwhile) {
            state.carry_out(request);
        }
        let request = request.into_inner();
        let succeeded = request.compare.iter().all(|compare| {
            let found = state.items.get(&compare.key);
            let has = found.map_or(0, |kv| kv.mod_revision);
            compare.target_union == Some(TargetUnion::ModRevision(has))
        });
        let then = if succeeded {
            request.success
        } else {
            request.failure
        };
        let asked = then.into_iter().filter_map(|one| one.request);
        let responses = asked.map(|one| pb::ResponseOp {
            response: state.carry_out(one),
        });
        let responses = responses.collect();
        Ok(Response::new(pb::TxnResponse {
            header: state.header(),
            succeeded,
            responses,
        }))
    }

    async fn compact(&self, _: Request<pb::CompactionRequest>) -> Answer<pb::CompactionResponse> {
        Err(Status::unimplemented("nobody asks for it"))
    }
}

fn count(keys: &[Bytes], key: &str) -> usize {
    keys.iter().filter(|one| *one == key.as_bytes()).count()
}

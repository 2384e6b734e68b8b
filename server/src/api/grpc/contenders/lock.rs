//! `v3lockpb.Lock`: etcd's mutex. The oldest key below `name/` holds the lock.

use std::sync::Arc;

use bytes::Bytes;
use etcd_api::etcdserverpb::range_request::SortOrder;
use etcd_api::etcdserverpb::request_op::Request as Op;
use etcd_api::v3lockpb::lock_server::Lock;
use etcd_api::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse};
use tonic::{Request as Call, Response, Status};

use super::on_behalf::{OnBehalf, Services};
use super::recipe::{self, Gone, Session};

pub(crate) struct LockService {
    services: Arc<Services>,
}

impl LockService {
    pub(crate) fn new(services: Arc<Services>) -> LockService {
        LockService { services }
    }
}

#[tonic::async_trait]
impl Lock for LockService {
    async fn lock(&self, call: Call<LockRequest>) -> Result<Response<LockResponse>, Status> {
        let caller = OnBehalf::of(&self.services, &call);
        let request = call.into_inner();
        let response = recipe::run(|gone| async move {
            let session = Session::new(caller, request.lease).await?;
            lock(&session, &request.name, gone).await
        });
        Ok(Response::new(response.await?))
    }

    async fn unlock(&self, call: Call<UnlockRequest>) -> Result<Response<UnlockResponse>, Status> {
        let session = Session::without_lease(OnBehalf::of(&self.services, &call));
        let deleted = session.delete(call.into_inner().key).await;
        let header = deleted.map_err(recipe::plain)?.header;
        Ok(Response::new(UnlockResponse { header }))
    }
}

async fn lock(session: &Session, name: &[u8], mut gone: Gone) -> Result<LockResponse, Status> {
    let prefix = recipe::below(name);
    let key = session.key(&prefix);
    // Reads the holder in the same transaction, so locking a free lock takes one request.
    let holder = Op::RequestRange(recipe::by_creation(&prefix, SortOrder::Ascend));
    let then = vec![session.put(&key, Bytes::new()), holder.clone()];
    let otherwise = vec![Op::RequestRange(recipe::single(&key)), holder];
    let response = session.if_created_at(&key, 0, then, otherwise).await?;
    // A session that asks again keeps its place in the queue.
    let place = match recipe::rows(&response, 0).first() {
        Some(own) if !response.succeeded => own.create_revision,
        _ => recipe::revision(response.header.as_ref()),
    };
    let holder = recipe::rows(&response, 1).first();
    if holder.is_none_or(|holder| holder.create_revision == place) {
        let header = response.header;
        return Ok(LockResponse { header, key });
    }
    let held = match session.wait_for_turn(&prefix, place, &mut gone).await {
        Ok(()) => session.get(recipe::single(&key)).await,
        Err(interrupted) => Err(interrupted.into()),
    };
    match held {
        // The lease, and the key with it, may have expired meanwhile.
        Ok(response) if response.kvs.is_empty() => {
            Err(Status::unknown("mutex: session is expired"))
        }
        Ok(response) => Ok(LockResponse {
            header: response.header,
            key,
        }),
        Err(status) => {
            // The caller gets the error of the wait. If the key cannot be removed either, it is
            // deleted with its lease.
            if let Err(kept) = session.delete(key).await {
                tracing::warn!(
                    error = kept.message(),
                    "a waiting lock's key was not removed"
                );
            }
            Err(status)
        }
    }
}

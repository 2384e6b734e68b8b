//! `v3electionpb.Election`: the oldest key below `name/` belongs to the leader; its value is what
//! the leader proclaims.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::KeyValue;
use etcd_api::mvccpb::event::EventType;
use etcd_api::v3electionpb::election_server::Election;
use etcd_api::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest,
    ProclaimResponse, ResignRequest, ResignResponse,
};
use pb::range_request::SortOrder;
use pb::request_op::Request as Op;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request as Call, Response, Status};

use super::on_behalf::{OnBehalf, Services};
use super::recipe::{self, Gone, Interrupted, Session};

/// Leaders queued for an observer that does not read.
const OBSERVE_QUEUE: usize = 1;

pub(crate) struct ElectionService {
    services: Arc<Services>,
}

impl ElectionService {
    pub(crate) fn new(services: Arc<Services>) -> ElectionService {
        ElectionService { services }
    }
}

#[tonic::async_trait]
impl Election for ElectionService {
    async fn campaign(
        &self,
        call: Call<CampaignRequest>,
    ) -> Result<Response<CampaignResponse>, Status> {
        let caller = OnBehalf::of(&self.services, &call);
        let request = call.into_inner();
        let response = recipe::run(|gone| async move {
            let session = Session::new(caller, request.lease).await?;
            campaign(&session, request, gone).await
        });
        Ok(Response::new(response.await?))
    }

    async fn proclaim(
        &self,
        call: Call<ProclaimRequest>,
    ) -> Result<Response<ProclaimResponse>, Status> {
        let caller = OnBehalf::of(&self.services, &call);
        let request = call.into_inner();
        let leader = request.leader.ok_or_else(no_leader_key)?;
        let response = recipe::run(|_| async move {
            let session = Session::new(caller, leader.lease).await?;
            proclaim(&session, &leader.key, leader.rev, request.value).await
        });
        let header = response.await?;
        Ok(Response::new(ProclaimResponse { header }))
    }

    async fn leader(&self, call: Call<LeaderRequest>) -> Result<Response<LeaderResponse>, Status> {
        let session = Session::without_lease(OnBehalf::of(&self.services, &call));
        let prefix = recipe::below(&call.into_inner().name);
        let leader = session.get(recipe::by_creation(&prefix, SortOrder::Ascend));
        let pb::RangeResponse { header, kvs, .. } = leader.await.map_err(recipe::plain)?;
        let kv = kvs.into_iter().next();
        if kv.is_some() {
            Ok(Response::new(LeaderResponse { header, kv }))
        } else {
            Err(Status::unknown("election: no leader"))
        }
    }

    type ObserveStream = Pin<Box<dyn Stream<Item = Result<LeaderResponse, Status>> + Send>>;

    async fn observe(
        &self,
        call: Call<LeaderRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        let session = Session::without_lease(OnBehalf::of(&self.services, &call));
        let prefix = recipe::below(&call.into_inner().name);
        let (leaders, stream) = mpsc::channel(OBSERVE_QUEUE);
        tokio::spawn(async move {
            let observed =
                async { while let Some(()) = observe_one(&session, &prefix, &leaders).await {} };
            tokio::select! {
                () = observed => {}
                () = leaders.closed() => {}
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn resign(&self, call: Call<ResignRequest>) -> Result<Response<ResignResponse>, Status> {
        let caller = OnBehalf::of(&self.services, &call);
        let leader = call.into_inner().leader.ok_or_else(no_leader_key)?;
        let response = recipe::run(|_| async move {
            let session = Session::new(caller, leader.lease).await?;
            resign(&session, &leader.key, leader.rev).await
        });
        let header = response.await?;
        Ok(Response::new(ResignResponse { header }))
    }
}

fn no_leader_key() -> Status {
    Status::unknown("\"leader\" field must be provided")
}

async fn campaign(
    session: &Session,
    request: CampaignRequest,
    mut gone: Gone,
) -> Result<CampaignResponse, Status> {
    let CampaignRequest { name, value, .. } = request;
    let prefix = recipe::below(&name);
    let key = session.key(&prefix);
    let then = vec![session.put(&key, value.clone())];
    let otherwise = vec![Op::RequestRange(recipe::single(&key))];
    let response = session.if_created_at(&key, 0, then, otherwise).await?;
    let mut rev = recipe::revision(response.header.as_ref());
    if let Some(own) = recipe::rows(&response, 0).first() {
        // The session is already a candidate, perhaps with another value.
        rev = own.create_revision;
        if own.value != value
            && let Err(status) = proclaim(session, &key, rev, value).await
        {
            withdraw(session, &key, rev).await;
            return Err(status);
        }
    }
    match session.wait_for_turn(&prefix, rev, &mut gone).await {
        Ok(()) => {}
        Err(interrupted) => {
            // As in etcd: a candidate whose wait failed stays a candidate and may campaign again.
            if let Interrupted::Gone = interrupted {
                withdraw(session, &key, rev).await;
            }
            return Err(interrupted.into());
        }
    }
    let lease = session.lease;
    let leader = Some(LeaderKey {
        name,
        key,
        rev,
        lease,
    });
    // As in etcd, the header is that of the candidacy, not of the win.
    let header = response.header;
    Ok(CampaignResponse { header, leader })
}

async fn proclaim(
    session: &Session,
    key: &Bytes,
    rev: i64,
    value: Bytes,
) -> Result<Option<pb::ResponseHeader>, Status> {
    let then = vec![session.put(key, value)];
    let response = session.if_created_at(key, rev, then, Vec::new()).await?;
    if response.succeeded {
        Ok(response.header)
    } else {
        Err(Status::unknown("election: not leader"))
    }
}

/// Succeeds even if another candidate leads now.
async fn resign(
    session: &Session,
    key: &Bytes,
    rev: i64,
) -> Result<Option<pb::ResponseHeader>, Status> {
    let delete = Op::RequestDeleteRange(pb::DeleteRangeRequest {
        key: key.clone(),
        ..Default::default()
    });
    let response = session.if_created_at(key, rev, vec![delete], Vec::new());
    Ok(response.await?.header)
}

/// Removes the key of a candidate whose caller has left.
async fn withdraw(session: &Session, key: &Bytes, rev: i64) {
    if let Err(kept) = resign(session, key, rev).await {
        tracing::warn!(error = kept.message(), "a candidate's key was not removed");
    }
}

/// Follows one leader from its election to its end; waits for one if there is none. Returns `None`
/// to end the observation: the observer left, or a read or watch failed. As in etcd, the observer
/// gets no error.
async fn observe_one(
    session: &Session,
    prefix: &Bytes,
    leaders: &mpsc::Sender<Result<LeaderResponse, Status>>,
) -> Option<()> {
    let oldest = recipe::by_creation(prefix, SortOrder::Ascend);
    let pb::RangeResponse { header, kvs, .. } = session.get(oldest).await.ok()?;
    let mut header = header?;
    let kv = match kvs.into_iter().next() {
        Some(kv) => kv,
        None => {
            let (of_put, kv) = first_put(session, prefix, header.revision).await?;
            header = of_put;
            kv
        }
    };
    let (key, next) = (kv.key.clone(), header.revision + 1);
    tell(leaders, header, kv).await?;
    let mut watch = session.watch(key, Bytes::new(), next).await.ok()?;
    loop {
        let response = watch.message().await.ok()??;
        if response.canceled {
            return None;
        }
        for event in response.events {
            if event.r#type() == EventType::Delete {
                return Some(());
            }
            tell(leaders, response.header?, event.kv?).await?;
        }
    }
}

/// The first candidate that appears, with the header of its revision. More may have appeared since;
/// the caller's next watch begins after that revision.
async fn first_put(
    session: &Session,
    prefix: &Bytes,
    from: i64,
) -> Option<(pb::ResponseHeader, KeyValue)> {
    let end = recipe::end_of(prefix);
    let mut watch = session.watch(prefix.clone(), end, from).await.ok()?;
    loop {
        let response = watch.message().await.ok()??;
        if response.canceled {
            return None;
        }
        let mut events = response.events.into_iter();
        if let Some(put) = events.find(|event| event.r#type() == EventType::Put) {
            let (header, kv) = (response.header?, put.kv?);
            let revision = kv.mod_revision;
            return Some((pb::ResponseHeader { revision, ..header }, kv));
        }
    }
}

async fn tell(
    leaders: &mpsc::Sender<Result<LeaderResponse, Status>>,
    header: pb::ResponseHeader,
    kv: KeyValue,
) -> Option<()> {
    let leader = LeaderResponse {
        header: Some(header),
        kv: Some(kv),
    };
    leaders.send(Ok(leader)).await.ok()
}

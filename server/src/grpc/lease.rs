//! `etcdserverpb.Lease`: grants and revokes go through the log, everything else is asked of the
//! lessor.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use etcd_api::etcdserverpb as pb;
use tokio_stream::Stream;
use tonic::{Request as Call, Response, Status, Streaming};

use crate::error::Error;
use crate::event::{LeaseCall, Outcome};
use crate::node::Node;
use crate::request::Request;

/// Ids tried for one grant. The first is free unless a client chose it for itself.
const GRANT_TRIES: usize = 8;

pub struct LeaseService {
    node: Node,
}

impl LeaseService {
    pub fn new(node: Node) -> LeaseService {
        LeaseService { node }
    }

    async fn grant(&self, request: pb::LeaseGrantRequest) -> Result<pb::LeaseGrantResponse, Error> {
        let applied = self.node.propose(Request::LeaseGrant(request)).await?;
        match applied.outcome {
            Outcome::LeaseGrant(mut response) => {
                response.header = Some(self.node.header(applied.revision));
                Ok(response)
            }
            other => unreachable!("a grant was answered with {other:?}"),
        }
    }

    /// Positive, and nobody else's.
    fn free_id(&self) -> i64 {
        (self.node.unique_id() & i64::MAX as u64) as i64
    }
}

#[tonic::async_trait]
impl pb::lease_server::Lease for LeaseService {
    async fn lease_grant(
        &self,
        call: Call<pb::LeaseGrantRequest>,
    ) -> Result<Response<pb::LeaseGrantResponse>, Status> {
        let mut request = call.into_inner();
        if request.id != 0 {
            return Ok(Response::new(self.grant(request).await?));
        }
        let mut result = Err(Error::LeaseExists);
        for _ in 0..GRANT_TRIES {
            request.id = self.free_id();
            result = self.grant(request).await;
            if !matches!(result, Err(Error::LeaseExists)) {
                break;
            }
        }
        Ok(Response::new(result?))
    }

    async fn lease_revoke(
        &self,
        call: Call<pb::LeaseRevokeRequest>,
    ) -> Result<Response<pb::LeaseRevokeResponse>, Status> {
        let applied = self
            .node
            .propose(Request::LeaseRevoke(call.into_inner()))
            .await?;
        let header = Some(self.node.header(applied.revision));
        Ok(Response::new(pb::LeaseRevokeResponse { header }))
    }

    type LeaseKeepAliveStream = KeepAlive;

    async fn lease_keep_alive(
        &self,
        call: Call<Streaming<pb::LeaseKeepAliveRequest>>,
    ) -> Result<Response<KeepAlive>, Status> {
        Ok(Response::new(KeepAlive {
            node: self.node.clone(),
            requests: call.into_inner(),
            renewing: None,
        }))
    }

    async fn lease_time_to_live(
        &self,
        call: Call<pb::LeaseTimeToLiveRequest>,
    ) -> Result<Response<pb::LeaseTimeToLiveResponse>, Status> {
        let pb::LeaseTimeToLiveRequest { id, keys } = call.into_inner();
        let (answer, revision) = self.node.lease(LeaseCall::TimeToLive { id, keys }).await?;
        Ok(Response::new(pb::LeaseTimeToLiveResponse {
            header: Some(self.node.header(revision)),
            id,
            ttl: answer.ttl,
            granted_ttl: answer.granted_ttl,
            keys: answer.keys,
        }))
    }

    async fn lease_leases(
        &self,
        _: Call<pb::LeaseLeasesRequest>,
    ) -> Result<Response<pb::LeaseLeasesResponse>, Status> {
        let (answer, revision) = self.node.lease(LeaseCall::Leases).await?;
        let leases = answer.leases.into_iter().map(|id| pb::LeaseStatus { id });
        Ok(Response::new(pb::LeaseLeasesResponse {
            header: Some(self.node.header(revision)),
            leases: leases.collect(),
        }))
    }
}

type Renewing = Pin<Box<dyn Future<Output = Result<pb::LeaseKeepAliveResponse, Status>> + Send>>;

/// One response per request, in order; ends when the client has closed its side.
pub struct KeepAlive {
    node: Node,
    requests: Streaming<pb::LeaseKeepAliveRequest>,
    renewing: Option<Renewing>,
}

impl Stream for KeepAlive {
    type Item = Result<pb::LeaseKeepAliveResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(renewing) = &mut self.renewing {
                let response = ready!(renewing.as_mut().poll(cx));
                self.renewing = None;
                return Poll::Ready(Some(response));
            }
            match ready!(Pin::new(&mut self.requests).poll_next(cx)) {
                Some(Ok(request)) => {
                    self.renewing = Some(Box::pin(renew(self.node.clone(), request.id)));
                }
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => return Poll::Ready(None),
            }
        }
    }
}

async fn renew(node: Node, id: i64) -> Result<pb::LeaseKeepAliveResponse, Status> {
    // Before the renewal: a header from after it could tell of the lease's own end.
    let header = Some(node.header_now());
    let (answer, _) = node.lease(LeaseCall::KeepAlive { id }).await?;
    let ttl = answer.ttl;
    Ok(pb::LeaseKeepAliveResponse { header, id, ttl })
}

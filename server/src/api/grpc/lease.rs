//! `etcdserverpb.Lease`: grants and revokes go through the log; the lessor answers all other calls.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use etcd_api::etcdserverpb as pb;
use tokio_stream::Stream;
use tonic::{Request as Call, Response, Status, Streaming};

use super::caller_of;
use crate::auth::{self, Credentials, Image, Kind};
use crate::basics::error::Error;
use crate::member::event::{LeaseCall, Outcome};
use crate::request::{AuthInfo, Request};
use crate::runtime::etcd_server::EtcdServer;
use crate::state;

/// Ids tried for one grant. The first is free unless a client has chosen it explicitly.
const GRANT_TRIES: usize = 8;

pub(crate) struct LeaseService {
    server: EtcdServer,
}

impl LeaseService {
    pub(crate) fn new(server: EtcdServer) -> LeaseService {
        LeaseService { server }
    }

    async fn grant(
        &self,
        request: pb::LeaseGrantRequest,
        who: &Credentials,
    ) -> Result<pb::LeaseGrantResponse, Error> {
        let grant = Request::LeaseGrant(request);
        let applied = self.server.propose_by(grant, who).await?;
        match applied.outcome {
            Outcome::LeaseGrant(mut response) => {
                response.header = Some(self.server.header(applied.revision));
                Ok(response)
            }
            other => unreachable!("a grant was answered with {other:?}"),
        }
    }

    /// A positive lease id that this cluster has not generated before.
    fn free_id(&self) -> i64 {
        (self.server.unique_id() & i64::MAX as u64) as i64
    }
}

#[tonic::async_trait]
impl pb::lease_server::Lease for LeaseService {
    async fn lease_grant(
        &self,
        call: Call<pb::LeaseGrantRequest>,
    ) -> Result<Response<pb::LeaseGrantResponse>, Status> {
        let who = caller_of(&call);
        self.server.require_user(&who).await?;
        let mut request = call.into_inner();
        if request.id != 0 {
            return Ok(Response::new(self.grant(request, &who).await?));
        }
        let mut result = Err(Error::LeaseExists);
        for _ in 0..GRANT_TRIES {
            request.id = self.free_id();
            result = self.grant(request, &who).await;
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
        let who = caller_of(&call);
        self.server.require_user(&who).await?;
        let revoke = Request::LeaseRevoke(call.into_inner());
        let applied = self.server.propose_by(revoke, &who).await?;
        let header = Some(self.server.header(applied.revision));
        Ok(Response::new(pb::LeaseRevokeResponse { header }))
    }

    type LeaseKeepAliveStream = KeepAlive;

    async fn lease_keep_alive(
        &self,
        call: Call<Streaming<pb::LeaseKeepAliveRequest>>,
    ) -> Result<Response<KeepAlive>, Status> {
        Ok(Response::new(KeepAlive {
            server: self.server.clone(),
            who: caller_of(&call),
            requests: call.into_inner(),
            renewing: None,
        }))
    }

    async fn lease_time_to_live(
        &self,
        call: Call<pb::LeaseTimeToLiveRequest>,
    ) -> Result<Response<pb::LeaseTimeToLiveResponse>, Status> {
        let who = caller_of(&call);
        let pb::LeaseTimeToLiveRequest { id, keys } = call.into_inner();
        self.server.require_user(&who).await?;
        let judged_at = self.server.auth_image().revision;
        if keys {
            check_keys(&self.server, &who, Kind::Read, id).await?;
        }
        let (answer, revision) = self
            .server
            .lease(LeaseCall::TimeToLive { id, keys })
            .await?;
        if keys {
            // The leader may know of keys that were not attached here when they were judged.
            let ask = |image: &Image, by: &AuthInfo| {
                auth::check_told_keys(image, by, Kind::Read, &answer.keys)
            };
            self.server.check_leases(&who, ask).await?;
            self.server.check_unchanged(judged_at)?;
        }
        Ok(Response::new(pb::LeaseTimeToLiveResponse {
            header: Some(self.server.header(revision)),
            id,
            ttl: answer.ttl,
            granted_ttl: answer.granted_ttl,
            keys: answer.keys,
        }))
    }

    async fn lease_leases(
        &self,
        call: Call<pb::LeaseLeasesRequest>,
    ) -> Result<Response<pb::LeaseLeasesResponse>, Status> {
        let (leases, revision) = self.server.leases().await?;
        let who = caller_of(&call);
        let view = self.server.view();
        let ask = |image: &Image, by: &AuthInfo| {
            leases.iter().try_for_each(|id| {
                let first = |from: &[u8]| state::first_lease_key(&view, *id, from);
                auth::check_lease_keys(image, by, Kind::Read, first)
            })
        };
        self.server.check_leases(&who, ask).await?;
        let leases = leases.into_iter().map(|id| pb::LeaseStatus { id });
        Ok(Response::new(pb::LeaseLeasesResponse {
            header: Some(self.server.header(revision)),
            leases: leases.collect(),
        }))
    }
}

type Renewing = Pin<Box<dyn Future<Output = Result<pb::LeaseKeepAliveResponse, Status>> + Send>>;

/// One response per request, in order; ends when the client closes its side.
pub(crate) struct KeepAlive {
    server: EtcdServer,
    who: Credentials,
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
                    self.renewing = Some(Box::pin(renew(
                        self.server.clone(),
                        self.who.clone(),
                        request.id,
                    )));
                }
                Some(Err(status)) => {
                    self.server.metrics().broken_streams.keep_alive.inc();
                    return Poll::Ready(Some(Err(status)));
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

/// Checks that the caller may do `kind` with every key attached to the lease.
async fn check_keys(
    server: &EtcdServer,
    who: &Credentials,
    kind: Kind,
    lease: i64,
) -> Result<(), Error> {
    let ask = |image: &Image, by: &AuthInfo| {
        // One state for all looks: a key may not slip past them.
        let view = server.view();
        let first = |from: &[u8]| state::first_lease_key(&view, lease, from);
        auth::check_lease_keys(image, by, kind, first)
    };
    server.check_leases(who, ask).await
}

async fn renew(
    server: EtcdServer,
    who: Credentials,
    id: i64,
) -> Result<pb::LeaseKeepAliveResponse, Status> {
    // Taken before the renewal: a later header could show a revision after the lease's expiry.
    let header = Some(server.header_now());
    check_keys(&server, &who, Kind::Write, id).await?;
    let (answer, _) = server.lease(LeaseCall::KeepAlive { id }).await?;
    let ttl = answer.ttl;
    Ok(pb::LeaseKeepAliveResponse { header, id, ttl })
}

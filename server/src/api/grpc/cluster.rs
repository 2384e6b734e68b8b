//! `etcdserverpb.Cluster`: lists and changes the members.

use etcd_api::etcdserverpb as pb;
use tonic::{Request as Call, Response, Status};

use super::caller_of;
use crate::runtime::etcd_server::EtcdServer;
use crate::state::MemberInfo;

pub(crate) struct ClusterService {
    server: EtcdServer,
}

impl ClusterService {
    pub(crate) fn new(server: EtcdServer) -> ClusterService {
        ClusterService { server }
    }
}

#[tonic::async_trait]
impl pb::cluster_server::Cluster for ClusterService {
    async fn member_list(
        &self,
        call: Call<pb::MemberListRequest>,
    ) -> Result<Response<pb::MemberListResponse>, Status> {
        let who = caller_of(&call);
        if call.into_inner().linearizable {
            self.server.linearizable().await?;
        }
        self.server.require_user(&who).await?;
        // Headers of this service have no revision.
        Ok(Response::new(pb::MemberListResponse {
            header: Some(self.server.header(0)),
            members: listed(self.server.members()?),
        }))
    }

    async fn member_add(
        &self,
        call: Call<pb::MemberAddRequest>,
    ) -> Result<Response<pb::MemberAddResponse>, Status> {
        let who = caller_of(&call);
        let request = call.into_inner();
        let added = self
            .server
            .add_member(&request.peer_urls, request.is_learner, &who);
        let (member, members) = added.await?;
        Ok(Response::new(pb::MemberAddResponse {
            header: Some(self.server.header(0)),
            member: Some(told(member)),
            members: listed(members),
        }))
    }

    async fn member_remove(
        &self,
        call: Call<pb::MemberRemoveRequest>,
    ) -> Result<Response<pb::MemberRemoveResponse>, Status> {
        self.server.require_admin(&caller_of(&call)).await?;
        let members = self.server.remove_member(call.into_inner().id).await?;
        Ok(Response::new(pb::MemberRemoveResponse {
            header: Some(self.server.header(0)),
            members: listed(members),
        }))
    }

    async fn member_update(
        &self,
        call: Call<pb::MemberUpdateRequest>,
    ) -> Result<Response<pb::MemberUpdateResponse>, Status> {
        let who = caller_of(&call);
        let request = call.into_inner();
        let updated = self
            .server
            .update_member(request.id, &request.peer_urls, &who);
        let members = updated.await?;
        Ok(Response::new(pb::MemberUpdateResponse {
            header: Some(self.server.header(0)),
            members: listed(members),
        }))
    }

    async fn member_promote(
        &self,
        call: Call<pb::MemberPromoteRequest>,
    ) -> Result<Response<pb::MemberPromoteResponse>, Status> {
        self.server.require_admin(&caller_of(&call)).await?;
        let members = self.server.promote_member(call.into_inner().id).await?;
        Ok(Response::new(pb::MemberPromoteResponse {
            header: Some(self.server.header(0)),
            members: listed(members),
        }))
    }
}

fn listed(members: Vec<MemberInfo>) -> Vec<pb::Member> {
    let mut members: Vec<pb::Member> = members.into_iter().map(told).collect();
    members.sort_by_key(|member| member.id);
    members
}

fn told(member: MemberInfo) -> pb::Member {
    pb::Member {
        id: member.id,
        name: member.name,
        peer_urls: member.peer_urls,
        client_urls: member.client_urls,
        is_learner: member.is_learner,
    }
}

//! `etcdserverpb.Cluster`: who the members are. Changing them is missing so far.

use etcd_api::etcdserverpb as pb;
use tonic::{Request as Call, Response, Status};

use crate::node::Node;

pub struct ClusterService {
    node: Node,
}

impl ClusterService {
    pub fn new(node: Node) -> ClusterService {
        ClusterService { node }
    }
}

#[tonic::async_trait]
impl pb::cluster_server::Cluster for ClusterService {
    async fn member_list(
        &self,
        call: Call<pb::MemberListRequest>,
    ) -> Result<Response<pb::MemberListResponse>, Status> {
        if call.into_inner().linearizable {
            self.node.linearizable().await?;
        }
        let mut members: Vec<pb::Member> = self
            .node
            .members()?
            .into_iter()
            .map(|member| pb::Member {
                id: member.id,
                name: member.name,
                peer_urls: member.peer_urls,
                client_urls: member.client_urls,
                is_learner: member.is_learner,
            })
            .collect();
        members.sort_by_key(|member| member.id);
        // This service's headers have no revision.
        Ok(Response::new(pb::MemberListResponse {
            header: Some(self.node.header(0)),
            members,
        }))
    }

    async fn member_add(
        &self,
        _: Call<pb::MemberAddRequest>,
    ) -> Result<Response<pb::MemberAddResponse>, Status> {
        Err(missing())
    }

    async fn member_remove(
        &self,
        _: Call<pb::MemberRemoveRequest>,
    ) -> Result<Response<pb::MemberRemoveResponse>, Status> {
        Err(missing())
    }

    async fn member_update(
        &self,
        _: Call<pb::MemberUpdateRequest>,
    ) -> Result<Response<pb::MemberUpdateResponse>, Status> {
        Err(missing())
    }

    async fn member_promote(
        &self,
        _: Call<pb::MemberPromoteRequest>,
    ) -> Result<Response<pb::MemberPromoteResponse>, Status> {
        Err(missing())
    }
}

fn missing() -> Status {
    Status::unimplemented("etcdserver: membership changes are not supported by Stele yet")
}

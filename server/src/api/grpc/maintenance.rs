//! `etcdserverpb.Maintenance` for a single member.

use std::sync::Arc;

use etcd_api::etcdserverpb as pb;
use pb::alarm_request::AlarmAction;
use pb::downgrade_request::DowngradeAction;
use tokio::sync::Semaphore;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request as Call, Response, Status};

use super::{caller_of, snapshot};
use crate::api::grpc::health::HealthNotifier;
use crate::basics::error::Error;
use crate::config::{CLUSTER_VERSION, ETCD_VERSION};
use crate::member::event::Outcome;
use crate::request::Request;
use crate::runtime::etcd_server::EtcdServer;
use crate::telemetry::metrics::Metrics;

pub(crate) struct MaintenanceService {
    server: EtcdServer,
    metrics: Arc<Metrics>,
    health: HealthNotifier,
    /// One permit per snapshot that is being sent.
    snapshots: Arc<Semaphore>,
}

impl MaintenanceService {
    pub(crate) fn new(
        server: EtcdServer,
        metrics: Arc<Metrics>,
        health: HealthNotifier,
    ) -> MaintenanceService {
        MaintenanceService {
            server,
            metrics,
            health,
            snapshots: Arc::new(Semaphore::new(snapshot::SENDING_MAX)),
        }
    }
}

#[tonic::async_trait]
impl pb::maintenance_server::Maintenance for MaintenanceService {
    async fn alarm(
        &self,
        call: Call<pb::AlarmRequest>,
    ) -> Result<Response<pb::AlarmResponse>, Status> {
        let who = caller_of(&call);
        let request = call.into_inner();
        if request.action == AlarmAction::Get as i32 {
            self.server.require_user(&who).await?
        } else {
            self.server.require_admin(&who).await?
        }
        let none = pb::AlarmType::None as i32;
        // etcd itself crashes on an unknown action; its clients never send one.
        let action = AlarmAction::try_from(request.action)
            .map_err(|_| Status::invalid_argument("etcdserver: unknown alarm action"))?;
        // It would end every member of etcd in the cluster.
        if action == AlarmAction::Activate && pb::AlarmType::try_from(request.alarm).is_err() {
            return Err(Status::invalid_argument("etcdserver: unknown alarm type"));
        }
        let (header, alarms) = match action {
            AlarmAction::Get => {
                let alarms = self.server.alarms()?;
                let asked = |alarm: &pb::AlarmMember| [none, alarm.alarm].contains(&request.alarm);
                (
                    self.server.header_now(),
                    alarms.into_iter().filter(asked).collect(),
                )
            }
            AlarmAction::Activate if request.alarm == none => {
                (self.server.header_now(), Vec::new())
            }
            AlarmAction::Activate | AlarmAction::Deactivate => {
                let applied = self
                    .server
                    .propose_by(Request::Alarm(request), &who)
                    .await?;
                let Outcome::Alarm(alarms) = applied.outcome else {
                    unreachable!("an alarm was answered with {:?}", applied.outcome)
                };
                (self.server.header(applied.revision), alarms)
            }
        };
        Ok(Response::new(pb::AlarmResponse {
            header: Some(header),
            alarms,
        }))
    }

    async fn status(
        &self,
        call: Call<pb::StatusRequest>,
    ) -> Result<Response<pb::StatusResponse>, Status> {
        self.server.require_user(&caller_of(&call)).await?;
        let status = self.server.status()?;
        let (version, downgrade) = (
            self.server.cluster_version()?,
            self.server.downgrade_info()?,
        );
        Ok(Response::new(pb::StatusResponse {
            header: Some(self.server.header_now()),
            version: ETCD_VERSION.into(),
            db_size: status.db_size,
            leader: status.leader,
            raft_index: status.raft_index,
            raft_term: status.term,
            raft_applied_index: status.applied_index,
            errors: status.errors,
            db_size_in_use: status.db_size_in_use,
            is_learner: self.server.is_learner(),
            storage_version: version.unwrap_or_else(|| CLUSTER_VERSION.into()),
            db_size_quota: status.quota,
            downgrade_info: Some(pb::DowngradeInfo {
                enabled: downgrade.enabled,
                target_version: downgrade.target,
            }),
        }))
    }

    async fn defragment(
        &self,
        call: Call<pb::DefragmentRequest>,
    ) -> Result<Response<pb::DefragmentResponse>, Status> {
        self.server.require_admin(&caller_of(&call)).await?;
        tracing::info!("starting defragment");
        let in_flight = self.metrics.defrag_inflight.hold();
        let stopped = self.health.defragment();
        let done = self.server.defragment().await;
        drop(stopped);
        drop(in_flight);
        if let Err(error) = done {
            tracing::warn!(%error, "failed to defragment");
            return Err(error.into());
        }
        tracing::info!("finished defragment");
        Ok(Response::new(pb::DefragmentResponse { header: None }))
    }

    /// etcd hashes its database file, which does not exist here. This hash covers the whole history
    /// instead.
    async fn hash(
        &self,
        call: Call<pb::HashRequest>,
    ) -> Result<Response<pb::HashResponse>, Status> {
        self.server.require_admin(&caller_of(&call)).await?;
        let hash = self.server.hash_kv(0).await?;
        let header = Some(self.server.header(hash.current_revision));
        Ok(Response::new(pb::HashResponse {
            header,
            hash: hash.hash,
        }))
    }

    async fn hash_kv(
        &self,
        call: Call<pb::HashKvRequest>,
    ) -> Result<Response<pb::HashKvResponse>, Status> {
        self.server.require_admin(&caller_of(&call)).await?;
        let hash = self.server.hash_kv(call.into_inner().revision).await?;
        Ok(Response::new(pb::HashKvResponse {
            header: Some(self.server.header(hash.current_revision)),
            hash: hash.hash,
            compact_revision: hash.compact_revision,
            hash_revision: hash.hash_revision,
        }))
    }

    type SnapshotStream = ReceiverStream<Result<pb::SnapshotResponse, Status>>;

    /// A snapshot of this member's current state, as in etcd; it may lag behind the leader.
    async fn snapshot(
        &self,
        call: Call<pb::SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        self.server.require_admin(&caller_of(&call)).await?;
        let sending = Arc::clone(&self.snapshots).try_acquire_owned();
        let permit = sending.map_err(|_| Error::TooManyRequests)?;
        let pieces = snapshot::send(&self.server, permit);
        Ok(Response::new(ReceiverStream::new(pieces)))
    }

    async fn move_leader(
        &self,
        call: Call<pb::MoveLeaderRequest>,
    ) -> Result<Response<pb::MoveLeaderResponse>, Status> {
        self.server.require_admin(&caller_of(&call)).await?;
        if !self.server.is_leader() {
            return Err(Error::NotLeader.into());
        }
        let to = call.into_inner().target_id;
        if to != self.server.identity().member_id {
            let members = self.server.members()?;
            if !members.iter().any(|m| m.id == to && !m.is_learner) {
                return Err(Error::BadLeaderTransferee.into());
            }
            self.server.transfer(to).await?;
        }
        Ok(Response::new(pb::MoveLeaderResponse { header: None }))
    }

    async fn downgrade(
        &self,
        call: Call<pb::DowngradeRequest>,
    ) -> Result<Response<pb::DowngradeResponse>, Status> {
        self.server.require_admin(&caller_of(&call)).await?;
        let request = call.into_inner();
        let action = DowngradeAction::try_from(request.action).map_err(|_| Error::UnknownMethod)?;
        let version = self.server.downgrade(action, &request.version).await?;
        Ok(Response::new(pb::DowngradeResponse {
            header: Some(self.server.header_now()),
            version,
        }))
    }
}

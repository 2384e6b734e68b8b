//! The answers to changes and questions.

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::raw;

use crate::auth::Authenticated;

/// Answers without their headers, which the API adds.
#[derive(Debug)]
pub enum Outcome {
    Put(pb::PutResponse),
    DeleteRange(pb::DeleteRangeResponse),
    Txn(raw::TxnResponse),
    LeaseGrant(pb::LeaseGrantResponse),
    Alarm(Vec<pb::AlarmMember>),
    Lease(LeaseAnswer),
    Authenticated(Authenticated),
    /// Newest entries known to be durable at a member and at its leader.
    Progress {
        matched: u64,
        leader: u64,
    },
    Raft(Box<RaftView>),
    /// The change was made; there is nothing else to report.
    Done,
}

/// The state of this member's raft.
#[derive(Debug)]
pub struct RaftView {
    pub status: raft::Status,
    /// The other members; empty unless this member leads.
    pub peers: Vec<raft::PeerStatus>,
}

#[derive(Debug, Default, PartialEq)]
pub struct LeaseAnswer {
    /// Seconds: granted TTL after a keep-alive (0: no such lease), remaining for TimeToLive (-1).
    pub ttl: i64,
    pub granted_ttl: i64,
    pub keys: Vec<Bytes>,
    /// All leases, those that expire first in front.
    pub leases: Vec<i64>,
    /// Lease id, and remaining TTL in whole seconds.
    pub checkpoints: Vec<(i64, i64)>,
}

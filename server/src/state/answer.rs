//! What changes and questions are answered with.

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::raw;

use crate::auth::Authenticated;

/// Answers without their headers; the edge fills those in.
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
    /// The change has nothing to tell beyond that it happened.
    Done,
}

/// What this member's raft tells of itself.
#[derive(Debug)]
pub struct RaftView {
    pub status: raft::Status,
    /// Of the others; empty unless this member leads.
    pub peers: Vec<raft::PeerStatus>,
}

#[derive(Debug, Default, PartialEq)]
pub struct LeaseAnswer {
    /// Seconds: granted TTL after a keep-alive (0: no such lease), remaining for TimeToLive (-1).
    pub ttl: i64,
    pub granted_ttl: i64,
    pub keys: Vec<Bytes>,
    /// Every lease, the one to end first in front.
    pub leases: Vec<i64>,
    /// Lease id and whole seconds left.
    pub checkpoints: Vec<(i64, i64)>,
}

//! The answers to changes and questions, and how much of them is put together.

use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::raw;
use storage::mvcc::View;

use super::lease::lease_keys;
use crate::auth::Authenticated;
use crate::basics::error::Error;

/// The largest message that etcd sends.
pub const MESSAGE_BYTES_MAX: usize = i32::MAX as usize;

/// Who waits for the answer to an entry. What the entry changes is the same on all members, and at
/// a replay; its answer is of use to one client of one of them. So rows that only the answer shows
/// are read for a client alone. A deletion may answer with all that it deletes: on all members,
/// that would be memory for nothing, and at the replay after a crash over it the same crash again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFor {
    /// A client of this member.
    Client,
    /// Nobody: the client is another member's, or has left, or the entry is replayed. The answer
    /// has no rows.
    Nobody,
}

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
    /// The change was made, as in etcd, but its answer is larger than a message may be. At least so
    /// many bytes: no more of it was read.
    TooLarge {
        bytes: usize,
    },
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

/// An answer about leases. There may be a million of them, and as many keys of one, so the applier
/// leaves it to the caller to read the keys and to sort the leases: all other changes wait for it.
#[derive(Debug, Default)]
pub struct LeaseAnswer {
    /// Seconds: granted TTL after a keep-alive (0: no such lease), remaining for TimeToLive (-1).
    pub ttl: i64,
    pub granted_ttl: i64,
    pub keys: Vec<Bytes>,
    /// If keys were asked for and are not read yet: the state at the time of the answer, and the
    /// lease's id. A later state may have other keys than belong to `ttl`.
    pub unread_keys: Option<(View, i64)>,
    /// When each lease ends, and its id; not sorted.
    pub leases: Vec<(Duration, i64)>,
    /// Lease id, and remaining TTL in whole seconds.
    pub checkpoints: Vec<(i64, i64)>,
}

impl LeaseAnswer {
    /// Reads the keys, if they were asked for.
    pub fn read_keys(&mut self) -> Result<(), Error> {
        if let Some((view, id)) = self.unread_keys.take() {
            self.keys = lease_keys(&view, id)?;
        }
        Ok(())
    }

    /// All leases, those that expire first in front.
    pub fn into_order(self) -> Vec<i64> {
        let mut leases = self.leases;
        leases.sort_unstable();
        leases.into_iter().map(|(_, id)| id).collect()
    }
}

/// Room for the rows of one entry's answer.
#[derive(Debug)]
pub(super) struct Room {
    answer_for: AnswerFor,
    /// Bytes that the rows may have.
    most: usize,
    /// Bytes of the rows so far, as they are sent. The row with which they are too many is counted.
    bytes: usize,
}

impl Room {
    pub(super) fn new(answer_for: AnswerFor, most: usize) -> Room {
        Room {
            answer_for,
            most,
            bytes: 0,
        }
    }

    /// False if rows need not be read: for nobody, or for an answer that is too large already.
    pub(super) fn is_left(&self) -> bool {
        self.answer_for == AnswerFor::Client && self.bytes <= self.most
    }

    /// Bytes of rows that still fit.
    pub(super) fn left(&self) -> usize {
        self.most.saturating_sub(self.bytes)
    }

    /// Counts rows of so many bytes. False if they do not fit, or nobody wants them.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        if self.is_left() {
            self.bytes = self.bytes.saturating_add(bytes);
        }
        self.is_left()
    }

    /// The bytes of rows that are more than fit.
    pub(super) fn overrun(&self) -> Option<usize> {
        (self.bytes > self.most).then_some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_listed_by_remaining_time() {
        let leases = [(30, 1), (10, 3), (20, 4), (10, 2)];
        let answer = LeaseAnswer {
            leases: leases
                .map(|(end, id)| (Duration::from_secs(end), id))
                .to_vec(),
            ..Default::default()
        };
        assert_eq!(answer.into_order(), [2, 3, 4, 1]);
    }
}

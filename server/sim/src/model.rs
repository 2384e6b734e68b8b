//! What the members must show: a small etcd on ordered maps, fed with the committed entries as the
//! log has them. It shares no code with the server but the decoding of an entry, so a mistake that
//! all members make in the same way shows too. Nothing is ever dropped here: the model answers for
//! every applied index, and so for members that are behind.

mod keys;
mod range;
mod txn;

use std::collections::{BTreeMap, BTreeSet};

use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::KeyValue;
use pb::alarm_request::AlarmAction;
use raft::{Entry, EntryKind, Index};
use server::error::Error;
use server::request::Request;

use crate::check::Verdict;
use keys::{Keys, NEWEST};

/// Leases and alarms are kept for one index in so many.
pub const SIDES_EVERY: Index = 16;

/// Nine billion seconds: etcd's limit.
const MAX_TTL: i64 = 9_000_000_000;

/// Why a request has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Compacted,
    FutureRevision,
    KeyNotFound,
    LeaseExists,
    LeaseNotFound,
    LeaseTtlTooLarge,
    NoSpace,
}

impl Refusal {
    /// What clients hear.
    pub fn error(self) -> Error {
        match self {
            Refusal::Compacted => Error::Compacted,
            Refusal::FutureRevision => Error::FutureRevision,
            Refusal::KeyNotFound => Error::KeyNotFound,
            Refusal::LeaseExists => Error::LeaseExists,
            Refusal::LeaseNotFound => Error::LeaseNotFound,
            Refusal::LeaseTtlTooLarge => Error::LeaseTtlTooLarge,
            Refusal::NoSpace => Error::NoSpace,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    Put(pb::PutResponse),
    DeleteRange(pb::DeleteRangeResponse),
    Txn(pb::TxnResponse),
    /// The TTL in seconds.
    LeaseGrant(i64),
    Done,
}

/// What became of one request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub index: Index,
    /// The store's revision right after it.
    pub revision: i64,
    pub response: Result<Response, Refusal>,
}

/// One change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub key: Vec<u8>,
    /// `None` for a deletion.
    pub value: Option<Vec<u8>>,
    pub create_revision: i64,
    pub version: i64,
    pub lease: i64,
}

impl Event {
    pub(crate) fn deletion(key: &[u8]) -> Event {
        Event {
            key: key.to_vec(),
            value: None,
            create_revision: 0,
            version: 0,
            lease: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Seconds.
    pub granted_ttl: i64,
    /// Seconds left at the last checkpoint; 0 if there was none.
    pub remaining_ttl: i64,
}

/// What members have beside the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    pub leases: BTreeMap<i64, Lease>,
    /// Member and kind.
    pub alarms: BTreeSet<(u64, i32)>,
}

/// The revisions of one applied index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revisions {
    pub current: i64,
    /// -1 before the first compaction.
    pub compacted: i64,
}

#[derive(Debug)]
pub struct Model {
    /// Seconds; a shorter TTL is raised to this.
    min_lease_ttl: i64,
    keys: Keys,
    sides: Sides,
    /// By index, which counts from 0.
    revisions: Vec<Revisions>,
    sides_at: BTreeMap<Index, Sides>,
    /// By request id.
    answers: BTreeMap<u64, Answer>,
}

impl Model {
    pub fn new(min_lease_ttl: i64) -> Model {
        let start = Revisions {
            current: 1,
            compacted: -1,
        };
        Model {
            min_lease_ttl,
            keys: Keys::default(),
            sides: Sides::default(),
            revisions: vec![start],
            sides_at: BTreeMap::new(),
            answers: BTreeMap::new(),
        }
    }

    /// The newest entry that was applied.
    pub fn applied(&self) -> Index {
        self.revisions.len() as Index - 1
    }

    /// Applies the entry after [`Self::applied`]. The error says why the log cannot be right.
    pub fn apply(&mut self, entry: &Entry) -> Verdict {
        if entry.index != self.applied() + 1 {
            let after = self.applied();
            return Err(format!("entry {} is committed after {after}", entry.index));
        }
        let mut revisions = self.newest();
        let mut answer = None;
        if entry.kind == EntryKind::Normal && !entry.data.is_empty() {
            let request = Request::decode(&entry.data);
            let request = request.map_err(|what| format!("entry {}: {what}", entry.index))?;
            answer = Some(self.answer(&request, &mut revisions)?);
            revisions.current = self.keys.revision();
        }
        self.revisions.push(revisions);
        if entry.index.is_multiple_of(SIDES_EVERY) {
            self.sides_at.insert(entry.index, self.sides.clone());
        }
        let (Some(response), Some(id)) = (answer, Request::id_of(&entry.data)) else {
            return Ok(());
        };
        let answer = Answer {
            index: entry.index,
            revision: revisions.current,
            response,
        };
        if let Some(first) = self.answers.insert(id, answer) {
            let (first, again) = (first.index, entry.index);
            return Err(format!(
                "request {id:x} is in the log twice, at {first} and {again}"
            ));
        }
        Ok(())
    }

    /// What became of a request; `None` if it is not committed.
    pub fn answer_to(&self, request_id: u64) -> Option<&Answer> {
        self.answers.get(&request_id)
    }

    pub fn newest(&self) -> Revisions {
        self.revisions[self.revisions.len() - 1]
    }

    /// `None` if nobody has committed that much.
    pub fn revisions_at(&self, index: Index) -> Option<Revisions> {
        self.revisions.get(usize::try_from(index).ok()?).copied()
    }

    /// Leases and alarms; `None` for an index at which they were not kept.
    pub fn sides_at(&self, index: Index) -> Option<&Sides> {
        if index == self.applied() {
            return Some(&self.sides);
        }
        self.sides_at.get(&index)
    }

    /// The answer to a range from a member that has applied `index`.
    pub fn range(
        &self,
        index: Index,
        request: &pb::RangeRequest,
    ) -> Result<pb::RangeResponse, Refusal> {
        let revisions = self.revisions_at(index).ok_or(Refusal::FutureRevision)?;
        range::answer(&self.keys, revisions, request)
    }

    /// The answer to a transaction that only reads, from a member that has applied `index`.
    pub fn read(&self, index: Index, request: &pb::TxnRequest) -> Result<pb::TxnResponse, Refusal> {
        let revisions = self.revisions_at(index).ok_or(Refusal::FutureRevision)?;
        txn::read(&self.keys, revisions, request)
    }

    /// Every key that is live at `revision`, in order.
    pub fn live_at(&self, revision: i64) -> impl Iterator<Item = &KeyValue> {
        self.keys.range(b"\0", b"\0", revision)
    }

    /// What `key` was at `revision`.
    pub fn get(&self, key: &[u8], revision: i64) -> Option<&KeyValue> {
        self.keys.get(key, revision)
    }

    /// The changes of one revision, in order.
    pub fn changes_at(&self, revision: i64) -> &[Event] {
        self.keys
            .history()
            .get(&revision)
            .map_or(&[], Vec::as_slice)
    }

    /// Revisions in `(after, through]` with their changes.
    pub fn changes(&self, after: i64, through: i64) -> impl Iterator<Item = (i64, &[Event])> {
        let range = after + 1..through.max(after) + 1;
        let changes = self.keys.history().range(range);
        changes.map(|(revision, events)| (*revision, events.as_slice()))
    }

    fn answer(
        &mut self,
        request: &Request,
        revisions: &mut Revisions,
    ) -> Result<Result<Response, Refusal>, String> {
        if !self.sides.alarms.is_empty() && takes_space(request) {
            return Ok(Err(Refusal::NoSpace));
        }
        let leases = &self.sides.leases;
        Ok(match request {
            Request::Put(put) => txn::put(&mut self.keys, leases, put).map(Response::Put),
            Request::DeleteRange(delete) => {
                let response = txn::delete_range(&mut self.keys, delete);
                Ok(Response::DeleteRange(response))
            }
            Request::Txn(request) => {
                txn::run(&mut self.keys, *revisions, leases, request).map(Response::Txn)
            }
            Request::Compaction(compaction) => compact(revisions, compaction.revision),
            Request::LeaseGrant(grant) => self.grant(grant),
            Request::LeaseRevoke(revoke) => self.revoke(revoke.id),
            Request::LeaseCheckpoint(checkpoints) => {
                for checkpoint in &checkpoints.checkpoints {
                    if let Some(lease) = self.sides.leases.get_mut(&checkpoint.id) {
                        lease.remaining_ttl = checkpoint.remaining_ttl;
                    }
                }
                Ok(Response::Done)
            }
            Request::Alarm(alarm) => {
                if alarm.alarm != pb::AlarmType::Nospace as i32 {
                    return Err(format!("nobody raises such an alarm here: {alarm:?}"));
                }
                let raised = (alarm.member_id, alarm.alarm);
                match alarm.action() {
                    AlarmAction::Get => {}
                    AlarmAction::Activate => drop(self.sides.alarms.insert(raised)),
                    AlarmAction::Deactivate => drop(self.sides.alarms.remove(&raised)),
                }
                Ok(Response::Done)
            }
            Request::ClusterVersionSet(_)
            | Request::ClusterMemberAttrSet(_)
            | Request::DowngradeInfoSet(_)
            | Request::Read => Ok(Response::Done),
            Request::Authenticate(_) | Request::Auth(_) => {
                return Err(format!("nobody asks for that here: {request:?}"));
            }
        })
    }

    fn grant(&mut self, grant: &pb::LeaseGrantRequest) -> Result<Response, Refusal> {
        if grant.id == 0 {
            return Err(Refusal::LeaseNotFound);
        }
        if grant.ttl > MAX_TTL {
            return Err(Refusal::LeaseTtlTooLarge);
        }
        if self.sides.leases.contains_key(&grant.id) {
            return Err(Refusal::LeaseExists);
        }
        let granted_ttl = grant.ttl.max(self.min_lease_ttl);
        let lease = Lease {
            granted_ttl,
            remaining_ttl: 0,
        };
        self.sides.leases.insert(grant.id, lease);
        Ok(Response::LeaseGrant(granted_ttl))
    }

    /// Deletes the lease's keys in key order, under one revision.
    fn revoke(&mut self, id: i64) -> Result<Response, Refusal> {
        if self.sides.leases.remove(&id).is_none() {
            return Err(Refusal::LeaseNotFound);
        }
        let held = self.keys.range(b"\0", b"\0", NEWEST);
        let held: Vec<_> = held.filter(|kv| kv.lease == id).collect();
        let held: Vec<_> = held.into_iter().map(|kv| kv.key.clone()).collect();
        let revision = self.keys.revision() + 1;
        for key in held {
            self.keys.delete(&key, revision);
        }
        Ok(Response::Done)
    }
}

fn compact(revisions: &mut Revisions, through: i64) -> Result<Response, Refusal> {
    if through <= revisions.compacted {
        return Err(Refusal::Compacted);
    }
    if through > revisions.current {
        return Err(Refusal::FutureRevision);
    }
    revisions.compacted = through;
    Ok(Response::Done)
}

/// An alarm refuses puts, transactions that may put, and new leases.
fn takes_space(request: &Request) -> bool {
    fn puts(txn: &pb::TxnRequest) -> bool {
        let mut ops = txn.success.iter().chain(&txn.failure);
        ops.any(|op| match &op.request {
            Some(pb::request_op::Request::RequestPut(_)) => true,
            Some(pb::request_op::Request::RequestTxn(nested)) => puts(nested),
            _ => false,
        })
    }
    match request {
        Request::Put(_) | Request::LeaseGrant(_) => true,
        Request::Txn(txn) => puts(txn),
        _ => false,
    }
}

#[cfg(test)]
mod tests;

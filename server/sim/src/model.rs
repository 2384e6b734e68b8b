//! What the members must show: a small etcd on ordered maps, fed with the committed entries as the
//! log has them. It shares no code with the server but the decoding of a request, so a mistake that
//! all members make in the same way shows too. Nothing is ever dropped here: the model answers for
//! every applied index, and so for members that are behind.

mod keys;
mod range;
mod txn;
pub mod users;

use std::collections::{BTreeMap, BTreeSet};

use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::KeyValue;
use pb::alarm_request::AlarmAction;
use prost::Message;
use raft::{Entry, EntryKind, Index};
use server::error::Error;
use server::request::{AuthInfo, Request};

use crate::check::Verdict;
use keys::{Keys, NEWEST};
use users::{TokenEvent, Users};

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
    AuthFailed,
    AuthNotEnabled,
    AuthOldRevision,
    InvalidAuthManagement,
    InvalidAuthToken,
    NoPasswordUser,
    PermissionDenied,
    PermissionNotGiven,
    PermissionNotGranted,
    RoleEmpty,
    RoleExists,
    RoleNotFound,
    RoleNotGranted,
    RootRoleNotGranted,
    RootUserNotFound,
    UserEmpty,
    UserExists,
    UserNotFound,
}

impl Refusal {
    /// Who asked, and not what, was the reason; or it is about users and roles themselves.
    pub fn is_about_users(self) -> bool {
        !matches!(
            self,
            Refusal::Compacted
                | Refusal::FutureRevision
                | Refusal::KeyNotFound
                | Refusal::LeaseExists
                | Refusal::LeaseNotFound
                | Refusal::LeaseTtlTooLarge
                | Refusal::NoSpace
        )
    }

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
            Refusal::NoPasswordUser => Error::no_password_user(),
            Refusal::AuthFailed => Error::AuthFailed,
            Refusal::AuthNotEnabled => Error::AuthNotEnabled,
            Refusal::AuthOldRevision => Error::AuthOldRevision,
            Refusal::InvalidAuthManagement => Error::InvalidAuthManagement,
            Refusal::InvalidAuthToken => Error::InvalidAuthToken,
            Refusal::PermissionDenied => Error::PermissionDenied,
            Refusal::PermissionNotGiven => Error::PermissionNotGiven,
            Refusal::PermissionNotGranted => Error::PermissionNotGranted,
            Refusal::RoleEmpty => Error::RoleEmpty,
            Refusal::RoleExists => Error::RoleExists,
            Refusal::RoleNotFound => Error::RoleNotFound,
            Refusal::RoleNotGranted => Error::RoleNotGranted,
            Refusal::RootRoleNotGranted => Error::RootRoleNotGranted,
            Refusal::RootUserNotFound => Error::RootUserNotFound,
            Refusal::UserEmpty => Error::UserEmpty,
            Refusal::UserExists => Error::UserExists,
            Refusal::UserNotFound => Error::UserNotFound,
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
    /// A simple token, and the revision of users that a signed one carries.
    Authenticated {
        user: String,
        token: String,
        auth_revision: u64,
    },
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
    /// From the entry on that made them.
    users: BTreeMap<Index, Users>,
    tokens: BTreeMap<Index, TokenEvent>,
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
            users: BTreeMap::from([(0, Users::default())]),
            tokens: BTreeMap::new(),
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
            let by = requester(entry)?;
            answer = Some(self.answer(entry.index, &request, &by, &mut revisions)?);
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

    /// Who may do what, by a member that has applied `index`.
    pub fn users_at(&self, index: Index) -> &Users {
        let last = self.users.range(..=index).next_back();
        last.map_or_else(
            || unreachable!("there are some from the start"),
            |(_, users)| users,
        )
    }

    /// True if there ever were users.
    pub fn has_users(&self) -> bool {
        self.users.len() > 1
    }

    /// What became of tokens in `(after, through]`.
    pub fn token_events(&self, after: Index, through: Index) -> impl Iterator<Item = &TokenEvent> {
        let range = after + 1..through.max(after) + 1;
        self.tokens.range(range).map(|(_, event)| event)
    }

    /// The entry that issued a simple token, and its user.
    pub fn token(&self, text: &str) -> Option<(Index, &str)> {
        self.tokens.iter().find_map(|(index, event)| match event {
            TokenEvent::Begins { token, user } if token == text => Some((*index, user.as_str())),
            _ => None,
        })
    }

    /// The keys of a lease at `revision`.
    pub fn lease_keys(&self, lease: i64, revision: i64) -> Vec<Vec<u8>> {
        let held = self.live_at(revision).filter(|kv| kv.lease == lease);
        held.map(|kv| kv.key.to_vec()).collect()
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
        index: Index,
        request: &Request,
        by: &AuthInfo,
        revisions: &mut Revisions,
    ) -> Result<Result<Response, Refusal>, String> {
        if !self.sides.alarms.is_empty() && takes_space(request) {
            return Ok(Err(Refusal::NoSpace));
        }
        let users = self.users_at(index);
        let held = |lease| self.lease_keys(lease, NEWEST);
        if let Err(denied) = users.authorize(by, request, &held) {
            return Ok(Err(denied));
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
            Request::Authenticate(login) => self.log_in(index, login),
            Request::Auth(change) => {
                let mut users = users.clone();
                let changed = users.change(change);
                changed.map(|tokens| {
                    self.users.insert(index, users);
                    self.tokens.extend(tokens.map(|event| (index, event)));
                    Response::Done
                })
            }
        })
    }

    fn log_in(
        &mut self,
        index: Index,
        login: &pb::InternalAuthenticateRequest,
    ) -> Result<Response, Refusal> {
        let users = self.users_at(index);
        users.may_log_in(&login.name)?;
        let auth_revision = users.revision;
        // The number is that of the entry before.
        let token = format!("{}.{}", login.simple_token, index - 1);
        let user = login.name.clone();
        let begins = TokenEvent::Begins {
            token: token.clone(),
            user: user.clone(),
        };
        self.tokens.insert(index, begins);
        Ok(Response::Authenticated {
            user,
            token,
            auth_revision,
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

/// Who an entry was written for.
fn requester(entry: &Entry) -> Result<AuthInfo, String> {
    let request = pb::InternalRaftRequest::decode(&entry.data[..]);
    let request = request.map_err(|what| format!("entry {}: {what}", entry.index))?;
    let header = request.header.unwrap_or_default();
    Ok(AuthInfo {
        user: header.username,
        revision: header.auth_revision,
    })
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

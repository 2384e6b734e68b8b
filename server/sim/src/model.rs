//! What the members must show: a small etcd on ordered maps, fed with the committed entries as the
//! log has them. It shares no code with the server but the decoding of a request, so a mistake that
//! all members make in the same way shows too. Nothing is ever dropped here: the model answers for
//! every applied index, and so for members that are behind.

mod apply;
mod keys;
mod range;
#[cfg(test)]
mod tests;
mod txn;
pub mod users;

use std::collections::{BTreeMap, BTreeSet};

use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::KeyValue;
use raft::Index;
use server::basics::error::Error;

use keys::Keys;
use users::{TokenEvent, Users};

/// Leases and alarms are kept for one index in so many.
pub const SIDES_EVERY: Index = 16;

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
}

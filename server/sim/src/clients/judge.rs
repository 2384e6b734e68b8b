//! Every answer and every refusal, held against the model.

use etcd_api::etcdserverpb as pb;
use prost::Message;
use server::basics::error::Error;
use server::member::event::{Answer, Outcome};
use server::state;

use super::explore::Read;
use super::{Ask, Waiting};
use crate::canary::Canary;
use crate::host::Host;
use crate::model::{Refusal, Response};
use crate::world::{Failed, Named, SMALL_QUOTA, World};

/// The time to live of a lease that is not there.
const GONE: i64 = -1;
/// The election timeout of all members.
const MOST_ELECTION_SECONDS: i64 = 1;

/// The answer to a read.
#[derive(Clone, Debug, PartialEq)]
enum Shown {
    Range(pb::RangeResponse),
    Txn(pb::TxnResponse),
}

impl World {
    /// A change was answered.
    pub(super) fn judge_change(
        &mut self,
        waiting: &Waiting,
        answer: &Answer,
    ) -> Result<(), Failed> {
        let Some(id) = waiting.request_id else {
            return Ok(());
        };
        let ask = &waiting.ask;
        let Some(expected) = self.model.answer_to(id) else {
            let what = format!("{ask:?} is answered and not in the log");
            return Err(("model", what));
        };
        let wrong = i64::from(self.canary == Some(Canary::WrongRevision));
        let revision = answer.revision + wrong;
        let response = response(&answer.outcome);
        if response.as_ref() != expected.response.as_ref().ok() || revision != expected.revision {
            let what = format!(
                "{ask:?} is answered with {response:?} at {revision}, by the log {expected:?}"
            );
            return Err(("model", what));
        }
        let judged = self.checks.real_time.changed(waiting.floor, expected.index);
        judged.of("real time")
    }

    /// A member may answer a read now. `None` if its disk has begun to fail.
    pub(super) fn judge_read(
        &mut self,
        waiting: &Waiting,
        read: &Read,
        serializable: bool,
    ) -> Result<Option<String>, Failed> {
        let Some(view) = &waiting.view else {
            return Ok(None);
        };
        let index = view.applied().index;
        let mut shown = match read {
            Read::Range(request) => state::range(view, request).map(|range| {
                let range = pb::RangeResponse::decode(&range.encode_to_vec()[..]);
                Shown::Range(range.unwrap_or_default())
            }),
            Read::Txn(request) => state::read_txn(view, request.clone()).map(|txn| {
                let txn = pb::TxnResponse::decode(&txn.encode_to_vec()[..]);
                Shown::Txn(txn.unwrap_or_default())
            }),
        };
        if self.canary == Some(Canary::ShortRange)
            && let Ok(Shown::Range(range)) = &mut shown
        {
            range.kvs.pop();
        }
        let expected = match read {
            Read::Range(request) => self.model.range(index, request).map(Shown::Range),
            Read::Txn(request) => self.model.read(index, request).map(Shown::Txn),
        };
        if let Err(Error::Damaged(what)) = &shown {
            self.is_damaged(waiting.host, what)?;
            return Ok(None);
        }
        let expected = expected.map_err(Refusal::error);
        if shown != expected {
            let what =
                format!("{read:?} at {index} is answered with {shown:?}, by the log {expected:?}");
            return Err(("model", what));
        }
        let floor = if serializable { 0 } else { waiting.floor };
        let judged = self.checks.real_time.read(floor, index);
        judged.of("real time")?;
        Ok(Some(match shown {
            Ok(Shown::Range(range)) => format!("{} of {} keys", range.kvs.len(), range.count),
            Ok(Shown::Txn(txn)) => format!("{}", txn.succeeded),
            Err(error) => error.to_string(),
        }))
    }

    /// A member cannot read its disk, which fails or has rotted.
    pub(super) fn is_damaged(&mut self, host: usize, what: &str) -> Result<(), Failed> {
        if self.hosts[host].disk_has_failed() || self.finds_rot(host, what)? {
            return Ok(());
        }
        let what = format!("h{host} cannot read, though its disk is well: {what}");
        Err(("durable prefix", what))
    }

    /// A member told what is left of a lease, and its keys.
    pub(super) fn judge_time_to_live(&self, lease: i64, answer: &Answer) -> Result<(), Failed> {
        let Outcome::Lease(told) = &answer.outcome else {
            unreachable!("a question about a lease is answered as such");
        };
        let revision = answer.revision;
        let held = self.model.live_at(revision).filter(|kv| kv.lease == lease);
        let held: Vec<&[u8]> = held.map(|kv| &kv.key[..]).collect();
        let mut keys = told.keys.clone();
        if self.canary == Some(Canary::LostLeaseKey) {
            keys.pop();
        }
        // A new leader gives each lease the time that its election may have taken.
        let is_too_long = told.ttl > told.granted_ttl + MOST_ELECTION_SECONDS;
        let is_gone = told.ttl == GONE;
        if keys == held && (is_gone || !is_too_long) {
            return Ok(());
        }
        let what = format!("lease {lease} is {told:?} at {revision}, by the log it has {held:?}");
        Err(("leases", what))
    }

    /// A change was refused: by the log, or it must never get there. True if users and roles were
    /// the reason.
    pub(super) fn judge_refusal(
        &mut self,
        waiting: &Waiting,
        error: &Error,
    ) -> Result<bool, Failed> {
        let ask = &waiting.ask;
        let committed = waiting.request_id.and_then(|id| self.model.answer_to(id));
        if let Some(answer) = committed {
            let expected = answer
                .response
                .as_ref()
                .err()
                .map(|refusal| refusal.error());
            if Some(error) == expected.as_ref() {
                let judged = self.checks.real_time.changed(waiting.floor, answer.index);
                judged.of("real time")?;
                return Ok(answer.response.as_ref().is_err_and(|r| r.is_about_users()));
            }
            let what = format!("{ask:?} is refused with {error}, by the log {answer:?}");
            return Err(("refusals", what));
        }
        match error {
            Error::NoLeader | Error::TooManyRequests => {
                self.clients.refused.extend(waiting.request_id);
                Ok(false)
            }
            // Said at the door, and judged there.
            error if waiting.request_id.is_none() && is_of_door(error) => Ok(true),
            // No room was left somewhere, or the quota is used up.
            Error::NoSpace if waiting.request_id.is_none() && self.may_lack_space() => Ok(false),
            error => {
                let what = format!("{ask:?} is refused with {error}, and not in the log");
                Err(("refusals", what))
            }
        }
    }

    fn may_lack_space(&self) -> bool {
        let has_quota = |host: &Host| {
            let quota = host.settings.config.quota_backend_bytes;
            quota == Some(SMALL_QUOTA)
        };
        self.figures.tight > 0 || self.hosts.iter().any(has_quota)
    }
}

impl Ask {
    pub(super) fn is_read(&self) -> bool {
        match self {
            Ask::Read { .. } => true,
            Ask::Operation { operation, .. } => operation.is_read(),
            _ => false,
        }
    }

    pub(super) fn is_serializable(&self) -> bool {
        matches!(
            self,
            Ask::Read {
                serializable: true,
                ..
            }
        )
    }

    /// The lease that has to exist for it.
    pub(super) fn needs_lease(&self) -> Option<i64> {
        match self {
            Ask::Attach { lease } | Ask::Revoke { lease } => Some(*lease),
            _ => None,
        }
    }
}

/// What request handlers say of who asks.
fn is_of_door(error: &Error) -> bool {
    let known = [
        Refusal::AuthFailed,
        Refusal::AuthNotEnabled,
        Refusal::AuthOldRevision,
        Refusal::InvalidAuthToken,
        Refusal::NoPasswordUser,
        Refusal::PermissionDenied,
        Refusal::UserEmpty,
        Refusal::UserNotFound,
    ];
    known.iter().any(|refusal| refusal.error() == *error)
}

/// As clients get it; `None` for what is no answer to a change.
fn response(outcome: &Outcome) -> Option<Response> {
    match outcome {
        Outcome::Put(put) => Some(Response::Put(put.clone())),
        Outcome::DeleteRange(deleted) => Some(Response::DeleteRange(deleted.clone())),
        Outcome::Txn(txn) => {
            let txn = pb::TxnResponse::decode(&txn.encode_to_vec()[..]);
            txn.ok().map(Response::Txn)
        }
        Outcome::LeaseGrant(granted) => Some(Response::LeaseGrant(granted.ttl)),
        Outcome::Authenticated(given) => Some(Response::Authenticated {
            user: given.user.clone(),
            token: given.token.clone(),
            auth_revision: given.auth_revision,
        }),
        Outcome::Done => Some(Response::Done),
        _ => None,
    }
}

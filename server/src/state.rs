//! The replicated state, and [`State::apply`], the only way to change it. The result depends only
//! on the log entry and the state, so all members reach the same state. Times, salts and new ids
//! are therefore part of the request.

mod answer;
mod auth;
mod cluster;
pub(crate) mod entry;
pub mod hashes;
pub mod held_back;
pub(crate) mod kv;
mod lease;
pub(crate) mod lessor;
pub mod snapshot;
pub(crate) mod space_alarm;
mod tally;
pub(crate) mod txn;
pub mod watch;

use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::KeyValue;
use storage::mvcc::{Applied, Bucket, Found, Item, LonePut, Root, Store, SyncJob, Write};

use crate::auth::{Authenticated, ROOT};
use crate::basics::error::Error;
use crate::request::{AuthInfo, PutBy, Request};
use crate::state::snapshot::Received;
use answer::Room;

pub use answer::{AnswerFor, LeaseAnswer, MESSAGE_BYTES_MAX, Outcome, RaftView};
pub use auth::{Auth, default_revision_row, is_default_revision};
pub use cluster::{
    ChangeContext, Downgrade, MemberInfo, cluster_version, downgrade, member_row, members, removed,
};

pub use kv::range;
pub use lease::{LeaseRow, first_lease_key, lease_keys, lease_row, leases};
pub use tally::Tally;
pub use txn::read as read_txn;

/// etcd's default.
pub const MAX_LEARNERS: usize = 1;

pub struct State {
    pub store: Store,
    /// Seconds; a shorter TTL is raised to this.
    min_lease_ttl: i64,
    /// Limit on learners. Adding more is refused. Must be equal on all members.
    pub max_learners: usize,
    /// Bytes that the rows of an answer to an entry may have. Of one with more no rows are kept,
    /// and its client hears that it is too large. What the entry changes does not depend on this.
    answer_bytes_max: usize,
    /// The alarms in `Bucket::Alarm`, cached because every change checks them.
    alarms: Vec<pb::AlarmMember>,
    /// Users, roles and permissions, also cached beside their rows.
    pub auth: Auth,
}

/// Side effects of an entry, for the actors around the state.
#[derive(Debug, Default, PartialEq)]
pub struct Effects {
    pub granted: Option<LeaseRow>,
    pub revoked: Option<i64>,
    /// The new compaction revision.
    pub compacted: Option<i64>,
    pub alarms_changed: bool,
    pub cluster_changed: bool,
    /// A simple token that is valid from now on.
    pub authenticated: Option<Authenticated>,
    pub tally: Tally,
}

impl State {
    pub fn new(store: Store, min_lease_ttl: i64) -> Result<State, Error> {
        let alarms = alarms(store.root())?;
        let auth = Auth::load(store.root())?;
        Ok(State {
            store,
            min_lease_ttl,
            max_learners: MAX_LEARNERS,
            answer_bytes_max: MESSAGE_BYTES_MAX,
            alarms,
            auth,
        })
    }

    /// Applies one entry. An error leaves the data unchanged; the applied index advances either
    /// way. Permissions were checked before the entry was proposed, and are checked again here,
    /// because they may have changed in between.
    ///
    /// `answer_for` decides about the rows of the outcome alone, not about the data, the effects,
    /// or whether the entry fails. Only damage is found where it is read. Then the member stops; a
    /// replay, which reads no rows for an answer, gets past the entry.
    pub fn apply(
        &mut self,
        applied: Applied,
        request: &Request,
        by: &AuthInfo,
        answer_for: AnswerFor,
        effects: &mut Effects,
    ) -> Result<Outcome, Error> {
        let allowed = self.allows(by, request);
        let mut write = self.store.write(applied);
        allowed?;
        match request {
            Request::Put(_)
            | Request::DeleteRange(_)
            | Request::Txn(_)
            | Request::Compaction(_) => {
                let room = Room::new(answer_for, self.answer_bytes_max);
                return apply_to_keys(&mut write, request, room, effects);
            }
            Request::LeaseGrant(grant) => {
                let row = lease::grant(&mut write, grant, self.min_lease_ttl)?;
                effects.granted = Some(row);
                return Ok(Outcome::LeaseGrant(pb::LeaseGrantResponse {
                    id: row.id,
                    ttl: row.granted_ttl,
                    ..Default::default()
                }));
            }
            Request::Alarm(request) => {
                effects.alarms_changed = true;
                return alarm(&mut write, &mut self.alarms, request).map(Outcome::Alarm);
            }
            Request::Authenticate(request) => {
                let authenticated = self.auth.authenticate(applied.index, request)?;
                effects.authenticated = Some(authenticated.clone());
                return Ok(Outcome::Authenticated(authenticated));
            }
            Request::LeaseRevoke(revoke) => {
                let deletes = lease::revoke(&mut write, revoke.id)?;
                effects.tally.revoke(deletes);
                effects.revoked = Some(revoke.id);
            }
            Request::LeaseCheckpoint(checkpoints) => lease::checkpoint(&mut write, checkpoints)?,
            Request::ClusterVersionSet(set) => {
                effects.cluster_changed = true;
                cluster::set_version(&mut write, &set.ver)?;
            }
            Request::ClusterMemberAttrSet(set) => {
                effects.cluster_changed = true;
                cluster::set_attributes(&mut write, set)?;
            }
            Request::DowngradeInfoSet(set) => {
                effects.cluster_changed = true;
                cluster::set_downgrade(&mut write, set)?;
            }
            Request::Auth(request) => self.auth.change(&mut write, applied.index, request)?,
            Request::Read => {}
        }
        Ok(Outcome::Done)
    }

    /// Fails if [`State::apply`] refuses the request whatever it asks for: by an alarm, or for lack
    /// of permission.
    pub fn allows(&self, by: &AuthInfo, request: &Request) -> Result<(), Error> {
        refuse_under_alarm(&self.alarms, request)?;
        self.auth.check(self.store.root(), by, request)
    }

    /// Applies entries that are all [lone puts](crate::request::Request::lone_put), each
    /// with the identity that authorizes it; see [`Store::put_all`].
    pub fn put_all<'a>(
        &mut self,
        mut puts: Vec<LonePut<'_>>,
        by: impl Iterator<Item = PutBy<'a>>,
        found: Option<Found>,
    ) -> Result<Option<SyncJob>, Error> {
        let Some(last) = puts.last().map(|put| put.applied) else {
            return Ok(None);
        };
        // Puts do not change alarms.
        if refuses_puts(&self.alarms) {
            self.skip(last);
            return Ok(None);
        }
        if self.auth.image().enabled {
            let auth = &self.auth;
            let mut by = by;
            puts.retain(|put| by.next().is_some_and(|by| auth.may_put(put.key, &by)));
        }
        let sync = self.store.put_all(&puts, found)?;
        if puts.last().is_none_or(|put| put.applied != last) {
            self.skip(last);
        }
        Ok(sync)
    }

    /// The identity under which this member itself proposes changes.
    pub fn own_auth_info(&self) -> AuthInfo {
        let image = self.auth.image();
        if image.enabled {
            AuthInfo {
                user: ROOT.to_owned(),
                revision: image.revision,
            }
        } else {
            AuthInfo::default()
        }
    }

    /// Applies a membership change from the log. As with `apply`, an error leaves the data
    /// unchanged, and the applied index advances.
    pub fn apply_conf_change(
        &mut self,
        applied: Applied,
        change: &raft::ConfChange,
    ) -> Result<(), Error> {
        let mut write = self.store.write(applied);
        cluster::apply_conf_change(&mut write, change, self.max_learners)
    }

    /// Replaces the state by another member's. Everything cached beside the store is read again:
    /// users and roles first, because readers see the store as soon as it is replaced, and none may
    /// be judged by those before it.
    pub fn replace(&mut self, received: Received) -> Result<(), Error> {
        self.auth.reload(received.root())?;
        received.replace(&mut self.store)?;
        self.alarms = alarms(self.store.root())?;
        Ok(())
    }

    /// True if this member's space alarm is raised.
    pub fn has_space_alarm(&self, member: u64) -> bool {
        let kind = pb::AlarmType::Nospace as i32;
        let own = |alarm: &pb::AlarmMember| alarm.member_id == member && alarm.alarm == kind;
        self.alarms.iter().any(own)
    }

    /// Advances the applied index over an entry without effect, such as a new leader's first.
    pub fn skip(&mut self, applied: Applied) {
        drop(self.store.write(applied));
    }
}

/// Checks that all rows beside the keys can be read. A snapshot from another member must pass this
/// before it is installed.
pub fn check_rows(root: &Root) -> Result<(), Error> {
    leases(root)?;
    members(root)?;
    alarms(root).map(drop)
}

/// The raised alarms, from rows of (member, kind).
pub fn alarms(root: &Root) -> Result<Vec<pb::AlarmMember>, Error> {
    let mut found = Vec::new();
    root.side_scan(Bucket::Alarm, b"", &mut |key, _| {
        found.push(decode_alarm(key));
        std::ops::ControlFlow::Continue(())
    })?;
    found.into_iter().collect()
}

pub(crate) fn to_key_value(item: Item<'_>) -> KeyValue {
    KeyValue {
        key: bytes::Bytes::copy_from_slice(item.key),
        create_revision: item.create_revision,
        mod_revision: item.mod_revision,
        version: item.version,
        value: bytes::Bytes::copy_from_slice(item.value),
        lease: item.lease,
    }
}

/// Applies `request`, which is one about keys.
fn apply_to_keys(
    write: &mut Write<'_>,
    request: &Request,
    mut room: Room,
    effects: &mut Effects,
) -> Result<Outcome, Error> {
    let outcome = match request {
        Request::Put(put) => {
            let response = kv::put(write, put, &mut room)?;
            effects.tally.lone(|tally| tally.put(put));
            Outcome::Put(response)
        }
        Request::DeleteRange(delete) => {
            let response = kv::delete_range(write, delete, &mut room)?;
            effects.tally.lone(|tally| tally.delete_range(delete));
            Outcome::DeleteRange(response)
        }
        Request::Txn(txn) => {
            let response = txn::write(write, txn, &mut room, &mut effects.tally)?;
            Outcome::Txn(response)
        }
        Request::Compaction(compaction) => {
            kv::compact(write, compaction)?;
            // etcd reads a key after each compaction, and its metrics show it.
            effects.tally.range();
            effects.compacted = Some(compaction.revision);
            Outcome::Done
        }
        other => unreachable!("{other:?} is not about keys"),
    };
    Ok(match room.overrun() {
        Some(bytes) => Outcome::TooLarge { bytes },
        None => outcome,
    })
}

/// NOSPACE refuses requests that need space. As in etcd, CORRUPT refuses every change of keys and
/// leases; other requests, such as clearing the alarm, still work.
fn refuse_under_alarm(alarms: &[pb::AlarmMember], request: &Request) -> Result<(), Error> {
    if alarms.is_empty() {
        return Ok(());
    }
    let raised = |kind: pb::AlarmType| alarms.iter().any(|a| a.alarm == kind as i32);
    let changes_data = match request {
        Request::Put(_)
        | Request::DeleteRange(_)
        | Request::Txn(_)
        | Request::Compaction(_)
        | Request::LeaseGrant(_)
        | Request::LeaseRevoke(_) => true,
        Request::LeaseCheckpoint(_)
        | Request::Alarm(_)
        | Request::ClusterVersionSet(_)
        | Request::ClusterMemberAttrSet(_)
        | Request::DowngradeInfoSet(_)
        | Request::Authenticate(_)
        | Request::Auth(_)
        | Request::Read => false,
    };
    if changes_data && raised(pb::AlarmType::Corrupt) {
        return Err(Error::Corrupt);
    }
    if raised(pb::AlarmType::Nospace) && space_needed(request) > 0 {
        return Err(Error::NoSpace);
    }
    Ok(())
}

/// True if [`refuse_under_alarm`] refuses every put. Alarms of kinds that are not known here refuse
/// nothing.
fn refuses_puts(alarms: &[pb::AlarmMember]) -> bool {
    let kinds = [pb::AlarmType::Corrupt, pb::AlarmType::Nospace].map(|kind| kind as i32);
    alarms.iter().any(|alarm| kinds.contains(&alarm.alarm))
}

/// Bytes of store space that a request may need, by etcd's estimate. For a transaction, that of its
/// larger branch.
pub fn space_needed(request: &Request) -> u64 {
    const PUT_OVERHEAD: u64 = 256;
    const LEASE_OVERHEAD: u64 = 64;
    fn ops(ops: &[pb::RequestOp]) -> u64 {
        ops.iter()
            .map(|op| op.request.as_ref().map_or(0, op_cost))
            .sum()
    }
    fn op_cost(op: &pb::request_op::Request) -> u64 {
        match op {
            pb::request_op::Request::RequestPut(put) => put_cost(put),
            pb::request_op::Request::RequestTxn(txn) => txn_cost(txn),
            _ => 0,
        }
    }
    fn put_cost(put: &pb::PutRequest) -> u64 {
        PUT_OVERHEAD + put.key.len() as u64 + put.value.len() as u64
    }
    fn txn_cost(txn: &pb::TxnRequest) -> u64 {
        ops(&txn.success).max(ops(&txn.failure))
    }
    match request {
        Request::Put(put) => put_cost(put),
        Request::Txn(txn) => txn_cost(txn),
        Request::LeaseGrant(_) => LEASE_OVERHEAD,
        _ => 0,
    }
}

fn alarm(
    write: &mut Write<'_>,
    raised: &mut Vec<pb::AlarmMember>,
    request: &pb::AlarmRequest,
) -> Result<Vec<pb::AlarmMember>, Error> {
    use pb::alarm_request::AlarmAction;
    let wanted = pb::AlarmMember {
        member_id: request.member_id,
        alarm: request.alarm,
    };
    let none = request.alarm == pb::AlarmType::None as i32;
    match AlarmAction::try_from(request.action) {
        Ok(AlarmAction::Get) => Ok(raised
            .iter()
            .filter(|a| none || a.alarm == request.alarm)
            .cloned()
            .collect()),
        Ok(AlarmAction::Activate) if none => Ok(Vec::new()),
        Ok(AlarmAction::Activate) => {
            if !raised.contains(&wanted) {
                write.set(Bucket::Alarm, &encode_alarm(&wanted), b"")?;
                if !raised.iter().any(|a| a.alarm == wanted.alarm) {
                    let (alarm, from) = shown_alarm(&wanted);
                    tracing::warn!(alarm, from, "alarm raised");
                }
                raised.push(wanted);
            }
            Ok(vec![wanted])
        }
        Ok(AlarmAction::Deactivate) if raised.contains(&wanted) => {
            write.remove(Bucket::Alarm, &encode_alarm(&wanted))?;
            raised.retain(|a| *a != wanted);
            if !raised.iter().any(|a| a.alarm == wanted.alarm) {
                let (alarm, from) = shown_alarm(&wanted);
                tracing::warn!(alarm, from, "alarm disarmed");
            }
            Ok(vec![wanted])
        }
        Ok(AlarmAction::Deactivate) => Ok(Vec::new()),
        Err(_) => Err(Error::UnknownMethod),
    }
}

/// Kind and member, for the log. As in etcd, only the first alarm of a kind that is raised and the
/// last one that is disarmed are logged.
fn shown_alarm(alarm: &pb::AlarmMember) -> (&'static str, String) {
    let kind = pb::AlarmType::try_from(alarm.alarm).map_or("UNKNOWN", |kind| kind.as_str_name());
    (kind, format!("{:x}", alarm.member_id))
}

/// Member id and kind, big endian, so rows sort by member.
pub fn alarm_key(member: u64, kind: i32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&member.to_be_bytes());
    key[8..].copy_from_slice(&kind.to_be_bytes());
    key
}

fn encode_alarm(alarm: &pb::AlarmMember) -> [u8; 12] {
    alarm_key(alarm.member_id, alarm.alarm)
}

fn decode_alarm(key: &[u8]) -> Result<pb::AlarmMember, Error> {
    let alarm = || {
        let (member, kind) = key.split_at_checked(8)?;
        Some(pb::AlarmMember {
            member_id: u64::from_be_bytes(member.try_into().ok()?),
            alarm: i32::from_be_bytes(kind.try_into().ok()?),
        })
    };
    alarm().ok_or_else(|| Error::Damaged("an alarm's row is none".to_owned()))
}

#[cfg(test)]
mod tests;

//! What the entries of the log do: each changes the model and gets an answer.

use etcd_api::etcdserverpb as pb;
use pb::alarm_request::AlarmAction;
use prost::Message;
use raft::{Entry, EntryKind, Index};
use server::request::{AuthInfo, Request};

use super::keys::NEWEST;
use super::users::TokenEvent;
use super::{Answer, Lease, Model, Refusal, Response, Revisions, SIDES_EVERY, txn};

/// Nine billion seconds: etcd's limit.
const MAX_TTL: i64 = 9_000_000_000;

impl Model {
    /// Applies the entry after [`Self::applied`]. The error says why the log cannot be right.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), String> {
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

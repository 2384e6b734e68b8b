//! Canaries among the actors: what they are given is not what was meant for them.

use etcd_api::etcdserverpb::DeleteRangeRequest;
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use server::member::event::{ApplyEvent, ConsensusEvent};
use server::request::{AuthInfo, Request};
use storage::mvcc::Bucket;

use crate::canary::Canary;
use crate::host::process::Process;
use crate::model::users::ROOT;

/// Kinds of rows in a state on its way; see `server::state::snapshot::rows`.
const ROW_PUT: u8 = 1;
const ROW_DELETE: u8 = 2;
const ROW_SIDE: u8 = 3;

/// Puts the bug of a canary about applying into a member.
pub(super) fn misapply(process: &mut Process, canary: Option<Canary>, host: usize) {
    if canary == Some(Canary::DivergingApply) && host == 1 {
        diverge(process, rename);
    }
    if canary == Some(Canary::SharedMistake) {
        diverge(process, drop_empty);
    }
    if canary == Some(Canary::UncheckedEntries) {
        write_as_root(process);
    }
    if canary == Some(Canary::UnloadedUsers) && process.to_install().is_some() {
        process.forgets_roles();
    }
}

/// This member applies something else than the log has.
fn diverge(process: &mut Process, change: fn(Request) -> Request) {
    for event in &mut process.ports.to_apply {
        let ApplyEvent::Committed(entries) = event else {
            continue;
        };
        for committed in entries {
            if let Ok(request) = Request::decode(&committed.entry.data) {
                committed.request = Some(change(request));
            }
        }
    }
}

fn rename(request: Request) -> Request {
    match request {
        Request::ClusterMemberAttrSet(mut set) => {
            if let Some(attributes) = &mut set.member_attributes {
                attributes.name += "?";
            }
            Request::ClusterMemberAttrSet(set)
        }
        request => request,
    }
}

/// Mem_etcd's bug M8: an empty value deletes the key.
fn drop_empty(request: Request) -> Request {
    match request {
        Request::Put(put) if put.value.is_empty() => Request::DeleteRange(DeleteRangeRequest {
            key: put.key,
            ..Default::default()
        }),
        request => request,
    }
}

/// Whoever asked, and whatever they may do by now.
fn write_as_root(process: &mut Process) {
    let root = AuthInfo {
        user: ROOT.to_owned(),
        revision: u64::MAX,
    };
    for event in &mut process.ports.to_apply {
        let ApplyEvent::Committed(entries) = event else {
            continue;
        };
        for committed in entries {
            let entry = &mut committed.entry;
            let id = Request::id_of(&entry.data);
            if let (Ok(request), Some(id)) = (Request::decode(&entry.data), id)
                && !matches!(request, Request::Read | Request::Alarm(_))
            {
                entry.data = request.encode_by(id, &root);
            }
        }
    }
}

/// A state without its roles, in our own form.
pub(super) fn without_roles(stream: &[u8]) -> Vec<u8> {
    let (mut rest, mut rows, mut kept) = (stream, Vec::new(), 0_u64);
    while let Some((head, after)) = rest.split_first_chunk::<8>() {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let (payload, after) = after.split_at(length.min(after.len()));
        rows.extend_from_slice(payload);
        rest = after;
    }
    let (mut rest, mut payload) = (&rows[..], Vec::new());
    while let Some(kind) = rest.first().copied() {
        let numbers = match kind {
            ROW_PUT => 5,
            ROW_DELETE => 2,
            ROW_SIDE => 0,
            // The last one says how many there are.
            _ => {
                let end = rest.len() - 8;
                payload.extend_from_slice(&rest[..end]);
                payload.extend(kept.to_le_bytes());
                break;
            }
        };
        let is_role = kind == ROW_SIDE && rest[1] == Bucket::AuthRoles as u8;
        let mut length = 1 + 8 * numbers + usize::from(kind == ROW_SIDE);
        for _ in 0..if kind == ROW_DELETE { 1 } else { 2 } {
            let size = [0, 1, 2, 3].map(|byte| rest[length + byte]);
            length += 4 + u32::from_le_bytes(size) as usize;
        }
        let (row, after) = rest.split_at(length);
        if !is_role {
            payload.extend_from_slice(row);
            kept += 1;
        }
        rest = after;
    }
    let sum = crc32c::crc32c(&payload);
    let head = [(payload.len() as u32).to_le_bytes(), sum.to_le_bytes()];
    [&head.concat(), &payload[..]].concat()
}

pub(super) fn is_revoke(event: &ConsensusEvent) -> bool {
    let ConsensusEvent::Propose(proposal) = event else {
        return false;
    };
    proposal.reply.is_none() && matches!(proposal.request, Request::LeaseRevoke(_))
}

pub(super) fn clears_alarm(event: &ConsensusEvent) -> bool {
    let ConsensusEvent::Propose(proposal) = event else {
        return false;
    };
    let Request::Alarm(alarm) = &proposal.request else {
        return false;
    };
    alarm.action() == AlarmAction::Deactivate
}

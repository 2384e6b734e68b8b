//! Canaries among the actors: what they are given is not what was meant for them.

use etcd_api::etcdserverpb::DeleteRangeRequest;
use etcd_api::etcdserverpb::alarm_request::AlarmAction;
use server::event::{ApplyEvent, ConsensusEvent};
use server::request::Request;

use crate::host::process::Process;

/// This member applies something else than the log has.
pub(super) fn diverge(process: &mut Process, change: fn(Request) -> Request) {
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

pub(super) fn rename(request: Request) -> Request {
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
pub(super) fn drop_empty(request: Request) -> Request {
    match request {
        Request::Put(put) if put.value.is_empty() => Request::DeleteRange(DeleteRangeRequest {
            key: put.key,
            ..Default::default()
        }),
        request => request,
    }
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

//! Requests of a follower to the leader about leases, and their answers, as bytes.

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use prost::Message;

use crate::member::event::{LeaseAnswer, LeaseCall};

pub(crate) const KEEP_ALIVE_PATH: &str = "/leases";
pub(crate) const TIME_TO_LIVE_PATH: &str = "/leases/internal";

/// A wrapper message with one field.
#[derive(Clone, PartialEq, prost::Message)]
struct TimeToLiveRequest {
    #[prost(message, optional, tag = "1")]
    request: Option<pb::LeaseTimeToLiveRequest>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TimeToLiveResponse {
    #[prost(message, optional, tag = "1")]
    pub response: Option<pb::LeaseTimeToLiveResponse>,
}

/// Path and body.
pub(crate) fn keep_alive(id: i64) -> (&'static str, Bytes) {
    let request = pb::LeaseKeepAliveRequest { id };
    (KEEP_ALIVE_PATH, request.encode_to_vec().into())
}

/// Path and body.
pub(crate) fn time_to_live(id: i64, keys: bool) -> (&'static str, Bytes) {
    let request = Some(pb::LeaseTimeToLiveRequest { id, keys });
    let request = TimeToLiveRequest { request };
    (TIME_TO_LIVE_PATH, request.encode_to_vec().into())
}

/// The question in a request to one of these paths; `None` if the body is none.
pub(crate) fn call_of(path: &str, body: Bytes) -> Option<LeaseCall> {
    if path == KEEP_ALIVE_PATH {
        let request = pb::LeaseKeepAliveRequest::decode(body).ok()?;
        return Some(LeaseCall::KeepAlive { id: request.id });
    }
    let request = TimeToLiveRequest::decode(body).ok()?.request?;
    let (id, keys) = (request.id, request.keys);
    Some(LeaseCall::TimeToLive { id, keys })
}

pub(crate) fn lease_answer(call: &LeaseCall, body: Bytes) -> Option<LeaseAnswer> {
    if let LeaseCall::KeepAlive { .. } = call {
        let ttl = pb::LeaseKeepAliveResponse::decode(body).ok()?.ttl;
        return Some(LeaseAnswer {
            ttl,
            ..Default::default()
        });
    }
    let response = TimeToLiveResponse::decode(body).ok()?.response?;
    Some(LeaseAnswer {
        ttl: response.ttl,
        granted_ttl: response.granted_ttl,
        keys: response.keys,
        ..Default::default()
    })
}

//! Requests of a follower to the leader about leases, and their answers, as bytes.

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use prost::Message;

use crate::event::{LeaseAnswer, LeaseCall};

/// A wrapper message with one field.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TimeToLiveRequest {
    #[prost(message, optional, tag = "1")]
    pub request: Option<pb::LeaseTimeToLiveRequest>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TimeToLiveResponse {
    #[prost(message, optional, tag = "1")]
    pub response: Option<pb::LeaseTimeToLiveResponse>,
}

/// Path and body.
pub(crate) fn keep_alive(id: i64) -> (&'static str, Bytes) {
    let request = pb::LeaseKeepAliveRequest { id };
    ("/leases", request.encode_to_vec().into())
}

/// Path and body.
pub(crate) fn time_to_live(id: i64, keys: bool) -> (&'static str, Bytes) {
    let request = Some(pb::LeaseTimeToLiveRequest { id, keys });
    let request = TimeToLiveRequest { request };
    ("/leases/internal", request.encode_to_vec().into())
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

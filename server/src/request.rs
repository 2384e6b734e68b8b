//! The changes that go through the log, and their bytes there: etcd's `InternalRaftRequest`, so
//! that a log entry of ours means the same to a member of etcd.

use bytes::{Bytes, BytesMut};
use etcd_api::etcdserverpb as pb;
use prost::Message;
use prost::encoding::message;

/// Field number of `InternalRaftRequest.header`.
const HEADER_FIELD: u32 = 100;

/// One change, decoded. At the member that proposed it the value travels beside its bytes, so that
/// only replay and other members ever decode.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    Put(pb::PutRequest),
    DeleteRange(pb::DeleteRangeRequest),
    Txn(pb::TxnRequest),
    Compaction(pb::CompactionRequest),
    LeaseGrant(pb::LeaseGrantRequest),
    LeaseRevoke(pb::LeaseRevokeRequest),
    LeaseCheckpoint(pb::LeaseCheckpointRequest),
    Alarm(pb::AlarmRequest),
    ClusterVersionSet(etcd_api::membershippb::ClusterVersionSetRequest),
    ClusterMemberAttrSet(etcd_api::membershippb::ClusterMemberAttrSetRequest),
    DowngradeInfoSet(etcd_api::membershippb::DowngradeInfoSetRequest),
    /// A read that some member sent through the log: it moves the applied index and nothing else.
    Read,
}

impl Request {
    /// The entry payload, under the proposer's request `id`.
    pub fn encode(&self, id: u64) -> Bytes {
        let header = pb::RequestHeader {
            id,
            ..Default::default()
        };
        let mut out = BytesMut::with_capacity(self.encoded_len_hint() + 24);
        message::encode(HEADER_FIELD, &header, &mut out);
        match self {
            Request::Put(r) => message::encode(4, r, &mut out),
            Request::DeleteRange(r) => message::encode(5, r, &mut out),
            Request::Txn(r) => message::encode(6, r, &mut out),
            Request::Compaction(r) => message::encode(7, r, &mut out),
            Request::LeaseGrant(r) => message::encode(8, r, &mut out),
            Request::LeaseRevoke(r) => message::encode(9, r, &mut out),
            Request::Alarm(r) => message::encode(10, r, &mut out),
            Request::LeaseCheckpoint(r) => message::encode(11, r, &mut out),
            Request::ClusterVersionSet(r) => message::encode(1300, r, &mut out),
            Request::ClusterMemberAttrSet(r) => message::encode(1301, r, &mut out),
            Request::DowngradeInfoSet(r) => message::encode(1302, r, &mut out),
            Request::Read => unreachable!("reads are not proposed"),
        }
        out.freeze()
    }

    /// The id that `encode` wrote; other members' payloads may have theirs elsewhere.
    pub fn id_of(data: &[u8]) -> Option<u64> {
        let mut data = data;
        let (tag, wire) = prost::encoding::decode_key(&mut data).ok()?;
        if tag != HEADER_FIELD || wire != prost::encoding::WireType::LengthDelimited {
            return None;
        }
        let length = prost::encoding::decode_varint(&mut data).ok()?;
        let header = data.get(..usize::try_from(length).ok()?)?;
        Some(pb::RequestHeader::decode(header).ok()?.id)
    }

    /// Reads an entry payload; the error says what is wrong with it. A request of a kind that this
    /// version does not know is an error too: skipping it would let members drift apart.
    pub fn decode(data: &[u8]) -> Result<Request, String> {
        let raft = pb::InternalRaftRequest::decode(data).map_err(|e| e.to_string())?;
        if let Some(r) = raft.put {
            return Ok(Request::Put(r));
        }
        if let Some(r) = raft.txn {
            return Ok(Request::Txn(r));
        }
        if let Some(r) = raft.delete_range {
            return Ok(Request::DeleteRange(r));
        }
        if let Some(r) = raft.compaction {
            return Ok(Request::Compaction(r));
        }
        if let Some(r) = raft.lease_grant {
            return Ok(Request::LeaseGrant(r));
        }
        if let Some(r) = raft.lease_revoke {
            return Ok(Request::LeaseRevoke(r));
        }
        if let Some(r) = raft.lease_checkpoint {
            return Ok(Request::LeaseCheckpoint(r));
        }
        if let Some(r) = raft.alarm {
            return Ok(Request::Alarm(r));
        }
        if let Some(r) = raft.cluster_version_set {
            return Ok(Request::ClusterVersionSet(r));
        }
        if let Some(r) = raft.cluster_member_attr_set {
            return Ok(Request::ClusterMemberAttrSet(r));
        }
        if let Some(r) = raft.downgrade_info_set {
            return Ok(Request::DowngradeInfoSet(r));
        }
        // Of etcd's own tests; like a read, it changes nothing.
        if raft.range.is_some() || raft.downgrade_version_test.is_some() {
            return Ok(Request::Read);
        }
        Err("a request of a kind this version does not know".to_owned())
    }

    fn encoded_len_hint(&self) -> usize {
        match self {
            Request::Put(r) => r.key.len() + r.value.len() + 32,
            Request::Txn(r) => r.encoded_len() + 8,
            _ => 64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_the_log() {
        let requests = [
            Request::Put(pb::PutRequest {
                key: Bytes::from_static(b"k"),
                value: Bytes::from_static(b""),
                lease: -7,
                ..Default::default()
            }),
            Request::LeaseRevoke(pb::LeaseRevokeRequest { id: 99 }),
            Request::Compaction(pb::CompactionRequest {
                revision: 5,
                physical: true,
            }),
        ];
        for request in requests {
            assert_eq!(Request::decode(&request.encode(1)).unwrap(), request);
        }
    }

    #[test]
    fn an_unknown_request_is_an_error() {
        let unknown = pb::InternalRaftRequest {
            auth_enable: Some(pb::AuthEnableRequest {}),
            ..Default::default()
        };
        assert!(Request::decode(&unknown.encode_to_vec()).is_err());
        assert!(Request::decode(b"\xff\xff").is_err());
    }
}

//! The changes that go through the log, and their bytes there: etcd's `InternalRaftRequest`, so
//! that a log entry of ours means the same to a member of etcd.

use bytes::{Bytes, BytesMut};
use etcd_api::etcdserverpb as pb;
use prost::Message;
use prost::encoding::{self, WireType, message};

/// Field numbers of `InternalRaftRequest`.
const HEADER_FIELD: u32 = 100;
const PUT_FIELD: u32 = 4;

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
            Request::Put(r) => message::encode(PUT_FIELD, r, &mut out),
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
        let Some((HEADER_FIELD, Field::Bytes(header))) = next_field(&mut data) else {
            return None;
        };
        Some(pb::RequestHeader::decode(header).ok()?.id)
    }

    /// Key and value of a payload that is a put which does no more than write them, in any state
    /// that has room; they stay where they lie. Most of a log is such. `None` says nothing:
    /// [`Request::decode`] does.
    pub fn lone_put(data: &[u8]) -> Option<(&[u8], &[u8])> {
        let (mut request, mut put) = (data, None);
        while !request.is_empty() {
            match next_field(&mut request)? {
                (HEADER_FIELD, Field::Bytes(_)) => {}
                (PUT_FIELD, Field::Bytes(bytes)) if put.is_none() => put = Some(bytes),
                _ => return None,
            }
        }
        let mut put = put?;
        let (mut key, mut value): (Option<&[u8]>, Option<&[u8]>) = (None, None);
        while !put.is_empty() {
            match next_field(&mut put)? {
                (1, Field::Bytes(bytes)) if key.is_none() => key = Some(bytes),
                (2, Field::Bytes(bytes)) if value.is_none() => value = Some(bytes),
                (4, Field::Number) => {} // asked for the value before
                _ => return None,
            }
        }
        Some((key?, value.unwrap_or_default()))
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

/// A field of a message as it lies in its bytes.
enum Field<'a> {
    Number,
    Bytes(&'a [u8]),
}

/// Takes a field off the front of a message: its number and what it holds. `None`: it is of another
/// type, or broken.
fn next_field<'a>(data: &mut &'a [u8]) -> Option<(u32, Field<'a>)> {
    let (number, wire) = encoding::decode_key(data).ok()?;
    let length = encoding::decode_varint(data).ok()?;
    match wire {
        WireType::Varint => Some((number, Field::Number)),
        WireType::LengthDelimited => {
            let (bytes, rest) = data.split_at_checked(usize::try_from(length).ok()?)?;
            *data = rest;
            Some((number, Field::Bytes(bytes)))
        }
        _ => None,
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
    fn a_put_that_only_writes_is_read_where_it_lies_and_no_other_is() {
        let put = pb::PutRequest {
            key: Bytes::from_static(b"k"),
            value: Bytes::from_static(b"v"),
            ..Default::default()
        };
        let encoded = |change: fn(&mut pb::PutRequest)| {
            let mut put = put.clone();
            change(&mut put);
            Request::Put(put).encode(u64::MAX)
        };
        let plain = encoded(|_| {});
        assert_eq!(Request::lone_put(&plain), Some((&b"k"[..], &b"v"[..])));
        let before = encoded(|put| put.prev_kv = true);
        assert_eq!(Request::lone_put(&before), Some((&b"k"[..], &b"v"[..])));
        let empty = encoded(|put| put.value.clear());
        assert_eq!(Request::lone_put(&empty), Some((&b"k"[..], &b""[..])));
        let changes: [fn(&mut pb::PutRequest); 3] = [
            |put| put.lease = 7,
            |put| put.ignore_value = true,
            |put| put.ignore_lease = true,
        ];
        for change in changes {
            assert_eq!(Request::lone_put(&encoded(change)), None);
        }
        let twice = [&plain[..], &plain].concat();
        assert_eq!(Request::lone_put(&twice), None);
        for end in 0..plain.len() {
            assert_eq!(Request::lone_put(&plain[..end]), None, "{end} bytes of it");
        }
        let deletion = Request::DeleteRange(pb::DeleteRangeRequest::default());
        assert_eq!(Request::lone_put(&deletion.encode(1)), None);
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

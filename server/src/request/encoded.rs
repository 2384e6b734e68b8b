//! What is read from an entry payload without decoding its request: its id, its user, and whether
//! it is a put that only writes its key.

use etcd_api::etcdserverpb as pb;
use prost::Message;
use prost::encoding::{self, WireType};

use super::{AuthInfo, HEADER_FIELD, OWN_ALARM_FIELD, PUT_FIELD, Request};

/// A put that only writes its key, borrowed from the bytes of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LonePut<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub by: PutBy<'a>,
}

/// What authorizes a lone put, if auth is enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutBy<'a> {
    /// The header's bytes; empty if there is no header.
    pub header: &'a [u8],
    /// The put also reads the previous value.
    pub reads: bool,
}

/// The user in an entry's header.
pub fn auth_info(header: &[u8]) -> AuthInfo {
    // An unreadable header means no user; the entry itself was decoded before.
    let header = pb::RequestHeader::decode(header).unwrap_or_default();
    AuthInfo {
        user: header.username,
        revision: header.auth_revision,
    }
}

impl Request {
    /// True for the payload of [`Request::encode_own_alarm`].
    pub fn is_own_alarm(data: &[u8]) -> bool {
        let mut rest = data;
        while let Some((number, field)) = next_field(&mut rest) {
            if number == OWN_ALARM_FIELD {
                return matches!(field, Field::Number(1));
            }
        }
        false
    }

    /// The id that `encode` wrote; payloads of other members may have it elsewhere.
    pub fn id_of(data: &[u8]) -> Option<u64> {
        let mut data = data;
        let Some((HEADER_FIELD, Field::Bytes(header))) = next_field(&mut data) else {
            return None;
        };
        Some(pb::RequestHeader::decode(header).ok()?.id)
    }

    /// The user an entry was written for.
    pub fn auth_info_of(data: &[u8]) -> AuthInfo {
        let mut rest = data;
        while !rest.is_empty() {
            match next_field(&mut rest) {
                Some((HEADER_FIELD, Field::Bytes(header))) => return auth_info(header),
                Some(_) => {}
                // Not in our usual form: decode the whole message.
                None => {
                    let raft = pb::InternalRaftRequest::decode(data).unwrap_or_default();
                    let header = raft.header.unwrap_or_default();
                    return AuthInfo {
                        user: header.username,
                        revision: header.auth_revision,
                    };
                }
            }
        }
        AuthInfo::default()
    }

    /// Recognizes a payload that is a put which only writes its key, in any state that has space
    /// and authorizes its user. Key and value are borrowed. Most log entries are such puts. `None`
    /// has no meaning by itself: use [`Request::decode`].
    pub fn lone_put(data: &[u8]) -> Option<LonePut<'_>> {
        let (mut request, mut put, mut by) = (data, None, PutBy::default());
        let mut has_header = false;
        while !request.is_empty() {
            match next_field(&mut request)? {
                (HEADER_FIELD, Field::Bytes(bytes)) if !has_header => {
                    (by.header, has_header) = (bytes, true);
                }
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
                // `prev_kv`.
                (4, Field::Number(reads)) => by.reads = reads != 0,
                _ => return None,
            }
        }
        Some(LonePut {
            key: key?,
            value: value.unwrap_or_default(),
            by,
        })
    }
}

/// One field of an encoded message.
pub(super) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Takes the first field off a message: its number and content. `None`: it has another wire type,
/// or is malformed.
pub(super) fn next_field<'a>(data: &mut &'a [u8]) -> Option<(u32, Field<'a>)> {
    let (number, wire) = encoding::decode_key(data).ok()?;
    let length = encoding::decode_varint(data).ok()?;
    match wire {
        WireType::Varint => Some((number, Field::Number(length))),
        WireType::LengthDelimited => {
            let (bytes, rest) = data.split_at_checked(usize::try_from(length).ok()?)?;
            *data = rest;
            Some((number, Field::Bytes(bytes)))
        }
        _ => None,
    }
}

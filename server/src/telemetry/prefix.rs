//! The key prefix that a call is counted under, and the position of the first key in a request.

use bytes::Buf;

/// Separates the segments of a key, as nearly all users of etcd do.
const SEPARATOR: u8 = b'/';

/// Number of segments in a prefix: `/registry/pods/` of `/registry/pods/default/web-0`.
const SEGMENTS: usize = 2;

/// Only this many bytes are searched, so no prefix is longer.
const PREFIX_BYTES_MAX: usize = 64;

/// The prefix of a key, including the separator after its last segment. A separator at the start of
/// the key does not count. Empty if the key has no segments.
pub(crate) fn of(key: &[u8]) -> &[u8] {
    let window = &key[..key.len().min(PREFIX_BYTES_MAX)];
    let separators = window.iter().enumerate().skip(1);
    let separators = separators.filter(|(_, byte)| **byte == SEPARATOR);
    match separators.take(SEGMENTS).last() {
        Some((at, _)) => &window[..=at],
        None => &[],
    }
}

/// True if a prefix found by [`of`] has the full number of segments.
pub(crate) fn is_whole(prefix: &[u8]) -> bool {
    let separators = prefix.iter().skip(1).filter(|byte| **byte == SEPARATOR);
    separators.count() == SEGMENTS
}

/// The smallest key above all keys with `prefix`; empty if there is none.
pub(crate) fn end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// As text: bytes that are not printable ASCII are escaped as in Rust and C.
pub(crate) fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// The kind of a call's request message, for finding its first key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Its first field is the key.
    Key,
    Txn,
}

/// The first key of a request, found in the first bytes of its message. `None`: there is none in
/// these bytes.
pub(crate) fn first_key(form: Form, message: &[u8]) -> Option<&[u8]> {
    match form {
        Form::Key => field(message, |number| number == 1).map(|(_, key)| key),
        // A compare, or an operation of either branch: the first one in the message.
        Form::Txn => match field(message, |number| (1..=3).contains(&number))? {
            (1, compare) => field(compare, |number| number == 3).map(|(_, key)| key),
            (_, operation) => {
                let (_, request) = field(operation, |number| (1..=3).contains(&number))?;
                first_key(Form::Key, request)
            }
        },
    }
}

/// The first length-delimited field that is wanted; truncated if the message is.
fn field(mut rest: &[u8], wanted: impl Fn(u64) -> bool) -> Option<(u64, &[u8])> {
    const VARINT: u64 = 0;
    const FIXED64: u64 = 1;
    const LENGTH: u64 = 2;
    const FIXED32: u64 = 5;
    while !rest.is_empty() {
        let tag = prost::encoding::decode_varint(&mut rest).ok()?;
        let skipped = match tag & 7 {
            VARINT => {
                prost::encoding::decode_varint(&mut rest).ok()?;
                0
            }
            FIXED64 => 8,
            FIXED32 => 4,
            LENGTH => {
                let len = prost::encoding::decode_varint(&mut rest).ok()?;
                let len = usize::try_from(len).ok()?;
                if wanted(tag >> 3) {
                    return Some((tag >> 3, &rest[..len.min(rest.len())]));
                }
                len
            }
            _ => return None,
        };
        if skipped > rest.len() {
            return None;
        }
        rest.advance(skipped);
    }
    None
}

#[cfg(test)]
mod tests {
    use etcd_api::etcdserverpb as pb;
    use prost::Message;

    use super::*;

    #[test]
    fn a_prefix_ends_with_its_second_segment() {
        for (key, prefix) in [
            ("/registry/pods/default/web-0", "/registry/pods/"),
            ("/registry/health", "/registry/"),
            ("service/batman/leader", "service/batman/"),
            ("a/b", "a/"),
            ("/a", ""),
            ("plain", ""),
            ("", ""),
            ("//", "//"),
        ] {
            assert_eq!(of(key.as_bytes()), prefix.as_bytes(), "{key}");
        }
        let long = [b"/a/".as_slice(), &[b'x'; 100], b"/"].concat();
        assert_eq!(of(&long), b"/a/");
        assert_eq!(end(b"/a/"), b"/a0");
        assert_eq!(end(b"a\xff\xff"), b"b");
        assert_eq!(end(b"\xff"), b"");
    }

    #[test]
    fn the_first_key_is_found_in_a_requests_bytes() {
        let put = pb::PutRequest {
            key: "/a/b/c".into(),
            value: "v".into(),
            ..Default::default()
        };
        let range = pb::RangeRequest {
            limit: 7,
            ..Default::default()
        };
        let request = |request| pb::RequestOp {
            request: Some(request),
        };
        let compare = pb::Compare {
            result: 1,
            target: 2,
            key: "/c/".into(),
            ..Default::default()
        };
        let txn = |compare: Vec<_>, success: Vec<_>| pb::TxnRequest {
            compare,
            success,
            failure: vec![request(pb::request_op::Request::RequestPut(put.clone()))],
        };
        let operation = request(pb::request_op::Request::RequestPut(put.clone()));
        let cases = [
            (Form::Key, put.encode_to_vec(), Some(b"/a/b/c".as_slice())),
            (Form::Key, range.encode_to_vec(), None),
            (
                Form::Txn,
                txn(vec![compare], vec![]).encode_to_vec(),
                Some(b"/c/".as_slice()),
            ),
            (
                Form::Txn,
                txn(vec![], vec![operation]).encode_to_vec(),
                Some(b"/a/b/c".as_slice()),
            ),
            (
                Form::Txn,
                txn(vec![], vec![]).encode_to_vec(),
                Some(b"/a/b/c".as_slice()),
            ),
            (Form::Txn, vec![], None),
        ];
        for (form, message, key) in cases {
            assert_eq!(first_key(form, &message), key);
            // Must not panic on truncated messages.
            for len in 0..message.len() {
                let _ = first_key(form, &message[..len]);
            }
        }
        assert_eq!(first_key(Form::Key, &[0xff; 20]), None);
        assert_eq!(
            first_key(Form::Key, &[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f]),
            None
        );
    }
}

//! `mvccpb.KeyValue` on the wire, written straight from the store's pages. Canonical protobuf:
//! fields in order, zero values omitted.

use bytes::BufMut;
use storage::mvcc::Item;

// Field number << 3 | wire type (0 varint, 2 length-delimited).
const KEY: u8 = 1 << 3 | 2;
const CREATE_REVISION: u8 = 2 << 3;
const MOD_REVISION: u8 = 3 << 3;
const VERSION: u8 = 4 << 3;
const VALUE: u8 = 5 << 3 | 2;
const LEASE: u8 = 6 << 3;

/// Bytes that [`encode_key_value`] writes.
pub(super) fn key_value_len(item: &Item<'_>) -> usize {
    bytes_len(item.key)
        + int_len(item.create_revision)
        + int_len(item.mod_revision)
        + int_len(item.version)
        + bytes_len(item.value)
        + int_len(item.lease)
}

pub(super) fn encode_key_value(item: &Item<'_>, out: &mut impl BufMut) {
    put_bytes(KEY, item.key, out);
    put_int(CREATE_REVISION, item.create_revision, out);
    put_int(MOD_REVISION, item.mod_revision, out);
    put_int(VERSION, item.version, out);
    put_bytes(VALUE, item.value, out);
    put_int(LEASE, item.lease, out);
}

/// A bytes field; omitted if empty.
fn put_bytes(tag: u8, bytes: &[u8], out: &mut impl BufMut) {
    if !bytes.is_empty() {
        out.put_u8(tag);
        prost::encoding::encode_varint(bytes.len() as u64, out);
        out.put_slice(bytes);
    }
}

/// An int64 field; omitted if zero.
fn put_int(tag: u8, value: i64, out: &mut impl BufMut) {
    if value != 0 {
        out.put_u8(tag);
        prost::encoding::encode_varint(value as u64, out);
    }
}

fn bytes_len(bytes: &[u8]) -> usize {
    match bytes.len() {
        0 => 0,
        len => 1 + prost::encoding::encoded_len_varint(len as u64) + len,
    }
}

fn int_len(value: i64) -> usize {
    match value {
        0 => 0,
        value => 1 + prost::encoding::encoded_len_varint(value as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etcd_api::mvccpb::KeyValue;
    use prost::Message;

    #[test]
    fn bytes_equal_those_of_the_generated_encoder() {
        let rows = [
            (&b"k"[..], &b"v"[..], 2, 3, 1, 0),
            (b"", b"", 0, 0, 0, 0),
            (b"key", &[7; 300], i64::MAX, 1 << 40, 129, -5),
        ];
        for (key, value, create_revision, mod_revision, version, lease) in rows {
            let item = Item {
                key,
                value,
                create_revision,
                mod_revision,
                version,
                lease,
            };
            let kv = KeyValue {
                key: key.to_vec().into(),
                value: value.to_vec().into(),
                create_revision,
                mod_revision,
                version,
                lease,
            };
            let mut out = Vec::new();
            encode_key_value(&item, &mut out);
            assert_eq!(out, kv.encode_to_vec());
            assert_eq!(out.len(), key_value_len(&item));
        }
    }
}

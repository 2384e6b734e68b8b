//! One change, encoded as an event of a `WatchResponse`.

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{encode_varint, encoded_len_varint};
use storage::mvcc::{Change, Item, Root};

/// Field 11 of `WatchResponse`, length-delimited.
const EVENTS_TAG: u8 = 11 << 3 | 2;

/// An encoded event with its tag and length. The events of a response are a sequence of these.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) revision: i64,
    pub(super) bytes: Bytes,
}

/// Which changes a watcher wants, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wants {
    pub(super) no_put: bool,
    pub(super) no_delete: bool,
    pub(super) prev_kv: bool,
}

impl Wants {
    pub(super) fn admits(&self, change: &Change<'_>) -> bool {
        match change {
            Change::Put { .. } => !self.no_put,
            Change::Delete { .. } => !self.no_delete,
        }
    }
}

pub(super) fn revision(change: &Change<'_>) -> i64 {
    match change {
        Change::Put { revision, .. } | Change::Delete { revision, .. } => revision.main,
    }
}

pub(super) fn key<'a>(change: &Change<'a>) -> &'a [u8] {
    match change {
        Change::Put { item, .. } => item.key,
        Change::Delete { key, .. } => key,
    }
}

/// True if the key may have a previous version: false for the put that creates it.
pub(super) fn has_previous(change: &Change<'_>) -> bool {
    match change {
        Change::Put { item, .. } => item.create_revision != item.mod_revision,
        Change::Delete { .. } => true,
    }
}

pub(super) fn encode(change: &Change<'_>, previous: Option<&Item<'_>>) -> Event {
    let revision = revision(change);
    let (is_delete, kv) = match change {
        Change::Put { item, .. } => (false, *item),
        // A delete event has only key and revision.
        Change::Delete { key, .. } => (
            true,
            Item {
                key,
                value: b"",
                create_revision: 0,
                mod_revision: revision,
                version: 0,
                lease: 0,
            },
        ),
    };
    let kv_len = item_len(&kv);
    let previous_len = previous.map(item_len);
    let len =
        if is_delete { 2 } else { 0 } + message_len(kv_len) + previous_len.map_or(0, message_len);

    let mut buf = BytesMut::with_capacity(1 + encoded_len_varint(len as u64) + len);
    buf.put_u8(EVENTS_TAG);
    encode_varint(len as u64, &mut buf);
    if is_delete {
        buf.put_slice(&[1 << 3, 1]);
    }
    put_item(&mut buf, 2, &kv, kv_len);
    if let (Some(item), Some(len)) = (previous, previous_len) {
        put_item(&mut buf, 3, item, len);
    }
    Event {
        revision,
        bytes: buf.freeze(),
    }
}

/// Encodes a change with the previous version. As in etcd, the previous version is included only
/// while the revision before the change is not compacted.
pub(super) fn encode_with_previous(root: &Root, change: &Change<'_>) -> storage::Result<Event> {
    let revision = revision(change);
    if revision - 1 < root.compacted() {
        return Ok(encode(change, None));
    }
    let found = root.previous(key(change), revision, |item| encode(change, Some(&item)))?;
    Ok(found.unwrap_or_else(|| encode(change, None)))
}

/// Length of a field with a one-byte tag whose content has `len` bytes.
fn message_len(len: usize) -> usize {
    1 + encoded_len_varint(len as u64) + len
}

fn item_len(item: &Item<'_>) -> usize {
    let bytes = |b: &[u8]| {
        if b.is_empty() {
            0
        } else {
            message_len(b.len())
        }
    };
    let number = |n: i64| {
        if n == 0 {
            0
        } else {
            1 + encoded_len_varint(n as u64)
        }
    };
    bytes(item.key)
        + number(item.create_revision)
        + number(item.mod_revision)
        + number(item.version)
        + bytes(item.value)
        + number(item.lease)
}

fn put_item(buf: &mut BytesMut, field: u8, item: &Item<'_>, len: usize) {
    buf.put_u8(field << 3 | 2);
    encode_varint(len as u64, buf);
    put_bytes(buf, 1, item.key);
    put_number(buf, 2, item.create_revision);
    put_number(buf, 3, item.mod_revision);
    put_number(buf, 4, item.version);
    put_bytes(buf, 5, item.value);
    put_number(buf, 6, item.lease);
}

fn put_bytes(buf: &mut BytesMut, field: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        buf.put_u8(field << 3 | 2);
        encode_varint(bytes.len() as u64, buf);
        buf.put_slice(bytes);
    }
}

fn put_number(buf: &mut BytesMut, field: u8, number: i64) {
    if number != 0 {
        buf.put_u8(field << 3);
        encode_varint(number as u64, buf);
    }
}

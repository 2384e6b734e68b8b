//! One change, encoded as an event of a `WatchResponse`.

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{encode_varint, encoded_len_varint};
use storage::mvcc::{Change, Item, Revision, Root};

/// Field 11 of `WatchResponse`, length-delimited.
const EVENTS_TAG: u8 = 11 << 3 | 2;

/// Memory of an event in a list, beside its bytes.
const BESIDE_BYTES: usize = 128;

/// An encoded event with its tag and length. The events of a response are a sequence of these.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) revision: i64,
    pub(super) bytes: Bytes,
}

impl Event {
    /// What it takes of memory.
    pub(super) fn cost(&self) -> usize {
        BESIDE_BYTES + self.bytes.len()
    }
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

    /// True if the event of this change is to have the key's previous version.
    pub(super) fn takes_previous(self, change: &Change<'_>) -> bool {
        self.prev_kv && has_previous(change)
    }
}

pub(super) fn revision(change: &Change<'_>) -> i64 {
    place(change).main
}

pub(super) fn place(change: &Change<'_>) -> Revision {
    match change {
        Change::Put { revision, .. } | Change::Delete { revision, .. } => *revision,
    }
}

pub(super) fn key<'a>(change: &Change<'a>) -> &'a [u8] {
    match change {
        Change::Put { item, .. } => item.key,
        Change::Delete { key, .. } => key,
    }
}

/// True if the key may have a previous version: false for the put that creates it.
fn has_previous(change: &Change<'_>) -> bool {
    match change {
        Change::Put { item, .. } => item.create_revision != item.mod_revision,
        Change::Delete { .. } => true,
    }
}

pub(super) fn encode(change: &Change<'_>, previous: Option<&Item<'_>>) -> Event {
    let event = Measured::new(change, previous);
    let mut buf = BytesMut::with_capacity(event.encoded_len());
    event.put(&mut buf);
    Event {
        revision: revision(change),
        bytes: buf.freeze(),
    }
}

/// Encodes a change as a watcher with these wishes gets it.
pub(super) fn encode_for(root: &Root, change: &Change<'_>, wants: Wants) -> storage::Result<Event> {
    with_previous(root, change, wants, |previous| encode(change, previous))
}

/// Calls `f` with the previous version that a watcher with these wishes is told. As in etcd, there is
/// one only while the revision before the change is not compacted.
fn with_previous<R>(
    root: &Root,
    change: &Change<'_>,
    wants: Wants,
    mut f: impl FnMut(Option<&Item<'_>>) -> R,
) -> storage::Result<R> {
    let revision = revision(change);
    if !wants.takes_previous(change) || revision - 1 < root.compacted() {
        return Ok(f(None));
    }
    let found = root.previous(key(change), revision, |item| f(Some(&item)))?;
    Ok(found.unwrap_or_else(|| f(None)))
}

/// Calls `f` with the event as a watcher with these wishes gets it.
pub(super) fn measured<R>(
    root: &Root,
    change: &Change<'_>,
    wants: Wants,
    mut f: impl FnMut(&Measured<'_>) -> R,
) -> storage::Result<R> {
    with_previous(root, change, wants, |previous| {
        f(&Measured::new(change, previous))
    })
}

/// An event that is not encoded yet, with its lengths.
pub(super) struct Measured<'a> {
    is_delete: bool,
    kv: Item<'a>,
    kv_len: usize,
    previous: Option<(&'a Item<'a>, usize)>,
    /// Of the event without tag and length.
    len: usize,
}

impl<'a> Measured<'a> {
    pub(super) fn new(change: &Change<'a>, previous: Option<&'a Item<'a>>) -> Measured<'a> {
        let (is_delete, kv) = match change {
            Change::Put { item, .. } => (false, *item),
            // A delete event has only key and revision.
            Change::Delete { key, revision } => (
                true,
                Item {
                    key,
                    value: b"",
                    create_revision: 0,
                    mod_revision: revision.main,
                    version: 0,
                    lease: 0,
                },
            ),
        };
        let kv_len = item_len(&kv);
        let previous = previous.map(|item| (item, item_len(item)));
        let previous_len = previous.map_or(0, |(_, len)| message_len(len));
        Measured {
            is_delete,
            kv,
            kv_len,
            previous,
            len: if is_delete { 2 } else { 0 } + message_len(kv_len) + previous_len,
        }
    }

    /// Length of the bytes that [`Measured::put`] adds.
    pub(super) fn encoded_len(&self) -> usize {
        message_len(self.len)
    }

    pub(super) fn put(&self, buf: &mut BytesMut) {
        buf.put_u8(EVENTS_TAG);
        encode_varint(self.len as u64, buf);
        if self.is_delete {
            buf.put_slice(&[1 << 3, 1]);
        }
        put_item(buf, 2, &self.kv, self.kv_len);
        if let Some((item, len)) = self.previous {
            put_item(buf, 3, item, len);
        }
    }
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

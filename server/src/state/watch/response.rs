//! Watch responses as gRPC messages in the bytes of an HTTP body.
//!
//! A response consists of a header shared by all responses of one revision, a few numbers, and
//! events that were encoded once for all watchers. So it is built by copying bytes, and large
//! events are not even copied. Each message has gRPC's prefix: a zero byte (not compressed) and
//! four bytes of length.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{encode_varint, encoded_len_varint};

use super::event::Event;
use super::{OUT_BYTES, SHARE_BYTES};
use crate::state::MESSAGE_BYTES_MAX;

/// A response that gRPC does not carry: a revision is never split without fragments, and a deletion may
/// have changed any number of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge {
    pub(super) bytes: usize,
}

/// The fields of every response header except the revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub cluster_id: u64,
    pub member_id: u64,
    pub raft_term: u64,
}

/// The fields of a response other than header and events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields<'a> {
    pub(super) watch_id: i64,
    pub(super) created: bool,
    pub(super) canceled: bool,
    pub(super) compact_revision: i64,
    pub(super) cancel_reason: &'a str,
    pub(super) fragment: bool,
}

/// Encoded responses waiting to be sent.
#[derive(Debug, Default)]
pub struct Out {
    head: Head,
    /// The encoded header field, and its revision.
    header: Option<(i64, Vec<u8>)>,
    /// Complete frames; sent before `tail`.
    frames: VecDeque<Bytes>,
    frame_bytes: usize,
    tail: BytesMut,
    /// Events added since the last call of [`Out::take_events`].
    events: u64,
    /// Bytes of events that the last message was announced to have and that were not added yet.
    owed: usize,
    /// The watch of which a fragment was added, and not the last one. A client that puts fragments
    /// together loses what comes between them.
    in_fragments: Option<i64>,
}

impl Out {
    /// Number of events added since the last call.
    pub fn take_events(&mut self) -> u64 {
        std::mem::take(&mut self.events)
    }

    /// Bytes waiting for the connection.
    pub fn waiting_bytes(&self) -> usize {
        self.frame_bytes + self.tail.len()
    }

    /// Sets the header fields of all following responses.
    pub fn set_head(&mut self, head: Head) {
        if self.head != head {
            self.head = head;
            self.header = None;
        }
    }

    /// True if enough bytes are waiting, so that nothing should be added now.
    pub fn is_full(&self) -> bool {
        self.waiting_bytes() >= OUT_BYTES
    }

    /// The next bytes to send; frames need not end at message boundaries.
    pub fn next_frame(&mut self) -> Option<Bytes> {
        if let Some(frame) = self.frames.pop_front() {
            self.frame_bytes -= frame.len();
            return Some(frame);
        }
        let tail = self.tail.split();
        (!tail.is_empty()).then(|| tail.freeze())
    }

    pub(super) fn control(&mut self, revision: i64, fields: &Fields<'_>) {
        self.start(revision, fields, 0);
    }

    /// Adds a response with these events, which must not be empty. Adds nothing if it would be too
    /// large for gRPC.
    pub(super) fn events<'a>(
        &mut self,
        revision: i64,
        fields: &Fields<'_>,
        events: impl Iterator<Item = &'a Event> + Clone,
    ) -> Result<(), TooLarge> {
        let len = events.clone().map(|event| event.bytes.len()).sum();
        let whole = self.frame_len(revision, fields) + len;
        if whole > MESSAGE_BYTES_MAX {
            return Err(TooLarge { bytes: whole });
        }
        self.start(revision, fields, len);
        for event in events {
            self.events += 1;
            self.put_events(&event.bytes);
        }
        Ok(())
    }

    /// Begins a response with so many bytes of events. They follow by [`Out::piece`], and nothing else
    /// may before they are complete.
    pub(super) fn begin(&mut self, revision: i64, fields: &Fields<'_>, bytes: usize) {
        self.start(revision, fields, bytes);
        self.owed = bytes;
    }

    /// Adds encoded events to the response begun last.
    pub(super) fn piece(&mut self, piece: Bytes, events: u64) {
        let owed = self.owed.checked_sub(piece.len());
        self.owed = owed.expect("the events are no longer than announced");
        self.events += events;
        self.put_events(&piece);
    }

    /// True if no part of a response is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.owed == 0 && self.in_fragments.is_none()
    }

    /// Length of a response without its events.
    pub(super) fn frame_len(&mut self, revision: i64, fields: &Fields<'_>) -> usize {
        self.header(revision).len() + fields.len()
    }

    fn start(&mut self, revision: i64, fields: &Fields<'_>, events_len: usize) {
        assert_eq!(self.owed, 0, "a response within another");
        let is_other = self.in_fragments.is_some_and(|id| id != fields.watch_id);
        assert!(!is_other, "a response between fragments of another");
        self.in_fragments = fields.fragment.then_some(fields.watch_id);
        let len = self.frame_len(revision, fields) + events_len;
        self.tail.put_u8(0);
        let len = u32::try_from(len).expect("responses with events were measured before");
        self.tail.put_u32(len);
        let (_, header) = self.header.as_ref().expect("was just encoded");
        self.tail.put_slice(header);
        fields.put(&mut self.tail);
    }

    fn header(&mut self, revision: i64) -> &[u8] {
        if self
            .header
            .as_ref()
            .is_none_or(|(known, _)| *known != revision)
        {
            let numbers = [
                self.head.cluster_id,
                self.head.member_id,
                revision as u64,
                self.head.raft_term,
            ];
            let mut inner = Vec::with_capacity(40);
            for (place, number) in numbers.into_iter().enumerate() {
                put_number(&mut inner, place as u8 + 1, number);
            }
            let mut field = vec![1 << 3 | 2];
            encode_varint(inner.len() as u64, &mut field);
            field.extend_from_slice(&inner);
            self.header = Some((revision, field));
        }
        let (_, header) = self.header.as_ref().expect("was just encoded");
        header
    }

    fn put_events(&mut self, bytes: &Bytes) {
        if bytes.len() >= SHARE_BYTES {
            self.end_frame();
            self.push_frame(bytes.clone());
        } else {
            self.tail.put_slice(bytes);
        }
    }

    fn end_frame(&mut self) {
        if !self.tail.is_empty() {
            let frame = self.tail.split().freeze();
            self.push_frame(frame);
        }
    }

    fn push_frame(&mut self, frame: Bytes) {
        self.frame_bytes += frame.len();
        self.frames.push_back(frame);
    }
}

impl Fields<'_> {
    fn len(&self) -> usize {
        let number = |n: i64| {
            if n == 0 {
                0
            } else {
                1 + encoded_len_varint(n as u64)
            }
        };
        let flag = |set: bool| if set { 2 } else { 0 };
        let reason = self.cancel_reason.len();
        number(self.watch_id)
            + flag(self.created)
            + flag(self.canceled)
            + number(self.compact_revision)
            + if reason == 0 {
                0
            } else {
                1 + encoded_len_varint(reason as u64) + reason
            }
            + flag(self.fragment)
    }

    fn put(&self, buf: &mut BytesMut) {
        put_number(buf, 2, self.watch_id as u64);
        put_number(buf, 3, u64::from(self.created));
        put_number(buf, 4, u64::from(self.canceled));
        put_number(buf, 5, self.compact_revision as u64);
        if !self.cancel_reason.is_empty() {
            buf.put_u8(6 << 3 | 2);
            encode_varint(self.cancel_reason.len() as u64, buf);
            buf.put_slice(self.cancel_reason.as_bytes());
        }
        put_number(buf, 7, u64::from(self.fragment));
    }
}

fn put_number(buf: &mut impl BufMut, field: u8, number: u64) {
    if number != 0 {
        buf.put_u8(field << 3);
        encode_varint(number, buf);
    }
}

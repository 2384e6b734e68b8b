//! Messages on their way to other members. Followers that get the same entries share their bytes:
//! the first stream that sends them encodes them, and no stream copies them.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use raft::{Body, Message, Position, Term};

/// The entries of smaller appends are encoded for each follower: that is cheaper than a separate
/// write to each socket.
const SHARED_BYTES_MIN: usize = 16 << 10;

/// A message in the queue of a stream.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) message: Message,
    /// The encoded entries, once a stream has sent them. `None` for a message that is not shared.
    pub(super) entries: Option<SharedEntries>,
}

pub(super) type SharedEntries = Arc<OnceLock<Bytes>>;

impl From<Message> for Outgoing {
    fn from(message: Message) -> Outgoing {
        let entries = None;
        Outgoing { message, entries }
    }
}

/// Finds the appends of one turn that carry the same entries.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    appends: Vec<(Range, SharedEntries)>,
}

/// Names entries of a leader: in its term, its log only grows.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    term: Term,
    prev: Position,
    count: usize,
}

impl Turn {
    pub(crate) fn outgoing(&mut self, message: Message) -> Outgoing {
        let Body::Append { prev, entries, .. } = &message.body else {
            return message.into();
        };
        let bytes: usize = entries.iter().map(|entry| entry.data.len()).sum();
        if bytes < SHARED_BYTES_MIN {
            return message.into();
        }
        let range = Range {
            term: message.term,
            prev: *prev,
            count: entries.len(),
        };
        let known = self.appends.iter().find(|(known, _)| *known == range);
        let entries = match known {
            Some((_, entries)) => Arc::clone(entries),
            None => {
                let entries = SharedEntries::default();
                self.appends.push((range, Arc::clone(&entries)));
                entries
            }
        };
        Outgoing {
            message,
            entries: Some(entries),
        }
    }
}

/// Bytes of a stream, in pieces, so that large ones need not be copied.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    full: VecDeque<Bytes>,
    /// Comes after `full`.
    pub(super) open: Vec<u8>,
}

impl Pieces {
    pub(super) fn push(&mut self, piece: Bytes) {
        self.close();
        self.full.push_back(piece);
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.full.push_back(std::mem::take(&mut self.open).into());
        }
    }

    /// The next bytes to send; `None` when all are taken.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        if self.full.is_empty() {
            self.close();
        }
        self.full.pop_front()
    }

    pub(super) fn bytes(&self) -> usize {
        self.full.iter().map(Bytes::len).sum::<usize>() + self.open.len()
    }
}

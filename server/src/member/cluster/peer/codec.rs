//! Encodes and decodes etcd's two peer streams. Pure functions of bytes; sockets are elsewhere.
//!
//! `message`: `[u64 BE length][raftpb.Message]`, repeated. A heartbeat message from 0 to 0 only
//! shows that the link is alive.
//!
//! `msgapp`: one byte gives the kind of what follows. 0: the link is alive. 1: entries that
//! continue the last append of the stream (`u64 count`, per entry `u64 length` and its bytes, `u64
//! commit`). 2: a whole message (`u64 length`, bytes). All numbers are big endian.

use bytes::{Buf, Bytes, BytesMut};
use raft::wire::{self, Malformed};
use raft::{Body, Entry, Index, Message, NodeId, Position};

use super::outgoing::{Outgoing, Pieces};

/// Longer frames are refused: etcd's limit.
pub(crate) const FRAME_BYTES_MAX: u64 = 512 << 20;

/// More entries than any sender puts into one append.
const ENTRIES_MAX: u64 = 1 << 18;

const LINK_HEARTBEAT: u8 = 0;
const APP_ENTRIES: u8 = 1;
const APP: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Message,
    MsgApp,
}

impl Kind {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Kind::Message => "message",
            Kind::MsgApp => "msgapp",
        }
    }

    /// Bytes that etcd's metrics count for one link heartbeat.
    pub(crate) fn heartbeat_bytes(self) -> usize {
        match self {
            Kind::Message => 2,
            Kind::MsgApp => 1,
        }
    }
}

/// The writer of one connection.
#[derive(Debug)]
pub(crate) struct Encoder {
    kind: Kind,
    /// Index and term at the end of the last append.
    at: Position,
}

impl Encoder {
    pub(crate) fn new(kind: Kind) -> Encoder {
        let at = Position::default();
        Encoder { kind, at }
    }

    pub(crate) fn heartbeat(&self, out: &mut Vec<u8>) {
        match self.kind {
            Kind::Message => out.extend([0, 0, 0, 0, 0, 0, 0, 2, 0x08, 0x08]),
            Kind::MsgApp => out.push(LINK_HEARTBEAT),
        }
    }

    /// Entries that followers share are encoded once, if they continue this stream.
    pub(crate) fn outgoing(&mut self, outgoing: &Outgoing, out: &mut Pieces) {
        let Outgoing { message, entries } = outgoing;
        if let Some(shared) = entries
            && let Some((entries, commit)) = self.continuation(message)
        {
            self.begin_entries(entries, &mut out.open);
            let encoded = shared.get_or_init(|| {
                let mut bytes = Vec::with_capacity(wire::message_size_hint(message));
                encode_entries(entries, &mut bytes);
                bytes.into()
            });
            out.push(encoded.clone());
            out.open.extend(commit.to_be_bytes());
            return;
        }
        self.message(message, &mut out.open);
    }

    pub(crate) fn message(&mut self, message: &Message, out: &mut Vec<u8>) {
        if let Some((entries, commit)) = self.continuation(message) {
            self.begin_entries(entries, out);
            encode_entries(entries, out);
            out.extend(commit.to_be_bytes());
            return;
        }
        if self.kind == Kind::MsgApp {
            out.push(APP);
            self.at = end_of(message);
        }
        sized(out, |out| wire::encode_message(message, out));
    }

    /// The entries and the commit index of an append that continues the last one of this stream.
    fn continuation<'a>(&self, message: &'a Message) -> Option<(&'a [Entry], Index)> {
        match &message.body {
            Body::Append {
                prev,
                entries,
                commit,
            } if self.kind == Kind::MsgApp && *prev == self.at && prev.term == message.term => {
                Some((entries, *commit))
            }
            _ => None,
        }
    }

    fn begin_entries(&mut self, entries: &[Entry], out: &mut Vec<u8>) {
        out.push(APP_ENTRIES);
        out.extend((entries.len() as u64).to_be_bytes());
        self.at.index += entries.len() as u64;
    }
}

fn encode_entries(entries: &[Entry], out: &mut Vec<u8>) {
    for entry in entries {
        sized(out, |out| wire::encode_entry(entry, out));
    }
}

fn sized(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 8]);
    write(out);
    let length = (out.len() - start - 8) as u64;
    out[start..start + 8].copy_from_slice(&length.to_be_bytes());
}

/// The position that a stream remembers after a whole message.
fn end_of(message: &Message) -> Position {
    let index = match &message.body {
        Body::Append { prev, entries, .. } => entries.last().map_or(prev.index, |e| e.index),
        _ => 0,
    };
    Position {
        term: message.term,
        index,
    }
}

/// The reader of one connection.
#[derive(Debug)]
pub(crate) struct Decoder {
    kind: Kind,
    at: Position,
    /// Sender and receiver of this stream.
    from: NodeId,
    to: NodeId,
    buffer: BytesMut,
    /// No frame is complete before the buffer holds this many bytes.
    needed: usize,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    LinkHeartbeat,
    Message(Message),
}

impl Decoder {
    pub(crate) fn new(kind: Kind, from: NodeId, to: NodeId) -> Decoder {
        Decoder {
            kind,
            at: Position::default(),
            from,
            to,
            buffer: BytesMut::new(),
            needed: 1,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete frame; `None` until more bytes arrive. After an error the stream is
    /// unusable.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, Malformed> {
        if self.buffer.len() < self.needed {
            return Ok(None);
        }
        match self.length()? {
            Length::AtLeast(needed) => {
                self.needed = needed;
                Ok(None)
            }
            Length::Exactly(length) => {
                self.needed = 1;
                let frame = self.buffer.split_to(length).freeze();
                self.read(frame).map(Some)
            }
        }
    }

    /// Length of the frame at the front of the buffer.
    fn length(&self) -> Result<Length, Malformed> {
        let bytes = &self.buffer[..];
        let body = match (self.kind, bytes.first()) {
            (_, None) => return Ok(Length::AtLeast(1)),
            (Kind::Message, _) => 0,
            (Kind::MsgApp, Some(&LINK_HEARTBEAT)) => return Ok(Length::Exactly(1)),
            (Kind::MsgApp, Some(&APP)) => 1,
            (Kind::MsgApp, Some(&APP_ENTRIES)) => return entries_length(bytes),
            _ => return Err(Malformed("unknown kind of frame")),
        };
        Ok(match number(bytes, body)? {
            None => Length::AtLeast(body + 8),
            Some(length) if bytes.len() < body + 8 + length => Length::AtLeast(body + 8 + length),
            Some(length) => Length::Exactly(body + 8 + length),
        })
    }

    fn read(&mut self, mut frame: Bytes) -> Result<Frame, Malformed> {
        if self.kind == Kind::MsgApp {
            match frame.get_u8() {
                LINK_HEARTBEAT => return Ok(Frame::LinkHeartbeat),
                APP_ENTRIES => return self.entries(frame),
                _ => {}
            }
        }
        frame.advance(8);
        let message = wire::decode_message(&frame)?;
        if self.kind == Kind::MsgApp {
            self.at = end_of(&message);
        } else if message.from == 0 && message.to == 0 {
            return Ok(Frame::LinkHeartbeat);
        }
        Ok(Frame::Message(message))
    }

    fn entries(&mut self, mut frame: Bytes) -> Result<Frame, Malformed> {
        let prev = self.at;
        if prev.term == 0 {
            return Err(Malformed("entries continue an append that never came"));
        }
        let mut entries = Vec::new();
        for _ in 0..frame.get_u64() {
            let length = frame.get_u64() as usize;
            entries.push(wire::decode_entry(&frame.split_to(length))?);
        }
        let message = Message {
            from: self.from,
            to: self.to,
            term: prev.term,
            body: Body::Append {
                prev,
                entries,
                commit: frame.get_u64(),
            },
        };
        if let Some(flaw) = message.flaw() {
            return Err(Malformed(flaw));
        }
        self.at = end_of(&message);
        Ok(Frame::Message(message))
    }
}

enum Length {
    Exactly(usize),
    AtLeast(usize),
}

fn entries_length(bytes: &[u8]) -> Result<Length, Malformed> {
    let Some(count) = number(bytes, 1)? else {
        return Ok(Length::AtLeast(9));
    };
    if count as u64 > ENTRIES_MAX {
        return Err(Malformed("too many entries"));
    }
    let mut at = 9;
    for _ in 0..count {
        match number(bytes, at)? {
            None => return Ok(Length::AtLeast(at + 8)),
            Some(length) => at += 8 + length,
        }
        if at as u64 > FRAME_BYTES_MAX {
            return Err(Malformed("a frame is too long"));
        }
    }
    at += 8;
    Ok(if bytes.len() < at {
        Length::AtLeast(at)
    } else {
        Length::Exactly(at)
    })
}

fn number(bytes: &[u8], at: usize) -> Result<Option<usize>, Malformed> {
    let Some(word) = bytes.get(at..at + 8) else {
        return Ok(None);
    };
    let mut raw = [0; 8];
    raw.copy_from_slice(word);
    let number = u64::from_be_bytes(raw);
    if number > FRAME_BYTES_MAX {
        return Err(Malformed("a frame is too long"));
    }
    Ok(Some(number as usize))
}

#[cfg(test)]
mod tests;

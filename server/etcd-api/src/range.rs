//! The answer to a range for a server that writes key-values straight from its pages.
//!
//! The same message as [`etcdserverpb::RangeResponse`](crate::etcdserverpb::RangeResponse) on the
//! wire. Its rows are encoded once, as they will leave; a large answer leaves in the pieces they
//! were written to and is never put together.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use memmap2::MmapMut;
use prost::DecodeError;
use prost::Message;
use prost::encoding::{self, DecodeContext, WireType};

use crate::etcdserverpb::ResponseHeader;

const HEADER_TAG: u32 = 1;
const KVS_TAG: u32 = 2;
const MORE_TAG: u32 = 3;
const COUNT_TAG: u32 = 4;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RangeResponse {
    pub header: Option<ResponseHeader>,
    pub kvs: Rows,
    /// the limit cut something off
    pub more: bool,
    /// keys in the range, whatever limit and bounds left of them
    pub count: i64,
}

impl RangeResponse {
    /// The message in pieces, none of them copied but the few bytes before and behind the rows.
    pub fn into_pieces(self) -> Vec<Bytes> {
        let mut head = BytesMut::new();
        if let Some(header) = &self.header {
            encoding::message::encode(HEADER_TAG, header, &mut head);
        }
        let mut end = BytesMut::new();
        self.encode_end(&mut end);
        let mut pieces = vec![head.freeze()];
        pieces.append(&mut self.kvs.into_pieces());
        pieces.push(end.freeze());
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }

    fn encode_end(&self, out: &mut impl BufMut) {
        if self.more {
            encoding::bool::encode(MORE_TAG, &self.more, out);
        }
        if self.count != 0 {
            encoding::int64::encode(COUNT_TAG, &self.count, out);
        }
    }
}

impl Message for RangeResponse {
    fn encode_raw(&self, out: &mut impl BufMut) {
        if let Some(header) = &self.header {
            encoding::message::encode(HEADER_TAG, header, out);
        }
        for piece in self.kvs.pieces() {
            out.put_slice(piece);
        }
        self.encode_end(out);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        from: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            HEADER_TAG => {
                let header = self.header.get_or_insert_default();
                encoding::message::merge(wire_type, header, from, context)
            }
            KVS_TAG => {
                let mut row = Bytes::new();
                encoding::bytes::merge(wire_type, &mut row, from, context)?;
                self.kvs.push(row.len(), |out| out.put_slice(&row));
                Ok(())
            }
            MORE_TAG => encoding::bool::merge(wire_type, &mut self.more, from, context),
            COUNT_TAG => encoding::int64::merge(wire_type, &mut self.count, from, context),
            _ => encoding::skip_field(wire_type, tag, from, context),
        }
    }

    fn encoded_len(&self) -> usize {
        let header = self.header.as_ref();
        header.map_or(0, |header| {
            encoding::message::encoded_len(HEADER_TAG, header)
        }) + self.kvs.bytes
            + if self.more {
                encoding::bool::encoded_len(MORE_TAG, &self.more)
            } else {
                0
            }
            + match self.count {
                0 => 0,
                _ => encoding::int64::encoded_len(COUNT_TAG, &self.count),
            }
    }

    fn clear(&mut self) {
        *self = RangeResponse::default();
    }
}

/// Encoded key-values, each behind its tag and length, many to a piece.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Full ones.
    pieces: Vec<Bytes>,
    /// The one being filled.
    last: Piece,
    count: usize,
    bytes: usize,
}

impl Rows {
    /// The second piece; the first is as large as its row, for most ranges have one.
    const PIECE_BYTES: usize = 16 << 10;
    /// Later ones, but for rows that are larger. Large enough that a gigabyte is a thousand of
    /// them, small enough that what a connection holds beside what it may send does not matter.
    const PIECE_BYTES_MAX: usize = 1 << 20;

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes on the wire.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a row of `len` bytes, which `encode` writes.
    pub fn push(&mut self, len: usize, encode: impl FnOnce(&mut dyn BufMut)) {
        let framed = encoding::key_len(KVS_TAG) + encoding::encoded_len_varint(len as u64) + len;
        if framed > self.last.room() {
            // Pieces grow with what there is, so that a small answer takes little.
            let next = match self.bytes {
                0 => framed,
                held => held.clamp(Self::PIECE_BYTES, Self::PIECE_BYTES_MAX),
            };
            let full = std::mem::replace(&mut self.last, Piece::new(next.max(framed)));
            self.pieces.extend(full.freeze());
        }
        self.count += 1;
        self.bytes += framed;
        match &mut self.last {
            Piece::Heap(buffer) => frame(len, buffer, encode),
            Piece::Mapped { map, filled } => {
                frame(len, &mut &mut map[*filled..], encode);
                *filled += framed;
            }
        }
    }

    /// The rows without tag and length.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces().flat_map(|piece| {
            let mut rest = piece;
            std::iter::from_fn(move || {
                rest.has_remaining().then(|| {
                    let _ = encoding::decode_key(&mut rest);
                    let len = encoding::decode_varint(&mut rest).unwrap_or(0);
                    let (row, behind) = rest.split_at(len as usize);
                    rest = behind;
                    row
                })
            })
        })
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let last = Some(self.last.filled()).filter(|last| !last.is_empty());
        self.pieces.iter().map(|piece| &piece[..]).chain(last)
    }

    fn into_pieces(mut self) -> Vec<Bytes> {
        self.pieces.extend(self.last.freeze());
        self.pieces
    }
}

/// Some rows, with room for more.
#[derive(Debug)]
enum Piece {
    Heap(BytesMut),
    /// A large one is a mapping of its own: made by one thread and let go of by another it would
    /// stay with the allocator, reply after reply. And of a mapping only what is filled is there.
    Mapped {
        map: MmapMut,
        filled: usize,
    },
}

impl Piece {
    const MAPPED_BYTES_MIN: usize = 64 << 10;

    fn new(bytes: usize) -> Piece {
        if bytes >= Self::MAPPED_BYTES_MIN
            && let Ok(map) = MmapMut::map_anon(bytes)
        {
            return Piece::Mapped { map, filled: 0 };
        }
        Piece::Heap(BytesMut::with_capacity(bytes))
    }

    fn room(&self) -> usize {
        match self {
            Piece::Heap(buffer) => buffer.capacity() - buffer.len(),
            Piece::Mapped { map, filled } => map.len() - filled,
        }
    }

    fn filled(&self) -> &[u8] {
        match self {
            Piece::Heap(buffer) => buffer,
            Piece::Mapped { map, filled } => &map[..*filled],
        }
    }

    fn freeze(self) -> Option<Bytes> {
        let bytes = match self {
            Piece::Heap(buffer) => buffer.freeze(),
            Piece::Mapped { map, filled } => Bytes::from_owner(map).slice(..filled),
        };
        Some(bytes).filter(|bytes| !bytes.is_empty())
    }
}

impl Default for Piece {
    fn default() -> Piece {
        Piece::Heap(BytesMut::new())
    }
}

impl Clone for Piece {
    fn clone(&self) -> Piece {
        Piece::Heap(self.filled().into())
    }
}

impl PartialEq for Rows {
    fn eq(&self, other: &Rows) -> bool {
        self.count == other.count && self.iter().eq(other.iter())
    }
}

impl Eq for Rows {}

impl std::hash::Hash for Rows {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.iter().for_each(|row| row.hash(state));
    }
}

/// Rows already encoded.
impl FromIterator<Bytes> for Rows {
    fn from_iter<I: IntoIterator<Item = Bytes>>(encoded: I) -> Rows {
        let mut rows = Rows::default();
        for row in encoded {
            rows.push(row.len(), |out| out.put_slice(&row));
        }
        rows
    }
}

fn frame(len: usize, out: &mut impl BufMut, encode: impl FnOnce(&mut dyn BufMut)) {
    encoding::encode_key(KVS_TAG, WireType::LengthDelimited, out);
    encoding::encode_varint(len as u64, out);
    encode(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcdserverpb as pb;
    use crate::mvccpb::KeyValue;

    fn rows_of(lengths: impl IntoIterator<Item = usize>) -> (RangeResponse, pb::RangeResponse) {
        let header = Some(ResponseHeader {
            revision: 7,
            ..ResponseHeader::default()
        });
        let kvs: Vec<KeyValue> = lengths
            .into_iter()
            .enumerate()
            .map(|(number, length)| KeyValue {
                key: number.to_string().into(),
                value: vec![number as u8; length].into(),
                ..KeyValue::default()
            })
            .collect();
        let count = kvs.len() as i64;
        let raw = RangeResponse {
            header,
            kvs: kvs.iter().map(|kv| kv.encode_to_vec().into()).collect(),
            more: true,
            count,
        };
        let typed = pb::RangeResponse {
            header,
            kvs,
            more: true,
            count,
        };
        (raw, typed)
    }

    #[test]
    fn rows_of_any_size_leave_as_the_generated_message_whole_and_in_pieces() {
        let mixed = (0..4000).map(|number| match number % 97 {
            0 => 300_000,
            1..5 => 20_000,
            rest => rest * 7,
        });
        for lengths in [
            vec![],
            vec![5],
            vec![0; 3],
            vec![100; 100_000],
            mixed.collect(),
        ] {
            let (raw, typed) = rows_of(lengths);
            let expected = typed.encode_to_vec();
            assert_eq!(raw.encoded_len(), expected.len());
            assert!(raw.encode_to_vec() == expected);
            assert!(RangeResponse::decode(&expected[..]).unwrap() == raw);
            let rows: Vec<_> = raw.kvs.iter().map(KeyValue::decode).collect();
            assert!(rows.into_iter().map(Result::unwrap).eq(typed.kvs));
            assert!(raw.into_pieces().concat() == expected);
        }
    }
}

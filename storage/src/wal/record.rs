//! A record of the log, as bytes of a segment's stream:
//!
//! | offset | size | name    | meaning                                                          |
//! |--------|------|---------|------------------------------------------------------------------|
//! | 0      | 4    | crc     | CRC-32C of bytes 4..32 and the payload, begun with the segment's seed |
//! | 4      | 1    | kind    | the caller's                                                     |
//! | 5      | 1    | flags   | 1 always set, 2 carried, 4 repeated, 8 sealed, 16 a key record, 32 filling |
//! | 6      | 2    | zero    |                                                                  |
//! | 8      | 4    | len     | of the payload                                                   |
//! | 12     | 4    | prev    | crc of the record before, or the seed for a segment's first       |
//! | 16     | 8    | index   | the caller's                                                     |
//! | 24     | 4    | durable | stream bytes of this segment known durable when this was appended |
//! | 28     | 4    | zero    | reserved                                                         |
//! | 32     | len  | payload | then zeros up to a multiple of 8                                 |
//!
//! `sealed` explains the payload of sealed records and of key records. `prev` makes a chain.
//! `durable` is a witness: if a record behind a gap says that the gap was durable, the gap is
//! damage, not a write that a power cut interrupted.

use super::PAYLOAD_BYTES_MAX;
use crate::codec::{Malformed, Reader};
use crate::encryption::TAG_BYTES;

pub(super) const HEAD_BYTES: usize = 32;
pub(super) const ALIGN: usize = 8;

const PRESENT: u8 = 1;
/// Each new segment repeats the newest record of this kind at its head.
pub(super) const CARRIED: u8 = 2;
/// The record is such a repetition.
pub(super) const REPEATED: u8 = 4;
/// The payload is sealed.
pub(super) const SEALED: u8 = 8;
/// Written by the log itself: names the key and salt of the sealed records after it.
pub(super) const KEY: u8 = 16;
/// Written by the log itself: zeros that fill a page of the file, never sealed.
pub(super) const FILLING: u8 = 32;
const KNOWN_FLAGS: u8 = PRESENT | CARRIED | REPEATED | SEALED | KEY | FILLING;
/// The longest payload, including its tag.
const LEN_MAX: usize = PAYLOAD_BYTES_MAX + TAG_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) crc: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) len: usize,
    pub(super) prev: u32,
    pub(super) index: u64,
    pub(super) durable: u32,
}

impl Head {
    /// Encodes the head and sets its checksum.
    #[cfg(test)]
    pub(super) fn encode_with_checksum(
        &mut self,
        seed: u32,
        payload: &[&[u8]],
    ) -> [u8; HEAD_BYTES] {
        let mut bytes = self.encode();
        self.checksum(seed, &mut bytes, payload);
        bytes
    }

    /// Encodes the head without its checksum.
    pub(super) fn encode(&mut self) -> [u8; HEAD_BYTES] {
        self.flags |= PRESENT;
        let mut out = [0; HEAD_BYTES];
        out[4] = self.kind;
        out[5] = self.flags;
        out[8..12].copy_from_slice(&(self.len as u32).to_le_bytes());
        out[12..16].copy_from_slice(&self.prev.to_le_bytes());
        out[16..24].copy_from_slice(&self.index.to_le_bytes());
        out[24..28].copy_from_slice(&self.durable.to_le_bytes());
        out
    }

    /// Computes and sets the checksum; `payload` is as written into the stream.
    pub(super) fn checksum(&mut self, seed: u32, bytes: &mut [u8; HEAD_BYTES], payload: &[&[u8]]) {
        let sum = Checksum::Crc32;
        let crc = sum.append(seed, &bytes[4..]);
        self.crc = payload.iter().fold(crc, |crc, part| sum.append(crc, part));
        bytes[..4].copy_from_slice(&self.crc.to_le_bytes());
    }

    /// Decodes the first 32 bytes of a record; any impossible value is an error.
    pub(super) fn decode(bytes: &[u8]) -> Result<Head, Malformed> {
        let mut r = Reader::new(bytes);
        let crc = r.u32()?;
        let (kind, flags) = (r.u8()?, r.u8()?);
        let zero = r.u16()?;
        let len = r.u32()? as usize;
        let prev = r.u32()?;
        let index = r.u64()?;
        let durable = r.u32()?;
        let reserved = r.u32()?;
        let malformed = |at, what| Err(Malformed { at, what });
        if flags & PRESENT == 0 || flags & !KNOWN_FLAGS != 0 {
            return malformed(5, "unknown record flags");
        }
        if zero != 0 || reserved != 0 {
            return malformed(6, "reserved bytes of a record are set");
        }
        if len > LEN_MAX {
            return malformed(8, "record longer than any may be");
        }
        Ok(Head {
            crc,
            kind,
            flags,
            len,
            prev,
            index,
            durable,
        })
    }

    /// Length of the whole record in the stream.
    pub(super) fn stream_bytes(&self) -> usize {
        stream_bytes(self.len)
    }

    /// `record` is the whole record, head included.
    pub(super) fn verifies(&self, sum: Checksum, seed: u32, record: &[u8]) -> bool {
        sum.append(seed, &record[4..HEAD_BYTES + self.len]) == self.crc
    }
}

/// The checksum of a segment's records, by the version of its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checksum {
    /// Format 1, which is read and no longer written.
    Crc32c,
    Crc32,
}

impl Checksum {
    /// Extends `sum` by these bytes.
    pub(super) fn append(self, sum: u32, bytes: &[u8]) -> u32 {
        match self {
            Checksum::Crc32c => crc32c::crc32c_append(sum, bytes),
            Checksum::Crc32 => {
                let mut hasher = crc32fast::Hasher::new_with_initial(sum);
                hasher.update(bytes);
                hasher.finalize()
            }
        }
    }
}

/// Stream bytes of a record with a payload of this length.
pub(super) const fn stream_bytes(payload: usize) -> usize {
    (HEAD_BYTES + payload).next_multiple_of(ALIGN)
}

/// True if nothing was written where a record could begin. The first 8 bytes of a record are never
/// all zero, and are always in one sector.
pub(super) fn is_absent(bytes: &[u8]) -> bool {
    bytes.iter().take(ALIGN).all(|b| *b == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Head, Vec<u8>) {
        let mut head = Head {
            crc: 0,
            kind: 3,
            flags: CARRIED,
            len: 5,
            prev: 77,
            index: 1 << 40,
            durable: 4096,
        };
        let bytes = head.encode_with_checksum(9, &[b"he", b"llo"]);
        (head, [&bytes[..], b"hello\0\0\0"].concat())
    }

    #[test]
    fn a_record_reads_as_written_and_every_truncation_is_an_error() {
        let (head, bytes) = sample();
        assert_eq!(Head::decode(&bytes), Ok(head));
        assert_eq!(head.stream_bytes(), bytes.len());
        assert!(head.verifies(Checksum::Crc32, 9, &bytes));
        assert!(!head.verifies(Checksum::Crc32, 8, &bytes));
        for len in 0..HEAD_BYTES {
            assert!(Head::decode(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn any_flipped_bit_of_head_or_payload_is_noticed() {
        let (_, mut bytes) = sample();
        for bit in 0..(HEAD_BYTES + 5) * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let fine = Head::decode(&bytes)
                .is_ok_and(|h| h.len == 5 && h.verifies(Checksum::Crc32, 9, &bytes));
            assert!(!fine, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

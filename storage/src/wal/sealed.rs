//! Log records under encryption at rest. Why no nonce repeats is argued in `seal`.
//!
//! A *key record* begins a scope: all sealed records after it in the segment, up to the next one,
//! are sealed under the subkey of its key and salt. It is the log's own and never shown:
//!
//! | offset | size | name | meaning             |
//! |--------|------|------|---------------------|
//! | 0      | 4    | key  | id                  |
//! | 4      | 16   | salt | of the scope        |
//!
//! A segment begins with one, and whoever opens the log and goes on in a segment writes another.
//! The payload of a sealed record is the caller's, sealed, and a tag of 16 bytes; its position is
//! the record's place in the stream, its head (but for the checksum) is authenticated with it. The
//! checksum is that of the sealed bytes.

use super::record::{self, HEAD_BYTES};
use crate::seal::{Purpose, SALT_BYTES, Salt, Scope, Seal, Subkey, TAG_BYTES};

const KEY_RECORD_BYTES: usize = 4 + SALT_BYTES;
/// What a key record takes of a segment's stream.
pub(super) const KEY_RECORD_STREAM_BYTES: u64 = record::stream_bytes(KEY_RECORD_BYTES) as u64;

/// Of the head, what is authenticated.
const BESIDE: std::ops::Range<usize> = 4..HEAD_BYTES;

/// What new records of a segment are sealed with.
#[derive(Debug)]
pub(super) struct RecordSealer {
    scope: Scope,
    sealed: Vec<u8>,
}

/// A larger buffer is not kept.
const KEPT_BYTES: usize = 1 << 20;

impl RecordSealer {
    pub(super) fn new(scope: Scope) -> RecordSealer {
        RecordSealer {
            scope,
            sealed: Vec::new(),
        }
    }

    pub(super) fn key(&self) -> u32 {
        self.scope.key
    }

    pub(super) fn key_record(&self) -> [u8; KEY_RECORD_BYTES] {
        let mut out = [0; KEY_RECORD_BYTES];
        out[..4].copy_from_slice(&self.scope.key.to_le_bytes());
        out[4..].copy_from_slice(&self.scope.salt);
        out
    }

    /// The payload of the record that begins at `at`: once for each place.
    pub(super) fn seal(&mut self, at: u64, head: &[u8; HEAD_BYTES], payload: &[&[u8]]) -> &[u8] {
        self.sealed.clear();
        self.sealed.shrink_to(KEPT_BYTES);
        for part in payload {
            self.sealed.extend_from_slice(part);
        }
        let tag = self.scope.subkey.seal(at, &head[BESIDE], &mut self.sealed);
        self.sealed.extend_from_slice(&tag);
        &self.sealed
    }
}

/// What the records of a segment are opened with.
#[derive(Debug)]
pub(super) struct RecordOpener {
    key: u32,
    subkey: Subkey,
    opened: Vec<u8>,
}

impl RecordOpener {
    /// From a key record's payload; the error says what is wrong with it.
    pub(super) fn new(seal: Option<&Seal>, payload: &[u8]) -> Result<RecordOpener, String> {
        let (key, salt) = parse(payload).ok_or("impossible record of a key")?;
        let subkey = seal.and_then(|seal| seal.subkey(key, Purpose::Record, &salt));
        Ok(RecordOpener {
            key,
            subkey: subkey.ok_or(format!("sealed under key {key}, which is not at hand"))?,
            opened: Vec::new(),
        })
    }

    pub(super) fn key(&self) -> u32 {
        self.key
    }

    /// `record` begins with its head and ends with the payload.
    pub(super) fn open(&mut self, at: u64, record: &[u8]) -> Result<&[u8], String> {
        let (head, payload) = record.split_at(HEAD_BYTES);
        let Some((payload, tag)) = payload.split_last_chunk::<TAG_BYTES>() else {
            return Err("a sealed record without its tag".to_owned());
        };
        self.opened.clear();
        self.opened.shrink_to(KEPT_BYTES);
        self.opened.extend_from_slice(payload);
        if !self.subkey.open(at, &head[BESIDE], *tag, &mut self.opened) {
            return Err(format!("the record does not open with key {}", self.key));
        }
        Ok(&self.opened)
    }
}

/// Key id and salt.
pub(super) fn parse(payload: &[u8]) -> Option<(u32, Salt)> {
    let (key, salt) = payload.split_first_chunk()?;
    Some((u32::from_le_bytes(*key), salt.try_into().ok()?))
}

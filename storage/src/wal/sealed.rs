//! Log records under encryption at rest. The module `encryption` shows why no nonce repeats.
//!
//! A *key record* begins a scope: all sealed records after it in the segment, up to the next key
//! record, are sealed under the subkey of its key and salt. The log writes it for itself and never
//! returns it:
//!
//! | offset | size | name | meaning             |
//! |--------|------|------|---------------------|
//! | 0      | 4    | key  | id                  |
//! | 4      | 16   | salt | of the scope        |
//!
//! A segment begins with one. A process that opens the log and continues in a segment writes
//! another. The payload of a sealed record is the caller's, encrypted, then a tag of 16 bytes. Its
//! position is the record's place in the stream. The head, without the checksum, is authenticated
//! with it. The checksum covers the sealed bytes.

use super::record::{self, HEAD_BYTES};
use crate::encryption::{DataKeys, Purpose, SALT_BYTES, Salt, Scope, Subkey, TAG_BYTES};

const KEY_RECORD_BYTES: usize = 4 + SALT_BYTES;
/// Stream bytes that a key record takes.
pub(super) const KEY_RECORD_STREAM_BYTES: u64 = record::stream_bytes(KEY_RECORD_BYTES) as u64;

/// The part of the head that is authenticated.
const BESIDE: std::ops::Range<usize> = 4..HEAD_BYTES;

/// Seals the new records of a segment.
#[derive(Debug)]
pub(super) struct RecordSealer {
    scope: Scope,
    sealed: Vec<u8>,
}

/// A larger buffer is released.
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

    /// Seals the payload of the record that begins at `at`; at most once for each place.
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

/// Opens the sealed records of a segment.
#[derive(Debug)]
pub(super) struct RecordOpener {
    key: u32,
    subkey: Subkey,
    opened: Vec<u8>,
}

impl RecordOpener {
    /// Builds it from a key record's payload; the error says what is wrong with that.
    pub(super) fn new(
        data_keys: Option<&DataKeys>,
        payload: &[u8],
    ) -> Result<RecordOpener, String> {
        let (key, salt) = parse(payload).ok_or("impossible record of a key")?;
        let subkey = data_keys.and_then(|data_keys| data_keys.subkey(key, Purpose::Record, &salt));
        Ok(RecordOpener {
            key,
            subkey: subkey.ok_or(format!("sealed under key {key}, which is not at hand"))?,
            opened: Vec::new(),
        })
    }

    pub(super) fn key(&self) -> u32 {
        self.key
    }

    /// `record` is the whole record, from its head to the end of its payload.
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

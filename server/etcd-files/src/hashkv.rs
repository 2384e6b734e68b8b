//! The HashKV digest: one CRC32C over a history, equal on every member that holds the same rows.
//!
//! etcd hashes the raw rows of its `key` bucket, so an engine with another layout has to re-create
//! those bytes. A row is a revision key followed by a record:
//!
//! ```text
//! revision key   main i64 big endian (8) | '_' | sub i64 big endian (8) | 't' on a tombstone only
//! record         protobuf KeyValue, fields ascending, zero fields left out; a tombstone has only its key
//! ```
//!
//! Which rows belong to a digest (the compaction rules) is the caller's knowledge. The rows must
//! come in revision order.

/// The three bytes every digest starts with: the name of etcd's bucket.
const BUCKET: &[u8] = b"key";

/// Length of a revision key without the tombstone mark.
const REVISION_KEY_BYTES: usize = 17;

// Protobuf tags of mvccpb.KeyValue: field number << 3 | wire type (0 varint, 2 bytes).
const TAG_KEY: u8 = 1 << 3 | 2;
const TAG_CREATE_REVISION: u8 = 2 << 3;
const TAG_MOD_REVISION: u8 = 3 << 3;
const TAG_VERSION: u8 = 4 << 3;
const TAG_VALUE: u8 = 5 << 3 | 2;
const TAG_LEASE: u8 = 6 << 3;

/// A key at one revision, as etcd stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub create_revision: i64,
    pub mod_revision: i64,
    pub version: i64,
    pub lease: i64,
}

/// A digest under way. Feed rows in revision order, then ask for [`HashKv::finish`].
#[derive(Clone, Debug)]
pub struct HashKv {
    crc: u32,
    /// Everything of a row before its value; kept to spare an allocation per row.
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Default for HashKv {
    fn default() -> Self {
        Self::new()
    }
}

impl HashKv {
    pub fn new() -> Self {
        Self {
            crc: crc32c::crc32c(BUCKET),
            head: Vec::with_capacity(128),
            tail: Vec::with_capacity(16),
        }
    }

    /// Adds the put made at revision `(main, sub)`.
    pub fn put(&mut self, main: i64, sub: i64, row: &Row<'_>) {
        self.head.clear();
        self.tail.clear();
        revision_key(&mut self.head, main, sub);
        bytes_head(&mut self.head, TAG_KEY, row.key);
        self.head.extend_from_slice(row.key);
        int(&mut self.head, TAG_CREATE_REVISION, row.create_revision);
        int(&mut self.head, TAG_MOD_REVISION, row.mod_revision);
        int(&mut self.head, TAG_VERSION, row.version);
        bytes_head(&mut self.head, TAG_VALUE, row.value);
        int(&mut self.tail, TAG_LEASE, row.lease);
        // The value may be a megabyte: it is hashed where it lies, never copied.
        self.crc = crc32c::crc32c_append(self.crc, &self.head);
        self.crc = crc32c::crc32c_append(self.crc, row.value);
        self.crc = crc32c::crc32c_append(self.crc, &self.tail);
    }

    /// Adds the deletion of `key` made at revision `(main, sub)`.
    pub fn tombstone(&mut self, main: i64, sub: i64, key: &[u8]) {
        self.head.clear();
        revision_key(&mut self.head, main, sub);
        self.head.push(b't');
        bytes_head(&mut self.head, TAG_KEY, key);
        self.head.extend_from_slice(key);
        self.crc = crc32c::crc32c_append(self.crc, &self.head);
    }

    pub fn finish(self) -> u32 {
        self.crc
    }
}

fn revision_key(out: &mut Vec<u8>, main: i64, sub: i64) {
    let start = out.len();
    out.extend_from_slice(&main.to_be_bytes());
    out.push(b'_');
    out.extend_from_slice(&sub.to_be_bytes());
    debug_assert_eq!(out.len() - start, REVISION_KEY_BYTES);
}

/// Tag and length of a bytes field; nothing at all when it is empty.
fn bytes_head(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.push(tag);
        varint(out, bytes.len() as u64);
    }
}

fn int(out: &mut Vec<u8>, tag: u8, value: i64) {
    if value != 0 {
        out.push(tag);
        // Negative numbers (lease ids may be) take all ten bytes, as in every protobuf int64.
        varint(out, value as u64);
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: i64 = 0x390d_a1fb_b0ce_5208;

    fn put(
        hash: &mut HashKv,
        revision: (i64, i64),
        key: &str,
        value: &str,
        create: i64,
        version: i64,
        lease: i64,
    ) {
        let row = Row {
            key: key.as_bytes(),
            value: value.as_bytes(),
            create_revision: create,
            mod_revision: revision.0,
            version,
            lease,
        };
        hash.put(revision.0, revision.1, &row);
    }

    /// The history behind the golden numbers, played to a real etcd 3.7.3: puts, an empty value,
    /// a second version, a lease, a transaction over three sub-revisions, two deletes.
    fn history(through: i64) -> u32 {
        let mut hash = HashKv::new();
        put(&mut hash, (2, 0), "a", "1", 2, 1, 0);
        if through >= 3 {
            put(&mut hash, (3, 0), "b", "", 3, 1, 0);
        }
        if through >= 4 {
            put(&mut hash, (4, 0), "a", "22", 2, 2, 0);
        }
        if through >= 5 {
            put(&mut hash, (5, 0), "c", "vv", 5, 1, LEASE);
        }
        if through >= 6 {
            put(&mut hash, (6, 0), "x", "1", 6, 1, 0);
            put(&mut hash, (6, 1), "y", "2", 6, 1, 0);
            hash.tombstone(6, 2, b"b");
        }
        if through >= 7 {
            hash.tombstone(7, 0, b"c");
        }
        hash.finish()
    }

    #[test]
    fn digests_equal_etcds_at_each_revision() {
        let etcds = [
            2587454935, 2496657716, 3465429899, 2663483949, 1860552746, 3429640677,
        ];
        for (revision, etcds) in (2..).zip(etcds) {
            assert_eq!(history(revision), etcds, "at revision {revision}");
        }
    }

    #[test]
    fn digest_after_a_compaction_equals_etcds() {
        // Compacted at 6, where `b` was deleted: that tombstone is on disk but not in the digest.
        // Nor is `c` of revision 5: it is behind the compaction, and one at 7 would drop it.
        let mut hash = HashKv::new();
        put(&mut hash, (4, 0), "a", "22", 2, 2, 0);
        put(&mut hash, (6, 0), "x", "1", 6, 1, 0);
        put(&mut hash, (6, 1), "y", "2", 6, 1, 0);
        hash.tombstone(7, 0, b"c");
        assert_eq!(hash.clone().finish(), 1853456669);
        put(&mut hash, (8, 0), "z", "9", 8, 1, 0);
        assert_eq!(hash.finish(), 2916648670);
    }

    #[test]
    fn a_negative_lease_takes_ten_bytes() {
        let mut out = Vec::new();
        int(&mut out, TAG_LEASE, -1);
        assert_eq!(out.len(), 11);
        assert_eq!(out.last(), Some(&1));
    }
}

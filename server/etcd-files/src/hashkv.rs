//! The HashKV digest: one CRC32C over a history, equal on every member that holds the same rows.
//!
//! etcd hashes the raw rows of its `key` bucket. An engine with another layout must re-create those
//! bytes: a revision key and a record per row, as [`crate::schema`] lays them out.
//!
//! The caller knows which rows belong to a digest (the compaction rules). The rows must come in
//! revision order.

use crate::schema::RevisionKey;
pub use crate::schema::Row;

/// The three bytes every digest starts with: the name of etcd's bucket.
const BUCKET: &[u8] = b"key";

/// A digest in progress. Feed rows in revision order, then call [`HashKv::finish`].
#[derive(Clone, Debug)]
pub struct HashKv {
    crc: u32,
    /// Everything of a row before its value; kept to avoid an allocation per row.
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

    /// Continues a digest that had this [value](HashKv::value).
    pub fn resume(value: u32) -> Self {
        Self {
            crc: value,
            ..Self::new()
        }
    }

    /// The digest of the rows so far.
    pub fn value(&self) -> u32 {
        self.crc
    }

    /// Adds the put made at revision `(main, sub)`.
    pub fn put(&mut self, main: i64, sub: i64, row: &Row<'_>) {
        self.tail.clear();
        self.begin(main, sub, false);
        row.encode_head(&mut self.head);
        row.encode_tail(&mut self.tail);
        // The value may be a megabyte: it is hashed in place, never copied.
        self.crc = crc32c::crc32c_append(self.crc, &self.head);
        self.crc = crc32c::crc32c_append(self.crc, row.value);
        self.crc = crc32c::crc32c_append(self.crc, &self.tail);
    }

    /// Adds the deletion of `key` made at revision `(main, sub)`.
    pub fn tombstone(&mut self, main: i64, sub: i64, key: &[u8]) {
        self.begin(main, sub, true);
        let row = Row {
            key,
            ..Row::default()
        };
        row.encode_head(&mut self.head);
        self.crc = crc32c::crc32c_append(self.crc, &self.head);
    }

    pub fn finish(self) -> u32 {
        self.crc
    }

    fn begin(&mut self, main: i64, sub: i64, tombstone: bool) {
        self.head.clear();
        let key = RevisionKey {
            main,
            sub,
            tombstone,
        };
        key.encode(&mut self.head);
    }
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

    /// The history of the golden numbers, which a real etcd 3.7.3 produced: puts, an empty value, a
    /// second version, a lease, a transaction over three sub-revisions, two deletes.
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
        // Neither is `c` of revision 5: it is below the compaction, and a compaction at 7 would
        // drop it.
        let mut hash = HashKv::new();
        put(&mut hash, (4, 0), "a", "22", 2, 2, 0);
        put(&mut hash, (6, 0), "x", "1", 6, 1, 0);
        put(&mut hash, (6, 1), "y", "2", 6, 1, 0);
        hash.tombstone(7, 0, b"c");
        assert_eq!(hash.clone().finish(), 1853456669);
        put(&mut hash, (8, 0), "z", "9", 8, 1, 0);
        assert_eq!(hash.finish(), 2916648670);
    }
}

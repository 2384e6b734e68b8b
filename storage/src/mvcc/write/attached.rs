//! The keys of a lease, in the pieces in which they are deleted. A lease that has very many keys
//! mostly has all keys of some ranges, and those are deleted as ranges are: at once.

use super::super::{Bucket, End, KeyRange, Root, Store};
use super::DELETE_CHUNK_KEYS;
use super::chunk::Chunk;
use crate::Result;

/// Walks the keys attached to a lease, in key order.
#[derive(Debug)]
pub(super) struct AttachedKeys {
    lease: i64,
    /// The next piece begins here or behind it.
    from: Vec<u8>,
    /// Keys that are gathered at a time. A lease with fewer has no ranges.
    chunk_keys: usize,
}

/// Some keys attached to a lease.
pub(super) enum Piece {
    /// All live keys from `start` on and before `end`.
    Range {
        start: Vec<u8>,
        end: Vec<u8>,
        keys: u64,
    },
    /// A few keys, or keys with others between them.
    Keys(Chunk),
}

impl AttachedKeys {
    /// Deletions of more keys than `at_once` are written in steps.
    pub(super) fn new(lease: i64, at_once: u64) -> AttachedKeys {
        AttachedKeys {
            lease,
            from: Vec::new(),
            chunk_keys: at_once.clamp(1, DELETE_CHUNK_KEYS as u64) as usize,
        }
    }

    /// The next piece; the caller may delete its keys before the next call.
    pub(super) fn next(&mut self, root: &Root) -> Result<Option<Piece>> {
        let chunk = self.chunk(root)?;
        let Some((start, _)) = chunk.iter().next() else {
            return Ok(None);
        };
        let mut keys = chunk.len() as u64;
        let mut end = chunk.end();
        if chunk.len() < self.chunk_keys || !is_whole(root, start, &end, keys)? {
            self.from = end;
            return Ok(Some(Piece::Keys(chunk)));
        }
        // The range goes on as long as no other key lies between.
        loop {
            self.from = end;
            let more = self.chunk(root)?;
            end = more.end();
            let all = keys + more.len() as u64;
            if more.len() == 0 || !is_whole(root, start, &end, all)? {
                return Ok(Some(Piece::Range {
                    start: start.to_vec(),
                    end: self.from.clone(),
                    keys,
                }));
            }
            keys = all;
        }
    }

    fn chunk(&self, root: &Root) -> Result<Chunk> {
        let mut chunk = Chunk::default();
        let lease = self.lease.to_be_bytes();
        let mut take =
            |row: &[u8], _: &[u8]| chunk.push(&row[lease.len()..], self.lease, self.chunk_keys);
        root.side_scan_from(Bucket::LeaseKeys, &lease, &self.from, &mut take)?;
        Ok(chunk)
    }
}

impl Store {
    /// How many keys of a lease are deleted as ranges are, and how many of the others, which are
    /// counted no further than to about `most`.
    pub fn attached_keys(&self, lease: i64, most: u64) -> Result<(u64, u64)> {
        let mut attached = AttachedKeys::new(lease, self.keys_deleted_at_once);
        let (mut of_ranges, mut others) = (0, 0);
        while others < most {
            match attached.next(&self.root)? {
                Some(Piece::Range { keys, .. }) => of_ranges += keys,
                Some(Piece::Keys(chunk)) => others += chunk.len() as u64,
                None => break,
            }
        }
        Ok((of_ranges, others))
    }
}

/// True if the range has no other live keys than these.
fn is_whole(root: &Root, start: &[u8], end: &[u8], keys: u64) -> Result<bool> {
    let end = End::Before(end);
    Ok(root.count(KeyRange { start, end }, 0)? == keys)
}

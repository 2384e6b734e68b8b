//! Which keys a delta tree may hold entries of: a Bloom filter beside the tree, so that reads of a
//! key pass by the trees without it. Each checkpoint keeps that of the open tree in a row of the
//! side tree. A tree of an older file has none, and may hold any key.
//!
//! The row is the filter folded to fewer bits if the tree has few entries: bit *i* of *n* is the or
//! of all bits *i* modulo *n*. Words of 64 bits, little endian; their number is a power of two. The
//! hash is part of the format, too.

use std::sync::Arc;

use crate::sync::{AtomicU64, Ordering};

/// One MiB: a few hundred thousand keys have twenty bits each.
const BITS: u64 = 1 << 23;
const WORDS: usize = (BITS / u64::BITS as u64) as usize;

/// Bits that a row has at least for each entry.
const BITS_PER_ENTRY: u64 = 16;

/// Bits set for each key. More would be missed sooner by each read, and save little.
const BITS_PER_KEY: u32 = 3;

/// The writer adds keys to it, while readers of older roots use it, too.
///
/// Invariant: it has all keys of its tree. Bits are only ever set, and those of a tree's keys are
/// set before a root with that tree is published. To publish a root is a release and to take a view
/// an acquire (`publish`), so a reader sees the bits of all keys that it can find. Bits set since
/// then only cost it a look into the tree.
#[derive(Clone, Debug)]
pub(super) struct Filter(Option<Arc<[AtomicU64]>>);

/// The places of a key's bits in all filters.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyHash([u64; BITS_PER_KEY as usize]);

impl KeyHash {
    pub(super) fn of(key: &[u8]) -> KeyHash {
        const SHIFT: u32 = u64::BITS / BITS_PER_KEY;
        let hash = hash(key);
        KeyHash(std::array::from_fn(|i| (hash >> (SHIFT * i as u32)) % BITS))
    }
}

impl Filter {
    /// Of a tree that may hold any key.
    pub(super) const UNKNOWN: Filter = Filter(None);

    /// Of an empty tree.
    pub(super) fn new() -> Filter {
        Filter(Some((0..WORDS).map(|_| AtomicU64::new(0)).collect()))
    }

    /// The row of a tree with so many entries; `None` if the tree may hold any key.
    pub(super) fn encode(&self, entries: u64) -> Option<Vec<u8>> {
        let words = self.0.as_ref()?;
        let bits = entries.saturating_mul(BITS_PER_ENTRY).min(BITS);
        let folded = bits.div_ceil(u64::from(u64::BITS)).next_power_of_two();
        let mut row = vec![0u64; folded as usize];
        for part in words.chunks(row.len()) {
            for (to, from) in row.iter_mut().zip(part) {
                *to |= from.load(Ordering::Relaxed);
            }
        }
        Some(row.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// `None` if the bytes are not a row.
    pub(super) fn decode(row: &[u8]) -> Option<Filter> {
        let (folded, rest) = row.as_chunks();
        let is_row = rest.is_empty() && folded.len().is_power_of_two() && folded.len() <= WORDS;
        // This iterator knows its length, so it fills the `Arc` itself; another one would fill a
        // growing vector first.
        let word = |i: usize| AtomicU64::new(u64::from_le_bytes(folded[i & (folded.len() - 1)]));
        is_row.then(|| Filter(Some((0..WORDS).map(word).collect())))
    }

    /// The tree gets an entry of this key.
    pub(super) fn add(&self, hash: KeyHash) {
        let Some(words) = &self.0 else {
            return;
        };
        for bit in hash.0 {
            let (word, mask) = place(words, bit);
            // Nobody else writes, so no bit is lost in between; and most are set by new keys.
            word.store(word.load(Ordering::Relaxed) | mask, Ordering::Relaxed);
        }
    }

    /// False only if the tree has no entry of this key.
    pub(super) fn may_have(&self, hash: KeyHash) -> bool {
        let Some(words) = &self.0 else {
            return true;
        };
        hash.0.into_iter().all(|bit| {
            let (word, mask) = place(words, bit);
            word.load(Ordering::Relaxed) & mask != 0
        })
    }
}

/// Spreads keys well, and takes a few nanoseconds. Keys that someone chose in order to fill a filter
/// cost a look into its tree, no more.
fn hash(key: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(ODD);
        product as u64 ^ (product >> 64) as u64
    };
    let (words, rest) = key.as_chunks();
    let all = words.iter().map(|word| u64::from_le_bytes(*word));
    let mut last = [0; size_of::<u64>()];
    last[..rest.len()].copy_from_slice(rest);
    let hash = all.fold(key.len() as u64 + 1, mix);
    mix(mix(hash, u64::from_le_bytes(last)), ODD >> 1)
}

fn place(words: &[AtomicU64], bit: u64) -> (&AtomicU64, u64) {
    let word = &words[(bit / u64::from(u64::BITS)) as usize];
    (word, 1 << (bit % u64::from(u64::BITS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_every_key_that_was_added_and_few_others() {
        let filter = Filter::new();
        let key = |i: u32| KeyHash::of(&i.to_be_bytes());
        (0..50_000).for_each(|i| filter.add(key(i)));
        assert!((0..50_000).all(|i| filter.may_have(key(i))));
        let others = (50_000..100_000).filter(|i| filter.may_have(key(*i)));
        assert!(others.count() < 500);
        assert!(Filter::UNKNOWN.may_have(key(1)));
    }

    #[test]
    fn a_row_has_every_key_of_its_filter_and_few_others() {
        let key = |i: u32| KeyHash::of(&i.to_be_bytes());
        for keys in [1, 50, 3000, 50_000] {
            let filter = Filter::new();
            (0..keys).for_each(|i| filter.add(key(i)));
            let row = filter.encode(keys.into()).unwrap();
            assert!(row.len() <= 8.max(4 * keys as usize), "{}", row.len());
            let read = Filter::decode(&row).unwrap();
            assert!((0..keys).all(|i| read.may_have(key(i))));
            let others = (keys..100_000).filter(|i| read.may_have(key(*i)));
            assert!(others.count() < 1000, "{keys}");
            // It takes more keys like any other.
            read.add(key(keys));
            assert!(read.may_have(key(keys)));
        }
        assert!(Filter::UNKNOWN.encode(1).is_none());
        for len in [0, 7, 24, 2 * BITS as usize / 8] {
            assert!(Filter::decode(&vec![0; len]).is_none(), "{len}");
        }
    }
}

//! Which keys a delta tree may hold entries of: a Bloom filter beside the tree, so that reads of a
//! key pass by the trees without it. In memory only: a tree that was read from the file has none,
//! and may hold any key.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::sync::{AtomicU64, Ordering};

/// One MiB: a few hundred thousand keys have twenty bits each.
const BITS: u64 = 1 << 23;

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
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        KeyHash(std::array::from_fn(|i| (hash >> (SHIFT * i as u32)) % BITS))
    }
}

impl Filter {
    /// Of a tree that may hold any key.
    pub(super) const UNKNOWN: Filter = Filter(None);

    /// Of an empty tree.
    pub(super) fn new() -> Filter {
        let words = BITS / u64::from(u64::BITS);
        Filter(Some((0..words).map(|_| AtomicU64::new(0)).collect()))
    }

    /// The tree gets an entry of this key.
    pub(super) fn add(&self, hash: KeyHash) {
        let Some(words) = &self.0 else {
            return;
        };
        for bit in hash.0 {
            let (word, mask) = place(words, bit);
            word.fetch_or(mask, Ordering::Relaxed);
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
}

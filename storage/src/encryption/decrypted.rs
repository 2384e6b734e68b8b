//! Cache of decrypted pages, so that a sealed page is not decrypted at each read. Bounded; knows
//! nothing of the content of a page.
//!
//! A page's place identifies it. Before units are rewritten, `forget` must be called, and only
//! units that no reader can reach are rewritten.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Memory for decrypted pages of one page file, unless another bound is set.
pub const DECRYPTED_BYTES: u64 = 32 << 20;

/// Many shards, so that readers of different pages seldom meet.
const SHARDS: usize = 16;

/// A page larger than this part of its shard is not cached.
const SHARE_OF_SHARD: usize = 4;

#[derive(Debug)]
pub(crate) struct DecryptedPages {
    shards: [Mutex<Shard>; SHARDS],
    /// Read behind a shard's lock.
    shard_bytes_max: AtomicUsize,
}

#[derive(Debug, Default)]
struct Shard {
    places: HashMap<u64, usize>,
    slots: Vec<Slot>,
    /// The clock's hand: evicts an entry that was not read since the hand last passed it.
    hand: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Slot {
    place: u64,
    page: Arc<[u8]>,
    read: bool,
}

impl DecryptedPages {
    pub(crate) fn new(bytes_max: u64) -> DecryptedPages {
        let pages = DecryptedPages {
            shards: Default::default(),
            shard_bytes_max: AtomicUsize::new(0),
        };
        pages.bound(bytes_max);
        pages
    }

    /// Bounds the memory, from now on.
    pub(crate) fn bound(&self, bytes_max: u64) {
        let most = usize::try_from(bytes_max / SHARDS as u64).unwrap_or(usize::MAX);
        self.shard_bytes_max.store(most, Ordering::Relaxed);
        for shard in &self.shards {
            let mut shard = shard.lock();
            while shard.bytes > most {
                shard.evict();
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }

    #[inline]
    pub(crate) fn get(&self, place: u64) -> Option<Arc<[u8]>> {
        let mut shard = self.shard(place).lock();
        let slot = *shard.places.get(&place)?;
        let slot = &mut shard.slots[slot];
        slot.read = true;
        Some(slot.page.clone())
    }

    pub(crate) fn put(&self, place: u64, page: &Arc<[u8]>) {
        let mut shard = self.shard(place).lock();
        // Behind the lock: whoever sets a bound holds it after that, to evict what is beyond.
        let most = self.shard_bytes_max.load(Ordering::Relaxed);
        if page.len() > most / SHARE_OF_SHARD {
            return;
        }
        if shard.places.contains_key(&place) {
            return;
        }
        while shard.bytes + page.len() > most {
            shard.evict();
        }
        let slot = shard.slots.len();
        shard.places.insert(place, slot);
        shard.bytes += page.len();
        shard.slots.push(Slot {
            place,
            page: page.clone(),
            read: false,
        });
    }

    pub(crate) fn forget(&self, place: u64) {
        let mut shard = self.shard(place).lock();
        if let Some(slot) = shard.places.get(&place).copied() {
            shard.remove(slot);
        }
    }

    fn shard(&self, place: u64) -> &Mutex<Shard> {
        // Fibonacci hashing: neighbours go to different shards.
        let mixed = place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 60) as usize % SHARDS]
    }
}

impl Shard {
    fn evict(&mut self) {
        loop {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            let slot = &mut self.slots[self.hand];
            if !std::mem::take(&mut slot.read) {
                return self.remove(self.hand);
            }
            self.hand += 1;
        }
    }

    fn remove(&mut self, slot: usize) {
        let gone = self.slots.swap_remove(slot);
        self.places.remove(&gone.place);
        self.bytes -= gone.page.len();
        if let Some(moved) = self.slots.get(slot) {
            self.places.insert(moved.place, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_what_is_read_stays() {
        let bytes_max = SHARDS * 8 * 4096;
        let pages = DecryptedPages::new(bytes_max as u64);
        let hot = 5;
        pages.put(hot, &Arc::from(vec![1; 4096]));
        for place in 100..2000 {
            pages.put(place, &Arc::from(vec![0; 4096]));
            assert!(pages.get(hot).is_some(), "after {place}");
            assert!(pages.bytes() <= bytes_max);
        }
        assert!(pages.get(100).is_none());
        pages.forget(hot);
        assert!(pages.get(hot).is_none());
        // A page that would evict everything else is not cached.
        pages.put(7, &Arc::from(vec![0; 5 * 4096]));
        assert!(pages.get(7).is_none());
        let kept: usize = pages
            .shards
            .iter()
            .map(|s| s.lock().slots.iter().map(|s| s.page.len()).sum::<usize>())
            .sum();
        assert_eq!(kept, pages.bytes());
    }

    #[test]
    fn another_bound_holds_at_once() {
        let pages = DecryptedPages::new((SHARDS * 8 * 4096) as u64);
        let put = |places: std::ops::Range<u64>| {
            places.for_each(|place| pages.put(place, &Arc::from(vec![0; 4096])));
        };
        put(0..2000);
        let full = pages.bytes();
        pages.bound((SHARDS * 4 * 4096) as u64);
        assert_eq!(pages.bytes(), full / 2);
        put(2000..4000);
        assert_eq!(pages.bytes(), full / 2);
        pages.bound((SHARDS * 16 * 4096) as u64);
        put(4000..8000);
        assert_eq!(pages.bytes(), 2 * full);
    }
}

//! Prevents one place in the code from flooding the log. As in etcd: the first hundred lines per
//! second, then every hundredth.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tracing::Metadata;

const SLOTS: usize = 256;
const FIRST: u64 = 100;
const EVERY: u64 = 100;

/// Low bits of a slot, which hold the count; the higher bits hold the second.
const SECOND_SHIFT: u32 = 24;

#[derive(Debug)]
pub(super) struct Sampler(Box<[AtomicU64]>);

impl Default for Sampler {
    fn default() -> Self {
        Sampler((0..SLOTS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Sampler {
    /// True if a line of this place may be written. Places in the same slot share its limit, and
    /// two threads racing at the change of a second may lose a count; both are harmless.
    pub(super) fn admit(&self, place: &Metadata<'_>, second: u64) -> bool {
        let hash = place.line().unwrap_or(0) as usize * 31 + place.file().map_or(0, str::len);
        self.admit_slot(hash % SLOTS, second)
    }

    fn admit_slot(&self, slot: usize, second: u64) -> bool {
        let slot = &self.0[slot];
        let old = slot.load(Relaxed);
        let count = if old >> SECOND_SHIFT == second {
            (old & ((1 << SECOND_SHIFT) - 1)) + 1
        } else {
            1
        };
        slot.store(second << SECOND_SHIFT | count, Relaxed);
        count <= FIRST || count.is_multiple_of(EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_thinned_and_the_next_second_starts_afresh() {
        let sampler = Sampler::default();
        let admitted = (0..1000).filter(|_| sampler.admit_slot(1, 7)).count() as u64;
        assert_eq!(admitted, FIRST + (1000 - FIRST) / EVERY);
        assert!(sampler.admit_slot(1, 8));
    }
}

//! Which units of the page file are free. A running checkpoint owns it, otherwise the file.
//!
//! A run that the trees gave up between the beginnings of checkpoints g-1 and g is *pending of g*:
//! checkpoint g-1 still refers to it. Checkpoint g+2 is the first that may write it again, from the
//! end of g+1 on: until then, one of the two metas on disk is g-1 or is being overwritten by g+1.
//!
//! It must also wait for the views that may read it. A view of generation v, the time from the
//! beginning of checkpoint v to that of v+1, holds trees as they were then. So it refers to nothing
//! first written in a later generation, and to nothing given up in an earlier one. Only views of
//! the generations b to g-1 read a run *born* in generation b and pending of g. Once no `Pages` of
//! these is left the run is free, however old other views are: a view held for long keeps what it
//! can see, not everything given up since. Births are kept in memory only, and only as long as a
//! view is older: the content of an opened file counts as born before all views.

mod births;
pub(super) mod reservation;
pub(super) mod saved;
pub(super) mod wipe;

use std::collections::{BTreeMap, VecDeque};

use super::node::page::PageRef;
use super::pages::FIRST_UNIT;
use births::Births;
use saved::changes::Records;

/// A shorter free end of the file (256 KiB) is kept, if it is in the file.
const TRUNCATE_UNITS_MIN: u64 = 64;

/// Runs of fewer units (2 MiB) have a remembered place to search from for each size: a file may have
/// millions of free runs that are a little too short. From there on one serves all sizes up to twice
/// as many units: a long run is not looked for among much shorter ones.
const EXACT_HINTS: u32 = 512;

/// Number of remembered places: so many, and one for each power of two from there on.
const HINTS: usize = (EXACT_HINTS + EXACT_HINTS.leading_zeros() + 1) as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) units: u32,
}

impl From<PageRef> for Extent {
    fn from(page: PageRef) -> Extent {
        Extent {
            start: page.id,
            units: page.units,
        }
    }
}

/// Runs given up between the beginnings of two checkpoints.
#[derive(Debug)]
struct Pending {
    of: u64,
    /// Sorted. Each with the oldest generation whose views may read it, of those that had views
    /// when it was given up.
    extents: Vec<(Extent, u64)>,
    /// Their sum.
    units: u64,
    /// Generations whose views kept something here at the last look. While all of them have views,
    /// another look finds nothing.
    holders: Vec<u64>,
}

#[derive(Debug)]
pub(super) struct Space {
    /// Length of the file.
    units: u64,
    /// Start → length; free runs are never adjacent.
    free: BTreeMap<u64, u64>,
    /// Sum of free and pending units.
    free_units: u64,
    /// The pending part of them.
    pending_units: u64,
    /// The part of those that waits only for views.
    viewed_units: u64,
    /// In ascending order of generations.
    pending: VecDeque<Pending>,
    births: Births,
    records: Records,
    /// No free run of the size of such a hint (see [`hint_for`]) begins before its place. They
    /// ascend with the sizes. Allocation raises them, and a run that becomes free lowers those of
    /// the sizes that it holds: free runs are not walked over anew for each checkpoint.
    search_from: Box<[u64; HINTS]>,
}

impl Space {
    pub(super) fn new() -> Space {
        Space {
            units: FIRST_UNIT,
            free: BTreeMap::new(),
            free_units: 0,
            pending_units: 0,
            viewed_units: 0,
            pending: VecDeque::new(),
            births: Births::default(),
            records: Records::default(),
            search_from: Box::new([0; HINTS]),
        }
    }

    pub(super) fn units(&self) -> u64 {
        self.units
    }

    /// Units that are free now or will become free.
    pub(super) fn free_units(&self) -> u64 {
        self.free_units
    }

    /// Units that can be written now.
    pub(super) fn free_now(&self) -> u64 {
        self.free_units - self.pending_units
    }

    /// Units that another checkpoint makes free.
    pub(super) fn waiting_units(&self) -> u64 {
        self.pending_units - self.viewed_units
    }

    /// Units that wait only for views.
    pub(super) fn viewed_units(&self) -> u64 {
        self.viewed_units
    }

    /// Units in use.
    pub(super) fn used_units(&self) -> u64 {
        self.units.saturating_sub(self.free_units)
    }

    /// All extents to which nothing in the newest checkpoint refers.
    pub(super) fn extents(&self) -> impl Iterator<Item = (u64, u64)> {
        let pending = self.pending.iter().flat_map(|pending| &pending.extents);
        let free = self.free.iter().map(|(start, units)| (*start, *units));
        free.chain(pending.map(|(e, _)| (e.start, e.units as u64)))
    }

    /// Beginning of checkpoint `generation`: takes the runs freed since the last one, and makes
    /// free what nobody can need any more. `views` are the generations that may have views,
    /// ascending.
    pub(super) fn settle(&mut self, generation: u64, freed: &[PageRef], views: &[u64]) {
        self.take(generation, freed, views);
        // Enough for one checkpoint a second for a hundred years; 0 would only be too careful.
        self.births.now = u32::try_from(generation).unwrap_or(0);
        if let Some(oldest) = views.first() {
            self.births.forget_through(*oldest);
        }
        self.free_before(generation, views);
    }

    fn take(&mut self, generation: u64, freed: &[PageRef], views: &[u64]) {
        let since = |start| {
            let birth = self.births.of(start);
            let oldest = views.iter().find(|view| **view >= birth);
            oldest.map_or(birth, |view| *view)
        };
        let mut extents: Vec<(Extent, u64)> = freed
            .iter()
            .map(|page| ((*page).into(), since(page.id)))
            .collect();
        extents.sort_unstable();
        join_adjacent(&mut extents);
        for (extent, _) in &extents {
            self.records.gave_up(*extent);
        }
        let units = sum_of(&extents);
        self.free_units += units;
        self.pending_units += units;
        if units > 0 {
            self.pending.push_back(Pending {
                of: generation,
                extents,
                units,
                holders: Vec::new(),
            });
        }
    }

    /// Makes free what checkpoint `generation` may write to. Also called right after the end of the
    /// one before: what is written between the two is part of the next.
    pub(super) fn free_before(&mut self, generation: u64, views: &[u64]) {
        let mut all = std::mem::take(&mut self.pending);
        self.viewed_units = 0;
        for pending in all
            .iter_mut()
            .take_while(|pending| pending.of + 2 <= generation)
        {
            self.free_unseen(pending, views);
            self.viewed_units += pending.units;
        }
        all.retain(|pending| !pending.extents.is_empty());
        self.pending = all;
    }

    /// Of the runs that neither meta needs any more, frees those that no view can see.
    fn free_unseen(&mut self, pending: &mut Pending, views: &[u64]) {
        let is_held = |holder: &u64| views.binary_search(holder).is_ok();
        if !pending.holders.is_empty() && pending.holders.iter().all(is_held) {
            return;
        }
        pending.holders.clear();
        for (extent, since) in std::mem::take(&mut pending.extents) {
            let first = views.partition_point(|view| *view < since);
            match views.get(first).filter(|view| **view < pending.of) {
                Some(view) => {
                    if !pending.holders.contains(view) {
                        pending.holders.push(*view);
                    }
                    pending.extents.push((extent, *view));
                }
                None => {
                    pending.units -= u64::from(extent.units);
                    self.pending_units -= u64::from(extent.units);
                    self.release(extent.start, extent.units as u64);
                }
            }
        }
    }

    fn release(&mut self, mut start: u64, mut units: u64) {
        if let Some((&before, &len)) = self.free.range(..start).next_back() {
            assert!(before + len <= start, "freed twice");
            if before + len == start {
                self.free.remove(&before);
                (start, units) = (before, len + units);
            }
        }
        if let Some(len) = self.free.remove(&(start + units)) {
            units += len;
        }
        self.free.insert(start, units);
        let (largest, _) = hint_for(u32::try_from(units).unwrap_or(u32::MAX));
        for from in self.search_from[..=largest].iter_mut().rev() {
            if *from <= start {
                break;
            }
            *from = start;
        }
    }

    /// True if nothing is pending that was given up before this checkpoint began.
    pub(super) fn is_settled_through(&self, generation: u64) -> bool {
        self.pending
            .front()
            .is_none_or(|first| first.of > generation)
    }

    /// The first free extent that ends behind unit `from`, without its part before `from`.
    pub(super) fn free_from(&self, from: u64) -> Option<(u64, u64)> {
        let before = self.free.range(..from).next_back();
        let within = before.map(|(start, units)| (from, (start + units).saturating_sub(from)));
        let behind = || self.free.range(from..).next().map(|(s, n)| (*s, *n));
        within.filter(|(_, units)| *units > 0).or_else(behind)
    }

    /// Allocates a run of `units`, as near to the front as possible.
    pub(super) fn allocate(&mut self, units: u32) -> u64 {
        let (hint, least) = hint_for(units);
        // A hint may skip only what is too small for the smallest size that it serves.
        let rest = self.free.range(self.search_from[hint]..);
        let rest = rest.map(|(start, len)| (*start, *len));
        let mut big = rest.filter(|(_, len)| *len >= least).peekable();
        let first = big.peek().map_or(u64::MAX, |(start, _)| *start);
        let found = big.find(|(_, len)| *len >= u64::from(units));
        for from in &mut self.search_from[hint..] {
            if *from >= first {
                break;
            }
            *from = first;
        }
        let Some((start, len)) = found else {
            let start = self.units;
            self.units += u64::from(units);
            self.births.note(start);
            self.records.allocated(start, units);
            return start;
        };
        self.births.note(start);
        self.records.allocated(start, units);
        let units = u64::from(units);
        self.free.remove(&start);
        self.free_units -= units;
        if len > units {
            // The rest begins later, and the hints of the sizes that it holds are at most `start`.
            self.free.insert(start + units, len - units);
        }
        start
    }

    /// Takes back an allocated run to which nothing refers.
    pub(super) fn give_back(&mut self, start: u64, units: u32) {
        self.release(start, units.into());
        self.free_units += u64::from(units);
        self.records.gave_back(start, units);
    }

    /// Panics if a sum is not that of its parts.
    pub(super) fn check_sums(&self) {
        for pending in &self.pending {
            assert_eq!(pending.units, sum_of(&pending.extents), "{}", pending.of);
        }
        let pending: u64 = self.pending.iter().map(|pending| pending.units).sum();
        assert_eq!(pending, self.pending_units, "the sum of what is pending");
        let free: u64 = self.free.values().sum();
        assert_eq!(free + pending, self.free_units, "the sum of what is free");
    }

    /// Cuts a long free end off the file, and a short one that is not in the file, which has so many
    /// units: places behind its end were allocated, not written because the disk was full, and given
    /// back. A meta that counted them would be refused, as that of a file that has lost its end.
    fn shrink(&mut self, file_units: u64) {
        if let Some((&start, &len)) = self.free.last_key_value()
            && start + len == self.units
            && (len >= TRUNCATE_UNITS_MIN || self.units > file_units)
        {
            // The length of an extent has 32 bits: of more than 16 TiB, the rest is cut next time.
            let cut = u32::try_from(len).unwrap_or(u32::MAX);
            self.units -= u64::from(cut);
            self.free_units -= u64::from(cut);
            self.free.remove(&start);
            if start < self.units {
                self.free.insert(start, self.units - start);
            }
            self.records.cut(self.units, cut);
        }
    }
}

/// The hint for runs of so many units, and the smallest size that it serves.
fn hint_for(units: u32) -> (usize, u64) {
    if units < EXACT_HINTS {
        return (units as usize, units.into());
    }
    let power = units.ilog2();
    let hint = EXACT_HINTS + power - EXACT_HINTS.ilog2();
    (hint as usize, 1 << power)
}

fn sum_of(extents: &[(Extent, u64)]) -> u64 {
    extents.iter().map(|(e, _)| u64::from(e.units)).sum()
}

/// Joins adjacent extents that the same views may read.
fn join_adjacent(sorted: &mut Vec<(Extent, u64)>) {
    sorted.dedup_by(|(next, next_since), (previous, since)| {
        let end = previous.start + previous.units as u64;
        assert!(end <= next.start, "freed twice");
        let joined = previous.units.checked_add(next.units);
        if end == next.start
            && next_since == since
            && let Some(units) = joined
        {
            previous.units = units;
            return true;
        }
        false
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_is_not_looked_for_among_much_shorter_ones_again() {
        let mut space = Space::new();
        space.units = 100_000;
        for start in (10..10_010).step_by(100) {
            space.give_back(start, 16);
        }
        for start in [20_000, 30_000] {
            space.give_back(start, 1000);
        }
        assert_eq!(space.allocate(900), 20_000);
        assert_eq!(space.search_from[hint_for(900).0], 20_000);
        assert_eq!(space.allocate(513), 30_000, "the rest is too short");
        assert_eq!(space.search_from[hint_for(900).0], 30_000);
        // What is short is still put as near to the front as possible.
        let places = [20, 16, 3, 40].map(|units| space.allocate(units));
        assert_eq!(places, [20_900, 10, 110, 20_920]);
    }

    #[test]
    fn a_size_that_is_not_there_is_looked_for_once() {
        let mut space = Space::new();
        space.units = 100_000;
        for start in (10..10_010).step_by(100) {
            space.give_back(start, 24);
        }
        let place = |space: &Space| space.search_from[hint_for(25).0];
        assert_eq!(space.allocate(25), 100_000);
        assert_eq!(place(&space), u64::MAX);
        // What becomes free is too short, too.
        space.give_back(50, 24);
        space.settle(1, &[], &[]);
        space.free_before(2, &[]);
        assert_eq!(place(&space), u64::MAX);
        // Until two runs become one.
        space.give_back(234, 1);
        assert_eq!(place(&space), 210);
        assert_eq!(space.allocate(25), 210);
    }

    #[test]
    fn each_run_has_the_first_place_that_holds_it() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let mut space = Space::new();
        let mut held: Vec<(u64, u32)> = Vec::new();
        for step in 0..20_000 {
            // In each second thousand of steps, more runs are given back than allocated.
            if !held.is_empty() && random(100) < 40 + step / 1000 % 2 * 20 {
                let place = random(held.len() as u64) as usize;
                let (start, units) = held.swap_remove(place);
                space.give_back(start, units);
                continue;
            }
            let most = [4, 40, 1500][random(3) as usize];
            let units = random(most) as u32 + 1;
            let fits = |len: u64| len >= u64::from(units);
            let fits = space.free.iter().find(|(_, len)| fits(**len));
            let first = fits.map_or(space.units, |(start, _)| *start);
            assert_eq!(space.allocate(units), first, "{units} units in step {step}");
            held.push((first, units));
        }
    }

    #[test]
    fn what_a_view_holds_back_is_counted_until_it_is_gone() {
        let mut space = Space::new();
        space.settle(1, &[], &[]);
        let pages = [4, 7].map(|units| PageRef {
            id: space.allocate(units),
            units,
            crc: 0,
        });
        space.settle(3, &pages, &[1]);
        for _ in 0..2 {
            space.free_before(5, &[1]);
            assert_eq!((space.viewed_units(), space.free_now()), (11, 0));
            space.check_sums();
        }
        space.free_before(5, &[]);
        assert_eq!((space.viewed_units(), space.free_now()), (0, 11));
        space.check_sums();
    }

    #[test]
    fn there_is_a_hint_for_each_size_that_serves_no_smaller_one() {
        let mut before = 0;
        for units in (1..10_000).chain([1 << 16, u32::MAX / 2, u32::MAX]) {
            let (hint, least) = hint_for(units);
            assert!(hint >= before && hint < HINTS, "{units}");
            let units = u64::from(units);
            assert!(least <= units && units < 2 * least);
            before = hint;
        }
        assert_eq!(hint_for(u32::MAX).0, HINTS - 1);
    }
}

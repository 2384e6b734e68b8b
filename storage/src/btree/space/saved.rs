//! The lists in the file, in a run of their own. The meta page refers to it, or to the newest record of
//! what changed since (see [`changes`]).
//!
//! | offset | size | name | meaning |
//! |---|---|---|---|
//! | 0 | 4 | magic | `StlF` |
//! | 4 | 4 | version | 4; 1 and 3 are read as well |
//! | 8 | 4 | free | number of free extents |
//! | 12 | 4 | pending | number of pending extents |
//! | 16 | 4 | key id | of encryption at rest; zero: not sealed |
//! | 20 | 28 | nonce, tag | zero while not sealed |
//! | 48 | | | free: start, units; then pending: the same and generation |
//!
//! The numbers are varints: of a start, how far it is from the end of the extent before; of a
//! generation, from the one before. Nearly all of them have a byte then. Differences are modulo 2^64:
//! the starts of each generation begin anew. Before version 4, the numbers are a `u64`, a `u32` and a
//! `u64`.

pub(in crate::btree) mod changes;

use std::collections::BTreeMap;

use super::{Extent, Pending, Space, TRUNCATE_UNITS_MIN};
use crate::btree::node::page::{PageRef, UNIT, u32_at};
use crate::btree::pages::FIRST_UNIT;
use crate::codec::{Malformed, Reader, VARINT_BYTES_MAX, put_varint, varint_len};

const MAGIC: [u8; 4] = *b"StlF";
/// Also selects the checksum of a list, like the version of a page.
const VERSION: u32 = 4;
/// Those whose numbers are not varints.
const VERSIONS_OF_FIXED: [u32; 2] = [1, 3];
const HEADER: usize = 48;

/// The usual bytes of an extent: a wide gap before it takes more, and few have one.
const FREE_BYTES: usize = 3;
const PENDING_BYTES: usize = 4;

/// By so many bytes the lists can grow when space is allocated for them. That takes from one free
/// extent, and the file may be cut: only the distances to two starts can need more of them.
const GROWTH_MAX: usize = 2 * VARINT_BYTES_MAX;

/// Where lists are wrong, and what is wrong there.
pub(in crate::btree) type Flaw = (usize, &'static str);

impl Space {
    /// Approximate units that the lists take.
    pub(in crate::btree) fn list_units(&self) -> u64 {
        let pending: usize = self.pending.iter().map(|p| p.extents.len()).sum();
        let len = HEADER + self.free.len() * FREE_BYTES + pending * PENDING_BYTES;
        (len / UNIT) as u64 + 1
    }

    /// Approximate units that a checkpoint now would write to say what is free: so many runs were
    /// given up since the last one, and it allocates as many.
    pub(in crate::btree) fn record_units(&self, given_up: usize) -> u64 {
        let changes = self.records.record_units(2 * given_up);
        changes.unwrap_or_else(|| self.list_units())
    }

    /// The runs that say what is free, in the newest checkpoint.
    pub(in crate::btree) fn records(&self) -> &[PageRef] {
        self.records.places()
    }

    /// Has even a small file keep records of changes.
    #[cfg(any(test, fuzzing))]
    pub(in crate::btree) fn limit_records(&mut self, limits: changes::Limits) {
        self.records.limit(limits);
    }

    /// Has the next checkpoint write the lists if one of them ends behind this unit.
    pub(in crate::btree) fn move_records_from_behind(&mut self, unit: u64) {
        self.records.move_from_behind(unit);
    }

    /// Allocates the run for what checkpoint `generation` says about free space, and fills it. The
    /// last step before the meta page. The file has `file_units`, without what is not written yet.
    pub(in crate::btree) fn save(&mut self, generation: u64, file_units: u64) -> (u64, Vec<u8>) {
        if self.records_hold_the_end() {
            self.records.write_lists();
        }
        let changes_len = self.records.run_len(generation);
        if changes_len.is_none() {
            let superfluous = self.records.give_up();
            self.take(generation, &superfluous, &[]);
        }
        let lists_len = || (self.lists_len() + GROWTH_MAX).next_multiple_of(UNIT);
        let len = changes_len.unwrap_or_else(lists_len);
        let start = self.allocate((len / UNIT) as u32);
        self.shrink(file_units);
        let changes = self.records.encode(generation, len);
        let mut bytes = changes.unwrap_or_else(|| self.lists(len));
        assert!(bytes.len() <= len, "the lists outgrew their run");
        bytes.resize(len, 0);
        (start, bytes)
    }

    /// True if the file could be cut if it were not for records.
    fn records_hold_the_end(&self) -> bool {
        let free_before = |end: u64| {
            let last = self.free.range(..end).next_back();
            last.filter(|(start, units)| *start + *units == end)
                .map_or(0, |(_, units)| *units)
        };
        let mut end = self.units;
        let mut records = self.records().to_vec();
        records.sort_unstable_by_key(|record| record.id);
        while let Some(record) = records.pop() {
            end -= free_before(end);
            if record.id + u64::from(record.units) != end {
                return false;
            }
            end = record.id;
            // The lists fit there.
            if free_before(end) >= TRUNCATE_UNITS_MIN.max(self.list_units()) {
                return true;
            }
        }
        false
    }

    /// What [`Space::save`] returned is at this place.
    pub(in crate::btree) fn saved(&mut self, place: PageRef) {
        self.records.saved(place, self.units);
    }

    /// Decodes the records that checkpoint `generation` of a file of `units` refers to, the lists
    /// first, each with its place. An error says in which of them what is wrong, and where.
    pub(in crate::btree) fn load(
        records: &[(PageRef, impl AsRef<[u8]>)],
        units: u64,
        generation: u64,
    ) -> Result<Space, (PageRef, Flaw)> {
        let mut space = Space::new();
        for (i, (place, bytes)) in records.iter().enumerate() {
            let flaw = |flaw| (*place, flaw);
            let bytes = bytes.as_ref();
            let units_then = match records.get(i + 1) {
                None => units,
                Some((place, next)) => {
                    changes::units_before(next.as_ref()).map_err(|flaw| (*place, flaw))?
                }
            };
            if i == 0 {
                space = Space::of_lists(bytes, units_then).map_err(flaw)?;
            } else {
                space.apply(bytes).map_err(flaw)?;
            }
            if space.units != units_then {
                return Err(flaw((0, "free list of a file of another length")));
            }
            space.records.saved(*place, space.units);
        }
        let newest = records.len().saturating_sub(1);
        let wrong = |record: usize, what| (records[record].0, (0, what));
        let mut taken = Vec::new();
        for (record, (place, _)) in records.iter().enumerate() {
            if place.id < FIRST_UNIT || place.id + u64::from(place.units) > space.units {
                return Err(wrong(record, "free list outside of the file"));
            }
            taken.push(((*place).into(), record));
        }
        for pending in &space.pending {
            if pending.of > generation {
                return Err(wrong(newest, "given up by a later checkpoint"));
            }
            taken.extend(pending.extents.iter().map(|(extent, _)| (*extent, newest)));
        }
        match space.overlapping(taken) {
            Some(record) => Err(wrong(record, "free list in free space")),
            None => Ok(space),
        }
    }

    /// Decodes the lists of a file of `units`.
    fn of_lists(bytes: &[u8], units: u64) -> Result<Space, Flaw> {
        let mut lists = Lists::open(bytes, units)?;
        let mut space = Space {
            units,
            free: lists.free(u32_at(bytes, 8))?,
            ..Space::new()
        };
        space.free_units = space.free.values().sum();
        let mut taken = Vec::new();
        for _ in 0..u32_at(bytes, 12) {
            let (extent, offset) = lists.extent()?;
            let generation = lists.generation()?;
            taken.push((extent, offset));
            let units = u64::from(extent.units);
            space.free_units += units;
            space.pending_units += units;
            match space.pending.back_mut() {
                Some(last) if last.of > generation => {
                    return Err((offset, "pending extents out of order"));
                }
                Some(last) if last.of == generation => {
                    last.extents.push((extent, 0));
                    last.units += units;
                }
                _ => space.pending.push_back(Pending {
                    of: generation,
                    extents: vec![(extent, 0)],
                    units,
                    holders: Vec::new(),
                }),
            }
        }
        match space.overlapping(taken) {
            Some(offset) => Err((offset, "pending extents overlap")),
            None => Ok(space),
        }
    }

    fn lists_len(&self) -> usize {
        let mut len = HEADER;
        self.numbers(&mut |number| len += varint_len(number));
        len
    }

    /// `capacity`: bytes that they will about have.
    fn lists(&self, capacity: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.extend_from_slice(&MAGIC);
        bytes.resize(HEADER, 0);
        let (free, pending) = self.numbers(&mut |number| put_varint(&mut bytes, number));
        for (i, field) in [VERSION, free, pending].into_iter().enumerate() {
            bytes[4 + 4 * i..][..4].copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// Calls `f` with each number of the lists. Returns how many extents are free, and how many are
    /// pending.
    fn numbers(&self, f: &mut impl FnMut(u64)) -> (u32, u32) {
        let (mut free, mut pending) = (0, 0);
        let (mut end, mut generation) = (0, 0);
        for (start, units) in &self.free {
            for extent in pieces(*start, *units) {
                end = extent_numbers(extent, end, f);
                free += 1;
            }
        }
        for given_up in &self.pending {
            for (extent, _) in &given_up.extents {
                end = extent_numbers(*extent, end, f);
                f(given_up.of.wrapping_sub(generation));
                generation = given_up.of;
                pending += 1;
            }
        }
        (free, pending)
    }

    /// The offset of an extent that overlaps with a free one or with another of these.
    fn overlapping(&self, mut extents: Vec<(Extent, usize)>) -> Option<usize> {
        extents.sort_unstable();
        let mut end = 0;
        for (extent, offset) in extents {
            let end_here = extent.start + u64::from(extent.units);
            let free = self.free.range(..end_here).next_back();
            let is_free = free.is_some_and(|(start, units)| start + units > extent.start);
            if extent.start < end || is_free {
                return Some(offset);
            }
            end = end_here;
        }
        None
    }
}

/// The numbers of lists that are being read.
struct Lists<'a> {
    reader: Reader<'a>,
    /// Length of the file.
    units: u64,
    /// The numbers are not varints.
    is_fixed: bool,
    /// Of the extent before.
    end: u64,
    generation: u64,
}

impl<'a> Lists<'a> {
    /// Checks all before the first number.
    fn open(bytes: &'a [u8], units: u64) -> Result<Lists<'a>, Flaw> {
        if bytes.len() < HEADER || bytes[..4] != MAGIC {
            return Err((0, "not a free list"));
        }
        let version = u32_at(bytes, 4);
        let is_fixed = VERSIONS_OF_FIXED.contains(&version);
        if !is_fixed && version != VERSION {
            return Err((4, "unknown free list version"));
        }
        if bytes[16..HEADER].iter().any(|b| *b != 0) {
            return Err((16, "sealed free list, and no key"));
        }
        let mut reader = Reader::new(bytes);
        reader.bytes(HEADER).map_err(flaw)?;
        Ok(Lists {
            reader,
            units,
            is_fixed,
            end: 0,
            generation: 0,
        })
    }

    /// The next so many extents: free ones, in order.
    fn free(&mut self, extents: u32) -> Result<BTreeMap<u64, u64>, Flaw> {
        // The map is built of all at once, which is several times as fast as one after the other.
        let mut free: Vec<(u64, u64)> = Vec::new();
        for _ in 0..extents {
            let (extent, offset) = self.extent()?;
            let units = u64::from(extent.units);
            match free.last_mut() {
                Some((start, len)) if extent.start < *start + *len => {
                    return Err((offset, "free extents overlap"));
                }
                Some((start, len)) if extent.start == *start + *len => *len += units,
                _ => free.push((extent.start, units)),
            }
        }
        Ok(free.into_iter().collect())
    }

    /// The next extent, and its offset.
    fn extent(&mut self) -> Result<(Extent, usize), Flaw> {
        let offset = self.reader.position();
        let (start, units) = if self.is_fixed {
            let start = self.reader.u64().map_err(flaw)?;
            (start, u64::from(self.reader.u32().map_err(flaw)?))
        } else {
            let gap = self.reader.varint().map_err(flaw)?;
            let units = self.reader.varint().map_err(flaw)?;
            (self.end.wrapping_add(gap), units)
        };
        let end = start.saturating_add(units);
        let outside = (offset, "free extent outside of the file");
        if start < FIRST_UNIT || units == 0 || end > self.units {
            return Err(outside);
        }
        self.end = end;
        let units = u32::try_from(units).map_err(|_| outside)?;
        Ok((Extent { start, units }, offset))
    }

    /// The generation of the extent before.
    fn generation(&mut self) -> Result<u64, Flaw> {
        if self.is_fixed {
            return self.reader.u64().map_err(flaw);
        }
        let since = self.reader.varint().map_err(flaw)?;
        self.generation = self.generation.wrapping_add(since);
        Ok(self.generation)
    }
}

fn flaw(malformed: Malformed) -> Flaw {
    (malformed.at, malformed.what)
}

/// Calls `f` with the numbers of an extent behind one that ends at `end`. Returns its own end.
fn extent_numbers(extent: Extent, end: u64, f: &mut impl FnMut(u64)) -> u64 {
    f(extent.start.wrapping_sub(end));
    f(extent.units.into());
    extent.start + u64::from(extent.units)
}

/// An extent's length has 32 bits: 16 TiB in one piece become two.
fn pieces(start: u64, units: u64) -> impl Iterator<Item = Extent> {
    let step = u32::MAX as u64;
    (0..units.div_ceil(step)).map(move |i| Extent {
        start: start + i * step,
        units: (units - i * step).min(step) as u32,
    })
}

#[cfg(test)]
mod tests;

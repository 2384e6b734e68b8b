//! What changed since the lists were saved, so that a checkpoint need not write all of them. A large
//! file may have millions of free runs, and a checkpoint changes some thousands. So it writes what
//! changed since the record before, in a run of its own to which the meta page refers:
//!
//! | offset | size | name | meaning |
//! |---|---|---|---|
//! | 0 | 4 | magic | `StlF` |
//! | 4 | 4 | version | 5 |
//! | 8 | 4 | records | number of records before this one: the lists, and changes since |
//! | 12 | 4 | changes | number of changes |
//! | 16 | 32 | | zero |
//! | 48 | 16 each | record | first unit `u64`, units `u32`, crc `u32` |
//! | | | | generation of the checkpoint; length of the file before, in units; changes |
//!
//! From the generation on, all are varints. A change has its start, as the distance from the end of
//! the extent before (zigzag: it may be negative), and its units times four plus its kind.
//!
//! Applied to the lists in order, the changes give the free and pending runs. Pending are those that the
//! two newest records say were given up: the others waited only for checkpoints that are on the disk
//! now, and for views that no process has any more.
//!
//! Records are shared by checkpoints, as pages are: damage in one may concern both metas.

use std::collections::VecDeque;

use super::super::{Extent, Pending, Space};
use super::{Flaw, HEADER, MAGIC, flaw};
use crate::btree::node::page::{PageRef, UNIT, u32_at, u64_at};
use crate::btree::pages::FIRST_UNIT;
use crate::codec::{Reader, VARINT_BYTES_MAX, put_varint, varint_len};

/// Also selects the checksum of a record, like the version of a page.
const VERSION: u32 = 5;

/// The lists are written again when the records of changes would have this part of their length: a
/// start applies them one by one, which takes some ten times as long as to read the lists.
const CHANGES_PART: u64 = 4;

/// Most records, the lists included. A start reads each from another place.
const RECORDS_MAX: usize = 32;

/// The bytes of a place in a record.
const PLACE_BYTES: usize = 16;

/// The usual bytes of a change.
const CHANGE_BYTES: usize = 4;

/// Changes that come with the record itself: its run is allocated, and the file is cut.
const CHANGES_OF_SAVING: usize = 2;

/// By so many bytes a record can grow by them.
const GROWTH_MAX: usize = CHANGES_OF_SAVING * 2 * VARINT_BYTES_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The trees gave it up: it is pending.
    GaveUp = 0,
    /// It was free, or is the new end of the file: it is used.
    Allocated = 1,
    /// It was allocated, and is free.
    GaveBack = 2,
    /// It was free at the end of the file, which ends where it began.
    Cut = 3,
}

const KINDS: [Kind; 4] = [Kind::GaveUp, Kind::Allocated, Kind::GaveBack, Kind::Cut];

#[derive(Clone, Copy, Debug)]
struct Change {
    start: u64,
    units: u32,
    kind: Kind,
}

impl Change {
    fn end(&self) -> u64 {
        self.start + u64::from(self.units)
    }
}

/// The records in the file, and what changed since the newest.
#[derive(Debug)]
pub(in crate::btree::space) struct Records {
    /// The lists first.
    places: Vec<PageRef>,
    /// Length of the file when the newest was saved.
    units: u64,
    /// `None`: the lists are to be written.
    changes: Option<Vec<Change>>,
    /// So many of them may be worth a record.
    changes_max: usize,
    limits: Limits,
}

/// When the lists are written again.
#[derive(Clone, Copy, Debug)]
pub(in crate::btree) struct Limits {
    /// Most records, the lists included.
    pub(in crate::btree) records: usize,
    /// Units of the lists for which there may be one of changes.
    pub(in crate::btree) part: u64,
    /// Units of changes that there may always be; tests have short lists.
    pub(in crate::btree) spare: u64,
}

impl Default for Records {
    fn default() -> Records {
        Records {
            places: Vec::new(),
            units: FIRST_UNIT,
            changes: None,
            changes_max: 0,
            limits: Limits {
                records: RECORDS_MAX,
                part: CHANGES_PART,
                spare: 0,
            },
        }
    }
}

impl Records {
    /// Only while nothing has changed since the newest record.
    #[cfg(any(test, fuzzing))]
    pub(in crate::btree::space) fn limit(&mut self, limits: Limits) {
        self.limits = limits;
        self.begin();
    }

    pub(in crate::btree::space) fn gave_up(&mut self, extent: Extent) {
        self.note(extent.start, extent.units, Kind::GaveUp);
    }

    pub(in crate::btree::space) fn allocated(&mut self, start: u64, units: u32) {
        self.note(start, units, Kind::Allocated);
    }

    pub(in crate::btree::space) fn gave_back(&mut self, start: u64, units: u32) {
        // On a full disk the same is allocated and given back at each attempt. What was behind the
        // end of the file then has made it longer, and that stays.
        if let Some(changes) = &mut self.changes
            && let Some(last) = changes.last_mut()
            && last.kind == Kind::Allocated
            && last.end() == start + u64::from(units)
            && last.end() <= self.units
            && last.units >= units
        {
            last.units -= units;
            if last.units == 0 {
                changes.pop();
            }
            return;
        }
        self.note(start, units, Kind::GaveBack);
    }

    /// The file had so many units more.
    pub(in crate::btree::space) fn cut(&mut self, start: u64, units: u32) {
        self.note(start, units, Kind::Cut);
    }

    fn note(&mut self, start: u64, units: u32, kind: Kind) {
        let Some(changes) = &mut self.changes else {
            return;
        };
        // What grows at the end of the file is allocated piece by piece.
        if let Some(last) = changes.last_mut()
            && last.kind == kind
            && last.end() == start
            && let Some(joined) = last.units.checked_add(units)
        {
            last.units = joined;
        } else if changes.len() < self.changes_max {
            changes.push(Change { start, units, kind });
        } else {
            self.changes = None;
        }
    }

    /// Units that the next record of changes may have.
    fn allowed(&self) -> u64 {
        let Some((lists, changes)) = self.places.split_first() else {
            return 0;
        };
        if self.places.len() >= self.limits.records {
            return 0;
        }
        let most = u64::from(lists.units) / self.limits.part + self.limits.spare;
        let units = changes.iter().map(|place| u64::from(place.units));
        most.saturating_sub(units.sum())
    }

    /// About the units of a record of the changes so far and of `more`; `None` if the lists are to be
    /// written.
    pub(super) fn record_units(&self, more: usize) -> Option<u64> {
        let changes = self.changes.as_ref()?.len() + more;
        let len = HEADER + self.places.len() * PLACE_BYTES + changes * CHANGE_BYTES;
        Some((len / UNIT) as u64 + 1).filter(|units| *units <= self.allowed())
    }

    /// The length of the run for the record of the changes; `None` if the lists are to be written.
    pub(super) fn run_len(&self, generation: u64) -> Option<usize> {
        let changes = self.changes.as_ref()?.len() + CHANGES_OF_SAVING;
        let len = (self.encoded_len(generation) + GROWTH_MAX).next_multiple_of(UNIT);
        let is_allowed = (len / UNIT) as u64 <= self.allowed() && changes <= self.changes_max;
        is_allowed.then_some(len)
    }

    /// The record of the changes; `None` if the lists are to be written. `capacity`: bytes that its
    /// run has.
    pub(super) fn encode(&self, generation: u64, capacity: usize) -> Option<Vec<u8>> {
        let changes = self.changes.as_ref()?;
        let mut bytes = Vec::with_capacity(capacity);
        bytes.extend_from_slice(&MAGIC);
        for field in [VERSION, self.places.len() as u32, changes.len() as u32] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.resize(HEADER, 0);
        for place in &self.places {
            bytes.extend_from_slice(&place.id.to_le_bytes());
            bytes.extend_from_slice(&place.units.to_le_bytes());
            bytes.extend_from_slice(&place.crc.to_le_bytes());
        }
        self.numbers(generation, &mut |number| put_varint(&mut bytes, number));
        Some(bytes)
    }

    /// The bytes of the record of the changes.
    pub(super) fn encoded_len(&self, generation: u64) -> usize {
        let mut len = HEADER + self.places.len() * PLACE_BYTES;
        self.numbers(generation, &mut |number| len += varint_len(number));
        len
    }

    /// Calls `f` with each number of the record of the changes that is a varint.
    fn numbers(&self, generation: u64, f: &mut impl FnMut(u64)) {
        f(generation);
        f(self.units);
        let mut end = 0;
        for change in self.changes.iter().flatten() {
            f(zigzag(change.start.wrapping_sub(end)));
            f(u64::from(change.units) << 2 | change.kind as u64);
            end = change.end();
        }
    }

    /// The newest record is in the file: of the lists, if there are no others.
    pub(super) fn saved(&mut self, place: PageRef, units: u64) {
        self.places.push(place);
        self.units = units;
        self.begin();
    }

    fn begin(&mut self) {
        self.changes_max = self.allowed() as usize * UNIT / CHANGE_BYTES;
        self.changes = (self.changes_max > 0).then(Vec::new);
    }

    /// The lists are written next. Returns the places of the records that this makes superfluous.
    pub(super) fn give_up(&mut self) -> Vec<PageRef> {
        self.write_lists();
        std::mem::take(&mut self.places)
    }

    pub(super) fn places(&self) -> &[PageRef] {
        &self.places
    }

    /// Has the next checkpoint write the lists if a record ends behind this unit.
    pub(super) fn move_from_behind(&mut self, unit: u64) {
        let ends_behind = |place: &PageRef| place.id + u64::from(place.units) > unit;
        if self.places.iter().any(ends_behind) {
            self.write_lists();
        }
    }

    /// Has the next checkpoint write the lists.
    pub(super) fn write_lists(&mut self) {
        self.changes = None;
    }
}

/// The places of the records before this one; none before the lists.
pub(in crate::btree) fn places_before(bytes: &[u8]) -> Result<Vec<PageRef>, Flaw> {
    if bytes.len() < HEADER || u32_at(bytes, 4) != VERSION {
        return Ok(Vec::new());
    }
    let records = u32_at(bytes, 8) as usize;
    let places = bytes[HEADER..].chunks_exact(PLACE_BYTES).take(records);
    if places.len() < records || !(1..RECORDS_MAX).contains(&records) {
        return Err((8, "impossible number of records"));
    }
    let place = |place: &[u8]| PageRef {
        id: u64_at(place, 0),
        units: u32_at(place, 8),
        crc: u32_at(place, 12),
    };
    Ok(places.map(place).collect())
}

/// The length of the file when the record before was saved.
pub(super) fn units_before(bytes: &[u8]) -> Result<u64, Flaw> {
    let mut reader = open(bytes)?;
    reader.varint().map_err(flaw)?;
    let offset = reader.position();
    let units = reader.varint().map_err(flaw)?;
    if units < FIRST_UNIT || units > u64::MAX / UNIT as u64 {
        return Err((offset, "impossible file length"));
    }
    Ok(units)
}

/// What follows the places of the records before.
fn open(bytes: &[u8]) -> Result<Reader<'_>, Flaw> {
    if bytes.len() < HEADER || bytes[..4] != MAGIC || u32_at(bytes, 4) != VERSION {
        return Err((0, "not a record of changes of the free list"));
    }
    if bytes[16..HEADER].iter().any(|b| *b != 0) {
        return Err((16, "reserved bytes are set"));
    }
    let mut reader = Reader::new(bytes);
    let places = (u32_at(bytes, 8) as usize).saturating_mul(PLACE_BYTES);
    reader.bytes(HEADER.saturating_add(places)).map_err(flaw)?;
    Ok(reader)
}

impl Space {
    /// Applies a record of changes. Only while a file is opened.
    pub(super) fn apply(&mut self, bytes: &[u8]) -> Result<(), Flaw> {
        let mut reader = open(bytes)?;
        let generation = reader.varint().map_err(flaw)?;
        reader.varint().map_err(flaw)?;
        self.release_before(generation)?;
        let mut extents = Vec::new();
        let mut end = 0_u64;
        for _ in 0..u32_at(bytes, 12) {
            let offset = reader.position();
            let gap = unzigzag(reader.varint().map_err(flaw)?);
            let units = reader.varint().map_err(flaw)?;
            let kind = KINDS[(units & 3) as usize];
            let outside = (offset, "changed extent outside of the file");
            let units = u32::try_from(units >> 2).map_err(|_| outside)?;
            let start = end.wrapping_add(gap);
            let extent = Extent { start, units };
            end = start.checked_add(units.into()).ok_or(outside)?;
            if start < FIRST_UNIT || units == 0 {
                return Err(outside);
            }
            let done = match kind {
                Kind::GaveUp => {
                    extents.push((extent, 0));
                    self.add(extent)
                }
                Kind::GaveBack => self.add(extent),
                Kind::Allocated => self.remove(extent),
                Kind::Cut if end == self.units => {
                    let done = self.remove(extent);
                    self.units = start;
                    done
                }
                Kind::Cut => Err("cut within the file"),
            };
            done.map_err(|what| (offset, what))?;
        }
        self.wait(generation, extents)
            .map_err(|what| (reader.position(), what))
    }

    /// What became free at the end of the checkpoint before `generation`, at the latest. What was given
    /// up since that one began is still used by the one before it, which is on the disk as well.
    fn release_before(&mut self, generation: u64) -> Result<(), Flaw> {
        let mut kept = VecDeque::new();
        for pending in std::mem::take(&mut self.pending) {
            if pending.of >= generation {
                return Err((0, "records out of order"));
            }
            if pending.of + 1 == generation {
                kept.push_back(pending);
                continue;
            }
            self.pending_units -= pending.units;
            for (extent, _) in pending.extents {
                self.release(extent.start, extent.units.into());
            }
        }
        self.pending = kept;
        Ok(())
    }

    /// What was given up waits for the next checkpoint.
    fn wait(
        &mut self,
        generation: u64,
        mut extents: Vec<(Extent, u64)>,
    ) -> Result<(), &'static str> {
        extents.sort_unstable();
        let before = self.free_units;
        for (extent, _) in &extents {
            if extent.start + u64::from(extent.units) > self.units {
                return Err("given up behind the end of the file");
            }
            self.remove(*extent)?;
        }
        let units = before - self.free_units;
        self.free_units = before;
        self.pending_units += units;
        if units > 0 {
            self.pending.push_back(Pending {
                of: generation,
                extents,
                units,
                holders: Vec::new(),
            });
        }
        Ok(())
    }

    fn add(&mut self, extent: Extent) -> Result<(), &'static str> {
        let end = extent.start + u64::from(extent.units);
        if end > self.units {
            return Err("changed extent outside of the file");
        }
        let before = self.free.range(..end).next_back();
        if before.is_some_and(|(start, units)| start + units > extent.start) {
            return Err("given up or given back what is free");
        }
        self.release(extent.start, extent.units.into());
        self.free_units += u64::from(extent.units);
        Ok(())
    }

    /// A part of it may be behind the end of the file, which grows by that.
    fn remove(&mut self, extent: Extent) -> Result<(), &'static str> {
        let start = extent.start;
        let mut end = start + u64::from(extent.units);
        if end > self.units && start <= self.units {
            (self.units, end) = (end, self.units);
        }
        if start == end {
            return Ok(());
        }
        let within = self.free.range(..=start).next_back();
        let within = within.map(|(first, units)| (*first, first + units));
        let Some((first, last)) = within.filter(|(_, last)| end <= *last) else {
            return Err("allocated what is not free");
        };
        self.free.remove(&first);
        if first < start {
            self.free.insert(first, start - first);
        }
        if end < last {
            self.free.insert(end, last - end);
        }
        self.free_units -= end - start;
        Ok(())
    }
}

/// Small numbers for small distances in both directions.
fn zigzag(distance: u64) -> u64 {
    let distance = distance as i64;
    ((distance << 1) ^ (distance >> 63)) as u64
}

fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

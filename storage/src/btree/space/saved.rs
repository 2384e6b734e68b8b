//! The lists in the file, in a run of their own to which the meta page refers:
//!
//! | offset | size | name | meaning |
//! |---|---|---|---|
//! | 0 | 4 | magic | `StlF` |
//! | 4 | 4 | version | 3, as that of pages; 1 is read as well |
//! | 8 | 4 | free | number of free extents |
//! | 12 | 4 | pending | number of pending extents |
//! | 16 | 4 | key id | of encryption at rest; zero: not sealed |
//! | 20 | 28 | nonce, tag | zero while not sealed |
//! | 48 | | | free: start `u64`, units `u32`; then pending: the same and generation `u64` |

use super::{Extent, Pending, Space};
use crate::btree::node::page::{UNIT, u32_at, u64_at};
use crate::btree::pages::FIRST_UNIT;

const MAGIC: [u8; 4] = *b"StlF";
/// In step with the version of pages, which selects the checksum of a list, too.
const VERSION: u32 = 3;
const VERSION_OF_CRC32C: u32 = 1;
const HEADER: usize = 48;
const FREE_BYTES: usize = 12;
const PENDING_BYTES: usize = 20;

impl Space {
    /// Approximate units that the lists will take.
    pub(in crate::btree) fn list_units(&self) -> u64 {
        let pending: usize = self.pending.iter().map(|p| p.extents.len()).sum();
        let len = HEADER + self.free.len() * FREE_BYTES + pending * PENDING_BYTES;
        (len / UNIT) as u64 + 1
    }

    /// Allocates the run for these lists and fills it. The last step before the meta page.
    pub(in crate::btree) fn save(&mut self) -> (u64, Vec<u8>) {
        // Allocation takes from one extent, so there will not be more extents than now.
        let pending: usize = self.pending.iter().map(|p| p.extents.len()).sum();
        let len = HEADER + self.free.len() * FREE_BYTES + pending * PENDING_BYTES;
        let len = len.next_multiple_of(UNIT);
        let start = self.allocate((len / UNIT) as u32);
        self.shrink();
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&MAGIC);
        let free: Vec<Extent> = self.free.iter().flat_map(|(s, n)| pieces(*s, *n)).collect();
        for field in [VERSION, free.len() as u32, pending as u32] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.resize(HEADER, 0);
        let put = |bytes: &mut Vec<u8>, extent: &Extent| {
            bytes.extend_from_slice(&extent.start.to_le_bytes());
            bytes.extend_from_slice(&extent.units.to_le_bytes());
        };
        free.iter().for_each(|extent| put(&mut bytes, extent));
        for pending in &self.pending {
            for (extent, _) in &pending.extents {
                put(&mut bytes, extent);
                bytes.extend_from_slice(&pending.of.to_le_bytes());
            }
        }
        assert!(bytes.len() <= len, "the lists outgrew their run");
        bytes.resize(len, 0);
        (start, bytes)
    }

    /// Decodes the lists of a file of `units`; an error says what is wrong and where.
    pub(in crate::btree) fn load(bytes: &[u8], units: u64) -> Result<Space, (usize, &'static str)> {
        if bytes.len() < HEADER || bytes[..4] != MAGIC {
            return Err((0, "not a free list"));
        }
        if ![VERSION_OF_CRC32C, VERSION].contains(&u32_at(bytes, 4)) {
            return Err((4, "unknown free list version"));
        }
        if bytes[16..HEADER].iter().any(|b| *b != 0) {
            return Err((16, "sealed free list, and no key"));
        }
        let (free, pending) = (u32_at(bytes, 8) as u64, u32_at(bytes, 12) as u64);
        let len = HEADER as u64 + free * FREE_BYTES as u64 + pending * PENDING_BYTES as u64;
        if len > bytes.len() as u64 {
            return Err((8, "free list longer than its run"));
        }
        let extent = |offset: usize| {
            let extent = Extent {
                start: u64_at(bytes, offset),
                units: u32_at(bytes, offset + 8),
            };
            let end = extent.start.saturating_add(extent.units as u64);
            if extent.start < FIRST_UNIT || extent.units == 0 || end > units {
                return Err((offset, "free extent outside of the file"));
            }
            Ok(extent)
        };
        let mut space = Space {
            units,
            ..Space::new()
        };
        let mut offset = HEADER;
        let mut end = 0;
        for _ in 0..free {
            let extent = extent(offset)?;
            if extent.start < end {
                return Err((offset, "free extents overlap"));
            }
            end = extent.start + extent.units as u64;
            space.release(extent.start, extent.units as u64);
            space.free_units += extent.units as u64;
            offset += FREE_BYTES;
        }
        let mut taken = Vec::with_capacity(pending as usize);
        for _ in 0..pending {
            let extent = extent(offset)?;
            taken.push((extent, offset));
            let generation = u64_at(bytes, offset + FREE_BYTES);
            space.free_units += extent.units as u64;
            space.pending_units += extent.units as u64;
            match space.pending.back_mut() {
                Some(last) if last.of > generation => {
                    return Err((offset, "pending extents out of order"));
                }
                Some(last) if last.of == generation => {
                    last.extents.push((extent, 0));
                    last.units += u64::from(extent.units);
                }
                _ => space.pending.push_back(Pending {
                    of: generation,
                    extents: vec![(extent, 0)],
                    units: extent.units.into(),
                    holders: Vec::new(),
                }),
            }
            offset += PENDING_BYTES;
        }
        match space.overlapping(taken) {
            Some(offset) => Err((offset, "pending extents overlap")),
            None => Ok(space),
        }
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

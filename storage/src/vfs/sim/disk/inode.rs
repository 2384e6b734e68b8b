//! The bytes of one file: what memory has, what the disk has, and what is left of both after a failed
//! sync, a power cut or rot.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::dice::Dice;
use crate::vfs::sim::BLOCK_BYTES;

pub(super) const BLOCK: u64 = BLOCK_BYTES as u64;
/// The page cache writes, forgets and marks clean whole pages; this is one, in blocks.
const PAGE_BLOCKS: u64 = 4096 / BLOCK;

/// Former states remembered of an unsynced block, besides the durable and the newest one.
const FORMER_MAX: usize = 4;

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) bytes: Vec<u8>,
    /// What a power cut keeps for certain. Differs from `bytes` in `dirty` blocks and in length.
    pub(super) durable: Vec<u8>,
    /// Blocks written since the last sync, each with the states in between.
    pub(super) dirty: BTreeMap<u64, Vec<Vec<u8>>>,
    /// Blocks as Linux leaves them after a failed sync: in memory as they were written, on the disk
    /// as in `durable`, and clean: no later sync writes them, unless their page is written again.
    pub(super) unsaved: BTreeSet<u64>,
    /// Blocks that have rotted on the disk and not been read from there since.
    pub(super) rotten: BTreeSet<u64>,
    /// Offsets of bytes that have rotted on the disk, and whether they are overwritten in memory. What
    /// the bytes are does not count: those of an encrypted file differ from run to run.
    pub(super) rotted: BTreeMap<u64, bool>,
    /// Pages that were read through a map: memory has them until the process ends.
    pub(super) mapped: BTreeSet<u64>,
    /// The last sync failed, and no process has started since.
    pub(super) sync_failed: bool,
    /// The file may grow to this length, however full the disk is.
    pub(super) reserved: u64,
}

impl Inode {
    pub(super) fn durable(bytes: Vec<u8>) -> Inode {
        Inode {
            durable: bytes.clone(),
            bytes,
            ..Inode::default()
        }
    }

    /// Disk space that the file takes, in bytes.
    pub(super) fn taken(&self) -> u64 {
        self.reserved.max(self.bytes.len() as u64)
    }

    /// Reads from the disk what has rotted there, unless it is in memory and has to stay.
    pub(super) fn fetch(&mut self, offset: u64, end: u64, is_mapped: bool) {
        let blocks = offset / BLOCK..end.div_ceil(BLOCK);
        let rotten: Vec<u64> = self.rotten.range(blocks.clone()).copied().collect();
        for number in rotten {
            let is_in_memory = is_mapped && self.mapped.contains(&(number / PAGE_BLOCKS));
            if is_in_memory || self.dirty.contains_key(&number) {
                continue;
            }
            self.rotten.remove(&number);
            let start = (number * BLOCK) as usize;
            let end = self.bytes.len().min(self.durable.len());
            let end = end.min(start + BLOCK_BYTES);
            if start < end {
                self.bytes[start..end].copy_from_slice(&self.durable[start..end]);
            }
        }
        if is_mapped {
            self.mapped.extend(pages_of(offset, end));
        }
    }

    /// True if all of these bytes were read through a map.
    pub(super) fn was_mapped(&self, offset: u64, end: u64) -> bool {
        pages_of(offset, end).all(|page| self.mapped.contains(&page))
    }

    pub(super) fn write(&mut self, buf: &[u8], offset: u64) {
        if buf.is_empty() {
            return;
        }
        let end = offset + buf.len() as u64;
        self.touch(offset, end);
        if self.bytes.len() < end as usize {
            self.bytes.resize(end as usize, 0);
        }
        self.bytes[offset as usize..end as usize].copy_from_slice(buf);
        self.overwrite(offset, end);
    }

    pub(super) fn set_len(&mut self, len: u64) {
        let old = self.bytes.len() as u64;
        self.touch(len.min(old), len.max(old));
        self.bytes.resize(len as usize, 0);
        self.overwrite(len, u64::MAX);
        if len < old {
            self.reserved = len;
        }
    }

    /// A byte that was read, and written again with what was around it, stays rotten.
    pub(super) fn overwrite(&mut self, start: u64, end: u64) {
        let bytes = self.rotted.range_mut(start..end);
        bytes.for_each(|(_, overwritten)| *overwritten = true);
    }

    pub(super) fn sync(&mut self) {
        self.rotted.retain(|_, overwritten| !*overwritten);
        self.durable.resize(self.bytes.len(), 0);
        for (number, _) in std::mem::take(&mut self.dirty) {
            self.rotten.remove(&number);
            let start = (number * BLOCK) as usize;
            let end = self.bytes.len().min(start + BLOCK_BYTES);
            if start < end {
                self.durable[start..end].copy_from_slice(&self.bytes[start..end]);
            }
        }
    }

    /// Applies what Linux does after a failed sync. Each page to be written may not have been
    /// tried, may have been written, or may have failed. A failure makes the page clean: it stays
    /// in memory as it was written, or is forgotten and then read from the disk. The disk has some
    /// of its blocks or none.
    pub(super) fn after_failed_sync(&mut self, dice: &mut Dice) {
        self.sync_failed = false;
        self.rotted
            .values_mut()
            .for_each(|overwritten| *overwritten = false);
        let pages: BTreeSet<u64> = self.dirty.keys().map(|n| n / PAGE_BLOCKS).collect();
        for page in pages {
            let outcome = dice.rng.below(5);
            let blocks = page * PAGE_BLOCKS..(page + 1) * PAGE_BLOCKS;
            if outcome == 0 {
                continue;
            }
            for number in blocks {
                let Some(former) = self.dirty.remove(&number) else {
                    continue;
                };
                let newest = block(&self.bytes, number);
                let states = former.iter().chain([&newest]);
                let kept = match outcome {
                    1 => Some(&newest),
                    _ => states.filter(|_| dice.rng.below(4) == 0).last(),
                };
                let range = (number * BLOCK) as usize..((number + 1) * BLOCK) as usize;
                // Beyond the durable length a block has no place on the disk.
                let place = self.durable.get_mut(range.clone());
                if let (Some(kept), Some(place)) = (kept, place) {
                    place.copy_from_slice(kept);
                }
                match (outcome, self.bytes.get_mut(range)) {
                    (2, Some(bytes)) => bytes.copy_from_slice(&block(&self.durable, number)),
                    _ => drop(self.unsaved.insert(number)),
                }
            }
        }
    }

    /// Marks the blocks of a byte range as unsynced and remembers their former state.
    pub(super) fn touch(&mut self, start: u64, end: u64) {
        if start < end {
            let first = start / BLOCK / PAGE_BLOCKS * PAGE_BLOCKS;
            let last = end.div_ceil(BLOCK).next_multiple_of(PAGE_BLOCKS);
            // A page is written as a whole.
            for number in self.unsaved.extract_if(first..last, |_| true) {
                self.dirty.insert(number, Vec::new());
            }
        }
        for number in start / BLOCK..end.div_ceil(BLOCK) {
            match self.dirty.get_mut(&number) {
                None => {
                    self.dirty.insert(number, Vec::new());
                }
                Some(former) if former.len() < FORMER_MAX => {
                    former.push(block(&self.bytes, number));
                }
                Some(_) => {}
            }
        }
    }

    pub(super) fn after_power_cut(&self, dice: &mut Dice) -> Vec<u8> {
        let (old, new) = (self.durable.len() as u64, self.bytes.len() as u64);
        let len = match dice.rng.below(3) {
            0 => old,
            1 => new,
            _ => old.min(new) + dice.rng.below(old.abs_diff(new) + 1),
        };
        let mut image = self.durable.clone();
        image.resize(len.next_multiple_of(BLOCK) as usize, 0);
        for (number, former) in &self.dirty {
            let start = (number * BLOCK) as usize;
            if start >= image.len() || !dice.survives() {
                continue;
            }
            let pick = dice.rng.below(2 * former.len() as u64 + 1) as usize;
            let state = match former.get(pick) {
                Some(state) => state.clone(),
                None => block(&self.bytes, *number),
            };
            image[start..start + BLOCK_BYTES].copy_from_slice(&state);
        }
        image.truncate(len as usize);
        image
    }
}

/// A block's bytes, with zeros where the file is too short.
fn block(bytes: &[u8], number: u64) -> Vec<u8> {
    let start = bytes.len().min((number * BLOCK) as usize);
    let end = bytes.len().min(start + BLOCK_BYTES);
    let mut block = bytes[start..end].to_vec();
    block.resize(BLOCK_BYTES, 0);
    block
}

fn pages_of(offset: u64, end: u64) -> Range<u64> {
    let page = BLOCK * PAGE_BLOCKS;
    offset / page..end.div_ceil(page)
}

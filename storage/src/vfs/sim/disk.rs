//! The state behind `SimVfs`: files and names, which part of them is durable, and the choice of
//! what survives a power cut.

mod dice;
mod inode;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use super::DiskSpace;
use dice::Dice;
use inode::{BLOCK, Inode};
use names::NameChange;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InodeId(usize);

#[derive(Clone, Debug)]
pub(super) struct Disk {
    seed: u64,
    calls: u64,
    /// The number of the first call that fails.
    fails_at: Option<u64>,
    dead: bool,
    written_bytes: u64,
    reads: u64,
    /// The number of the first read that fails; all later reads fail, too.
    read_fails_at: Option<u64>,
    announced: Vec<(u64, u64)>,
    /// Times that somebody asked whether pages are in memory.
    asked: u64,
    is_cold: bool,
    capacity: u64,
    /// From this call on the disk is full, for this many calls that need space.
    full_from: u64,
    full_times: u64,
    was_full: u64,
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, InodeId>,
    durable_names: BTreeMap<PathBuf, InodeId>,
    /// In the order in which they happened.
    unsynced_names: Vec<NameChange>,
    dirs: BTreeSet<PathBuf>,
    locks: BTreeSet<PathBuf>,
}

impl Disk {
    pub(super) fn new(seed: u64) -> Disk {
        Disk {
            seed,
            calls: 0,
            fails_at: None,
            dead: false,
            written_bytes: 0,
            reads: 0,
            read_fails_at: None,
            announced: Vec::new(),
            asked: 0,
            is_cold: false,
            capacity: u64::MAX,
            full_from: 0,
            full_times: 0,
            was_full: 0,
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            unsynced_names: Vec::new(),
            dirs: BTreeSet::new(),
            locks: BTreeSet::new(),
        }
    }

    pub(super) fn fail_after(&mut self, calls: u64) {
        self.fails_at = Some(self.calls.saturating_add(calls));
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    pub(super) fn fail_reads_after(&mut self, reads: u64) {
        self.read_fails_at = Some(self.reads.saturating_add(reads));
    }

    pub(super) fn reads(&self) -> u64 {
        self.reads
    }

    pub(super) fn announce(&mut self, offset: u64, len: u64) {
        self.announced.push((offset, len));
    }

    pub(super) fn announced(&self) -> &[(u64, u64)] {
        &self.announced
    }

    pub(super) fn set_cold(&mut self, cold: bool) {
        self.is_cold = cold;
        if cold {
            self.inodes
                .iter_mut()
                .for_each(|inode| inode.mapped.clear());
        }
    }

    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    pub(super) fn is_resident(&mut self, id: InodeId, offset: u64, len: u64) -> bool {
        self.asked += 1;
        !self.is_cold || self.inodes[id.0].was_mapped(offset, offset + len)
    }

    pub(super) fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
    }

    pub(super) fn full_after(&mut self, calls: u64, times: u64) {
        self.full_from = self.calls.saturating_add(calls);
        self.full_times = times;
    }

    pub(super) fn times_full(&self) -> u64 {
        self.was_full
    }

    pub(super) fn space(&self) -> io::Result<DiskSpace> {
        self.alive()?;
        let total = self.capacity;
        let available = total.saturating_sub(self.used_without(None));
        Ok(DiskSpace { total, available })
    }

    pub(super) fn alive(&self) -> io::Result<()> {
        if self.dead { Err(eio()) } else { Ok(()) }
    }

    pub(super) fn bytes(&self, id: InodeId) -> &[u8] {
        &self.inodes[id.0].bytes
    }

    /// `is_mapped`: what was read before is in memory, whatever became of the disk.
    pub(super) fn read(
        &mut self,
        id: InodeId,
        offset: u64,
        len: usize,
        is_mapped: bool,
    ) -> io::Result<&[u8]> {
        self.begin_read()?;
        let end = offset.saturating_add(len as u64);
        self.inodes[id.0].fetch(offset, end, is_mapped);
        usize::try_from(offset)
            .ok()
            .and_then(|start| Some(start..start.checked_add(len)?))
            .and_then(|range| self.bytes(id).get(range))
            .ok_or(io::ErrorKind::UnexpectedEof.into())
    }

    pub(super) fn write(&mut self, id: InodeId, buf: &[u8], offset: u64) -> io::Result<()> {
        let cut = self.begin_call()?;
        let end = offset + buf.len() as u64;
        // What fits is written even if not everything fits, as in the kernel.
        let mut fits = end.min(self.room_for(id)).max(offset);
        if self.is_full_now() {
            // A kernel stops at the end of a disk block, if anywhere.
            let half = offset + (fits - offset) / 2;
            fits = (half / BLOCK * BLOCK).max(offset);
        }
        let part = &buf[..(fits - offset) as usize];
        self.written_bytes += part.len() as u64;
        self.inodes[id.0].write(part, offset);
        end_call(cut)?;
        if fits < end { Err(enospc()) } else { Ok(()) }
    }

    pub(super) fn set_len(&mut self, id: InodeId, len: u64) -> io::Result<()> {
        let cut = self.begin_call()?;
        let grows = len > self.bytes(id).len() as u64;
        if len > self.room_for(id) || (grows && self.is_full_now()) {
            return Err(enospc());
        }
        self.inodes[id.0].set_len(len);
        end_call(cut)
    }

    pub(super) fn reserve(&mut self, id: InodeId, len: u64) -> io::Result<()> {
        let cut = self.begin_call()?;
        if len > self.room_for(id) || self.is_full_now() {
            return Err(enospc());
        }
        let inode = &mut self.inodes[id.0];
        inode.reserved = inode.reserved.max(len);
        end_call(cut)
    }

    pub(super) fn sync_data(&mut self, id: InodeId) -> io::Result<()> {
        let fails = self.begin_call()?;
        let inode = &mut self.inodes[id.0];
        inode.sync_failed = fails;
        if fails {
            return Err(eio());
        }
        inode.sync();
        Ok(())
    }

    pub(super) fn flip(&mut self, id: InodeId, bit: u64) {
        let inode = &mut self.inodes[id.0];
        for bytes in [&mut inode.bytes, &mut inode.durable] {
            if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }

    /// Changes one byte on the disk, and not in memory. False if it is not on the disk yet.
    pub(super) fn rot(&mut self, id: InodeId, offset: u64, mask: u8) -> bool {
        let inode = &mut self.inodes[id.0];
        let Some(byte) = inode.durable.get_mut(offset as usize) else {
            return false;
        };
        *byte ^= mask;
        inode.rotted.insert(offset, false);
        inode.rotten.insert(offset / BLOCK);
        true
    }

    /// The files with rotten bytes on the disk.
    pub(super) fn rotted(&self) -> Vec<PathBuf> {
        let names = self.names.iter().chain(&self.durable_names);
        let rotted = names.filter(|(_, id)| !self.inodes[id.0].rotted.is_empty());
        rotted.map(|(path, _)| path.clone()).collect()
    }

    /// The files and their lengths on the disk.
    pub(super) fn files(&self) -> Vec<(PathBuf, u64)> {
        let files = self.names.iter();
        files
            .map(|(path, id)| (path.clone(), self.inodes[id.0].durable.len() as u64))
            .collect()
    }

    pub(super) fn durable(&self, id: InodeId) -> &[u8] {
        &self.inodes[id.0].durable
    }

    pub(super) fn process_killed(&self) -> Disk {
        let mut dice = Dice::new(self.seed ^ self.calls.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let mut inodes = self.inodes.clone();
        for inode in &mut inodes {
            if inode.sync_failed {
                inode.after_failed_sync(&mut dice);
            }
            inode.mapped.clear();
            inode.fetch(0, u64::MAX, false);
        }
        Disk {
            inodes,
            fails_at: None,
            read_fails_at: None,
            announced: Vec::new(),
            dead: false,
            full_times: 0,
            locks: BTreeSet::new(),
            ..self.clone()
        }
    }

    pub(super) fn power_cut(&self, seed: u64) -> Disk {
        let mut dice = Dice::new(self.seed ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut names = self.durable_names.clone();
        dice.choose_odds();
        // Most file systems keep changes of names in order; some keep any subset.
        let in_order = dice.rng.below(2) == 0;
        for change in &self.unsynced_names {
            if dice.survives() {
                change.apply(&mut names);
            } else if in_order {
                break;
            }
        }
        dice.choose_odds();
        let mut inodes = Vec::new();
        for id in names.values_mut() {
            let inode = &self.inodes[id.0];
            let mut left = Inode::durable(inode.after_power_cut(&mut dice));
            let kept = inode.rotted.keys().map(|offset| (*offset, false));
            left.rotted = kept.collect();
            *id = InodeId(inodes.len());
            inodes.push(left);
        }
        Disk {
            durable_names: names.clone(),
            names,
            inodes,
            dirs: self.dirs.clone(),
            capacity: self.capacity,
            ..Disk::new(dice.rng.next())
        }
    }

    /// Counts the call; true if power fails at this one.
    fn begin_call(&mut self) -> io::Result<bool> {
        self.alive()?;
        self.dead = self.fails_at.is_some_and(|n| self.calls >= n);
        self.calls += 1;
        Ok(self.dead)
    }

    /// Counts a read, or a mapping.
    pub(super) fn begin_read(&mut self) -> io::Result<()> {
        self.alive()?;
        let fails = self.read_fails_at.is_some_and(|n| self.reads >= n);
        self.reads += 1;
        if fails { Err(eio()) } else { Ok(()) }
    }

    /// The length to which this file can grow.
    fn room_for(&self, id: InodeId) -> u64 {
        let used = self.used_without(Some(id));
        let own = self.inodes[id.0].taken();
        self.capacity.saturating_sub(used).max(own)
    }

    fn used_without(&self, id: Option<InodeId>) -> u64 {
        let others = self.names.values().filter(|other| Some(**other) != id);
        others.map(|other| self.inodes[other.0].taken()).sum()
    }

    /// Called when the current call takes space.
    fn is_full_now(&mut self) -> bool {
        let full = self.calls > self.full_from && self.full_times > 0;
        if full {
            self.full_times -= 1;
            self.was_full += 1;
        }
        full
    }
}

fn end_call(cut: bool) -> io::Result<()> {
    if cut { Err(eio()) } else { Ok(()) }
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(EIO)
}

fn enospc() -> io::Error {
    io::Error::from_raw_os_error(ENOSPC)
}

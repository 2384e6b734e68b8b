//! The state behind `SimVfs`: files and names, which part of them is durable, and the choice of
//! what survives a power cut.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::rng::Rng;
use super::{BLOCK_BYTES, DiskSpace};

const BLOCK: u64 = BLOCK_BYTES as u64;
/// The page cache writes, forgets and marks clean whole pages; this is one, in blocks.
const PAGE_BLOCKS: u64 = 4096 / BLOCK;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Former states remembered of an unsynced block, besides the durable and the newest one.
const FORMER_MAX: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InodeId(usize);

#[derive(Clone, Debug, Default)]
struct Inode {
    bytes: Vec<u8>,
    /// What a power cut keeps for certain. Differs from `bytes` in `dirty` blocks and in length.
    durable: Vec<u8>,
    /// Blocks written since the last sync, each with the states in between.
    dirty: BTreeMap<u64, Vec<Vec<u8>>>,
    /// Blocks as Linux leaves them after a failed sync: in memory as they were written, on the disk
    /// as in `durable`, and clean: no later sync writes them, unless their page is written again.
    unsaved: BTreeSet<u64>,
    /// Blocks that have rotted on the disk and not been read from there since.
    rotten: BTreeSet<u64>,
    /// Offsets of bytes that have rotted on the disk, and whether they are overwritten in memory. What
    /// the bytes are does not count: those of an encrypted file differ from run to run.
    rotted: BTreeMap<u64, bool>,
    /// Pages that were read through a map: memory has them until the process ends.
    mapped: BTreeSet<u64>,
    /// The last sync failed, and no process has started since.
    sync_failed: bool,
    /// The file may grow to this length, however full the disk is.
    reserved: u64,
}

/// A change of names that no `sync_dir` has made durable yet.
#[derive(Clone, Debug)]
enum NameChange {
    Create {
        path: PathBuf,
        id: InodeId,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        id: InodeId,
    },
    Remove {
        path: PathBuf,
        id: InodeId,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Disk {
    seed: u64,
    calls: u64,
    /// The number of the first call that fails.
    fails_at: Option<u64>,
    dead: bool,
    reads: u64,
    /// The number of the first read that fails; all later reads fail, too.
    read_fails_at: Option<u64>,
    announced: Vec<(u64, u64)>,
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
            reads: 0,
            read_fails_at: None,
            announced: Vec::new(),
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
    }

    pub(super) fn is_cold(&self) -> bool {
        self.is_cold
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

    pub(super) fn find(&self, path: &Path) -> Option<InodeId> {
        self.names.get(path).copied()
    }

    pub(super) fn has_dir(&self, path: &Path) -> bool {
        self.dirs.contains(path)
    }

    pub(super) fn bytes(&self, id: InodeId) -> &[u8] {
        &self.inodes[id.0].bytes
    }

    pub(super) fn existing(&self, path: &Path) -> io::Result<InodeId> {
        self.alive()?;
        self.find(path).ok_or(io::ErrorKind::NotFound.into())
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

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.alive()?;
        if !dir.as_os_str().is_empty() && !self.has_dir(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = self.names.keys().filter(|p| p.parent() == Some(dir));
        Ok(inside
            .filter_map(|p| Some(p.file_name()?.to_string_lossy().into_owned()))
            .collect())
    }

    pub(super) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        self.alive()?;
        if self.has_dir(dir) {
            return Ok(());
        }
        let cut = self.begin_call()?;
        self.dirs
            .extend(dir.ancestors().map(Path::to_owned).collect::<Vec<_>>());
        end_call(cut)
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<InodeId> {
        self.alive()?;
        if self.find(path).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let cut = self.begin_call()?;
        if self.is_full_now() {
            return Err(enospc());
        }
        let id = InodeId(self.inodes.len());
        self.inodes.push(Inode::default());
        self.names.insert(path.to_owned(), id);
        let path = path.to_owned();
        self.unsynced_names.push(NameChange::Create { path, id });
        end_call(cut)?;
        Ok(id)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.existing(from)?;
        let cut = self.begin_call()?;
        self.names.remove(from);
        self.names.insert(to.to_owned(), id);
        let (from, to) = (from.to_owned(), to.to_owned());
        self.unsynced_names
            .push(NameChange::Rename { from, to, id });
        end_call(cut)
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let id = self.existing(path)?;
        let cut = self.begin_call()?;
        self.names.remove(path);
        let path = path.to_owned();
        self.unsynced_names.push(NameChange::Remove { path, id });
        end_call(cut)
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        if self.begin_call()? {
            return Err(eio());
        }
        let all = std::mem::take(&mut self.unsynced_names);
        let (synced, rest) = all.into_iter().partition(|c: &NameChange| c.touches(dir));
        self.unsynced_names = rest;
        for change in synced {
            change.apply(&mut self.durable_names);
        }
        Ok(())
    }

    pub(super) fn lock(&mut self, path: &Path) -> io::Result<()> {
        self.alive()?;
        if self.locks.contains(path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.find(path).is_none() {
            self.create(path)?;
        }
        self.locks.insert(path.to_owned());
        Ok(())
    }

    pub(super) fn unlock(&mut self, path: &Path) {
        self.locks.remove(path);
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

    pub(super) fn install(&mut self, path: &Path, bytes: &[u8]) {
        let id = InodeId(self.inodes.len());
        self.inodes.push(Inode::durable(bytes.to_vec()));
        self.names.insert(path.to_owned(), id);
        self.durable_names.insert(path.to_owned(), id);
        let parents = path.ancestors().skip(1).map(Path::to_owned);
        self.dirs.extend(parents.collect::<Vec<_>>());
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

impl NameChange {
    fn touches(&self, dir: &Path) -> bool {
        match self {
            NameChange::Create { path, .. } | NameChange::Remove { path, .. } => {
                path.parent() == Some(dir)
            }
            NameChange::Rename { from, to, .. } => {
                from.parent() == Some(dir) || to.parent() == Some(dir)
            }
        }
    }

    /// Does nothing if the file or name it needs did not survive.
    fn apply(&self, names: &mut BTreeMap<PathBuf, InodeId>) {
        match self {
            NameChange::Create { path, id } => {
                names.entry(path.clone()).or_insert(*id);
            }
            NameChange::Rename { from, to, id } => {
                if names.get(from) == Some(id) {
                    names.remove(from);
                    names.insert(to.clone(), *id);
                }
            }
            NameChange::Remove { path, id } => {
                if names.get(path) == Some(id) {
                    names.remove(path);
                }
            }
        }
    }
}

impl Inode {
    fn durable(bytes: Vec<u8>) -> Inode {
        Inode {
            durable: bytes.clone(),
            bytes,
            ..Inode::default()
        }
    }

    /// Disk space that the file takes, in bytes.
    fn taken(&self) -> u64 {
        self.reserved.max(self.bytes.len() as u64)
    }

    /// Reads from the disk what has rotted there, unless it is in memory and has to stay.
    fn fetch(&mut self, offset: u64, end: u64, is_mapped: bool) {
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
            let pages = blocks.start / PAGE_BLOCKS..blocks.end.div_ceil(PAGE_BLOCKS);
            self.mapped.extend(pages);
        }
    }

    fn write(&mut self, buf: &[u8], offset: u64) {
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

    fn set_len(&mut self, len: u64) {
        let old = self.bytes.len() as u64;
        self.touch(len.min(old), len.max(old));
        self.bytes.resize(len as usize, 0);
        self.overwrite(len, u64::MAX);
        if len < old {
            self.reserved = len;
        }
    }

    /// A byte that was read, and written again with what was around it, stays rotten.
    fn overwrite(&mut self, start: u64, end: u64) {
        let bytes = self.rotted.range_mut(start..end);
        bytes.for_each(|(_, overwritten)| *overwritten = true);
    }

    fn sync(&mut self) {
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
    fn after_failed_sync(&mut self, dice: &mut Dice) {
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
    fn touch(&mut self, start: u64, end: u64) {
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

    fn after_power_cut(&self, dice: &mut Dice) -> Vec<u8> {
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

/// What a power cut or a failed sync leaves; depends on the seed alone.
#[derive(Debug)]
struct Dice {
    rng: Rng,
    /// Of 100.
    odds: u64,
}

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice {
            rng: Rng(seed),
            odds: 50,
        }
    }

    /// All, none, few, many: each finds bugs the others do not.
    fn choose_odds(&mut self) {
        let all = [0, 10, 50, 50, 90, 100];
        self.odds = all[self.rng.below(all.len() as u64) as usize];
    }

    fn survives(&mut self) -> bool {
        self.rng.below(100) < self.odds
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

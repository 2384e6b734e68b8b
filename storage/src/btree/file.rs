//! The page file as its owner sees it: checkpoints, memory given back, statistics.

pub(super) mod open;
pub(super) mod release;

use std::path::Path;
use std::sync::Arc;

use super::checkpoint::output::{Output, SYNC_BYTES};
use super::checkpoint::spill;
use super::checkpoint::spill::{Spilled, SyncJob};
use super::checkpoint::{CheckpointDone, CheckpointJob, Retired};
use super::edit::rewrite;
use super::meta::Meta;
use super::node::page::UNIT;
use super::pages::Shared;
use super::pages::readers::GuardWatch;
use super::space::Space;
use super::space::reservation::Reservation;
use super::space::wipe::Wipe;
use super::{Pages, Tree, TreeKind, USER_META_BYTES_MAX, Unfit, Writer};
use crate::Result;
use crate::encryption::DataKeys;
use crate::vfs::{File, Vfs};

/// Slack of the file: it may be longer than its content by one part in `SLACK_PART`, plus
/// `SLACK_UNITS`, because checkpoints write beside what they replace.
const SLACK_PART: u64 = 16;
const SLACK_UNITS: u64 = (1 << 20) / UNIT as u64;

/// Leaves that one step of [`PageFile::spill_changed`] takes out of memory: until it is written a
/// step keeps them, so that a full disk can undo it.
const SPILL_CHANGED_BYTES_PER_STEP: usize = 1 << 20;

/// An open page file, owned by the one writer.
#[derive(Debug)]
pub(crate) struct PageFile {
    pub(super) file: Arc<dyn File>,
    pub(super) shared: Arc<Shared>,
    pub(super) writer: Writer,
    /// `None` while a checkpoint owns it.
    pub(super) space: Option<Space>,
    /// Units in use when the last checkpoint began.
    pub(super) used_before: u64,
    /// Units that views held back then.
    pub(super) viewed_before: u64,
    /// The meta of the newest durable checkpoint.
    pub(super) meta: Meta,
    /// That meta as it was read, until a checkpoint has begun that writes it again (see `open`).
    pub(super) unproven: Option<Vec<u8>>,
    /// User meta of the checkpoint before, while that one can still be opened.
    pub(super) older_user: Vec<u8>,
    /// All `Pages` that may still be held, with their generation, ascending.
    pub(super) generations: Vec<(u64, GuardWatch)>,
    /// Per tree: the key from which saved nodes must be released; `None` if there is nothing to
    /// release.
    pub(super) release_from: Vec<(u8, Option<Vec<u8>>)>,
    /// First key of the leaf before which everything was spilled.
    pub(super) spilled_to: Vec<u8>,
    /// Bytes spilled for which no sync was requested yet.
    pub(super) spilled_unsynced: u64,
    pub(super) retired: Option<Retired>,
    /// Bytes that the running checkpoint took over from the writer.
    pub(super) saving_bytes: usize,
    /// Bytes that the last checkpoint saved and that are not all released yet.
    pub(super) saved_bytes: usize,
    /// Set while checkpoints wipe free space.
    pub(super) wipe: Option<Wipe>,
    pub(super) reservation: Reservation,
}

/// What [`PageFile::open`] found.
#[derive(Debug)]
pub(crate) struct Opened {
    /// One tree per kind, in the order of the kinds.
    pub trees: Vec<Tree>,
    /// Empty if the file was just created.
    pub user_meta: Vec<u8>,
    /// Why one of the two metas cannot be used, the older or the newer; `None` if both can.
    pub unusable_meta: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    pub file_bytes: u64,
    /// Bytes of the file that are not free now and will not become free when older checkpoints and
    /// views are gone. While a checkpoint runs: the value from before it.
    pub used_bytes: u64,
    /// Bytes that become free after one or two more checkpoints; without those that wait only for
    /// views. While a checkpoint runs: without those given up before it began.
    pub waiting_bytes: u64,
    /// Bytes that are free except that views may read them. While a checkpoint runs: the value from
    /// before it.
    pub viewed_bytes: u64,
    /// The number of the newest checkpoint begun, and of the one that was newest when the oldest
    /// view still held was taken.
    pub generation: u64,
    pub oldest_view: u64,
    /// Bytes that can be written now; 0 while a checkpoint runs.
    pub vacant_bytes: u64,
    /// Bytes of changed nodes in memory that no finished checkpoint holds yet.
    pub dirty_bytes: u64,
    /// About what the next checkpoint writes to say what is free: mostly what has changed, now and
    /// then all of it. 0 while one runs.
    pub list_bytes: u64,
    /// Bytes of all nodes that the writer keeps in memory.
    pub memory_bytes: u64,
    /// Bytes of sealed pages kept in their decrypted form.
    pub decrypted_bytes: u64,
    /// The disk is too full to guarantee that all changed nodes can be written.
    pub is_short: bool,
}

impl PageFile {
    /// Opens `path`, or creates it with empty trees (its directory must exist). With keys, sealed
    /// pages can be read, and new ones are sealed as the active key requires.
    pub(crate) fn open(
        vfs: Arc<dyn Vfs>,
        path: &Path,
        kinds: &[TreeKind],
        data_keys: Option<Arc<DataKeys>>,
    ) -> Result<(PageFile, Opened)> {
        open::open(&*vfs, path, kinds, data_keys)
    }

    /// Locks the file in memory from now on, as far as checkpoints have written it.
    pub(crate) fn lock_in_memory(&self) -> Result<()> {
        self.shared.lock()
    }

    pub(crate) fn is_locked_in_memory(&self) -> bool {
        self.shared.is_locked()
    }

    /// The file has got another name, its last one.
    pub(crate) fn renamed(&self, path: &Path) {
        self.shared.renamed(path);
    }

    pub(crate) fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// What readers of the current trees need; changes with every checkpoint begun.
    pub(crate) fn pages(&self) -> &Arc<Pages> {
        &self.writer.pages
    }

    /// Takes the trees as they are now: all trees of the file, in the order of the kinds. Panics if
    /// a checkpoint is running or `user_meta` is too long.
    pub(crate) fn begin_checkpoint(&mut self, trees: &[&Tree], user_meta: &[u8]) -> CheckpointJob {
        assert!(user_meta.len() <= USER_META_BYTES_MAX, "user meta too long");
        let ids = trees.iter().map(|tree| tree.kind.id);
        assert!(
            ids.eq(self.release_from.iter().map(|(id, _)| *id)),
            "all trees, in order"
        );
        let space = self.space.take().expect("one checkpoint at a time");
        self.used_before = space.used_units();
        self.viewed_before = space.viewed_units();
        self.reservation.note(&space);
        self.generations.retain(|(_, readers)| !readers.is_gone());
        let views = self.generations.iter().map(|(view, _)| *view).collect();
        let freed = std::mem::take(&mut self.writer.freed);
        self.writer.freed_units = 0;
        self.writer.counter += 1;
        self.writer.running = true;
        self.saving_bytes = std::mem::take(&mut self.writer.dirty_bytes);
        self.spilled_unsynced = 0;
        let generation = self.writer.counter;
        self.writer.pages = Arc::new(Pages::new(self.shared.clone()));
        self.generations
            .push((generation, self.writer.pages.watch()));
        CheckpointJob {
            file: self.file.clone(),
            shared: self.shared.clone(),
            generation,
            trees: trees.iter().map(|tree| (*tree).clone()).collect(),
            user: user_meta.to_vec(),
            space,
            freed,
            views,
            units_before: self.meta.units,
            unproven: self.unproven.take(),
            wipe: self.wipe,
            retired: self.retired.take(),
            out: Output::new(self.file.clone(), self.shared.clone()),
            settled: false,
            list: None,
        }
    }

    pub(crate) fn finish_checkpoint(&mut self, done: CheckpointDone) {
        assert!(self.writer.running && done.meta.generation == self.writer.counter);
        self.writer.running = false;
        // 1. The checkpoint began with node N in the trees.
        // 2. The writer replaced N, which had no place in the file then.
        // 3. The checkpoint gave N a place, and the meta that is now the newest refers to it.
        // So the trees gave up that place after this checkpoint began, like any other.
        for saved in std::mem::take(&mut self.writer.replaced) {
            let saved = saved.get().expect("all of the checkpoint is saved");
            self.writer.give_up(*saved);
        }
        self.wipe = done.wipe;
        if done.was_cut {
            self.reservation.forget();
        }
        self.shared.set_units(done.meta.units.max(self.meta.units));
        let older = std::mem::replace(&mut self.meta, done.meta);
        self.older_user = older.user;
        self.space = Some(done.space);
        self.retired = Some(Retired { _trees: done.trees });
        self.saved_bytes += std::mem::take(&mut self.saving_bytes);
        for (_, from) in &mut self.release_from {
            *from = Some(Vec::new());
        }
    }

    /// The running checkpoint is given up, and with it the file: the next one finds no free space.
    pub(crate) fn give_up_checkpoint(&mut self) {
        assert!(self.writer.running, "a checkpoint to give up");
        self.writer.running = false;
    }

    pub(crate) fn data_keys(&self) -> Option<&Arc<DataKeys>> {
        self.shared.sealing().map(|sealing| &sealing.data_keys)
    }

    pub(crate) fn checkpoint_running(&self) -> bool {
        self.writer.running
    }

    /// Drops the tree's in-memory nodes that a finished checkpoint holds; they are read from the
    /// file from now on. Looks at up to `budget` nodes; returns `true` if there are no more for
    /// now. Cheap once it returned true. 1000 nodes take well below a millisecond.
    pub(crate) fn release_saved(&mut self, tree: &mut Tree, budget: usize) -> bool {
        let mut slots = self.release_from.iter_mut();
        let slot = slots.find(|(id, _)| *id == tree.kind.id);
        let (_, from) = slot.expect("a tree of this file");
        // While a checkpoint runs, it holds the branches on the way, and copying them is not worth
        // it.
        if self.writer.running {
            return true;
        }
        if let Some(start) = from.take() {
            *from = release::release(tree, &mut self.writer, &start, budget);
        }
        let tree_done = from.is_none();
        if self.release_from.iter().all(|(_, from)| from.is_none()) {
            self.saved_bytes = 0;
        }
        tree_done
    }

    /// Writes about `budget` bytes of full leaves of the one tree of the file that grows at its
    /// end. Does nothing while a checkpoint runs or the disk is full. After an error the file must
    /// be opened again. Run the returned job soon.
    pub(crate) fn spill(&mut self, tree: &mut Tree, budget: usize) -> Result<Option<SyncJob>> {
        let Some(space) = self.space.as_mut().filter(|_| !self.reservation.is_short()) else {
            return Ok(None);
        };
        let mut out = Output::unsynced(self.file.clone(), self.shared.clone());
        let (writer, from) = (&mut self.writer, &mut self.spilled_to);
        if !spill::spill(tree, writer, space, &mut out, from, budget)? {
            self.reservation.ran_out();
            return Ok(None);
        }
        let written = out.written;
        self.spilled_unsynced += written;
        if written > 0 {
            self.make_readable()?;
        }
        let due = self.spilled_unsynced >= SYNC_BYTES as u64;
        Ok(due.then(|| {
            self.spilled_unsynced = 0;
            SyncJob {
                file: self.file.clone(),
                shared: self.shared.clone(),
            }
        }))
    }

    /// Writes all leaves of the tree from the one with the key `from` on (empty: the first) that
    /// changed since the last checkpoint began, so that little but branches stays in memory. Does
    /// nothing while a checkpoint runs or the disk is full. After
    /// an error the file must be opened again.
    pub(crate) fn spill_changed(&mut self, tree: &mut Tree, mut from: Vec<u8>) -> Result<()> {
        loop {
            let Some(space) = self.space.as_mut().filter(|_| !self.reservation.is_short()) else {
                return Ok(());
            };
            let mut out = Output::unsynced(self.file.clone(), self.shared.clone());
            let writer = &mut self.writer;
            let budget = SPILL_CHANGED_BYTES_PER_STEP;
            let spilled = spill::spill_changed(tree, writer, space, &mut out, &from, budget)?;
            if out.written > 0 {
                self.make_readable()?;
                // The next sync would else write all of it at once, and delay every log on the disk.
                self.file.begin_write_out();
            }
            match spilled {
                Spilled::All => return Ok(()),
                Spilled::Through(rest) => from = rest,
                Spilled::DiskFull => {
                    self.reservation.ran_out();
                    return Ok(());
                }
            }
        }
    }

    /// True if [`PageFile::spill_changed`] would write.
    pub(crate) fn can_spill(&self) -> bool {
        self.space.is_some() && !self.reservation.is_short()
    }

    /// Bytes of changed nodes in memory that a spill or the next checkpoint writes.
    #[inline]
    pub(crate) fn unsaved_bytes(&self) -> u64 {
        self.writer.dirty_bytes as u64
    }

    /// References may point to everything allocated so far; only while no checkpoint runs.
    fn make_readable(&mut self) -> Result<()> {
        let space = self.space.as_ref().expect("no checkpoint under way");
        self.shared.map_through(space.units())?;
        let units = self.shared.units().max(space.units());
        self.shared.set_units(units);
        Ok(())
    }

    /// Reserves disk space for a checkpoint of all changed nodes, and some more, so that operations
    /// that free space can be written when the disk is full. After one failure it tries again only
    /// if `again` is true.
    pub(crate) fn reserve(&mut self, again: bool) -> Result<()> {
        let dirty = self.writer.dirty_bytes + self.saving_bytes;
        if let Some(space) = &self.space {
            self.reservation.note(space);
        }
        let path = self.shared.path();
        self.reservation
            .reserve(&*self.file, path, dirty as u64, again)
    }

    /// Reports that an attempt at a checkpoint found the disk full.
    pub(crate) fn ran_out(&mut self) {
        self.reservation.ran_out();
    }

    /// True if a checkpoint begun now will find enough space; only while none runs.
    pub(crate) fn has_space(&self) -> bool {
        let space = self.space.as_ref().expect("no checkpoint under way");
        self.reservation
            .holds(space, self.writer.dirty_bytes as u64)
    }

    /// Units of the file at its shortest reasonable length; only while no checkpoint runs.
    pub(crate) fn shortest(&self) -> u64 {
        let space = self.space.as_ref().expect("no checkpoint under way");
        let used = space.used_units();
        used + used / SLACK_PART + SLACK_UNITS
    }

    /// Bytes by which the file could be shorter; `None` while a checkpoint runs.
    pub(crate) fn surplus_bytes(&self) -> Option<u64> {
        let units = self.space.as_ref()?.units();
        Some(units.saturating_sub(self.shortest()) * UNIT as u64)
    }

    /// Looks at `budget` units' worth of nodes of the tree from the key `from` on. The next
    /// checkpoint writes those anew whose pages are unfit. Returns the key to continue from; `None`
    /// at the end. Only while no checkpoint runs.
    pub(crate) fn rewrite(
        &mut self,
        tree: &mut Tree,
        unfit: Unfit,
        from: &[u8],
        budget: &mut u64,
    ) -> Result<Option<Vec<u8>>> {
        assert!(!self.writer.running, "the checkpoint's nodes are its own");
        if let (Unfit::EndsBehind(unit), Some(space)) = (unfit, &mut self.space) {
            space.move_records_from_behind(unit);
        }
        rewrite::rewrite(tree, &mut self.writer, unfit, from, budget)
    }

    /// Wipes everything that the trees gave up so far, once it is free. The next checkpoint begins
    /// it, a later one ends it.
    pub(crate) fn begin_wipe(&mut self) {
        self.wipe = Some(Wipe {
            after: self.writer.counter + 1,
            from: 0,
            done: false,
        });
    }

    pub(crate) fn end_wipe(&mut self) {
        self.wipe = None;
    }

    pub(crate) fn wipe(&self) -> Option<Wipe> {
        self.wipe
    }

    /// Memory of the last checkpoint, once all trees are released. If not taken, the next job drops
    /// it.
    pub(crate) fn take_retired(&mut self) -> Option<Retired> {
        let done = self.release_from.iter().all(|(_, from)| from.is_none());
        if done { self.retired.take() } else { None }
    }

    /// User meta of the older of the two checkpoints that can be opened.
    pub(crate) fn older_user_meta(&self) -> &[u8] {
        &self.older_user
    }

    fn oldest_view(&self) -> u64 {
        let mut held = self.generations.iter().filter(|(_, view)| !view.is_gone());
        held.next()
            .map_or(self.writer.counter, |(oldest, _)| *oldest)
    }

    /// Bounds the bytes of sealed pages that are kept in their decrypted form.
    pub(crate) fn bound_decrypted(&self, bytes: u64) {
        if let Some(sealing) = self.shared.sealing() {
            sealing.decrypted.bound(bytes);
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let dirty = self.writer.dirty_bytes + self.saving_bytes;
        let used_units = self
            .space
            .as_ref()
            .map_or(self.used_before, Space::used_units);
        let pending = self.space.as_ref().map_or(0, Space::waiting_units);
        let vacant = self.space.as_ref().map_or(0, Space::free_now);
        let list = self
            .space
            .as_ref()
            .map_or(0, |space| space.record_units(self.writer.freed.len()));
        let viewed = self
            .space
            .as_ref()
            .map_or(self.viewed_before, Space::viewed_units);
        Stats {
            file_bytes: self.shared.units() * UNIT as u64,
            used_bytes: used_units * UNIT as u64,
            waiting_bytes: (pending + self.writer.freed_units) * UNIT as u64,
            viewed_bytes: viewed * UNIT as u64,
            generation: self.writer.counter,
            oldest_view: self.oldest_view(),
            vacant_bytes: vacant * UNIT as u64,
            dirty_bytes: dirty as u64,
            list_bytes: list * UNIT as u64,
            memory_bytes: (dirty + self.saved_bytes) as u64,
            decrypted_bytes: self.shared.sealing().map_or(0, |s| s.decrypted.bytes()) as u64,
            is_short: self.reservation.is_short(),
        }
    }
}

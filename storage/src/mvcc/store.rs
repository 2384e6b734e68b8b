//! The store as its owner holds it: opening, publishing, checkpoints. Knows nothing of the meaning
//! of a row.

mod jobs;

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::chores::compact::{BATCH_BYTES_MAX, Batch};
use super::chores::reencrypt::Walk;
use super::chores::relocate::Relocation;
use super::keys::{self, DELTA_TREES, DeltaLimits, KeyTrees};
use super::meta::Meta;
use super::publish::{Publisher, Subscriber};
use super::write::ENTRY_BYTES_IN_MEMORY;
use super::{Applied, CompactProgress, Options, Revision, Root, Stats, TreeFound, Write, load};
use crate::btree::{self, KeyOrder, META_SLOTS, PageFile, Tree, TreeKind, Weight};
use crate::encryption::DECRYPTED_BYTES;
use crate::vfs::Vfs;
use crate::{Error, Result};
use jobs::Content;
pub use jobs::{Attempt, CHECKPOINT_PIECE_BYTES, CheckpointDone, CheckpointJob, Retired, SyncJob};

/// Name of the page file in the store's directory.
const FILE_NAME: &str = "pages";

/// In-memory nodes that each publish drops after a checkpoint has saved them: takes well below a
/// tenth of a millisecond.
const RELEASE_NODES_PER_PUBLISH: usize = 64;

/// A key moves the average length of keys by one of so many parts of the difference.
const KEY_BYTES_PARTS: u64 = 64;

/// Twice what is synced at once; copying it takes some hundredths of a millisecond.
pub(super) const SPILL_BYTES_PER_STEP: usize = 256 << 10;

/// The revision tree grows at its end, where large leaves cost nothing.
const REVISION_LEAF_BYTES: usize = 16384;

const SIDE_LEAF_BYTES: usize = 4096;

/// Number of trees of a root.
const TREES: usize = 3 + DELTA_TREES;

/// In the order of [`Root::trees`].
const KINDS: [TreeKind; TREES] = {
    let mut kinds = [keys::BASE_KIND; TREES];
    kinds[1] = TreeKind {
        id: 2,
        order: KeyOrder::Bytes,
        weigh: |_, _| Weight::NONE,
        leaf_bytes: REVISION_LEAF_BYTES,
        has_prefixes: false,
    };
    kinds[2] = TreeKind {
        id: 3,
        order: KeyOrder::Bytes,
        weigh: |_, _| Weight::NONE,
        leaf_bytes: SIDE_LEAF_BYTES,
        has_prefixes: true,
    };
    let mut place = 0;
    while place < DELTA_TREES {
        kinds[3 + place] = keys::delta_kind(place);
        place += 1;
    }
    kinds
};

/// The store's one writer.
#[derive(Debug)]
pub struct Store {
    pub(super) root: Root,
    pub(super) file: PageFile,
    published: Publisher<Root>,
    pub(super) batch: Option<Batch>,
    /// Memory of the versions gathered for it.
    pub(super) batch_bytes_max: usize,
    /// See [`Store::take_oldest_removed`].
    pub(super) oldest_removed: Option<Revision>,
    /// Checkpoints still needed until both metas hold the newest state, without a running one.
    pub(super) unsaved: usize,
    /// Some nodes of the last checkpoint are still in memory.
    pub(super) releasing: bool,
    pub(super) relocation: Option<Relocation>,
    /// See [`Store::take_retired`].
    pub(super) replaced: Option<Box<Store>>,
    /// From this key on, values may lack their size in the key tree; `None` if none does.
    pub(super) unsized_from: Option<Vec<u8>>,
    unusable_meta: Option<String>,
    pub(super) entry_bytes_in_memory: u64,
    /// See [`Store::set_decrypted_bytes_max`].
    pub(super) decrypted_bytes_max: u64,
    /// Bytes of changed nodes in memory at which a deletion in steps writes leaves.
    pub(super) deletion_spills_at: u64,
    /// See [`Store::set_keys_deleted_at_once`].
    pub(super) keys_deleted_at_once: u64,
    pub(super) delta_limits: DeltaLimits,
    /// Average length of the keys of the last changes, in [`KEY_BYTES_PARTS`]; 0 before the first.
    key_bytes: u64,
    /// Changes since the last step of a merge.
    pub(super) unmerged: u32,
    /// Entries merged since the leaves that the merge has passed were written.
    pub(super) merged: usize,
    /// The place before the first of them.
    pub(super) merged_from: Vec<u8>,
    /// See [`Store::time_merges`].
    pub(super) merge_clock: Option<fn() -> Duration>,
    pub(super) merge_time: Duration,
    /// Reused for every row that is encoded.
    pub(super) scratch: Vec<u8>,
    pub(super) walk: Walk,
}

impl Store {
    /// Opens the store in `dir`, or creates an empty one. Reads the newest valid meta page, and
    /// scans nothing.
    pub fn open(vfs: Arc<dyn Vfs>, dir: &Path, options: Options) -> Result<Store> {
        vfs.create_dir_all(dir)
            .map_err(Error::io("create directory", dir))?;
        if let Some(parent) = dir.parent() {
            vfs.sync_dir(parent)
                .map_err(Error::io("sync directory", parent))?;
        }
        // A process killed between renaming the file and syncing the directory leaves a name that a
        // power cut may take back; from here on the log relies on that name.
        vfs.sync_dir(dir)
            .map_err(Error::io("sync directory", dir))?;
        if options
            .data_keys
            .as_ref()
            .is_some_and(|data_keys| data_keys.is_mixed())
        {
            // Left half-made, perhaps under no key or under one to be forgotten.
            let left = dir.join(load::FILE_NAME);
            if vfs.exists(&left).map_err(Error::io("look for", &left))? {
                vfs.remove(&left).map_err(Error::io("remove", &left))?;
            }
        }
        Store::open_file(vfs, &dir.join(FILE_NAME), options)
    }

    pub(super) fn open_file(vfs: Arc<dyn Vfs>, path: &Path, options: Options) -> Result<Store> {
        let path: Arc<Path> = path.into();
        let (file, opened) = PageFile::open(vfs, &path, &KINDS, options.data_keys)?;
        let meta = Meta::decode(&opened.user_meta)
            .ok_or_else(|| Error::corrupt(&path, 0, "the store's part of the meta page"))?;
        let Ok([base, revisions, side, deltas @ ..]) = <[Tree; TREES]>::try_from(opened.trees)
        else {
            unreachable!("the page file has as many trees as kinds");
        };
        let mut root = Root {
            keys: KeyTrees::new(base, deltas, meta.ring),
            revisions,
            side,
            deletions: Vec::new(),
            pages: file.pages().clone(),
            path,
            revision: meta.revision,
            compacted: meta.compacted,
            compaction: meta.compaction,
            applied: meta.applied,
            generation: 0,
            census: Arc::new(()),
        };
        root.load_filters(meta.filters)?;
        // As at each checkpoint.
        root.keys.measure(&root.pages).unwrap_or_default();
        Ok(Store {
            published: Publisher::new(Arc::new(root.clone())),
            root,
            file,
            batch: None,
            batch_bytes_max: BATCH_BYTES_MAX,
            oldest_removed: None,
            // The first checkpoint makes an empty store durable, like any other state.
            unsaved: if opened.user_meta.is_empty() {
                META_SLOTS
            } else {
                0
            },
            releasing: false,
            relocation: None,
            replaced: None,
            unsized_from: (!meta.sized).then(Vec::new),
            unusable_meta: opened.unusable_meta,
            entry_bytes_in_memory: ENTRY_BYTES_IN_MEMORY,
            decrypted_bytes_max: DECRYPTED_BYTES,
            deletion_spills_at: 0,
            keys_deleted_at_once: u64::MAX,
            delta_limits: DeltaLimits::default(),
            key_bytes: 0,
            unmerged: 0,
            merged: 0,
            merged_from: Vec::new(),
            merge_clock: None,
            merge_time: Duration::ZERO,
            scratch: Vec::new(),
            walk: Walk::default(),
        })
    }

    /// Gives the open file the name of the store in `dir`.
    pub(super) fn take_place(&mut self, vfs: &dyn Vfs, dir: &Path) -> Result<()> {
        let path = dir.join(FILE_NAME);
        vfs.rename(&self.root.path, &path)
            .map_err(Error::io("rename", &self.root.path))?;
        vfs.sync_dir(dir)
            .map_err(Error::io("sync directory", dir))?;
        self.file.renamed(&path);
        self.root.path = path.into();
        Ok(())
    }

    /// The options this store was opened with; a store that replaces it must use the same.
    pub fn options(&self) -> Options {
        Options {
            data_keys: self.file.data_keys().cloned(),
        }
    }

    /// Locks the page file in memory from now on. A checkpoint fails if the file has outgrown the
    /// process's limit of locked memory.
    pub fn lock_in_memory(&self) -> Result<()> {
        self.file.lock_in_memory()
    }

    /// Why one of the two meta pages cannot be used; `None` if both can. It may be the older one,
    /// which nobody misses, or the newer one: then the store is as the older one says, and the log
    /// has the rest.
    pub fn unusable_meta(&self) -> Option<&str> {
        self.unusable_meta.as_deref()
    }

    /// Bounds the memory of one entry: see [`Write`]. The default is
    /// [`ENTRY_BYTES_IN_MEMORY`](super::ENTRY_BYTES_IN_MEMORY).
    pub fn set_entry_bytes_in_memory(&mut self, bytes: u64) {
        self.entry_bytes_in_memory = bytes;
    }

    /// Measures by `clock` how long the steps of merges take; decides nothing by it.
    pub fn time_merges(&mut self, clock: fn() -> Duration) {
        self.merge_clock = Some(clock);
    }

    /// What they took since this store was opened; zero without a clock.
    pub fn merge_time(&self) -> Duration {
        self.merge_time
    }

    /// Collects changes of keys in delta trees when the key tree has more than so many bytes of
    /// leaves. The default is [`KEY_BYTES_DIRECT`](super::KEY_BYTES_DIRECT).
    pub fn set_key_bytes_direct(&mut self, bytes: u64) {
        self.delta_limits = DeltaLimits::beyond(bytes);
    }

    /// Keeps so many bytes of sealed pages in their decrypted form. The default is
    /// [`DECRYPTED_BYTES`].
    pub fn set_decrypted_bytes_max(&mut self, bytes: u64) {
        self.decrypted_bytes_max = bytes;
        self.file.bound_decrypted(bytes);
    }

    /// A handle for readers; any thread may use it.
    pub fn reader(&self) -> Reader {
        Reader {
            published: self.published.subscribe(),
        }
    }

    /// Begins the effects of one log entry. They are edits in place that cannot be undone: check
    /// first, then write. After an error from a write the store must not be used.
    pub fn write(&mut self, applied: Applied) -> Write<'_> {
        assert!(
            self.root.applied.index < applied.index,
            "an entry is applied once, in order"
        );
        self.touch();
        Write::new(self, applied)
    }

    /// The newest state, published or not.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Makes everything written so far visible to readers.
    pub fn publish(&mut self) {
        self.published.publish(Arc::new(self.root.clone()));
        self.release_step(RELEASE_NODES_PER_PUBLISH);
    }

    /// Writes a bounded part of the history that will not change any more; best done before
    /// publishing. Keeps dirty memory small. An error is final, like that of a checkpoint. Run the
    /// returned job soon, on any thread.
    pub fn spill(&mut self) -> Result<Option<SyncJob>> {
        let job = self
            .file
            .spill(&mut self.root.revisions, SPILL_BYTES_PER_STEP)?;
        Ok(job.map(|job| SyncJob { job }))
    }

    /// Writes all changed leaves of the trees, so that little more than branches stays in memory.
    /// They need not be written again by the next checkpoint if they stay as they are. Does nothing
    /// while a checkpoint runs or the disk is full. An error is final, like that of a checkpoint.
    pub fn spill_all(&mut self) -> Result<()> {
        for tree in self.root.trees_mut() {
            self.file.spill_changed(tree, Vec::new())?;
        }
        Ok(())
    }

    /// Reserves disk space for the next checkpoint, and more. After a failure, which
    /// [`Stats::is_short`] shows, it tries again only if `again` is true.
    pub fn reserve(&mut self, again: bool) -> Result<()> {
        self.file.reserve(again)
    }

    /// Reports that a checkpoint found the disk full, and waits.
    pub fn ran_out(&mut self) {
        self.file.ran_out();
    }

    /// The newest state as a job that makes it durable; run it on any thread. `None` if the last
    /// two checkpoints already hold it (after the second the log is not needed), if one is running,
    /// if a deletion is not written completely, or if the disk is too full. In the last case deletes
    /// and compactions continue, and may shrink the state.
    pub fn begin_checkpoint(&mut self) -> Option<CheckpointJob> {
        if self.unsaved == 0 || self.file.checkpoint_running() || self.root.is_deleting() {
            return None;
        }
        self.save_filter();
        if !self.file.has_space() {
            return None;
        }
        // If a branch cannot be read, whoever needs it reports that; the last count is good enough.
        self.root.keys.measure(&self.root.pages).unwrap_or_default();
        self.root.keys.turn(&self.delta_limits, self.key_bytes());
        let meta = Meta {
            revision: self.root.revision,
            compacted: self.root.compacted,
            applied: self.root.applied,
            compaction: self.root.compaction,
            sized: self.unsized_from.is_none(),
            ring: self.root.keys.ring(),
            filters: self.root.keys.saved_filters(),
        };
        let job = self
            .file
            .begin_checkpoint(&self.root.trees(), &meta.encode());
        self.root.pages = self.file.pages().clone();
        self.unsaved -= 1;
        let applied = self.root.applied;
        Some(CheckpointJob { job, applied })
    }

    /// Completes the checkpoint of a finished job. Returns the applied index of the *older* of the
    /// two meta pages: the log is needed from the entry after it.
    pub fn finish_checkpoint(&mut self, done: CheckpointDone) -> u64 {
        self.file.finish_checkpoint(done.done);
        self.root.pages = self.file.pages().clone();
        self.releasing = true;
        Meta::decode(self.file.older_user_meta()).map_or(0, |meta| meta.applied.index)
    }

    /// Ends a checkpoint that waits for space, just before [`Store::replace`]. The file cannot
    /// continue without it: the job holds all of its free space.
    pub fn give_up_checkpoint(&mut self, job: CheckpointJob) {
        drop(job);
        self.file.give_up_checkpoint();
    }

    /// A whole checkpoint, for a caller that alone uses the store; `false` if there is no room for
    /// it, or nothing to write.
    pub(super) fn checkpoint_alone(&mut self) -> Result<bool> {
        let Some(job) = self.begin_checkpoint() else {
            return Ok(false);
        };
        let done = job.run()?;
        self.finish_checkpoint(done);
        // The old published root would keep every page replaced since from being reused.
        self.publish();
        while !self.release_step(usize::MAX) {}
        Ok(true)
    }

    /// Drops a bounded part of the memory that the last checkpoint made superfluous; `true` if none
    /// is left. Every publish does a little of this: only an idle store needs the call.
    pub fn release_step(&mut self, budget: usize) -> bool {
        if self.releasing && !self.file.checkpoint_running() {
            let mut trees = self.root.trees_mut();
            let done = trees.all(|tree| self.file.release_saved(tree, budget));
            self.releasing = !done;
        }
        !self.releasing
    }

    /// True if [`Store::release_step`] has work, now or after the running checkpoint.
    pub fn is_releasing(&self) -> bool {
        self.releasing
    }

    /// The store that this one was before it was replaced; else memory of the last checkpoint, once
    /// nothing reads it there. If that is not taken, the next job drops it.
    pub fn take_retired(&mut self) -> Option<Retired> {
        let replaced = self.replaced.take();
        let replaced = replaced.map(|store| Content::Store { _store: store });
        let content = replaced.or_else(|| {
            let memory = self.file.take_retired()?;
            Some(Content::Checkpoint { _memory: memory })
        })?;
        Some(Retired { _content: content })
    }

    /// Removes the versions that about `budget` changes superseded, if the newest compaction has
    /// made them invisible.
    pub fn compact_step(&mut self, budget: usize) -> Result<CompactProgress> {
        self.remove_superseded(budget)
    }

    /// The oldest row that [`Store::compact_step`] removed since the last call; `None` if it removed
    /// none.
    pub fn take_oldest_removed(&mut self) -> Option<Revision> {
        self.oldest_removed.take()
    }

    pub fn stats(&self) -> Stats {
        let stats = self.file.stats();
        // Not views: the writer's root and the newest published one.
        let roots = Arc::strong_count(&self.root.census) as u64;
        Stats {
            file_bytes: stats.file_bytes,
            in_use_bytes: stats.used_bytes,
            waiting_bytes: stats.waiting_bytes,
            vacant_bytes: stats.vacant_bytes,
            dirty_bytes: stats.dirty_bytes,
            list_bytes: stats.list_bytes,
            has_deltas: self.root.has_deltas(),
            views: roots.saturating_sub(2),
            viewed_bytes: stats.viewed_bytes,
            checkpoint: stats.generation,
            oldest_view: stats.oldest_view,
            is_short: stats.is_short,
        }
    }

    /// Neither meta holds the change that follows.
    pub(super) fn touch(&mut self) {
        self.unsaved = META_SLOTS;
    }

    /// Checks all pages and free lists; an error names the first damage. Only while no checkpoint
    /// runs.
    pub fn check(&self) -> Result<()> {
        self.file.check(&self.root.trees()).map(|_| ())
    }

    /// Like `check`, but continues beside damage; returns each tree's page counts, and all damage.
    pub(crate) fn survey(&self) -> Result<(Vec<TreeFound>, Vec<Error>)> {
        let trees = self.root.trees();
        let (counts, damage) = self.file.survey(&trees)?;
        let names = ["keys", "revisions", "side", "deltas"];
        let mut found = names.map(|name| TreeFound {
            name,
            ..TreeFound::default()
        });
        for (i, (tree, counts)) in trees.iter().zip(counts).enumerate() {
            let found = &mut found[i.min(names.len() - 1)];
            found.entries += tree.len();
            found.leaves += counts.leaves;
            found.branches += counts.branches;
            found.bytes += counts.units * btree::UNIT as u64;
        }
        Ok((found.to_vec(), damage))
    }

    /// Average length of the keys of the last changes; 0 before the first.
    pub(super) fn key_bytes(&self) -> u64 {
        self.key_bytes / KEY_BYTES_PARTS
    }

    /// A key is changed.
    pub(super) fn note_key(&mut self, key: &[u8]) {
        let len = key.len() as u64;
        self.key_bytes = match self.key_bytes {
            0 => len * KEY_BYTES_PARTS,
            before => before + len - before / KEY_BYTES_PARTS,
        };
    }

    /// The page file of a store in `dir`.
    pub(crate) fn path_in(dir: &Path) -> PathBuf {
        dir.join(FILE_NAME)
    }
}

impl Root {
    /// All trees, in the order of [`KINDS`].
    fn trees(&self) -> [&Tree; TREES] {
        let deltas = self.keys.deltas();
        std::array::from_fn(|i| match i {
            0 => &self.keys.base,
            1 => &self.revisions,
            2 => &self.side,
            i => &deltas[i - 3],
        })
    }

    /// All trees; those of the keys come last.
    pub(super) fn trees_mut(&mut self) -> impl Iterator<Item = &mut Tree> {
        [&mut self.revisions, &mut self.side]
            .into_iter()
            .chain(self.keys.all_mut())
    }
}

/// Returns views of the newest published root, without locks.
#[derive(Clone, Debug)]
pub struct Reader {
    published: Subscriber<Root>,
}

impl Reader {
    pub fn view(&self) -> View {
        View {
            root: self.published.load(),
        }
    }
}

/// A published root, immutable while it is held. Its pages cannot be reused while it is held.
#[derive(Clone, Debug)]
pub struct View {
    root: Arc<Root>,
}

impl View {
    /// Number of views held. `self` must be a view of the newest root. All views of one older root
    /// count as one.
    pub fn held(&self) -> u64 {
        // Not views: the published root, and the writer's own.
        let of_newest = Arc::strong_count(&self.root).saturating_sub(1);
        let older = Arc::strong_count(&self.root.census).saturating_sub(2);
        (of_newest + older) as u64
    }
}

impl Deref for View {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.root
    }
}

//! The page file: opening, checkpoints, what is free.

use std::path::Path;
use std::sync::Arc;

use super::{Pages, Tree, TreeKind, Writer};
use crate::Result;
use crate::vfs::Vfs;

/// An open page file, owned by the one writer.
#[derive(Debug)]
pub(crate) struct PageFile {}

/// What [`PageFile::open`] found.
#[derive(Debug)]
pub(crate) struct Opened {
    /// One per kind, in the order of the kinds.
    pub trees: Vec<Tree>,
    /// Empty when the file was just created.
    pub user_meta: Vec<u8>,
    /// Why the newer of the two metas was not taken, when it was not.
    pub fallback: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    pub file_bytes: u64,
    /// Free now, or free once older checkpoints and views are gone.
    pub free_bytes: u64,
    /// Changed nodes in memory that no finished checkpoint holds yet.
    pub dirty_bytes: u64,
    /// All nodes that the writer keeps in memory.
    pub memory_bytes: u64,
}

/// The work of one checkpoint; runs on any thread.
#[derive(Debug)]
pub(crate) struct CheckpointJob {}

/// Proof that a checkpoint is durable.
#[derive(Debug)]
pub(crate) struct CheckpointDone {}

/// Memory that a checkpoint made superfluous; dropping it may take milliseconds.
#[derive(Debug)]
pub(crate) struct Retired {}

impl CheckpointJob {
    /// Writes and syncs. An error is final: the page file must be opened again.
    pub(crate) fn run(self) -> Result<CheckpointDone> {
        unimplemented!()
    }
}

impl PageFile {
    /// Opens `path`, or creates it with empty trees (`dir` of it must exist).
    pub(crate) fn open(
        _vfs: Arc<dyn Vfs>,
        _path: &Path,
        _kinds: &[TreeKind],
    ) -> Result<(PageFile, Opened)> {
        unimplemented!()
    }

    pub(crate) fn writer(&mut self) -> &mut Writer {
        unimplemented!()
    }

    /// What readers of the current trees need; changes with every checkpoint begun.
    pub(crate) fn pages(&self) -> &Arc<Pages> {
        unimplemented!()
    }

    /// Takes the trees as they are now. All trees of the file, in the order of the kinds.
    /// Panics when a checkpoint is under way or `user_meta` is too long.
    pub(crate) fn begin_checkpoint(
        &mut self,
        _trees: &[&Tree],
        _user_meta: &[u8],
    ) -> CheckpointJob {
        unimplemented!()
    }

    pub(crate) fn finish_checkpoint(&mut self, _done: CheckpointDone) {
        unimplemented!()
    }

    pub(crate) fn checkpoint_running(&self) -> bool {
        unimplemented!()
    }

    /// Lets go of up to `budget` in-memory nodes of the tree that a finished checkpoint holds (they
    /// are read from the file from now on); `true` when none are left. Cheap once it said so.
    /// 1000 nodes are well below a millisecond.
    pub(crate) fn release_saved(&mut self, _tree: &mut Tree, _budget: usize) -> bool {
        unimplemented!()
    }

    /// Memory of the last checkpoint, once all trees are released: drop it on a helper thread. Not
    /// taken, it goes with the next job.
    pub(crate) fn take_retired(&mut self) -> Option<Retired> {
        unimplemented!()
    }

    /// User meta of the older of the two checkpoints that can be opened.
    pub(crate) fn older_user_meta(&self) -> &[u8] {
        unimplemented!()
    }

    /// User meta of the newest durable checkpoint.
    pub(crate) fn user_meta(&self) -> &[u8] {
        unimplemented!()
    }

    pub(crate) fn stats(&self) -> Stats {
        unimplemented!()
    }

    /// Walks everything reachable and all free lists; an error names the first thing wrong. Only
    /// while no checkpoint runs.
    pub(crate) fn check(&self, _trees: &[&Tree]) -> Result<()> {
        unimplemented!()
    }
}

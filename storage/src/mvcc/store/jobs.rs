//! The parts of a checkpoint and a spill that run on another thread.

use crate::mvcc::{Applied, Store};
use crate::{Error, Result, btree};

/// A checkpoint to be written; see [`begin_checkpoint`](super::Store::begin_checkpoint).
#[derive(Debug)]
pub struct CheckpointJob {
    pub(super) job: btree::CheckpointJob,
    pub(super) applied: Applied,
}

/// Bytes of a checkpoint's first piece, and of all pieces if no `rest` says otherwise.
pub const CHECKPOINT_PIECE_BYTES: usize = btree::SYNC_BYTES;

/// The result of running a checkpoint.
#[derive(Debug)]
pub enum Attempt {
    Done(Box<CheckpointDone>),
    /// The disk is full, as the error says. Call [`ran_out`](super::Store::ran_out), and run the job again later.
    Full(Box<CheckpointJob>, Error),
}

impl CheckpointJob {
    /// `rest` is called between pieces of the work, and returns the bytes of the next piece, which
    /// keeps the disk busy until it is synced. It may wait, so that others find the disk free.
    pub fn resting(self, rest: impl FnMut() -> usize + Send + Sync + 'static) -> CheckpointJob {
        CheckpointJob {
            job: self.job.resting(rest),
            ..self
        }
    }

    /// The free end of the file is cut off only as long as `cuts` returns true, and the rest of it by
    /// a later checkpoint. For many gigabytes it takes minutes, in which changes wait in memory.
    pub fn cutting_while(self, cuts: impl Fn() -> bool + Send + Sync + 'static) -> CheckpointJob {
        CheckpointJob {
            job: self.job.cutting_while(cuts),
            ..self
        }
    }

    /// The last entry that it makes durable. The caller's log must have that entry on disk before
    /// the job runs: a store that is ahead of its log cannot continue it.
    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// Writes and syncs, as far as there is space. An error is final: the process must stop using
    /// this store.
    pub fn attempt(self) -> Result<Attempt> {
        let applied = self.applied;
        Ok(match self.job.attempt()? {
            btree::Attempt::Done(done) => Attempt::Done(Box::new(CheckpointDone { done: *done })),
            btree::Attempt::Full(job, error) => {
                let job = CheckpointJob { job: *job, applied };
                Attempt::Full(Box::new(job), error)
            }
        })
    }

    /// Writes and syncs. An error is final: the process must stop using this store.
    pub fn run(self) -> Result<CheckpointDone> {
        let done = self.job.run()?;
        Ok(CheckpointDone { done })
    }
}

/// A sync of the page file; see [`spill`](super::Store::spill).
#[derive(Debug)]
pub struct SyncJob {
    pub(super) job: btree::SyncJob,
}

impl SyncJob {
    /// An error is final: the process must stop using this store.
    pub fn run(self) -> Result<()> {
        self.job.run()
    }
}

/// What a checkpoint or another store made superfluous. Dropping it takes some tens of milliseconds, or
/// seconds where the system frees a large file: best on a helper thread.
#[derive(Debug)]
pub struct Retired {
    pub(super) _content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    /// Memory of the last checkpoint.
    Checkpoint { _memory: btree::Retired },
    /// The store before it was replaced.
    Store { _store: Box<Store> },
}

/// Proof of a durable checkpoint, for [`finish_checkpoint`](super::Store::finish_checkpoint).
#[derive(Debug)]
pub struct CheckpointDone {
    pub(super) done: btree::CheckpointDone,
}

//! Jobs for helper threads, because they may take long, and which actor hears of their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use raft::durable::FetchJob;
use storage::mvcc::{CheckpointJob, Reader, Retired, SyncJob};
use storage::wal::{DropJob, PrepareJob};

use super::Fatal;
use crate::member::event::{ApplyEvent, ConsensusEvent};
use crate::state::snapshot::{self, Received};

/// Work for a helper thread.
pub enum Job {
    /// Writes the changes of the store; the applier hears the result.
    Checkpoint(Box<CheckpointJob>, Hurry),
    /// Syncs the store's file, so that the next checkpoint has less to do.
    SyncStore(SyncJob),
    /// Drops pages that nobody reads any more.
    Retire(Retired),
    /// Makes the log's next file.
    PrepareLog(PrepareJob),
    /// Removes files that the log no longer needs.
    ClearLog(DropJob),
    /// Reads old entries of the log for a member that was away.
    Fetch(Box<FetchJob>),
    /// Takes a view for the member `to`, and reads its description.
    DescribeSnapshot { to: u64 },
    /// Frees the space of a received state that is not needed.
    DiscardSnapshot(Box<Received>),
}

/// What an actor hears of a job that has ended.
pub enum Done {
    Nothing,
    Consensus(ConsensusEvent),
    Apply(ApplyEvent),
}

/// Tells a checkpoint to make no pauses, or a hash to make shorter ones. Written by the applier,
/// read by the job.
#[derive(Clone, Debug, Default)]
pub struct Hurry(Arc<Haste>);

#[derive(Debug, Default)]
struct Haste {
    is_on: AtomicBool,
    entries_wait: AtomicBool,
}

impl Hurry {
    pub fn is_on(&self) -> bool {
        self.0.is_on.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, on: bool) {
        self.0.is_on.store(on, Ordering::Relaxed);
    }

    /// Entries wait until the checkpoint ends: it leaves to the next one what that can do.
    fn entries_wait(&self) -> bool {
        self.0.entries_wait.load(Ordering::Relaxed)
    }

    pub(super) fn set_entries_wait(&self, wait: bool) {
        self.0.entries_wait.store(wait, Ordering::Relaxed);
    }
}

impl Job {
    /// Names the thread that runs it.
    pub fn name(&self) -> &'static str {
        match self {
            Job::Checkpoint(..) => "checkpoint",
            Job::SyncStore(_) => "sync",
            Job::Retire(_) => "retire",
            Job::PrepareLog(_) | Job::ClearLog(_) => "log-segment",
            Job::Fetch(_) => "log-reader",
            Job::DescribeSnapshot { .. } | Job::DiscardSnapshot(_) => "snapshot",
        }
    }

    /// Blocks. `rest` is called between pieces of the work, and may wait. It returns the bytes of
    /// the next piece of a checkpoint.
    pub fn run(
        self,
        reader: &Reader,
        mut rest: impl FnMut() -> usize + Send + Sync + 'static,
    ) -> Result<Done, Fatal> {
        match self {
            Job::Checkpoint(job, hurry) => {
                let job = job.resting(rest);
                let job = job.cutting_while(move || !hurry.entries_wait());
                let attempt = Box::new(job.attempt());
                return Ok(Done::Apply(ApplyEvent::CheckpointRan(attempt)));
            }
            Job::SyncStore(job) => job
                .run()
                .map_err(|error| Fatal::new("failed to sync the store", error))?,
            Job::Retire(retired) => drop(retired),
            Job::PrepareLog(job) => match job.run() {
                // The log goes on without a file made in advance, in the space that is left.
                Err(error) if error.is_full() => {
                    tracing::warn!(%error, "no space for another file of the log");
                    return Ok(Done::Apply(ApplyEvent::LogIsShort));
                }
                ran => ran.map_err(|error| Fatal::new("failed to prepare the log", error))?,
            },
            Job::ClearLog(job) => job
                .run(|| {
                    rest();
                })
                .map_err(|error| Fatal::new("failed to clear up behind the log", error))?,
            Job::Fetch(job) => return Ok(Done::Consensus(fetch(*job))),
            Job::DescribeSnapshot { to } => return Ok(Done::Consensus(describe(to, reader))),
            Job::DiscardSnapshot(received) => {
                if let Err(error) = received.discard() {
                    tracing::warn!(%error, "failed to remove a snapshot of no use");
                }
            }
        }
        Ok(Done::Nothing)
    }
}

/// A member that cannot be fed from a damaged log gets a snapshot instead.
fn fetch(job: FetchJob) -> ConsensusEvent {
    let fetch = job.fetch();
    let found = job.run().unwrap_or_else(|error| {
        tracing::error!(%error, "failed to read old entries of the log");
        None
    });
    ConsensusEvent::Fetched { fetch, found }
}

fn describe(to: u64, reader: &Reader) -> ConsensusEvent {
    let view = reader.view();
    match snapshot::describe(&view) {
        Ok(snapshot) => ConsensusEvent::SnapshotReady { to, snapshot, view },
        Err(error) => {
            tracing::error!(%error, "failed to read a snapshot's members");
            ConsensusEvent::SnapshotSent { to, ok: false }
        }
    }
}

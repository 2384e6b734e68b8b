//! The log's committed entries beyond the store's checkpoint, applied as they are read, before any
//! actor runs. Nobody waits for them: no answers, no events, no leases' time; and no more memory
//! than while serving.

use std::path::Path;
use std::sync::Arc;

use raft::durable::{LogWriter, Opened, Options};
use raft::{Entry, EntryKind, Position};
use storage::vfs::Vfs;

use crate::applier::{DIRTY_BYTES_TO_CHECKPOINT, decode, decode_conf_change};
use crate::data_dir::Unusable;
use crate::error::Error;
use crate::state::{Effects, State};

/// Entries between two looks at the store's memory.
const ENTRIES_PER_SPILL: u64 = 64;

/// Opens the log in `dir` for a state that it continues. Returns how many entries it applied.
pub(crate) fn open_log(
    vfs: Arc<dyn Vfs>,
    dir: &Path,
    state: &mut State,
    options: Options,
) -> Result<(LogWriter, Opened, u64), Unusable> {
    let before = state.store.root().applied();
    let position = Position {
        term: before.term,
        index: before.index,
    };
    let (mut replayed, mut damaged) = (0, None);
    let found = LogWriter::open_and_apply(vfs, dir, position, options, &mut |entry: &Entry| {
        if let Err(error) = apply(state, entry) {
            let what = format!("entry {} cannot be applied: {error}", entry.index);
            damaged = Some(error);
            return Err(storage::Error::corrupt(dir, 0, what));
        }
        replayed += 1;
        if replayed % ENTRIES_PER_SPILL == 0 {
            keep_small(state)?;
        }
        Ok(())
    });
    if let Some(error) = damaged {
        return Err(Unusable::State(error));
    }
    let (log, opened) = found?;
    state.store.publish();
    Ok((log, opened, replayed))
}

/// An error is damage to the store: what an entry asks for in vain was answered long ago.
fn apply(state: &mut State, entry: &Entry) -> Result<(), Error> {
    let position = storage::mvcc::Applied {
        index: entry.index,
        term: entry.term,
    };
    let result = match entry.kind {
        EntryKind::Normal if entry.data.is_empty() => {
            state.skip(position);
            Ok(())
        }
        EntryKind::Normal => {
            let (request, mut effects) = (decode(entry), Effects::default());
            state.apply(position, &request, &mut effects).map(drop)
        }
        EntryKind::ConfChange | EntryKind::ConfChangeV2 => {
            state.apply_conf_change(position, &decode_conf_change(entry))
        }
    };
    match result {
        Err(Error::Damaged(what)) => Err(Error::Damaged(what)),
        _ => Ok(()),
    }
}

/// What the applier and its thread do in between: history to the file, and a checkpoint when the
/// rest has grown large.
fn keep_small(state: &mut State) -> storage::Result<()> {
    let store = &mut state.store;
    if let Some(job) = store.spill()? {
        job.run()?;
    }
    if store.stats().dirty_bytes >= DIRTY_BYTES_TO_CHECKPOINT
        && let Some(job) = store.begin_checkpoint()
    {
        let _ = store.finish_checkpoint(job.run()?);
        while !store.release_step(usize::MAX) {}
    }
    Ok(())
}

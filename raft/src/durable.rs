//! The log on disk: what `raft` wants remembered, as records of `storage::wal`. Sole user of it.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use storage::Result;
use storage::vfs::Vfs;

use crate::io::{Recovered, Write};
use crate::message::{Index, Position};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub segment_bytes: u64,
    /// Entries at or before the applied one that recovery keeps in memory for slow followers.
    pub kept_entries: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 64 << 20,
            kept_entries: 5000,
        }
    }
}

/// What `LogWriter::open` found.
#[derive(Debug)]
pub struct Opened {
    /// As given to `set_metadata`; `None` in a directory never used.
    pub metadata: Option<Bytes>,
    /// Entries after `applied`, and some before it, ready for `Raft::new`.
    pub recovered: Recovered,
    /// The newest entry's position, whether recovered or not.
    pub last: Position,
}

/// Owns the files; lives on a thread of its own.
#[derive(Debug)]
pub struct LogWriter {}

impl LogWriter {
    /// `applied` is what the store holds durably: the log must continue it without a gap.
    pub fn open(
        _vfs: Arc<dyn Vfs>,
        _dir: &Path,
        _applied: Position,
        _options: Options,
    ) -> Result<(LogWriter, Opened)> {
        unimplemented!()
    }

    /// Who this log belongs to (node and cluster id, the server's bytes); durable with the next sync.
    pub fn set_metadata(&mut self, _metadata: Bytes) -> Result<()> {
        unimplemented!()
    }

    /// Buffers one write; they come in the order of their tickets.
    pub fn append(&mut self, _write: &Write) -> Result<()> {
        unimplemented!()
    }

    /// Makes everything appended durable. Failure is final: the process must end.
    pub fn sync(&mut self) -> Result<()> {
        unimplemented!()
    }

    /// Entries before `index` are not needed again; whole segments go.
    pub fn drop_before(&mut self, _index: Index) -> Result<()> {
        unimplemented!()
    }
}

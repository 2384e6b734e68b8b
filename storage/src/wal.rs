//! The write-ahead log: records appended to segment files, durable after `sync`, read back in
//! order at open. Knows nothing of raft: a record is a kind, an index and bytes.

use std::path::Path;
use std::sync::Arc;

use crate::Result;
use crate::vfs::Vfs;

/// The largest payload of one record.
pub const PAYLOAD_BYTES_MAX: usize = 32 << 20;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The size of a segment file.
    pub segment_bytes: u64,
    /// Salt of the checksums, best random: makes them unguessable for whoever writes payloads.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 64 << 20,
            seed: 0,
        }
    }
}

/// A record as recovery shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub kind: u8,
    pub index: u64,
    pub payload: &'a [u8],
    /// Not appended here by the caller: repeated at the head of a new segment, so that dropping
    /// old ones loses nothing.
    pub repeated: bool,
}

/// What `Wal::open` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Records shown, repeated ones included.
    pub records: u64,
    /// The letter of the decision table in `recover` that describes the log's end.
    pub end: char,
}

#[derive(Debug)]
pub struct Wal {}

impl Wal {
    /// Opens the log in `dir` (created when missing) and shows every record to `visit`, oldest
    /// first. What was shown is durable when this returns.
    pub fn open(
        _vfs: Arc<dyn Vfs>,
        _dir: &Path,
        _options: Options,
        _visit: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<(Wal, Recovery)> {
        unimplemented!()
    }

    /// Buffers a record whose payload is the parts one after the other.
    pub fn append(&mut self, _kind: u8, _index: u64, _payload: &[&[u8]]) {
        unimplemented!()
    }

    /// As `append`, and the newest such record of its kind is repeated at the head of every new
    /// segment: for state that must outlive dropped segments. Remembered across `open`.
    pub fn append_carried(&mut self, _kind: u8, _index: u64, _payload: &[&[u8]]) {
        unimplemented!()
    }

    /// Hands everything buffered to the file system. A failure is final.
    pub fn write(&mut self) -> Result<()> {
        unimplemented!()
    }

    /// Makes everything written durable. A failure is final.
    pub fn sync(&mut self) -> Result<()> {
        unimplemented!()
    }

    /// Removes or recycles the oldest segments as long as all their records' indexes are lower.
    pub fn drop_before(&mut self, _index: u64) -> Result<()> {
        unimplemented!()
    }

    /// Work for a helper thread that spares this one the making of the next segment file; `None`
    /// when there is nothing to do. Ask after every `write`.
    pub fn prepare_next(&mut self) -> Option<PrepareJob> {
        unimplemented!()
    }
}

#[derive(Debug)]
pub struct PrepareJob {}

impl PrepareJob {
    pub fn run(self) -> Result<()> {
        unimplemented!()
    }
}

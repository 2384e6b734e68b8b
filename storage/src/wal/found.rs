//! A log as the inspector sees it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::segment::Name;
use super::{Options, recover};
use crate::Result;
use crate::encryption::DataKeys;
use crate::vfs::Vfs;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFound {
    /// Oldest first.
    pub segments: Vec<SegmentFound>,
    pub spares: usize,
    /// As in [`Recovery`](super::Recovery).
    pub end: char,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFound {
    pub path: PathBuf,
    pub bytes: u64,
    /// Appended records; repetitions do not count.
    pub records: u64,
    /// The index of the first of them, and the highest index of any.
    pub first: Option<u64>,
    pub highest: Option<u64>,
    /// Ids of the keys that seal them; 0 if some are clear.
    pub keys: Vec<u32>,
}

/// True if a log could have given its file this name.
pub(crate) fn is_of_log(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(Name::parse).is_some()
}

/// Reads and verifies a whole log. It tidies up as opening does, so pass a file system that refuses
/// changes.
pub(crate) fn inspect(
    vfs: &dyn Vfs,
    dir: &Path,
    data_keys: Option<Arc<DataKeys>>,
) -> Result<LogFound> {
    let options = Options {
        data_keys,
        ..Options::default()
    };
    let found = recover::recover(vfs, dir, &options, &mut |_| Ok(()))?;
    let tail = found.tail.map(|tail| tail.segment);
    let segments = found.older.into_iter().chain(tail);
    let segments = segments.map(|segment| SegmentFound {
        path: segment.path,
        bytes: segment.bytes,
        records: segment.records,
        first: segment.lowest,
        highest: segment.highest,
        keys: segment.keys.into_iter().collect(),
    });
    Ok(LogFound {
        segments: segments.collect(),
        spares: found.spares.len(),
        end: found.recovery.end,
    })
}

//! The multi-version store: every change of every key by revision, on copy-on-write trees
//! under one root. One writer ([`Store`]), any number of readers ([`Reader`], [`View`]).
//!
//! It knows keys, revisions, lease numbers and opaque side tables. It knows nothing of lease
//! clocks, transaction comparisons, wire formats, the time of day, or the log that is replayed into
//! it.
//!
//! | tree | key | value |
//! |---|---|---|
//! | `keys` | user key, then revision, newest first | create revision, version, lease, flags |
//! | changes of `keys` | the same | the same, or that the version is removed; see `keys` |
//! | `revisions` | revision | the whole change: the same, and key and value |
//! | `side` | bucket, then the caller's key | the caller's value |

mod bulk;
mod chores;
mod deletion;
mod hash;
mod key;
mod keys;
mod load;
mod meta;
#[cfg(any(test, fuzzing))]
mod model;
mod publish;
mod revision_set;
mod store;
#[cfg(test)]
mod tests;
mod view;
mod write;

use std::sync::Arc;

pub use crate::btree::from_memory;
use crate::encryption::DataKeys;
pub use bulk::{Found, LonePut};
pub use chores::reencrypt::{Next, Reencryption};
pub use hash::HashRows;
pub use keys::KEY_BYTES_DIRECT;
pub use load::{Incoming, Loader, Position, clear_incoming};
#[cfg(any(test, fuzzing))]
pub(crate) use model::run::{agree as agree_with_model, survive as survive_power_cut};
pub use store::{
    Attempt, CHECKPOINT_PIECE_BYTES, CheckpointDone, CheckpointJob, Reader, Retired, Store,
    SyncJob, View,
};
pub use view::Root;
pub use write::{ENTRY_BYTES_IN_MEMORY, Write};

/// Position of a change in history: `main` counts transactions, `sub` the changes within one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    pub main: i64,
    /// Fits in 32 bits on disk: a transaction cannot change more rows than that.
    pub sub: i64,
}

impl Revision {
    const MAX: Revision = Revision {
        main: i64::MAX,
        sub: u32::MAX as i64,
    };
}

/// The side tables. The number is part of the disk format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Bucket {
    Meta = 1,
    Lease = 2,
    /// Lease number (8 bytes, big-endian), then user key; empty values. Maintained only by
    /// [`Write::put`] and [`Write::delete_range`]; anyone may read it.
    LeaseKeys = 3,
    Alarm = 4,
    Cluster = 5,
    Members = 6,
    MembersRemoved = 7,
    Auth = 8,
    AuthUsers = 9,
    AuthRoles = 10,
    /// The place of a delta tree (one byte), and its filter. Maintained only by the store.
    DeltaFilters = 11,
}

/// A range of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange<'a> {
    pub start: &'a [u8],
    pub end: End<'a>,
}

/// Where a [`KeyRange`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<'a> {
    /// Only the key `start` itself.
    Single,
    /// All keys from `start` on and less than this one.
    Before(&'a [u8]),
    /// All keys from `start` on.
    Unbounded,
}

impl<'a> KeyRange<'a> {
    pub const ALL: KeyRange<'static> = KeyRange {
        start: b"",
        end: End::Unbounded,
    };

    /// etcd's pair: an empty `range_end` means the key alone, one zero byte means no upper bound.
    pub fn from_wire(key: &'a [u8], range_end: &'a [u8]) -> KeyRange<'a> {
        let end = match range_end {
            [] => End::Single,
            [0] => End::Unbounded,
            _ => End::Before(range_end),
        };
        KeyRange { start: key, end }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        match self.end {
            End::Single => key == self.start,
            End::Before(end) => self.start <= key && key < end,
            End::Unbounded => self.start <= key,
        }
    }
}

/// One version of a key. Borrowed from its page: copy what you keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    pub key: &'a [u8],
    /// Empty if only keys were requested.
    pub value: &'a [u8],
    pub create_revision: i64,
    pub mod_revision: i64,
    pub version: i64,
    pub lease: i64,
}

/// Pages of one tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeFound {
    pub name: &'static str,
    pub entries: u64,
    pub leaves: u64,
    pub branches: u64,
    pub bytes: u64,
}

/// Size of the live keys of a range, without history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub keys: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// One row of history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    Put { revision: Revision, item: Item<'a> },
    Delete { revision: Revision, key: &'a [u8] },
}

/// Whether a range reads values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    KeysOnly,
    Values,
}

/// The log entry whose effects are the newest in a root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Applied {
    pub index: u64,
    pub term: u64,
}

/// Options of a store.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Keys of encryption at rest.
    pub data_keys: Option<Arc<DataKeys>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Length of the page file.
    pub file_bytes: u64,
    /// The part of them that is not free.
    pub in_use_bytes: u64,
    /// Free bytes that can be written again after one or two more checkpoints.
    pub waiting_bytes: u64,
    /// Free bytes that can be written again now; 0 while a checkpoint runs.
    pub vacant_bytes: u64,
    /// Bytes of changed pages in memory that no finished checkpoint holds.
    pub dirty_bytes: u64,
    /// About what the next checkpoint writes to say what is free: mostly what has changed, now and
    /// then all of it. 0 while one runs.
    pub list_bytes: u64,
    /// Changes of keys wait in delta trees.
    pub has_deltas: bool,
    /// Published states, older than the newest, that views still hold.
    pub views: u64,
    /// Bytes that would be free if no view could read them, as of the last checkpoint.
    pub viewed_bytes: u64,
    /// The number of the newest checkpoint begun, and of the one that was newest when the oldest
    /// view still held was taken.
    pub checkpoint: u64,
    pub oldest_view: u64,
    /// The disk is too full to guarantee that everything dirty can be written.
    pub is_short: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactProgress {
    /// Nothing is left to remove for the newest compaction.
    pub done: bool,
    /// Nothing is left of compactions up to this revision, and the step has ended there. Others
    /// may have come since, whose rows need not be removed at once.
    pub through: Option<i64>,
    /// Rows removed by this step.
    pub removed: usize,
}

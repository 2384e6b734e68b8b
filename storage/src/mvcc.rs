//! The multi-version store: every change of every key by revision, on three copy-on-write trees
//! under one root. One writer ([`Store`]), any number of readers ([`Reader`], [`View`]).
//!
//! It knows keys, revisions, lease numbers and opaque side tables. It does not know leases' clocks,
//! transactions' comparisons, wire formats, the log it is replayed from, or time.
//!
//! | tree | key | value |
//! |---|---|---|
//! | `keys` | user key, then revision, newest first | create revision, version, lease, flags |
//! | `revisions` | revision | the whole change: the same, and key and value |
//! | `side` | bucket, then the caller's key | the caller's value |

mod compact;
mod key;
#[cfg(any(test, fuzzing))]
mod model;
mod publish;
#[cfg(test)]
mod tests;
mod view;
mod write;

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use self::compact::Compaction;
use self::publish::{Publisher, Subscriber};
use crate::btree::{self, KeyOrder, PageFile, Tree, TreeKind};
use crate::vfs::Vfs;
use crate::{Error, Result};

pub use view::Root;
pub use write::Write;

/// Place of a change in history: `main` counts transactions, `sub` the changes within one.
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
    /// Lease number (8 bytes, big-endian) then user key; empty values. Kept by [`Write::put`] and
    /// [`Write::delete_range`], read by anyone, set by nobody else.
    LeaseKeys = 3,
    Alarm = 4,
    Cluster = 5,
    Members = 6,
    MembersRemoved = 7,
    Auth = 8,
    AuthUsers = 9,
    AuthRoles = 10,
}

/// A stretch of keys.
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

    /// etcd's pair: no end means the key alone, an end of one zero byte means no bound.
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

/// One version of a key. Borrowed from the page it lies in: copy what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    pub key: &'a [u8],
    /// Empty when only keys were wanted.
    pub value: &'a [u8],
    pub create_revision: i64,
    pub mod_revision: i64,
    pub version: i64,
    pub lease: i64,
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

/// How a store is run. Nothing to choose today.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Options {}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Length of the page file.
    pub file_bytes: u64,
    /// Of those, the bytes not free.
    pub in_use_bytes: u64,
    /// In memory and in no finished checkpoint.
    pub dirty_bytes: u64,
    /// Published states older than the newest that some view still holds.
    pub views: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactProgress {
    /// Nothing is left to remove for the newest compaction.
    pub done: bool,
    /// Rows removed by this step.
    pub removed: usize,
}

/// The page file in the store's directory.
const FILE_NAME: &str = "pages";

/// In-memory nodes that each publish lets go of after a checkpoint has saved them: well below a
/// tenth of a millisecond's work.
const RELEASE_NODES_PER_PUBLISH: usize = 64;

/// The key tree's leaves are rewritten at random places: small ones make small checkpoints.
const KEY_LEAF_BYTES: usize = 4096;

/// The revision tree grows at its end, where large leaves cost nothing.
const REVISION_LEAF_BYTES: usize = 16384;

const SIDE_LEAF_BYTES: usize = 4096;

/// In the order of [`Store::trees`].
const KINDS: [TreeKind; 3] = [
    TreeKind {
        id: 1,
        order: KeyOrder::KeyThenRevision,
        weigh: |_, value| key::is_live_head(value).into(),
        leaf_bytes: KEY_LEAF_BYTES,
    },
    TreeKind {
        id: 2,
        order: KeyOrder::Bytes,
        weigh: |_, _| 0,
        leaf_bytes: REVISION_LEAF_BYTES,
    },
    TreeKind {
        id: 3,
        order: KeyOrder::Bytes,
        weigh: |_, _| 0,
        leaf_bytes: SIDE_LEAF_BYTES,
    },
];

/// The store's one writer.
#[derive(Debug)]
pub struct Store {
    root: Root,
    file: PageFile,
    published: Publisher<Root>,
    compaction: Compaction,
    /// Something has changed since the last checkpoint was begun.
    dirty: bool,
    /// The last checkpoint's nodes have not all been let go of.
    releasing: bool,
    fallback: Option<String>,
    /// Reused for every row that is put together.
    scratch: Vec<u8>,
}

impl Store {
    /// Opens the store in `dir`, or makes an empty one. Reads the newest valid meta page; scans
    /// nothing.
    pub fn open(vfs: Arc<dyn Vfs>, dir: &Path, _options: Options) -> Result<Store> {
        vfs.create_dir_all(dir)
            .map_err(Error::io("create directory", dir))?;
        if let Some(parent) = dir.parent() {
            vfs.sync_dir(parent)
                .map_err(Error::io("sync directory", parent))?;
        }
        let path: Arc<Path> = dir.join(FILE_NAME).into();
        let (file, opened) = PageFile::open(vfs, &path, &KINDS)?;
        let meta = Meta::decode(&opened.user_meta)
            .ok_or_else(|| Error::corrupt(&path, 0, "the store's part of the meta page"))?;
        let Ok([keys, revisions, side]) = <[Tree; 3]>::try_from(opened.trees) else {
            unreachable!("the page file has as many trees as kinds");
        };
        let root = Root {
            keys,
            revisions,
            side,
            pages: file.pages().clone(),
            path,
            revision: meta.revision,
            compacted: meta.compacted,
            applied: meta.applied,
            census: Arc::new(()),
        };
        Ok(Store {
            published: Publisher::new(Arc::new(root.clone())),
            root,
            file,
            compaction: meta.compaction,
            // An empty store becomes durable with its first checkpoint like any other state.
            dirty: opened.user_meta.is_empty(),
            releasing: false,
            fallback: opened.fallback,
            scratch: Vec::new(),
        })
    }

    /// Why the newer of the two meta pages was not taken, when it was not.
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// A handle for readers on any thread.
    pub fn reader(&self) -> Reader {
        Reader {
            published: self.published.subscribe(),
        }
    }

    /// Begins one log entry's effects. They are edits in place with no way back: check first,
    /// then write. An error from a write leaves the store in no state to go on with.
    pub fn write(&mut self, applied: Applied) -> Write<'_> {
        assert!(
            self.root.applied.index < applied.index,
            "an entry is applied once, in order"
        );
        self.root.applied = applied;
        self.dirty = true;
        Write::new(self)
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

    /// The newest state as a job that makes it durable, to be run on any thread. `None` when the
    /// last checkpoint has it all already, or one is under way.
    pub fn begin_checkpoint(&mut self) -> Option<CheckpointJob> {
        if !self.dirty || self.file.checkpoint_running() {
            return None;
        }
        let meta = Meta {
            revision: self.root.revision,
            compacted: self.root.compacted,
            applied: self.root.applied,
            compaction: self.compaction,
        };
        let trees = [&self.root.keys, &self.root.revisions, &self.root.side];
        let job = self.file.begin_checkpoint(&trees, &meta.encode());
        self.root.pages = self.file.pages().clone();
        self.dirty = false;
        Some(CheckpointJob { job })
    }

    /// Takes the finished job back. Returns the applied index of the *older* of the two meta
    /// pages: the log is needed from the entry after it.
    pub fn finish_checkpoint(&mut self, done: CheckpointDone) -> u64 {
        self.file.finish_checkpoint(done.done);
        self.root.pages = self.file.pages().clone();
        self.releasing = true;
        Meta::decode(self.file.older_user_meta()).map_or(0, |meta| meta.applied.index)
    }

    /// Lets go of memory that the last checkpoint made superfluous, a bounded part of it; `true`
    /// when none is left. Every publish does a little of this: only a store at rest needs the call.
    pub fn release_step(&mut self, budget: usize) -> bool {
        if self.releasing && !self.file.checkpoint_running() {
            let Root {
                keys,
                revisions,
                side,
                ..
            } = &mut self.root;
            let done = [keys, revisions, side]
                .into_iter()
                .all(|tree| self.file.release_saved(tree, budget));
            self.releasing = !done;
        }
        !self.releasing
    }

    /// Removes what about `budget` changes have superseded, of that which the newest compaction
    /// has made invisible.
    pub fn compact_step(&mut self, budget: usize) -> Result<CompactProgress> {
        self.remove_superseded(budget)
    }

    pub fn stats(&self) -> Stats {
        let stats = self.file.stats();
        // Not views: the writer's root and the newest published one.
        let roots = Arc::strong_count(&self.root.census) as u64;
        Stats {
            file_bytes: stats.file_bytes,
            in_use_bytes: stats.file_bytes - stats.free_bytes,
            dirty_bytes: stats.dirty_bytes,
            views: roots.saturating_sub(2),
        }
    }

    /// Walks all pages and free lists; an error names the first thing wrong. Only while no
    /// checkpoint runs.
    pub fn check(&self) -> Result<()> {
        let trees = [&self.root.keys, &self.root.revisions, &self.root.side];
        self.file.check(&trees)
    }
}

/// Gives out views of the newest published root, without locks.
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

/// A published root, unchanging for as long as it is held. Holding one for long keeps the pages
/// it stands on from being reused.
#[derive(Clone, Debug)]
pub struct View {
    root: Arc<Root>,
}

impl Deref for View {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.root
    }
}

/// A checkpoint to be written; see [`Store::begin_checkpoint`].
#[derive(Debug)]
pub struct CheckpointJob {
    job: btree::CheckpointJob,
}

impl CheckpointJob {
    /// Writes and syncs. An error is final: the process must not go on with this store.
    pub fn run(self) -> Result<CheckpointDone> {
        let done = self.job.run()?;
        Ok(CheckpointDone { done })
    }
}

/// Proof of a durable checkpoint, for [`Store::finish_checkpoint`].
#[derive(Debug)]
pub struct CheckpointDone {
    done: btree::CheckpointDone,
}

/// What the meta page carries of this module, so that it moves together with the trees:
/// ```text
/// offset  size  name
///      0     1  format version, 1
///      1     8  revision
///      9     8  compacted
///     17     8  applied index
///     25     8  applied term
///     33     8  compaction: next main revision to look at
///     41     8  compaction: next sub revision to look at
///     49     1  compaction: 1 when done
/// ```
/// Numbers are big-endian.
struct Meta {
    revision: i64,
    compacted: i64,
    applied: Applied,
    compaction: Compaction,
}

const META_VERSION: u8 = 1;
const META_BYTES: usize = 50;

impl Meta {
    /// etcd's numbers for a store that was never written to.
    const EMPTY: Meta = Meta {
        revision: 1,
        compacted: -1,
        applied: Applied { index: 0, term: 0 },
        compaction: Compaction::NONE,
    };

    fn encode(&self) -> [u8; META_BYTES] {
        let numbers = [
            self.revision as u64,
            self.compacted as u64,
            self.applied.index,
            self.applied.term,
            self.compaction.next.main as u64,
            self.compaction.next.sub as u64,
        ];
        let mut out = [0; META_BYTES];
        out[0] = META_VERSION;
        for (place, number) in out[1..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        out[META_BYTES - 1] = self.compaction.done.into();
        out
    }

    fn decode(bytes: &[u8]) -> Option<Meta> {
        if bytes.is_empty() {
            return Some(Meta::EMPTY);
        }
        let bytes: &[u8; META_BYTES] = bytes.try_into().ok()?;
        if bytes[0] != META_VERSION {
            return None;
        }
        let number = |i: usize| {
            let (number, _) = bytes[1 + 8 * i..].split_first_chunk()?;
            Some(u64::from_be_bytes(*number))
        };
        Some(Meta {
            revision: number(0)? as i64,
            compacted: number(1)? as i64,
            applied: Applied {
                index: number(2)?,
                term: number(3)?,
            },
            compaction: Compaction {
                next: Revision {
                    main: number(4)? as i64,
                    sub: number(5)? as i64,
                },
                done: bytes[META_BYTES - 1] == 1,
            },
        })
    }
}

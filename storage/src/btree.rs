//! Copy-on-write B-trees in one page file: the on-disk core of the store.
//!
//! A [`Tree`] is a root link with its totals; cloning it makes a reader's view. The one writer
//! edits trees through a [`Writer`]: in place where nobody else can see the node, otherwise on a
//! copy. A [`CheckpointJob`] carries an immutable clone of all trees to the page file while the
//! writer continues. Reading needs only the tree and a [`Pages`]; no locks.
//!
//! What a user of this module does:
//! 1. [`PageFile::open`] gives the trees of the newest complete checkpoint and its *user meta*, an
//!    opaque blob (at most [`USER_META_BYTES_MAX`]) that moves together with the trees.
//! 2. Edit with `tree.insert(file.writer(), ..)` and the like.
//! 3. A published root holds clones of the trees *and* of [`PageFile::pages`]. The `Arc<Pages>`
//!    keeps its pages from being reused, and must be fetched anew at each publish.
//! 4. Call [`PageFile::spill`] now and then for a tree that grows at its end.
//! 5. When [`Stats::dirty_bytes`] is large: call [`PageFile::begin_checkpoint`], run the job on any
//!    thread, call [`PageFile::finish_checkpoint`], then [`PageFile::release_saved`] per tree in
//!    small steps until it returns true.
//!
//! Knows nothing of revisions, transactions, logs or threads.

mod announce;
mod check;
mod checkpoint;
mod cursor;
mod edit;
mod file;
mod kind;
mod meta;
mod node;
mod pages;
mod space;
mod tree;
mod weight;

pub(crate) use checkpoint::output::SYNC_BYTES;
pub(crate) use checkpoint::spill::SyncJob;
pub(crate) use checkpoint::{Attempt, CheckpointDone, CheckpointJob, Retired};
pub(crate) use cursor::Cursor;
pub(crate) use edit::Writer;
pub(crate) use edit::rewrite::Unfit;
pub(crate) use file::PageFile;
pub(crate) use file::open::META_SLOTS;
pub(crate) use kind::{KeyOrder, TreeKind};
pub(crate) use node::key::Key;
pub(crate) use node::page::UNIT;
pub(crate) use pages::Pages;
pub use pages::resident::from_memory;
pub(crate) use tree::Tree;
pub(crate) use weight::Weight;

/// Bytes at the end of a key that [`KeyOrder::KeyThenRevision`] compares separately: inverted main
/// revision (8, big endian) and inverted sub revision (4, big endian).
pub(crate) const SUFFIX_BYTES: usize = 12;

/// The meta page is one unit; the blob shares it with the root links of all trees.
pub(crate) const USER_META_BYTES_MAX: usize = 1024;

/// Trees in one page file: their root links share the meta page with the user meta.
pub(crate) const TREES_MAX: usize = 16;

/// Limit of the levels of a tree: branches have at least about 20 children when keys are short, and
/// two when they are huge. A longer path means damage.
const LEVELS_MAX: u8 = 64;

#[cfg(any(test, fuzzing))]
#[expect(
    clippy::unwrap_used,
    reason = "tests, one of which the fuzzer runs too"
)]
pub(crate) mod tests;

//! Copy-on-write B-trees in one page file: the on-disk heart of the store.
//!
//! A [`Tree`] is a root link with its totals; cloning it is how a reader's view is made. The one
//! writer edits trees through a [`Writer`] in place where nobody else can see the node, and on a
//! copy where someone can. A [`CheckpointJob`] carries an immutable clone of all trees to the page
//! file while the writer goes on. Reading needs only the tree and a [`Pages`]; no locks.
//!
//! What a user of this module does:
//! 1. [`PageFile::open`] gives the trees of the newest complete checkpoint and its *user meta*, an
//!    opaque blob (at most [`USER_META_BYTES_MAX`]) that moves together with the trees.
//! 2. Edit with `tree.insert(file.writer(), ..)` and the like.
//! 3. A published root holds clones of the trees *and* of [`PageFile::pages`]: the `Arc<Pages>` is
//!    the proof that its pages are still wanted, and must be fetched anew at each publish.
//! 4. [`PageFile::spill`] now and then for a tree that grows at its end.
//! 5. When [`Stats::dirty_bytes`] is large: [`PageFile::begin_checkpoint`], run the job on any
//!    thread, [`PageFile::finish_checkpoint`], then [`PageFile::release_saved`] per tree in small
//!    steps until it says that it is done.
//!
//! Knows nothing of revisions, transactions, logs or threads.

mod check;
mod checkpoint;
mod cursor;
mod edit;
mod file;
mod image;
mod merge;
mod meta;
mod node;
mod open;
mod output;
mod page;
mod pages;
mod presence;
mod release;
mod rewrite;
mod room;
mod sealed;
mod space;
mod spill;
mod split;
mod tree;
mod weight;
mod wipe;

pub(crate) use checkpoint::{Attempt, CheckpointDone, CheckpointJob, Retired};
pub(crate) use cursor::Cursor;
pub(crate) use edit::Writer;
pub(crate) use file::PageFile;
pub(crate) use open::META_SLOTS;
pub(crate) use page::UNIT;
pub(crate) use pages::Pages;
pub(crate) use rewrite::Unfit;
pub(crate) use spill::SyncJob;
pub(crate) use tree::{KeyOrder, Tree, TreeKind};
pub(crate) use weight::Weight;

/// Bytes at the end of a key that [`KeyOrder::KeyThenRevision`] compares apart from the rest:
/// inverted main revision (8, big endian) and inverted sub revision (4, big endian).
pub(crate) const SUFFIX_BYTES: usize = 12;

/// The meta page is one unit; the blob shares it with the root links of all trees.
pub(crate) const USER_META_BYTES_MAX: usize = 1024;

/// Trees in one page file: their root links share the meta page with the user meta.
pub(crate) const TREES_MAX: usize = 16;

/// Levels of a tree: branches have some 20 children at least when keys are short, and two when
/// they are huge. A path longer than this means damage.
const LEVELS_MAX: u8 = 64;

#[cfg(any(test, fuzzing))]
#[expect(
    clippy::unwrap_used,
    reason = "tests, one of which the fuzzer runs too"
)]
pub(crate) mod tests;

//! Reads one state of the store: by key, by range, by revision. Knows nothing of writing.

mod count;
mod lengths;
mod live;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::chores::compact::Compaction;
use super::deletion::{Deletion, Unwritten};
use super::key::{self, REVISION_BYTES, Row, Stamp};
use super::keys::KeyTrees;
use super::{Applied, Bucket, Change, Item, KeyRange, Revision, Want};
use crate::btree::{Cursor, Pages, Tree};
use crate::{Error, Result};
pub(super) use live::LiveVersions;

/// Whether a walk's callback wants to continue.
pub(super) type Flow = ControlFlow<()>;

/// The callback of a walk over the key tree: user key, revision, stamp.
pub(super) type EachVersion<'f> = dyn FnMut(&[u8], Revision, Stamp) -> Result<Flow> + 'f;

/// One state of the store. Where a method takes a revision `at`, zero means the newest of this
/// root. Callers refuse revisions above [`Root::revision`] and below [`Root::compacted`].
///
/// Invariant: `compacted <= revision`.
#[derive(Clone, Debug)]
pub struct Root {
    pub(super) keys: KeyTrees,
    pub(super) revisions: Tree,
    pub(super) side: Tree,
    /// In the order of their revisions. Empty but for seconds.
    pub(super) deletions: Vec<Deletion>,
    /// Reads clean pages, and keeps them from being reused while this root lives.
    pub(super) pages: Arc<Pages>,
    pub(super) path: Arc<Path>,
    pub(super) revision: i64,
    pub(super) compacted: i64,
    /// How far what the newest compaction drops has been removed.
    pub(super) compaction: Compaction,
    pub(super) applied: Applied,
    pub(super) generation: u64,
    /// One clone per live root: see [`super::Stats::views`].
    pub(super) census: Arc<()>,
}

impl Root {
    /// The newest main revision; 1 if nothing was ever written.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The revision of the newest compaction, -1 if there was none.
    pub fn compacted(&self) -> i64 {
        self.compacted
    }

    /// True if rows that a compaction made invisible are still to be removed.
    pub fn is_removing(&self) -> bool {
        !self.compaction.done
    }

    /// Number of live keys at the newest revision; no descent.
    pub fn live_keys(&self) -> u64 {
        let trees = self.keys.weight().count;
        trees.wrapping_add(self.live_keys_of_deletions())
    }

    /// Approximate number of rows that the newest compaction made invisible but that still exist;
    /// too high if transactions since then had several changes.
    pub fn superseded_rows(&self) -> u64 {
        let since = self.revision - self.compacted.max(0);
        let others = self.live_keys() + since.max(0) as u64;
        let rows = self.revisions.len() + self.unwritten_deletes();
        rows.saturating_sub(others)
    }

    pub fn applied(&self) -> Applied {
        self.applied
    }

    /// How often the whole content was replaced since the store was opened. The existing changes
    /// need not lead from a root to one of another generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// True if pages were missing from memory not long ago, so that it pays to announce changes.
    pub fn misses_pages(&self) -> bool {
        self.pages.are_often_missing()
    }

    /// Changes of keys wait in delta trees.
    pub fn has_deltas(&self) -> bool {
        !self.keys.is_plain()
    }

    /// The version of `key` that was live at `at`.
    pub fn get<R>(&self, key: &[u8], at: i64, f: impl FnOnce(Item<'_>) -> R) -> Result<Option<R>> {
        let Some((revision, stamp)) = self.version_at(key, self.or_newest(at))? else {
            return Ok(None);
        };
        if stamp.is_tombstone() {
            return Ok(None);
        }
        let found = self
            .revisions
            .get(&self.pages, &key::revision_key(revision))?;
        let Some(bytes) = found else {
            return Err(self.damaged(format!("revision {revision:?} of the key tree has no row")));
        };
        let row = self.row(&bytes, revision)?;
        Ok(Some(f(stamp.item(key, row.value, revision))))
    }

    /// All versions live at `at`, in key order, until `f` stops it.
    pub fn range(
        &self,
        range: KeyRange<'_>,
        at: i64,
        want: Want,
        f: &mut dyn FnMut(Item<'_>) -> Flow,
    ) -> Result<()> {
        let mut rows = self.revisions.cursor(&self.pages);
        self.walk(
            range,
            self.or_newest(at),
            &mut |user_key, revision, stamp| {
                let value = match want {
                    Want::KeysOnly => &[],
                    Want::Values => self.value(&mut rows, revision)?,
                };
                Ok(f(stamp.item(user_key, value, revision)))
            },
        )
    }

    /// The changes of the main revisions `from..=through` in order, until `f` stops it. At and
    /// below the compacted revision only those that the compaction keeps.
    pub fn changes(
        &self,
        from: i64,
        through: i64,
        f: &mut dyn FnMut(Change<'_>) -> Result<Flow>,
    ) -> Result<()> {
        let first = Revision { main: from, sub: 0 };
        self.kept_changes(self.unwritten(first, through), first, through, f)
    }

    /// Those of them that follow the change `last`, which this root has told, of `key`. What comes
    /// before that one is not read again: a revision may have ten million changes.
    pub fn changes_behind(
        &self,
        last: Revision,
        key: &[u8],
        through: i64,
        f: &mut dyn FnMut(Change<'_>) -> Result<Flow>,
    ) -> Result<()> {
        let first = Revision {
            sub: last.sub + 1,
            ..last
        };
        let unwritten = self.unwritten(first, through).behind(key);
        self.kept_changes(unwritten, first, through, f)
    }

    /// The same, including changes that a compaction has made invisible but not removed yet. For a
    /// reader that follows the newest revision and must not miss what is compacted at once; the
    /// caller of [`Store::compact_step`](super::Store::compact_step) waits for it.
    pub fn recent_changes(
        &self,
        from: i64,
        through: i64,
        f: &mut dyn FnMut(Change<'_>) -> Result<Flow>,
    ) -> Result<()> {
        self.rows(from, through, &mut |revision, row| f(change(revision, row)))
    }

    /// The newest version of `key` older than main revision `before`. `None` if there is none, if
    /// it is a deletion, or if `before - 1` is compacted.
    pub fn previous<R>(
        &self,
        key: &[u8],
        before: i64,
        f: impl FnOnce(Item<'_>) -> R,
    ) -> Result<Option<R>> {
        let at = before - 1;
        if at < self.compacted || at <= 0 {
            return Ok(None);
        }
        self.get(key, at, f)
    }

    /// The value of one row of a side table.
    pub fn side_get(&self, bucket: Bucket, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut row = Vec::new();
        key::side_key(&mut row, bucket, key);
        let found = self.side.get(&self.pages, &row)?;
        Ok(found.map(|value| value.to_vec()))
    }

    /// The bucket's rows whose key begins with `prefix`, in key order, with whole keys.
    pub fn side_scan(
        &self,
        bucket: Bucket,
        prefix: &[u8],
        f: &mut dyn FnMut(&[u8], &[u8]) -> Flow,
    ) -> Result<()> {
        let mut first = Vec::new();
        key::side_key(&mut first, bucket, prefix);
        let mut cursor = self.side.cursor(&self.pages);
        let mut more = cursor.seek(&first)?;
        while more && cursor.key().starts_with(&first) {
            let row = &cursor.key()[1..];
            if !self.is_detached(bucket, row)? && f(row, cursor.value()).is_break() {
                break;
            }
            more = cursor.next()?;
        }
        Ok(())
    }

    pub(super) fn or_newest(&self, at: i64) -> i64 {
        if at == 0 { self.revision } else { at }
    }

    /// Calls `f` with each version in the range that is live at `at`, in key order.
    pub(super) fn walk(&self, range: KeyRange<'_>, at: i64, f: &mut EachVersion<'_>) -> Result<()> {
        if self.deletions.is_empty() {
            return self.walk_trees(range, at, f).map(drop);
        }
        self.walk_with(self.deletions_by(at), range, at, f)
            .map(drop)
    }

    /// The same, as the trees of keys have it.
    pub(super) fn walk_trees(
        &self,
        range: KeyRange<'_>,
        at: i64,
        f: &mut EachVersion<'_>,
    ) -> Result<Flow> {
        LiveVersions::of_trees(self, range, at).each(f)
    }

    /// Walks the revision tree over the main revisions `from..=through`.
    pub(super) fn rows(
        &self,
        from: i64,
        through: i64,
        f: &mut dyn FnMut(Revision, Row<'_>) -> Result<Flow>,
    ) -> Result<()> {
        let first = Revision { main: from, sub: 0 };
        self.rows_from(first, through, f)
    }

    pub(super) fn rows_from(
        &self,
        first: Revision,
        through: i64,
        f: &mut dyn FnMut(Revision, Row<'_>) -> Result<Flow>,
    ) -> Result<()> {
        self.rows_with(self.unwritten(first, through), first, through, f)
    }

    fn kept_changes(
        &self,
        unwritten: Unwritten<'_>,
        first: Revision,
        through: i64,
        f: &mut dyn FnMut(Change<'_>) -> Result<Flow>,
    ) -> Result<()> {
        self.rows_with(unwritten, first, through, &mut |revision, row| {
            let doubtful = !self.compaction.done && revision.main <= self.compacted;
            if doubtful && !self.is_kept(revision, &row)? {
                return Ok(ControlFlow::Continue(()));
            }
            f(change(revision, row))
        })
    }

    /// Walks the revision tree, and over what is not written into it yet, from `first` on.
    fn rows_with(
        &self,
        mut unwritten: Unwritten<'_>,
        first: Revision,
        through: i64,
        f: &mut dyn FnMut(Revision, Row<'_>) -> Result<Flow>,
    ) -> Result<()> {
        let mut cursor = self.revisions.cursor(&self.pages);
        let mut more = cursor.seek(&key::revision_key(first))?;
        while more {
            let Some(revision) = key::parse_revision_key(cursor.key()) else {
                return Err(self.damaged("a key of the revision tree is not a revision"));
            };
            if revision.main > through {
                break;
            }
            let row = self.row(cursor.value(), revision)?;
            if unwritten.before(revision, f)?.is_break() || f(revision, row)?.is_break() {
                return Ok(());
            }
            more = cursor.next()?;
        }
        unwritten.before(Revision::MAX, f).map(drop)
    }

    /// True if the newest compaction keeps this row, whose revision is not above the compaction's:
    /// it is the newest version of its key by then, and a tombstone only if its main revision is
    /// exactly the compaction's.
    fn is_kept(&self, revision: Revision, row: &Row<'_>) -> Result<bool> {
        if row.stamp.is_tombstone() && revision.main < self.compacted {
            return Ok(false);
        }
        let newest = self.version_at(row.key, self.compacted)?;
        Ok(newest.is_some_and(|(newest, _)| newest == revision))
    }

    /// The value of a put. The cursor stays in its leaf if the next one is near.
    fn value<'c>(&self, rows: &'c mut Cursor<'_>, revision: Revision) -> Result<&'c [u8]> {
        let wanted: [u8; REVISION_BYTES] = key::revision_key(revision);
        if !rows.seek(&wanted)? || rows.key() != wanted {
            return Err(self.damaged(format!("revision {revision:?} of the key tree has no row")));
        }
        Ok(self.row(rows.value(), revision)?.value)
    }

    pub(super) fn split<'k>(&self, bytes: &'k [u8]) -> Result<(&'k [u8], Revision)> {
        key::split_version_key(bytes)
            .ok_or_else(|| self.damaged("a key of the key tree is too short"))
    }

    pub(super) fn stamp(&self, bytes: &[u8], revision: Revision) -> Result<Stamp> {
        key::stamp(bytes, revision)
            .ok_or_else(|| self.damaged(format!("revision {revision:?} in the key tree")))
    }

    pub(super) fn row<'r>(&self, bytes: &'r [u8], revision: Revision) -> Result<Row<'r>> {
        key::row(bytes, revision)
            .ok_or_else(|| self.damaged(format!("row {revision:?} of the revision tree")))
    }

    /// The page's checksum is right, but this module never writes such content. There is no offset
    /// to report: a row moves between pages.
    pub(super) fn damaged(&self, what: impl Into<String>) -> Error {
        Error::corrupt(&self.path, 0, what)
    }
}

/// The last revision that a transaction at `main` can have.
pub(super) fn end_of(main: i64) -> Revision {
    if main <= 0 {
        return Revision { main: 0, sub: 0 };
    }
    Revision {
        main,
        ..Revision::MAX
    }
}

pub(super) fn change(revision: Revision, row: Row<'_>) -> Change<'_> {
    if row.stamp.is_tombstone() {
        let key = row.key;
        Change::Delete { revision, key }
    } else {
        let item = row.stamp.item(row.key, row.value, revision);
        Change::Put { revision, item }
    }
}

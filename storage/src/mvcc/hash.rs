//! The rows that etcd's HashKV hashes, in order.
//!
//! Above the compacted revision these are all rows. At and below it they are the versions live at
//! the hashed revision: no tombstone, and nothing that a change up to that revision superseded. To
//! ask the key tree about each row would be a descent for each key of the store. But all changes
//! that supersede a row still there are at [`Compaction::next`] or later: before that, no key has
//! more than one version. So these changes are looked at first, with a descent for each, and what
//! they superseded is gathered. Then history is read in its order, and what was gathered is left
//! out.
//!
//! [`Compaction::next`]: super::chores::compact::Compaction

use std::ops::ControlFlow;

use super::key::{Row, Stamp};
use super::revision_set::{Ascending, RevisionSet};
use super::view::{change, end_of};
use super::{Change, KeyRange, Revision, Root};
use crate::Result;

/// Rows looked at between two calls of the caller's `pause`.
const PIECE_ROWS: usize = 256;

/// Bytes of their values after which it is called in any case: about as many as 256 of 4 KiB have.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes of memory for gathered rows: about ten million of them. If there are more, each row is
/// looked up instead.
const GATHERED_BYTES_MAX: usize = 32 << 20;

/// Whether to continue.
type Flow = ControlFlow<()>;

/// The rows to hash for one revision.
#[derive(Debug)]
pub struct HashRows<'r> {
    root: &'r Root,
    at: i64,
    left_out: LeftOut,
    /// No key at all is live at the revision; see [`Root::hash_rows`].
    none_kept: bool,
}

/// Of the rows at and below the compacted revision.
#[derive(Debug)]
enum LeftOut {
    Gathered(RevisionSet),
    /// All but the newest of each key by this revision.
    OlderThanNewestAt(i64),
}

impl Root {
    /// The rows that etcd's HashKV hashes for `revision`. At or below the compacted revision these
    /// are the versions live at `revision`. If no key at all is live there, they are all versions
    /// that the compaction left, but no tombstone. This is exactly etcd's rule: an empty set of kept
    /// rows switches its filter off. `pause` is called at intervals; `None` if it breaks off.
    pub fn hash_rows(
        &self,
        revision: i64,
        pause: &mut dyn FnMut() -> Flow,
    ) -> Result<Option<HashRows<'_>>> {
        let at = self.or_newest(revision);
        let none_kept = !self.has_live_key(at)?;
        self.rows_to_hash(at, none_kept, pause)
    }

    /// The rows that etcd hashes when it compacts at `revision`; call it on a root from before. The
    /// kept versions then include tombstones of exactly that revision, which etcd drops when it
    /// hashes at any other time. So a store that became empty at that revision has kept rows.
    pub fn hash_rows_at_compaction(
        &self,
        revision: i64,
        pause: &mut dyn FnMut() -> Flow,
    ) -> Result<Option<HashRows<'_>>> {
        let mut none_kept = !self.has_live_key(self.or_newest(revision))?;
        self.changes(revision, revision, &mut |change| {
            none_kept &= !matches!(change, Change::Delete { .. });
            Ok(ControlFlow::Continue(()))
        })?;
        self.rows_to_hash(revision, none_kept, pause)
    }

    fn rows_to_hash(
        &self,
        at: i64,
        none_kept: bool,
        pause: &mut dyn FnMut() -> Flow,
    ) -> Result<Option<HashRows<'_>>> {
        let through = if none_kept { self.compacted } else { at };
        let Some(superseded) = self.gather_superseded(through, pause)? else {
            return Ok(None);
        };
        let left_out = match superseded.bytes() {
            ..=GATHERED_BYTES_MAX => LeftOut::Gathered(superseded),
            _ => LeftOut::OlderThanNewestAt(through),
        };
        Ok(Some(HashRows {
            root: self,
            at,
            left_out,
            none_kept,
        }))
    }

    /// The rows at and below the compacted revision that a change through main revision `through`
    /// superseded; ends early if there are too many. `None` if `pause` broke off.
    fn gather_superseded(
        &self,
        through: i64,
        pause: &mut dyn FnMut() -> Flow,
    ) -> Result<Option<RevisionSet>> {
        let (mut superseded, mut flow) = (RevisionSet::default(), ControlFlow::Continue(()));
        let mut pieces = Pieces::new(pause);
        if self.compacted > 0 {
            self.rows_from(self.compaction.next, through, &mut |revision, row| {
                flow = pieces.looked(&row);
                // What begins a key's life supersedes nothing but a tombstone. And what is born
                // after the compaction has no version before it.
                let Stamp {
                    version,
                    create_revision: born,
                    ..
                } = row.stamp;
                let is_first = version == 1 || born > self.compacted;
                if row.stamp.is_tombstone() || !is_first {
                    let older = self.version_before(row.key, revision)?;
                    let older = older.filter(|(_, stamp)| !stamp.is_tombstone());
                    if let Some((older, _)) = older.filter(|(at, _)| at.main <= self.compacted) {
                        superseded.push(older);
                    }
                }
                let too_many = superseded.bytes() > GATHERED_BYTES_MAX;
                Ok(if too_many {
                    ControlFlow::Break(())
                } else {
                    flow
                })
            })?;
        }
        Ok(flow.is_continue().then_some(superseded))
    }

    /// True if any key is live at `at`.
    fn has_live_key(&self, at: i64) -> Result<bool> {
        if at >= self.revision {
            return Ok(self.live_keys() > 0);
        }
        let mut found = false;
        self.walk(KeyRange::ALL, at, &mut |_, _, _| {
            found = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }
}

impl HashRows<'_> {
    /// The rows before this revision, if they are compacted, are those that an earlier hash of this
    /// history had there, as far as none of them was removed since. `None`: this is not known.
    pub fn same_before(&self) -> Option<Revision> {
        let compacted = end_of(self.root.compacted);
        match &self.left_out {
            _ if self.none_kept => None,
            LeftOut::Gathered(superseded) => Some(superseded.least().unwrap_or(compacted)),
            LeftOut::OlderThanNewestAt(_) => None,
        }
    }

    /// Calls `f` with the rows from `from` on. `pause` is called at intervals; the result says
    /// whether it broke off.
    pub fn visit(
        self,
        from: Revision,
        f: &mut dyn FnMut(Change<'_>),
        pause: &mut dyn FnMut() -> Flow,
    ) -> Result<Flow> {
        let (root, mut pieces) = (self.root, Pieces::new(pause));
        let mut flow = ControlFlow::Continue(());
        let mut filter = Filter::of(self.left_out);
        root.rows_from(from, self.at, &mut |revision, row| {
            flow = pieces.looked(&row);
            let is_hashed = revision.main > root.compacted
                || (!row.stamp.is_tombstone() && filter.keeps(root, revision, row.key)?);
            if is_hashed {
                f(change(revision, row));
            }
            Ok(flow)
        })?;
        Ok(flow)
    }
}

/// Decides for rows in ascending order.
enum Filter {
    Gathered(Ascending),
    OlderThanNewestAt(i64),
}

impl Filter {
    fn of(left_out: LeftOut) -> Filter {
        match left_out {
            LeftOut::Gathered(superseded) => Filter::Gathered(superseded.ascending()),
            LeftOut::OlderThanNewestAt(at) => Filter::OlderThanNewestAt(at),
        }
    }

    fn keeps(&mut self, root: &Root, revision: Revision, key: &[u8]) -> Result<bool> {
        match self {
            Filter::Gathered(superseded) => Ok(!superseded.has(revision)),
            Filter::OlderThanNewestAt(at) => {
                let newest = root.version_at(key, *at)?;
                Ok(newest.is_some_and(|(newest, _)| newest == revision))
            }
        }
    }
}

/// Calls `pause` once for each [`PIECE_ROWS`] or [`PIECE_BYTES`].
struct Pieces<'f> {
    pause: &'f mut dyn FnMut() -> Flow,
    rows: usize,
    bytes: usize,
}

impl<'f> Pieces<'f> {
    fn new(pause: &'f mut dyn FnMut() -> Flow) -> Pieces<'f> {
        Pieces {
            pause,
            rows: 0,
            bytes: 0,
        }
    }

    fn looked(&mut self, row: &Row<'_>) -> Flow {
        self.rows += 1;
        self.bytes += row.value.len();
        if self.rows < PIECE_ROWS && self.bytes < PIECE_BYTES {
            return ControlFlow::Continue(());
        }
        (self.rows, self.bytes) = (0, 0);
        (self.pause)()
    }
}

#[cfg(any(test, fuzzing))]
impl<'r> HashRows<'r> {
    /// The same rows, each looked up.
    pub(super) fn looked_up(self) -> HashRows<'r> {
        let through = if self.none_kept {
            self.root.compacted
        } else {
            self.at
        };
        HashRows {
            left_out: LeftOut::OlderThanNewestAt(through),
            ..self
        }
    }
}

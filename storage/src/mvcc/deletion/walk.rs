//! Ranges within the parts of deletions.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::attached::Attached;
use super::reads::{Piece, pieces};
use super::{Deletion, Taken};
use crate::Result;
use crate::btree::Weight;
use crate::mvcc::key::Stamp;
use crate::mvcc::view::{EachVersion, Flow, LiveVersions};
use crate::mvcc::{End, KeyRange, Revision, Root};

/// Keys taken in a row that a range steps over before it looks how many more follow, for each deletion
/// that takes some, because the look asks all of them. There may be a million keys.
const STEPS_MAX: usize = if cfg!(any(test, fuzzing)) { 2 } else { 256 };

impl Root {
    /// Calls `f` with each version in the range that is live at `at`, which is not before these
    /// first deletions, in key order.
    pub(in crate::mvcc) fn walk_with(
        &self,
        deletions: &[Deletion],
        range: KeyRange<'_>,
        at: i64,
        f: &mut EachVersion<'_>,
    ) -> Result<Flow> {
        for piece in pieces(deletions, range) {
            if self.walk_piece(&piece, at, f)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn walk_piece(&self, piece: &Piece<'_>, at: i64, f: &mut EachVersion<'_>) -> Result<Flow> {
        if let Some(whole) = piece.whole() {
            return LiveVersions::of_tree(self, &whole.since, piece.range, at).each(f);
        }
        if piece.deletions.is_empty() {
            return self.walk_trees(piece.range, at, f);
        }
        let mut layers = Layer::all(self, piece, at)?;
        loop {
            let live = layers.iter_mut().filter(|layer| layer.current.is_some());
            let Some(first) = live.min_by(|a, b| a.compare(b)) else {
                return Ok(ControlFlow::Continue(()));
            };
            if let Some((revision, stamp)) = first.current
                && f(first.versions.key(), revision, stamp)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            first.advance()?;
        }
    }

    /// What the live keys of a piece weigh; walks over them.
    pub(in crate::mvcc) fn weigh_each(&self, piece: &Piece<'_>) -> Result<Weight> {
        let mut sum = Weight::NONE;
        let _ = self.walk_piece(piece, i64::MAX, &mut |key, _, stamp| {
            sum = sum + stamp.weight(key);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(sum)
    }
}

/// The live versions of a piece that the trees of keys have, or the `since` of a deletion, without
/// those that later deletions have taken.
struct Layer<'a> {
    root: &'a Root,
    piece: &'a Piece<'a>,
    later: &'a [&'a Deletion],
    versions: LiveVersions<'a>,
    current: Option<(Revision, Stamp)>,
    /// It has many keys, and all that is live now is seen: counts say what follows.
    is_counted: bool,
}

impl<'a> Layer<'a> {
    /// All layers, each at its first version.
    fn all(root: &'a Root, piece: &'a Piece<'a>, at: i64) -> Result<Vec<Layer<'a>>> {
        let layer = |versions, later, is_counted| Layer {
            root,
            piece,
            later,
            versions,
            current: None,
            is_counted,
        };
        let trees = LiveVersions::of_trees(root, piece.range, at);
        let mut layers = vec![layer(trees, &piece.deletions[..], at >= root.revision)];
        for (place, deletion) in piece.deletions.iter().enumerate() {
            if deletion.since.len() > 0 {
                let since = LiveVersions::of_tree(root, &deletion.since, piece.range, at);
                layers.push(layer(since, &piece.deletions[place + 1..], false));
            }
        }
        for layer in &mut layers {
            layer.advance()?;
        }
        Ok(layers)
    }

    fn compare(&self, other: &Layer<'_>) -> Ordering {
        self.versions.key().cmp(other.versions.key())
    }

    fn advance(&mut self) -> Result<()> {
        let mut taken = 0;
        loop {
            self.current = self.versions.next()?;
            let Some((_, stamp)) = self.current else {
                return Ok(());
            };
            let key = self.versions.key();
            let takes = |of: &&&Deletion| of.takes(key, stamp.lease);
            let Some(deletion) = self.later.iter().find(takes) else {
                return Ok(());
            };
            taken += 1;
            if taken > STEPS_MAX * self.later.len() && self.is_counted {
                taken = 0;
                if let Taken::AttachedTo(attached) = &deletion.taken
                    && let Some(start) = self.behind_taken(attached)?
                {
                    self.versions.continue_from(start);
                }
            }
        }
    }

    /// The last place, of those whose number is known among the keys of `attached`, before which no
    /// key is live from the current one on.
    fn behind_taken(&self, attached: &'a Attached) -> Result<Option<&'a [u8]>> {
        let key = self.versions.key();
        let marks = attached.marks();
        let mut low = marks.partition_point(|mark| *mark.key <= *key);
        let (first, mut high) = (low, marks.len());
        while low < high {
            let middle = low.midpoint(high);
            let range = KeyRange {
                start: key,
                end: End::Before(&marks[middle].key),
            };
            if self.root.count_piece(&self.piece.deletions, range)? == 0 {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok((low > first).then(|| &*marks[low - 1].key))
    }
}

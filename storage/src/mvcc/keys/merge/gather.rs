//! Which entries of the merging trees move next, and what becomes of them in the base.

use crate::Result;
use crate::btree::Cursor;
use crate::mvcc::key::{HEAD, Stamp, VersionKey};
use crate::mvcc::keys::cursor::put_in_order;
use crate::mvcc::{Revision, Root};

/// An entry of a merging tree, and what becomes of it in the base.
pub(super) struct Move {
    /// Of its tree, in the ring.
    pub(super) place: usize,
    pub(super) key: Vec<u8>,
    pub(super) revision: Revision,
    pub(super) then: Then,
}

pub(super) enum Then {
    /// The newest version of its key in its tree: the newest in the base, too.
    Head(Stamp),
    /// The newest version of its key in its tree, but removed: the base has no live version.
    NoHead,
    Older(Stamp),
    /// A mark: the version is removed from the base, if it is there.
    Remove,
    /// The version is removed by the mark before it.
    Nothing,
}

/// The first entries of the merging trees, in the order in which they must move. Those of one tree
/// move in the order of their keys: the head of a key is the first of its entries.
pub(super) fn gather(root: &Root, entries: usize) -> Result<Vec<Move>> {
    let mut sources = Sources::of(root)?;
    let mut moves = Vec::with_capacity(entries + sources.trees.len());
    let (mut least, mut group) = (Vec::new(), None);
    while moves.len() < entries
        && let Some(first) = sources.first()
    {
        least.clear();
        least.extend_from_slice(first.key());
        let (user_key, revision) = root.split(&least)?;
        if group.as_deref() != Some(user_key) {
            sources.heads(root, user_key, &mut moves)?;
            group = Some(user_key.to_vec());
        }
        let mut is_removed = false;
        while let Some(first) = sources.first()
            && first.key() == least
        {
            let delta = root.delta(first.value(), revision)?;
            let then = match (is_removed, delta.is_removed) {
                (true, _) => Then::Nothing,
                (false, true) => Then::Remove,
                (false, false) => Then::Older(delta.stamp),
            };
            is_removed |= delta.is_removed;
            // Heads have moved with their group.
            if delta.stamp.flags & HEAD == 0 {
                moves.push(Move {
                    place: sources.place(),
                    key: least.clone(),
                    revision,
                    then,
                });
            }
            sources.pass()?;
        }
    }
    Ok(moves)
}

/// The merging trees, each at its first entry that does not move yet.
struct Sources<'a> {
    /// With their places in the ring, newest first.
    trees: Vec<(usize, Cursor<'a>)>,
    /// Those on an entry, by its key, and those on the same key newest first.
    order: Vec<usize>,
}

impl<'a> Sources<'a> {
    fn of(root: &'a Root) -> Result<Sources<'a>> {
        let ring = root.keys.ring;
        let ages = root.keys.first_merging()..=ring.closed;
        let trees = ages.map(|age| ring.place(age));
        let trees = trees.map(|place| (place, root.keys.deltas[place].cursor(&root.pages)));
        let mut sources = Sources {
            trees: trees.collect(),
            order: Vec::new(),
        };
        for i in 0..sources.trees.len() {
            if sources.trees[i].1.seek(&VersionKey::newest_of(b""))? {
                sources.arrive(i);
            }
        }
        Ok(sources)
    }

    /// The tree with the least key.
    fn first(&self) -> Option<&Cursor<'a>> {
        self.order.first().map(|i| &self.trees[*i].1)
    }

    /// The place of the first one.
    fn place(&self) -> usize {
        self.trees[self.order[0]].0
    }

    /// Moves the first one forward.
    fn pass(&mut self) -> Result<()> {
        let i = self.order.remove(0);
        if self.trees[i].1.next()? {
            self.arrive(i);
        }
        Ok(())
    }

    fn arrive(&mut self, i: usize) {
        let trees = &self.trees;
        put_in_order(&mut self.order, i, |i| trees[i].1.key());
    }

    /// The heads of a key, the oldest first. No tree has an entry before them; the head of a tree is
    /// newer than all versions of its key in older trees.
    fn heads(&self, root: &Root, user_key: &[u8], moves: &mut Vec<Move>) -> Result<()> {
        let mut revisions = Vec::new();
        for i in &self.order {
            let (found, revision) = root.split(self.trees[*i].1.key())?;
            if found != user_key {
                break;
            }
            revisions.push(revision);
        }
        for (i, revision) in self.order.iter().zip(revisions).rev() {
            let (place, cursor) = &self.trees[*i];
            let delta = root.delta(cursor.value(), revision)?;
            if delta.stamp.flags & HEAD == 0 {
                continue;
            }
            moves.push(Move {
                place: *place,
                key: cursor.key().to_vec(),
                revision,
                then: if delta.is_removed {
                    Then::NoHead
                } else {
                    Then::Head(delta.stamp)
                },
            });
        }
        Ok(())
    }
}

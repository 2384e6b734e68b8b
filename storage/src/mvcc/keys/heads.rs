//! The newest versions of many keys, which ascend: each tree is walked once, forward, and its leaves
//! are in the processor's cache when several keys fall into one.

use std::ops::Range;

use super::super::Root;
use super::super::key::{Stamp, VersionKey};
use super::KeyHash;
use super::filter::Filter;
use super::read;
use crate::Result;
use crate::btree::Cursor;

/// A place in each tree of keys.
pub(in crate::mvcc) struct Heads<'a> {
    root: &'a Root,
    /// The open tree and the closed ones that wait, newest first.
    waiting: Vec<(&'a Filter, Place<'a>)>,
    /// The merging trees.
    merging: Vec<(&'a Filter, Place<'a>)>,
    base: Place<'a>,
}

/// A cursor that moves forward, and whether it is behind the last entry.
struct Place<'a> {
    cursor: Cursor<'a>,
    is_at_end: bool,
}

impl<'a> Place<'a> {
    fn new(cursor: Cursor<'a>) -> Place<'a> {
        Place {
            cursor,
            is_at_end: false,
        }
    }

    /// The cursor on the first entry from `key` on, if there is one.
    fn seek(&mut self, key: &[u8]) -> Result<Option<&Cursor<'a>>> {
        self.is_at_end = self.is_at_end || !self.cursor.seek_on(key)?;
        Ok((!self.is_at_end).then_some(&self.cursor))
    }
}

impl<'a> Heads<'a> {
    pub(in crate::mvcc) fn new(root: &'a Root) -> Heads<'a> {
        let keys = &root.keys;
        let places = |ages: Range<u8>| {
            let tree = |age| {
                let place: usize = keys.ring.place(age);
                let cursor = keys.deltas[place].cursor(&root.pages);
                (&keys.filters[place], Place::new(cursor))
            };
            ages.map(tree).collect()
        };
        Heads {
            root,
            waiting: places(0..keys.first_merging()),
            merging: places(keys.first_merging()..keys.ring.closed + 1),
            base: Place::new(keys.base.cursor(&root.pages)),
        }
    }

    /// The stamp of the newest version of `key`, which is greater than the keys before.
    pub(in crate::mvcc) fn stamp(&mut self, key: &[u8]) -> Result<Option<Stamp>> {
        let root = self.root;
        let (hash, from) = (KeyHash::of(key), VersionKey::newest_of(key));
        let first = |place: &mut Place<'_>| match place.seek(&from)? {
            Some(cursor) => root.version(key, cursor.key().into(), cursor.value()),
            None => Ok(None),
        };
        let may_have = |filter: &Filter| filter.may_have(hash);
        let waiting = self.waiting.iter_mut();
        let waiting = waiting.filter(|(filter, _)| may_have(filter));
        let merging = self.merging.iter_mut();
        let merging = merging.filter(|(filter, _)| may_have(filter));
        let newest = read::newest(
            waiting.map(|(_, place)| first(place)),
            merging
                .map(|(_, place)| place)
                .chain([&mut self.base])
                .map(first),
        )?;
        Ok(newest.map(|(_, stamp)| stamp))
    }
}

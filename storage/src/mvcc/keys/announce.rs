//! Has the system read what changes of keys will look at: the leaves of all trees of keys in which the
//! newest versions may be, and their rows where values are read. Only while pages are missing from
//! memory, since a look into every tree costs as much as the change.

use std::iter;

use super::super::key::{self, VersionKey};
use super::super::{Revision, Root};
use super::KeyHash;
use crate::btree::{Tree, from_memory};

impl Root {
    /// Has the system read what a change of `key` has to read, if that is likely not in memory. Waits
    /// for nothing.
    pub fn announce_change(&self, key: &[u8]) {
        if self.misses_pages() {
            self.each_tree_of(iter::once(key), |tree, keys| {
                let places = keys.iter().map(|key| VersionKey::newest_of(key));
                tree.announce(&self.pages, places);
            });
        }
    }

    /// The same for changes that this thread makes next, of keys in any order.
    pub fn announce_changes(&self, mut keys: Vec<&[u8]>) {
        if self.misses_pages() {
            keys.sort_unstable();
            self.announce_ascending(keys.into_iter());
        }
    }

    /// Has the system read the newest value of `key`, if the trees of keys tell from memory where it
    /// is. Waits for nothing.
    pub fn announce_value(&self, key: &[u8]) {
        if self.misses_pages()
            && let Some(Ok(Some((revision, _)))) = from_memory(|| self.head(key))
        {
            let place = key::revision_key(revision);
            self.revisions.announce(&self.pages, iter::once(place));
        }
    }

    /// Has the system read the newest values of `keys`, in any order, which this thread reads next: it
    /// waits for what the trees of keys have of them, as it would then, but for all of that together.
    pub fn announce_values(&self, mut keys: Vec<&[u8]>) {
        if !keys.is_empty() && self.misses_pages() {
            keys.sort_unstable();
            self.announce_ascending(keys.iter().copied());
            // What is wrong with a page is reported when the value is read.
            let heads = keys.iter().filter_map(|key| self.head(key).ok().flatten());
            let mut rows: Vec<Revision> = heads.map(|(revision, _)| revision).collect();
            rows.sort_unstable();
            self.announce_rows(&rows);
        }
    }

    /// Has the system read rows anywhere in the history, which this thread reads next. They ascend.
    pub(in crate::mvcc) fn announce_rows(&self, rows: &[Revision]) {
        if self.misses_pages() {
            let places = rows.iter().map(|revision| key::revision_key(*revision));
            self.revisions.announce_all(&self.pages, places);
        }
    }

    /// The same as [`Root::announce_changes`] for keys that ascend.
    pub(in crate::mvcc) fn announce_ascending<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        if self.misses_pages() {
            self.each_tree_of(keys, |tree, keys| {
                let places = keys.iter().map(|key| VersionKey::newest_of(key));
                tree.announce_all(&self.pages, places);
            });
        }
    }

    /// Calls `f` with each tree that may have to be read for the newest versions of `keys`, and with
    /// those of them, in their order. The base gets all: a filter may take a key for its tree's, and
    /// then nobody would have asked for the leaf that is read.
    fn each_tree_of<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        f: impl Fn(&Tree, &[&'k [u8]]),
    ) {
        let keys: Vec<&[u8]> = keys.collect();
        let hashes: Vec<KeyHash> = keys.iter().map(|key| KeyHash::of(key)).collect();
        for (tree, filter) in self.keys.deltas.iter().zip(&self.keys.filters) {
            if tree.len() > 0 {
                let hashed = keys.iter().zip(&hashes);
                let of_tree = hashed.filter(|(_, hash)| filter.may_have(**hash));
                let of_tree: Vec<&[u8]> = of_tree.map(|(key, _)| *key).collect();
                f(tree, &of_tree);
            }
        }
        f(&self.keys.base, &keys);
    }
}

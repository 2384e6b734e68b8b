//! Has the system read what changes of keys will look at: the leaves of all trees of keys in which the
//! newest versions may be. Only while pages are missing from memory, since a look into every tree
//! costs as much as the change.

use std::iter;

use super::super::Root;
use super::super::key::VersionKey;
use super::KeyHash;
use crate::btree::Tree;

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

    /// The same for keys that ascend.
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

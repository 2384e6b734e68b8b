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

    /// Calls `f` with each tree that has to be read for the newest versions of `keys`, and with those of
    /// them, in their order. Like a read it passes by what is older where a tree that waits has a key.
    fn each_tree_of<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut f: impl FnMut(&Tree, &[&'k [u8]]),
    ) {
        let trees = &self.keys;
        let mut keys: Vec<(&[u8], KeyHash)> = keys.map(|key| (key, KeyHash::of(key))).collect();
        let mut of_tree = Vec::new();
        for age in 0..=trees.ring.closed {
            let place = trees.ring.place(age);
            let (tree, filter) = (&trees.deltas[place], &trees.filters[place]);
            if tree.len() == 0 {
                continue;
            }
            let is_waiting = age < trees.first_merging();
            of_tree.clear();
            keys.retain(|&(key, hash)| {
                let may_have = filter.may_have(hash);
                if may_have {
                    of_tree.push(key);
                }
                !(may_have && is_waiting)
            });
            f(tree, &of_tree);
        }
        of_tree.clear();
        of_tree.extend(keys.iter().map(|(key, _)| *key));
        f(&trees.base, &of_tree);
    }
}

//! Leaves that will be read are announced, so that the disk looks for all of them together.

use super::pages::View;
use super::pages::resident::from_memory;
use super::{Pages, Tree};

/// A branch on the way to a key.
struct Branch<'a> {
    view: View<'a>,
    /// The least key beyond the branch; `None` if it is the last one of its level.
    end: Option<Vec<u8>>,
}

impl Tree {
    /// Has the system read the leaves where these keys belong, which ascend, as far as they are not in
    /// memory. Asks once for each leaf, and for none once pages are no longer missing. Waits for
    /// nothing: where a branch above a leaf is missing, it is the branch that is read.
    pub(crate) fn announce<K: AsRef<[u8]>>(&self, pages: &Pages, keys: impl Iterator<Item = K>) {
        self.announce_if_near(pages, keys);
    }

    /// The same for a thread that reads the leaves next: it waits for branches that are missing, as it
    /// would then, but those of a level are read together.
    pub(crate) fn announce_all<K: AsRef<[u8]>>(
        &self,
        pages: &Pages,
        keys: impl Iterator<Item = K> + Clone,
    ) {
        if self.announce_if_near(pages, keys.clone()) {
            return;
        }
        let root = self.view(pages).ok().flatten();
        let levels = root.map_or(0, |root| root.page().level());
        for level in (0..levels).rev() {
            self.announce_level(pages, level, keys.clone());
        }
    }

    /// False if branches are missing.
    fn announce_if_near<K: AsRef<[u8]>>(
        &self,
        pages: &Pages,
        keys: impl Iterator<Item = K>,
    ) -> bool {
        from_memory(|| self.announce_level(pages, 0, keys)).is_some()
    }

    /// Announces the nodes of a level on the ways to these keys.
    fn announce_level<K: AsRef<[u8]>>(
        &self,
        pages: &Pages,
        level: u8,
        keys: impl Iterator<Item = K>,
    ) {
        let Some(view) = self.view(pages).ok().flatten() else {
            return;
        };
        let is_below = |key: &K, end: &[u8]| self.kind.order.compare(key.as_ref(), end).is_lt();
        let mut path = vec![Branch { view, end: None }];
        let mut keys = keys.peekable();
        while pages.are_often_missing()
            && let Some(key) = keys.next()
        {
            // To the lowest branch that has the key below it: each one is looked at once.
            let is_beyond = |branch: &mut Branch<'_>| {
                let end = branch.end.as_ref();
                end.is_some_and(|end| !is_below(&key, end))
            };
            while path.pop_if(is_beyond).is_some() {}
            let Some(end) = self.announce_below(pages, level, &mut path, key.as_ref()) else {
                return;
            };
            // The others below the same node need nothing more.
            while keys.next_if(|key| is_below(key, &end)).is_some() {}
        }
    }

    /// Announces the node of a level on the way to `key`, or the one above it that cannot be read now.
    /// The way goes on from the branch at the path's end, below which the key belongs. Returns the
    /// least key beyond that node; `None` if it is the last one. What is wrong with a node is reported
    /// to whoever needs it.
    fn announce_below<'a>(
        &'a self,
        pages: &'a Pages,
        level: u8,
        path: &mut Vec<Branch<'a>>,
        key: &[u8],
    ) -> Option<Vec<u8>> {
        loop {
            let Branch { view, end } = path.last()?;
            let page = view.page();
            if page.level() <= level {
                return end.clone();
            }
            let index = page.child_for(self.kind.order, key);
            let end = if index + 1 < page.count() {
                Some(page.key(index + 1).to_vec())
            } else {
                end.clone()
            };
            let child = if page.level() > level + 1 {
                pages.child(&self.kind, view, index).ok()
            } else {
                None
            };
            let Some(view) = child else {
                let in_memory = view.children.get(index).is_some_and(Option::is_some);
                if !in_memory {
                    pages.announce_one(page.child(index));
                }
                return end;
            };
            path.push(Branch { view, end });
        }
    }
}

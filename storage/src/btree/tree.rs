//! A tree as its users see it: point reads and totals.

use std::ops::{Deref, Range};

use super::node::Link;
use super::node::key::Key;
use super::pages::{Bytes, View};
use super::{Pages, TreeKind, Weight};
use crate::Result;

/// Most children of a branch that are looked at to learn how many leaves there are.
const SAMPLES: usize = 8;
/// Most branches of one level that are looked at: the writer does it before each checkpoint.
const SAMPLES_PER_LEVEL: usize = 64;

/// A tree: cheap to clone, and a clone never changes.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(super) kind: TreeKind,
    /// `None` exactly when there is no entry.
    pub(super) root: Option<Link>,
    pub(super) len: u64,
    pub(super) weight: Weight,
}

/// A value that was found; not copied if the file is mapped.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    image: Bytes<'a>,
    value: Range<usize>,
}

impl Deref for Found<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.image[self.value.clone()]
    }
}

impl Tree {
    pub(crate) fn empty(kind: TreeKind) -> Tree {
        Tree {
            kind,
            root: None,
            len: 0,
            weight: Weight::NONE,
        }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Sum of the weights of all entries.
    pub(crate) fn weight(&self) -> Weight {
        self.weight
    }

    /// The root node to read.
    pub(super) fn view<'a>(&'a self, pages: &'a Pages) -> Result<Option<View<'a>>> {
        match &self.root {
            None => Ok(None),
            Some(Link::Memory(node)) => Ok(Some(View::of(node))),
            Some(Link::Disk { page, level }) => Ok(Some(View {
                image: pages.read(*page, &self.kind, *level)?,
                children: &[],
            })),
        }
    }

    pub(crate) fn get<'a>(&'a self, pages: &'a Pages, key: &[u8]) -> Result<Option<Found<'a>>> {
        let Some(mut view) = self.view(pages)? else {
            return Ok(None);
        };
        while view.page().level() > 0 {
            let index = view.page().child_for(self.kind.order, key);
            view = pages.child(&self.kind, &view, index)?;
        }
        let Ok(index) = view.page().search(self.kind.order, key) else {
            return Ok(None);
        };
        let value = view.page().value_range(index);
        Ok(Some(Found {
            image: view.image,
            value,
        }))
    }

    /// What `f` makes of the first entry whose key is `>= key`, which it gets with its value. Cheaper
    /// than a cursor.
    pub(crate) fn first_from<R>(
        &self,
        pages: &Pages,
        key: &[u8],
        f: impl FnOnce(Key<'_>, &[u8]) -> R,
    ) -> Result<Option<R>> {
        let Some(mut view) = self.view(pages)? else {
            return Ok(None);
        };
        while view.page().level() > 0 {
            let index = view.page().child_for(self.kind.order, key);
            view = pages.child(&self.kind, &view, index)?;
        }
        let page = view.page();
        let (Ok(index) | Err(index)) = page.search(self.kind.order, key);
        if index < page.count() {
            return Ok(Some(f(page.key(index), page.value(index))));
        }
        // It is in another leaf.
        let mut cursor = self.cursor(pages);
        Ok(if cursor.seek(key)? {
            Some(f(cursor.key().into(), cursor.value()))
        } else {
            None
        })
    }

    /// Sum of the weights of the entries whose key is less than `key`; one descent.
    pub(crate) fn weight_before(&self, pages: &Pages, key: &[u8]) -> Result<Weight> {
        let Some(mut view) = self.view(pages)? else {
            return Ok(Weight::NONE);
        };
        let mut sum = Weight::NONE;
        while view.page().level() > 0 {
            let index = view.page().child_for(self.kind.order, key);
            sum = sum + view.page().weigh(&self.kind, 0..index);
            view = pages.child(&self.kind, &view, index)?;
        }
        let (Ok(end) | Err(end)) = view.page().search(self.kind.order, key);
        Ok(sum + view.page().weigh(&self.kind, 0..end))
    }

    /// The key of the entry at which the running count first exceeds `before`; one descent.
    pub(crate) fn key_at_count(&self, pages: &Pages, mut before: u64) -> Result<Option<Vec<u8>>> {
        let Some(mut view) = self.view(pages)? else {
            return Ok(None);
        };
        loop {
            let page = view.page();
            let heavy = (0..page.count()).find(|&i| {
                let count = page.weigh(&self.kind, i..i + 1).count;
                let here = before < count;
                before -= if here { 0 } else { count };
                here
            });
            let Some(index) = heavy else {
                return Ok(None);
            };
            if page.level() == 0 {
                return Ok(Some(page.key(index).to_vec()));
            }
            view = pages.child(&self.kind, &view, index)?;
        }
    }

    /// A bound of a branch, greater than `low` and less than `high`, and the branch's level: of the
    /// highest branch that has one, the middle one. Together they halve what is between two keys
    /// until only two leaves are left.
    pub(crate) fn bound_between(
        &self,
        pages: &Pages,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Result<Option<(u8, Vec<u8>)>> {
        let Some(mut view) = self.view(pages)? else {
            return Ok(None);
        };
        let order = self.kind.order;
        while view.page().level() > 0 {
            let page = view.page();
            let first = page.child_for(order, low);
            let last = match high {
                None => page.count() - 1,
                Some(high) => match page.child_for(order, high) {
                    0 => 0,
                    i if order.compare_key(page.key(i), high).is_lt() => i,
                    i => i - 1,
                },
            };
            if first < last {
                let middle = first + (last - first).div_ceil(2);
                return Ok(Some((page.level(), page.key(middle).to_vec())));
            }
            view = pages.child(&self.kind, &view, first)?;
        }
        Ok(None)
    }

    /// About the bytes of all leaves, from the number of children of some branches.
    pub(crate) fn leaf_bytes(&self, pages: &Pages) -> Result<u64> {
        let leaves = match self.view(pages)? {
            Some(root) => self.leaves_below(pages, &root, SAMPLES_PER_LEVEL)?,
            None => 0,
        };
        Ok(leaves * self.kind.leaf_bytes as u64)
    }

    /// Looks at no more than `most` branches of each level, but at one in any case.
    fn leaves_below(&self, pages: &Pages, view: &View<'_>, most: usize) -> Result<u64> {
        let page = view.page();
        let count = page.count();
        match page.level() {
            0 => return Ok(1),
            1 => return Ok(count as u64),
            _ => {}
        }
        let (mut leaves, mut looked_at) = (0, 0);
        for i in sampled(count, most) {
            let child = pages.child(&self.kind, view, i)?;
            leaves += self.leaves_below(pages, &child, most / SAMPLES)?;
            looked_at += 1;
        }
        Ok(leaves * count as u64 / looked_at)
    }
}

/// Which of `count` children are looked at, if they may be `most`: the middle ones of equal parts.
fn sampled(count: usize, most: usize) -> impl Iterator<Item = usize> {
    let step = count.div_ceil(most.clamp(1, SAMPLES));
    (step / 2..count).step_by(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_higher_tree_is_measured_by_no_more_branches_of_a_level() {
        for count in 2..300 {
            let (mut branches, mut most) = (1, SAMPLES_PER_LEVEL);
            for _level in 0..6 {
                branches *= sampled(count, most).count();
                most /= SAMPLES;
                assert!(branches <= SAMPLES_PER_LEVEL, "{count} children");
                assert!(branches >= SAMPLES.min(count) / 2, "{count} children");
            }
        }
    }

    #[test]
    fn all_children_are_looked_at_where_there_are_few() {
        for count in 1..=SAMPLES {
            let all: Vec<usize> = (0..count).collect();
            assert_eq!(sampled(count, SAMPLES).collect::<Vec<_>>(), all);
        }
        assert_eq!(
            sampled(60, 8).collect::<Vec<_>>(),
            [4, 12, 20, 28, 36, 44, 52]
        );
        assert_eq!(sampled(60, 0).collect::<Vec<_>>(), [30]);
    }
}

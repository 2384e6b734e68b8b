//! Walks a whole page file; tests, fuzzers and the offline inspector call it.
//!
//! It proves: keys are in order and inside their branch's bounds; levels, counts and weights add
//! up; every checksum is right; each unit of the file is exactly one of: meta page, reached by a
//! tree once, part of what says which space is free, given up since the last checkpoint, free or pending.

use super::file::PageFile;
use super::node::page::{Page, PageRef, UNIT};
use super::node::{Link, Node};
use super::pages::{FIRST_UNIT, View};
use super::tree::Tree;
use super::weight::Weight;
use crate::{Error, Result};

/// Pages of a tree on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageCounts {
    pub leaves: u64,
    pub branches: u64,
    pub units: u64,
}

/// A survey ends after this many damaged places: more would teach nothing.
const DAMAGE_MAX: usize = 100;

impl PageFile {
    /// Checks everything reachable and all free lists; an error names the first damage. Only while
    /// no checkpoint runs.
    pub(crate) fn check(&self, trees: &[&Tree]) -> Result<Vec<PageCounts>> {
        let (counts, damage) = self.survey(trees)?;
        match damage.into_iter().next() {
            None => Ok(counts),
            Some(first) => Err(first),
        }
    }

    /// Like `check`, but continues beside damaged pages and returns all damage. What is below them
    /// stays unknown, so sums and free space prove nothing after that. The error is one other than
    /// damage, or too much damage.
    pub(crate) fn survey(&self, trees: &[&Tree]) -> Result<(Vec<PageCounts>, Vec<Error>)> {
        let space = self.space.as_ref().expect("no checkpoint under way");
        let mut walk = Walk {
            file: self,
            taken: vec![false; space.units() as usize],
            counts: PageCounts::default(),
            damage: Vec::new(),
        };
        let mut counts = Vec::with_capacity(trees.len());
        walk.take(0, FIRST_UNIT)?;
        for tree in trees {
            let walked = walk.tree(tree);
            walk.beside(walked)?;
            counts.push(std::mem::take(&mut walk.counts));
        }
        for record in space.records() {
            walk.take(record.id, record.units.into())?;
        }
        for page in &self.writer.freed {
            walk.take(page.id, page.units as u64)?;
        }
        if !walk.damage.is_empty() {
            return Ok((counts, walk.damage));
        }
        let mut free = 0;
        for (start, units) in space.extents() {
            walk.take(start, units)?;
            free += units;
        }
        assert_eq!(free, space.free_units(), "the sum of what is free");
        space.check_sums();
        match walk.taken.iter().position(|taken| !taken) {
            Some(unit) => Err(walk.error(unit as u64, "unit neither used nor free")),
            None => Ok((counts, Vec::new())),
        }
    }
}

struct Walk<'f> {
    file: &'f PageFile,
    taken: Vec<bool>,
    /// Of the tree being walked.
    counts: PageCounts,
    damage: Vec<Error>,
}

/// The sums over a node's entries.
#[derive(Default)]
struct Sums {
    len: u64,
    weight: Weight,
}

impl<'f> Walk<'f> {
    fn error(&self, unit: u64, what: impl Into<String>) -> Error {
        Error::corrupt(
            self.file.shared.path(),
            unit.saturating_mul(UNIT as u64),
            what,
        )
    }

    /// Notes damage and returns `None`, so that the walk can continue beside it.
    fn beside<T>(&mut self, walked: Result<T>) -> Result<Option<T>> {
        match walked {
            Ok(walked) => Ok(Some(walked)),
            Err(error @ Error::Corrupt { .. }) if self.damage.len() < DAMAGE_MAX => {
                self.damage.push(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn take(&mut self, start: u64, units: u64) -> Result<()> {
        for unit in start..start.saturating_add(units) {
            match self.taken.get_mut(unit as usize) {
                Some(taken) if !*taken => *taken = true,
                Some(_) => return Err(self.error(unit, "unit used twice")),
                None => return Err(self.error(unit, "unit used beyond the end of the file")),
            }
        }
        Ok(())
    }

    fn take_page(&mut self, page: PageRef, level: u8) -> Result<()> {
        self.counts.units += u64::from(page.units);
        match level {
            0 => self.counts.leaves += 1,
            _ => self.counts.branches += 1,
        }
        self.take(page.id, page.units.into())
    }

    fn tree(&mut self, tree: &Tree) -> Result<()> {
        let sums = match &tree.root {
            None => Sums::default(),
            Some(Link::Disk { page, level }) => self.disk(tree, *page, *level, None, None)?,
            Some(Link::Memory(node)) => self.memory(tree, node, None, None)?,
        };
        let are_wrong = sums.len != tree.len || sums.weight.cut() != tree.weight.cut();
        if are_wrong && self.damage.is_empty() {
            return Err(self.error(0, format!("totals of tree {} are wrong", tree.kind.id)));
        }
        Ok(())
    }

    fn disk(
        &mut self,
        tree: &Tree,
        page: PageRef,
        level: u8,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<Sums> {
        // Reading checks that the reference is inside the file; only then is it counted.
        let image = self.file.writer.pages.read_again(page, &tree.kind, level)?;
        self.take_page(page, level)?;
        let view = View {
            image,
            children: &[],
        };
        self.node(tree, &view, page.id, from, to)
    }

    fn memory(
        &mut self,
        tree: &Tree,
        node: &Node,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<Sums> {
        let writer = &self.file.writer;
        let mut unit = 0;
        if node.born != writer.counter {
            let Some(page) = node.saved.get() else {
                return Err(self.error(0, "a node that the last checkpoint left out"));
            };
            let level = node.page().level();
            let image = writer.pages.read_again(*page, &tree.kind, level)?;
            let same = (0..node.page().count()).all(|i| same_entry(Page(&image), node.page(), i));
            if !same || Page(&image).count() != node.page().count() {
                return Err(self.error(page.id, "differs from its node in memory"));
            }
            self.take_page(*page, level)?;
            unit = page.id;
        }
        self.node(tree, &View::of(node), unit, from, to)
    }

    /// Checks a node; its keys must be in `from..to`.
    fn node(
        &mut self,
        tree: &Tree,
        view: &View<'_>,
        unit: u64,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<Sums> {
        let page = view.page();
        let order = tree.kind.order;
        self.keys(tree, page, unit, from, to)?;
        if page.level() == 0 {
            return Ok(Sums {
                len: page.count() as u64,
                weight: page.weigh(&tree.kind, 0..page.count()),
            });
        }
        if page.count() < 2 {
            return Err(self.error(unit, "branch with a single child"));
        }
        let mut sums = Sums::default();
        for i in 0..page.count() {
            let own = (i > 0).then(|| page.key(i).to_vec());
            let next = (i + 1 < page.count()).then(|| page.key(i + 1).to_vec());
            let (from, to) = (own.as_deref().or(from), next.as_deref().or(to));
            let below = match view.children.get(i) {
                Some(Some(child)) if child.page().level() + 1 == page.level() => {
                    self.memory(tree, child, from, to)
                }
                Some(Some(_)) => return Err(self.error(unit, "child of the wrong level")),
                _ => self.disk(tree, page.child(i), page.level() - 1, from, to),
            };
            let Some(below) = self.beside(below)? else {
                continue;
            };
            if below.weight.cut() != page.weight(i) && self.damage.is_empty() {
                return Err(self.error(unit, format!("weight of child {i} is wrong ({order:?})")));
            }
            sums.len += below.len;
            sums.weight = sums.weight + below.weight;
        }
        Ok(sums)
    }

    fn keys(
        &self,
        tree: &Tree,
        page: Page<'_>,
        unit: u64,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<()> {
        let order = tree.kind.order;
        let first = usize::from(page.level() > 0);
        let mut key = Vec::new();
        for i in first..page.count() {
            let is_after = i == first || order.compare_key(page.key(i), &key).is_gt();
            page.key(i).join_into(&mut key);
            let key = key.as_slice();
            let good = is_after
                && from.is_none_or(|from| order.compare(from, key).is_le())
                && to.is_none_or(|to| order.compare(key, to).is_lt());
            if !good {
                return Err(self.error(unit, format!("key {i} out of order or bounds")));
            }
        }
        Ok(())
    }
}

/// True if entry `i` is the same on both pages. A branch in memory knows its in-memory children by
/// their nodes, not by their place.
fn same_entry(disk: Page<'_>, memory: Page<'_>, i: usize) -> bool {
    if i >= disk.count() || disk.key(i).to_vec() != memory.key(i).to_vec() {
        return false;
    }
    if disk.level() > 0 {
        return disk.weight(i) == memory.weight(i);
    }
    disk.value(i) == memory.value(i)
}

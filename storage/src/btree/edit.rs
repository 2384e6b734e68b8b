//! Changes a tree. Knows the disk only for loading a page that it must change.

pub(super) mod merge;
pub(super) mod rewrite;
mod share;
pub(super) mod split;
mod trim;
mod writer;

use std::mem;
use std::sync::Arc;

use super::kind::TreeKind;
use super::node::image::{Image, NOWHERE, round_up};
use super::node::key::Key;
use super::node::page::{CHILD_BYTES, HEADER, SLOT, UNIT, cell_len, child_value};
use super::node::{Link, Node};
use super::{SUFFIX_BYTES, Tree, Weight};
use crate::Result;
use crate::btree::kind::KeyOrder;
use share::share;
use split::{Split, place};

pub(crate) use writer::Writer;

/// The effect of an edit on a subtree.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The key existed before.
    pub(super) found: bool,
    /// The change of the weight.
    pub(super) weight: Weight,
    /// A new right sibling.
    pub(super) split: Option<Split>,
    /// The entry is not in yet (an old one with its key is out). The leaf was split at its place,
    /// so that it gets a leaf of its own.
    pub(super) retry: bool,
}

/// After an error a tree is as it was before the call.
impl Tree {
    /// Sets the value of `key`; returns whether it existed before.
    pub(crate) fn insert(&mut self, w: &mut Writer, key: &[u8], value: &[u8]) -> Result<bool> {
        if self.kind.order == KeyOrder::KeyThenRevision {
            assert!(key.len() >= SUFFIX_BYTES, "key without a revision");
        }
        let kind = self.kind;
        let mut found = false;
        loop {
            let outcome = self.insert_with(w, key, |w, leaf, edge| {
                Ok(insert_in_leaf(&kind, w, leaf, key, value, edge))
            })?;
            found |= outcome.found;
            if !outcome.retry {
                self.len += u64::from(!found);
                return Ok(found);
            }
        }
    }

    /// Inserts `key`, which must not exist. `make` returns its value after it has seen the next
    /// entry: the key, and the value, which it may edit in place. Returns `false` and changes
    /// nothing if that entry is in another leaf. One descent instead of three.
    pub(crate) fn insert_before_next<V: AsRef<[u8]>>(
        &mut self,
        w: &mut Writer,
        key: &[u8],
        make: impl FnOnce(Option<(Key<'_>, &mut [u8])>) -> Result<V>,
    ) -> Result<bool> {
        let kind = self.kind;
        let (mut make, mut made) = (Some(make), None);
        let outcome = self.insert_with(w, key, |w, leaf, edge| {
            let (Ok(index) | Err(index)) = leaf.page().search(kind.order, key);
            if index == leaf.page().count() && !edge {
                return Ok(Outcome::default());
            }
            let make = make.take().expect("one leaf is reached");
            let (value, change) = see_next(&kind, leaf, index, make)?;
            let value = made.insert(value);
            let entry = (key, value.as_ref());
            let mut outcome = put_in_leaf(&kind, w, leaf, entry, Err(index), edge);
            outcome.weight = outcome.weight + change;
            Ok(outcome)
        })?;
        match made {
            None => Ok(false),
            Some(value) if outcome.retry => self.insert(w, key, value.as_ref()).map(|_| true),
            Some(_) => {
                self.len += 1;
                Ok(true)
            }
        }
    }

    /// Lets `in_leaf` change the leaf where `key` belongs; its flag is true for the last leaf.
    fn insert_with(
        &mut self,
        w: &mut Writer,
        key: &[u8],
        mut in_leaf: impl FnMut(&mut Writer, &mut Node, bool) -> Result<Outcome>,
    ) -> Result<Outcome> {
        let kind = self.kind;
        let root = self.root_mut(w)?;
        let mut outcome = insert_below(&kind, w, root, key, true, &mut in_leaf)?;
        let weight = self.weight + outcome.weight;
        if let Some(split) = outcome.split.take() {
            self.grow(w, weight, split);
        }
        self.weight = weight;
        Ok(outcome)
    }

    /// Edits the value of `key` in place (same length); returns whether the key exists.
    pub(crate) fn update(
        &mut self,
        w: &mut Writer,
        key: &[u8],
        edit: impl FnOnce(&mut [u8]),
    ) -> Result<bool> {
        if self.root.is_none() {
            return Ok(false);
        }
        let kind = self.kind;
        let root = self.root_mut(w)?;
        let weight = update_below(&kind, w, root, key, edit)?;
        self.weight = self.weight + weight.unwrap_or_default();
        Ok(weight.is_some())
    }

    /// Removes `key`; returns whether it existed.
    pub(crate) fn remove(&mut self, w: &mut Writer, key: &[u8]) -> Result<bool> {
        if self.root.is_none() {
            return Ok(false);
        }
        let kind = self.kind;
        let root = self.root_mut(w)?;
        let Some(weight) = remove_below(&kind, w, root, key)? else {
            return Ok(false);
        };
        self.weight = self.weight + weight;
        self.len -= 1;
        self.collapse(w);
        Ok(true)
    }

    /// The root, loaded into memory; a new leaf if there is none.
    pub(super) fn root_mut(&mut self, w: &mut Writer) -> Result<&mut Arc<Node>> {
        let link = match self.root.take() {
            Some(Link::Memory(node)) => node,
            Some(Link::Disk { page, level }) => match w.load(&self.kind, page, level) {
                Ok(node) => node,
                Err(error) => {
                    self.root = Some(Link::Disk { page, level });
                    return Err(error);
                }
            },
            None => w.node(Image::new(&self.kind, 0, UNIT), Vec::new()),
        };
        match self.root.insert(Link::Memory(link)) {
            Link::Memory(node) => Ok(node),
            Link::Disk { .. } => unreachable!("just put into memory"),
        }
    }

    /// Puts a new root above the old one and its new sibling.
    fn grow(&mut self, w: &mut Writer, weight: Weight, split: Split) {
        let Some(Link::Memory(left)) = self.root.take() else {
            unreachable!("a root that was split is in memory");
        };
        let level = left.page().level() + 1;
        let cells = cell_len(0, CHILD_BYTES) + cell_len(split.bound.len(), CHILD_BYTES);
        let len = round_up(HEADER + 2 * SLOT + cells);
        let mut image = Image::new(&self.kind, level, len);
        image.insert(0, &[], &child_value(weight - split.weight, NOWHERE));
        image.insert(1, &split.bound, &child_value(split.weight, NOWHERE));
        let root = w.node(image, vec![Some(left), Some(split.node)]);
        self.root = Some(Link::Memory(root));
    }

    /// Removes roots that are empty or have only one child.
    fn collapse(&mut self, w: &mut Writer) {
        while let Some(Link::Memory(root)) = &self.root {
            let page = root.page();
            let next = match (page.count(), page.level()) {
                (0, _) => None,
                (1, 1..) => Some(match &root.children[0] {
                    Some(child) => Link::Memory(child.clone()),
                    None => Link::Disk {
                        page: page.child(0),
                        level: page.level() - 1,
                    },
                }),
                _ => return,
            };
            if let Some(Link::Memory(old)) = mem::replace(&mut self.root, next) {
                w.detach(old);
            }
        }
    }
}

/// `edge`: the node is the last one of its level, so entries appended to it come in order.
fn insert_below(
    kind: &TreeKind,
    w: &mut Writer,
    link: &mut Arc<Node>,
    key: &[u8],
    edge: bool,
    in_leaf: &mut impl FnMut(&mut Writer, &mut Node, bool) -> Result<Outcome>,
) -> Result<Outcome> {
    let node = w.own(link);
    if node.page().level() == 0 {
        return in_leaf(w, node, edge);
    }
    let index = node.page().child_for(kind.order, key);
    let edge = edge && index + 1 == node.page().count();
    let child = w.load_child(kind, node, index)?;
    let mut outcome = insert_below(kind, w, child, key, edge, in_leaf)?;
    if outcome.weight == Weight::NONE && outcome.split.is_none() {
        return Ok(outcome);
    }
    let weight = node.page().weight(index) + outcome.weight;
    let Some(split) = outcome.split.take() else {
        node.image.set_weight(index, weight);
        return Ok(outcome);
    };
    // A leaf that keys were appended to stays full, and one that was split at the place of an entry
    // must stay so.
    let is_appended = split.node.page().count() == 1;
    let may_share = node.page().level() == 1 && !is_appended && !outcome.retry;
    if may_share && share(kind, w, node, index, &split) {
        w.detach(split.node);
        return Ok(outcome);
    }
    node.image.set_weight(index, weight - split.weight);
    let value = child_value(split.weight, NOWHERE);
    let child = Some(split.node);
    let placed = place(kind, w, node, index + 1, &split.bound, &value, child, edge);
    outcome.split = placed.split;
    Ok(outcome)
}

/// The result of `make` after it saw, and perhaps edited, the entry at `index`; and the change of
/// that entry's weight.
fn see_next<V>(
    kind: &TreeKind,
    leaf: &mut Node,
    index: usize,
    make: impl FnOnce(Option<(Key<'_>, &mut [u8])>) -> Result<V>,
) -> Result<(V, Weight)> {
    if index == leaf.page().count() {
        return Ok((make(None)?, Weight::NONE));
    }
    let (key, value) = leaf.image.entry_mut(index);
    let before = (kind.weigh)(key.len(), value);
    let made = make(Some((key, value)))?;
    let (key, value) = leaf.image.entry_mut(index);
    let after = (kind.weigh)(key.len(), value);
    Ok((made, after - before))
}

fn insert_in_leaf(
    kind: &TreeKind,
    w: &mut Writer,
    node: &mut Node,
    key: &[u8],
    value: &[u8],
    edge: bool,
) -> Outcome {
    let page = node.page();
    let count = page.count();
    let after_last = edge && count > 0 && kind.order.compare_key(page.key(count - 1), key).is_lt();
    let place_of = if after_last {
        Err(count)
    } else {
        page.search(kind.order, key)
    };
    put_in_leaf(kind, w, node, (key, value), place_of, edge)
}

/// `place_of` returns where the key is, or belongs.
fn put_in_leaf(
    kind: &TreeKind,
    w: &mut Writer,
    node: &mut Node,
    (key, value): (&[u8], &[u8]),
    place_of: std::result::Result<usize, usize>,
    edge: bool,
) -> Outcome {
    let page = node.page();
    let mut weight = (kind.weigh)(key.len(), value);
    let mut old_weight = Weight::NONE;
    let (found, index) = match place_of {
        Err(index) => (false, index),
        Ok(index) => {
            let old = page.value(index);
            old_weight = (kind.weigh)(key.len(), old);
            if old.len() == value.len() {
                node.image.value_mut(index).copy_from_slice(value);
                return Outcome {
                    found: true,
                    weight: weight - old_weight,
                    ..Outcome::default()
                };
            }
            node.image.remove(index);
            (true, index)
        }
    };
    let placed = place(kind, w, node, index, key, value, None, edge);
    if placed.retry {
        weight = Weight::NONE;
    }
    Outcome {
        found,
        weight: weight - old_weight,
        split: placed.split,
        retry: placed.retry,
    }
}

fn update_below(
    kind: &TreeKind,
    w: &mut Writer,
    link: &mut Arc<Node>,
    key: &[u8],
    edit: impl FnOnce(&mut [u8]),
) -> Result<Option<Weight>> {
    let node = w.own(link);
    if node.page().level() == 0 {
        let Ok(index) = node.page().search(kind.order, key) else {
            return Ok(None);
        };
        let before = (kind.weigh)(key.len(), node.page().value(index));
        edit(node.image.value_mut(index));
        let after = (kind.weigh)(key.len(), node.page().value(index));
        return Ok(Some(after - before));
    }
    let index = node.page().child_for(kind.order, key);
    let child = w.load_child(kind, node, index)?;
    let weight = update_below(kind, w, child, key, edit)?;
    if let Some(change) = weight
        && change != Weight::NONE
    {
        let sum = node.page().weight(index) + change;
        node.image.set_weight(index, sum);
    }
    Ok(weight)
}

fn remove_below(
    kind: &TreeKind,
    w: &mut Writer,
    link: &mut Arc<Node>,
    key: &[u8],
) -> Result<Option<Weight>> {
    let node = w.own(link);
    if node.page().level() == 0 {
        let Ok(index) = node.page().search(kind.order, key) else {
            return Ok(None);
        };
        let weight = (kind.weigh)(key.len(), node.page().value(index));
        node.image.remove(index);
        return Ok(Some(Weight::NONE - weight));
    }
    let index = node.page().child_for(kind.order, key);
    let child = w.load_child(kind, node, index)?;
    let weight = remove_below(kind, w, child, key)?;
    if let Some(change) = weight {
        let sum = node.page().weight(index) + change;
        node.image.set_weight(index, sum);
        merge::settle(kind, w, node, index);
    }
    Ok(weight)
}

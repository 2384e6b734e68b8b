//! Writes an immutable clone of all trees to the page file. Runs on any thread, beside the writer.
//!
//! 1. Every node that has no place in the file yet gets one, children before parents, in units to
//!    which neither of the two metas on disk refers.
//! 2. What says which space is free gets a place; everything is synced.
//! 3. Only then the meta page is written over the older of the two, and synced. A power cut before
//!    the end of that leaves the newer one, and everything it refers to, untouched.
//!
//! A full disk ends an attempt, not the checkpoint: no meta refers to what the attempt wrote. The
//! same job continues later where it stopped. Nodes that have a place keep it: their bytes are in
//! the file or still in the job's buffer.

pub(super) mod output;
pub(super) mod spill;

use std::sync::Arc;

use super::meta::{Meta, Root};
use super::node::image::Image;
use super::node::page::{PageRef, UNIT};
use super::node::{Link, Node};
use super::pages::Shared;
use super::space::Space;
use super::space::wipe::Wipe;
use super::tree::Tree;
use crate::encryption::CLEAR;
use crate::vfs::{self, File, is_full};
use crate::{Error, Result};
use output::Output;

/// The work of one checkpoint; runs on any thread.
#[derive(Debug)]
pub(crate) struct CheckpointJob {
    pub(super) file: Arc<dyn File>,
    pub(super) shared: Arc<Shared>,
    pub(super) generation: u64,
    pub(super) trees: Vec<Tree>,
    pub(super) user: Vec<u8>,
    pub(super) space: Space,
    /// Pages that the trees gave up since the last checkpoint began.
    pub(super) freed: Vec<PageRef>,
    /// Generations whose `Pages` may still be held, ascending.
    pub(super) views: Vec<u64>,
    /// Length of the file in the last meta, in units: all of it must stay for the fallback.
    pub(super) units_before: u64,
    /// The last meta, to be written again before anything else (see `open`).
    pub(super) unproven: Option<Vec<u8>>,
    /// Wipe free space, from the given place on.
    pub(super) wipe: Option<Wipe>,
    /// Leftovers of the last checkpoint, to be dropped here.
    pub(super) retired: Option<Retired>,
    pub(super) out: Output,
    /// Progress of earlier attempts: space is settled, and what says which is free has a place.
    pub(super) settled: bool,
    pub(super) list: Option<PageRef>,
}

/// The result of running a checkpoint.
#[derive(Debug)]
pub(crate) enum Attempt {
    Done(Box<CheckpointDone>),
    /// The disk is full, as the error says; run the job again when it is not.
    Full(Box<CheckpointJob>, Error),
}

/// Proof that a checkpoint is durable.
#[derive(Debug)]
pub(crate) struct CheckpointDone {
    pub(super) meta: Meta,
    pub(super) space: Space,
    pub(super) trees: Vec<Tree>,
    pub(super) wipe: Option<Wipe>,
    /// The file was shortened: nothing is reserved behind its end now.
    pub(super) was_cut: bool,
}

/// Memory that a checkpoint made superfluous; dropping it may take milliseconds.
#[derive(Debug)]
pub(crate) struct Retired {
    pub(super) _trees: Vec<Tree>,
}

impl CheckpointJob {
    /// Writes and syncs. Every error is final, even a full disk: the page file must be opened
    /// again.
    pub(crate) fn run(self) -> Result<CheckpointDone> {
        match self.attempt()? {
            Attempt::Done(done) => Ok(*done),
            Attempt::Full(_, error) => Err(error),
        }
    }

    /// `rest` is called between pieces of the work, and returns the bytes of the next one; each
    /// piece keeps the disk busy for a while.
    pub(crate) fn resting(
        mut self,
        rest: impl FnMut() -> usize + Send + Sync + 'static,
    ) -> CheckpointJob {
        self.out.rest_with(rest);
        self
    }

    /// The free end of the file is cut off only as long as `cuts` returns true, and the rest of it
    /// by a later checkpoint.
    pub(crate) fn cutting_while(
        mut self,
        cuts: impl Fn() -> bool + Send + Sync + 'static,
    ) -> CheckpointJob {
        self.out.cut_while(cuts);
        self
    }

    /// Writes and syncs, as far as there is space. An error is final.
    pub(crate) fn attempt(mut self) -> Result<Attempt> {
        drop(self.retired.take());
        match self.write() {
            Ok(meta) => Ok(Attempt::Done(Box::new(self.end(meta)?))),
            Err(error) if error.is_full() => Ok(Attempt::Full(Box::new(self), error)),
            Err(error) => Err(error),
        }
    }

    /// May be called again after it failed on a full disk.
    fn write(&mut self) -> Result<Meta> {
        if let Some(meta) = &self.unproven {
            self.out.write_at(meta, Meta::offset(self.generation - 1))?;
            self.out.sync()?;
            self.unproven = None;
        }
        if !self.settled {
            self.space.settle(self.generation, &self.freed, &self.views);
            self.settled = true;
        }
        let (space, out) = (&mut self.space, &mut self.out);
        let mut roots = Vec::with_capacity(self.trees.len());
        for tree in &mut self.trees {
            roots.push(save_root(tree, space, out)?);
        }
        let list = match self.list {
            Some(list) => list,
            // Nothing is allocated after this: it stays right in all attempts.
            None => *self.list.insert(save_space(space, self.generation, out)?),
        };
        out.flush()?;
        if let Some(mut wipe) = self.wipe {
            out.wipe(&mut wipe, space)?;
            self.wipe = Some(wipe);
        }
        out.sync()?;
        self.shared.map_through(space.units())?;
        let meta = Meta {
            generation: self.generation,
            units: space.units(),
            free_list: Some(list),
            key: self
                .shared
                .sealing()
                .map_or(CLEAR, |s| s.data_keys.active()),
            roots,
            user: self.user.clone(),
        };
        // Everything that the meta refers to is durable: it may take effect.
        out.write_at(&meta.encode(), Meta::offset(self.generation))?;
        out.sync()?;
        Ok(meta)
    }

    fn end(mut self, meta: Meta) -> Result<CheckpointDone> {
        let units = meta.units.max(self.units_before);
        // Frees what only the overwritten meta page referred to.
        self.space.free_before(self.generation + 1, &self.views);
        let was_cut = truncate(&*self.file, &self.shared, units, &mut self.out)?;
        self.shared.relock(units)?;
        Ok(CheckpointDone {
            meta,
            space: self.space,
            trees: self.trees,
            wipe: self.wipe,
            was_cut,
        })
    }
}

/// Gives back the end of the file that neither of the two metas includes, as far as it may. True if
/// the file is shorter now, or may be.
fn truncate(file: &dyn File, shared: &Shared, units: u64, out: &mut Output) -> Result<bool> {
    let needed = units * UNIT as u64;
    let len = out.file_bytes()?;
    let mut left = len;
    while left > needed && out.may_cut() {
        left = left.saturating_sub(vfs::SHORTENING_STEP_BYTES).max(needed);
        match vfs::shorten(file, left, || out.rest()) {
            // Some file systems need space to free space. The next checkpoint tries again.
            Err(error) if is_full(&error) => break,
            done => done.map_err(Error::io("truncate", shared.path()))?,
        }
    }
    Ok(left < len)
}

fn save_space(space: &mut Space, generation: u64, out: &mut Output) -> Result<PageRef> {
    // If the disk is full it is found here, before anything is allocated.
    out.flush()?;
    let (start, bytes) = space.save(generation, out.file_bytes()? / UNIT as u64);
    match out.put(start, &bytes) {
        Ok(place) => {
            space.saved(place);
            Ok(place)
        }
        Err(error) => {
            space.give_back(start, (bytes.len() / UNIT) as u32);
            Err(error)
        }
    }
}

fn save_root(tree: &mut Tree, space: &mut Space, out: &mut Output) -> Result<Root> {
    let (page, level) = match &mut tree.root {
        None => (None, 0),
        Some(Link::Disk { page, level }) => (Some(*page), *level),
        Some(Link::Memory(node)) => (Some(save_held(node, space, out)?), node.page().level()),
    };
    Ok(Root {
        tree: tree.kind.id,
        level,
        page,
        len: tree.len,
        weight: tree.weight,
    })
}

/// Like [`save`], and frees a node that nobody else holds as soon as it has its place: while a
/// checkpoint runs, the writer replaces most nodes of a busy tree.
fn save_held(link: &mut Arc<Node>, space: &mut Space, out: &mut Output) -> Result<PageRef> {
    if let Some(saved) = link.saved.get() {
        return Ok(*saved);
    }
    let mut places = Vec::new();
    for i in 0..link.children.len() {
        // Asked for each child again: readers and the writer may drop the node at any time.
        if let Some(node) = Arc::get_mut(link) {
            let Some(child) = &mut node.children[i] else {
                continue;
            };
            let saved = save_held(child, space, out)?;
            node.image.set_child(i, saved);
            node.children[i] = None;
        } else if let Some(child) = &link.children[i] {
            places.push((i, save(child, space, out)?));
        }
    }
    place(link, &places, space, out)
}

/// Gives a node and all nodes below it a place in the file.
pub(super) fn save(node: &Node, space: &mut Space, out: &mut Output) -> Result<PageRef> {
    if let Some(saved) = node.saved.get() {
        return Ok(*saved);
    }
    let mut places = Vec::new();
    for (i, child) in node.children.iter().enumerate() {
        if let Some(child) = child {
            places.push((i, save(child, space, out)?));
        }
    }
    place(node, &places, space, out)
}

/// Gives a node its place, and writes the `places` of its children into it.
fn place(
    node: &Node,
    places: &[(usize, PageRef)],
    space: &mut Space,
    out: &mut Output,
) -> Result<PageRef> {
    let tight = super::node::image::round_up(node.page().used());
    let is_tight = tight == node.image.len();
    let mut patched: Option<Image> = (!is_tight).then(|| node.image.packed(tight));
    for (i, saved) in places {
        patched
            .get_or_insert_with(|| node.image.clone())
            .set_child(*i, *saved);
    }
    let bytes = patched.as_ref().unwrap_or(&node.image).bytes();
    let start = space.allocate((tight / UNIT) as u32);
    let put = out.put_node(start, bytes);
    if put.is_err() {
        space.give_back(start, (tight / UNIT) as u32);
    }
    let page = put?;
    assert!(node.saved.set(page).is_ok(), "one checkpoint at a time");
    Ok(page)
}

//! Trees against a model, with checkpoints, views, reopening, power cuts and damage in between.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arbitrary::Unstructured;

use super::file::Opened;
use super::space::saved::changes::Limits;
use super::*;
use crate::Result;
use crate::encryption::{DataKeys, sample};
use crate::vfs::Vfs;
use crate::vfs::sim::SimVfs;

#[cfg(test)]
mod crash;
pub(crate) mod faults;
pub(crate) mod model;
#[cfg(test)]
mod shape;

pub(super) const PATH: &str = "/store/pages";

/// The weight depends on the first value byte, so that updates change weights.
pub(super) fn weigh(key_len: usize, value: &[u8]) -> Weight {
    if value.first().is_some_and(|b| b & 1 == 1) {
        Weight {
            count: 1,
            bytes: (key_len + value.len()) as u64,
        }
    } else {
        Weight::NONE
    }
}

pub(super) const KINDS: [TreeKind; 3] = [
    TreeKind {
        id: 1,
        order: KeyOrder::KeyThenRevision,
        weigh,
        leaf_bytes: 4096,
        has_prefixes: true,
    },
    TreeKind {
        id: 2,
        order: KeyOrder::Bytes,
        weigh,
        leaf_bytes: 16384,
        has_prefixes: false,
    },
    TreeKind {
        id: 3,
        order: KeyOrder::Bytes,
        weigh,
        leaf_bytes: 4096,
        has_prefixes: true,
    },
];

/// Files of tests are so small that they would have no records of changes.
const RECORD_LIMITS: Limits = Limits {
    records: 4,
    part: 4,
    spare: 8,
};

pub(super) fn disk() -> SimVfs {
    let vfs = SimVfs::new(7);
    vfs.create_dir_all(Path::new("/store")).unwrap();
    vfs.sync_dir(Path::new("/")).unwrap();
    vfs
}

/// A page file with its trees, as the store holds them.
pub(super) struct Bench {
    pub(super) file: PageFile,
    pub(super) trees: Vec<Tree>,
}

impl Bench {
    pub(super) fn open(vfs: &SimVfs) -> Result<(Bench, Opened)> {
        Bench::open_with(vfs, sample::keys_of(vfs)?)
    }

    pub(super) fn open_with(
        vfs: &SimVfs,
        data_keys: Option<Arc<DataKeys>>,
    ) -> Result<(Bench, Opened)> {
        let vfs = Arc::new(vfs.clone());
        let (mut file, mut opened) = PageFile::open(vfs, Path::new(PATH), &KINDS, data_keys)?;
        let space = file.space.as_mut().expect("no checkpoint under way");
        space.limit_records(RECORD_LIMITS);
        let trees = std::mem::take(&mut opened.trees);
        Ok((Bench { file, trees }, opened))
    }

    pub(super) fn insert(&mut self, tree: usize, key: &[u8], value: &[u8]) -> bool {
        self.trees[tree]
            .insert(self.file.writer(), key, value)
            .unwrap()
    }

    pub(super) fn remove(&mut self, tree: usize, key: &[u8]) -> bool {
        self.trees[tree].remove(self.file.writer(), key).unwrap()
    }

    pub(super) fn remove_through(&mut self, tree: usize, key: &[u8]) -> Result<u64> {
        let tree = &mut self.trees[tree];
        tree.remove_through(self.file.writer(), key)
    }

    pub(super) fn begin(&mut self, user: &[u8]) -> CheckpointJob {
        let trees: Vec<&Tree> = self.trees.iter().collect();
        self.file.begin_checkpoint(&trees, user)
    }

    #[cfg(test)]
    pub(super) fn checkpoint(&mut self, user: &[u8]) -> Result<()> {
        let done = self.begin(user).run()?;
        self.file.finish_checkpoint(done);
        Ok(())
    }

    pub(super) fn release(&mut self, budget: usize) {
        for tree in &mut self.trees {
            while !self.file.release_saved(tree, budget) {}
        }
    }

    /// Spills the second tree, which is the one that grows at its end.
    pub(super) fn spill(&mut self, budget: usize) -> Result<()> {
        match self.file.spill(&mut self.trees[1], budget)? {
            Some(job) => job.run(),
            None => Ok(()),
        }
    }

    /// Has pages behind this part (of 256) of the file moved, some only from a key on.
    pub(super) fn relocate(&mut self, tree: usize, part: u8, from: &[u8]) -> Result<()> {
        if self.file.checkpoint_running() {
            return Ok(());
        }
        let units = self.file.stats().file_bytes / UNIT as u64;
        let behind = Unfit::EndsBehind(units * u64::from(part) / 256);
        let tree = &mut self.trees[tree];
        self.file.rewrite(tree, behind, from, &mut 60).map(|_| ())
    }

    pub(super) fn check(&self) -> Result<()> {
        let trees: Vec<&Tree> = self.trees.iter().collect();
        self.file.check(&trees).map(|_| ())
    }
}

pub(super) fn entries(tree: &Tree, pages: &Pages) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut cursor = tree.cursor(pages);
    let mut found = Vec::new();
    let mut more = match tree.kind.order {
        KeyOrder::Bytes => cursor.seek(&[])?,
        KeyOrder::KeyThenRevision => cursor.seek(&[0; SUFFIX_BYTES])?,
    };
    while more {
        found.push((cursor.key().to_vec(), cursor.value().to_vec()));
        more = cursor.next()?;
    }
    Ok(found)
}

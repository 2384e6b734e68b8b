//! Random operations on all trees, each compared with a `BTreeMap` at every step.

use super::*;

/// Keys in their sort order: for the revision order, user key and suffix are separate.
pub(super) type Model = BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>;

pub(super) fn split(kind: TreeKind, key: &[u8]) -> (Vec<u8>, Vec<u8>) {
    match kind.order {
        KeyOrder::Bytes => (key.to_vec(), Vec::new()),
        KeyOrder::KeyThenRevision => {
            let (key, suffix) = key.split_at(key.len() - SUFFIX_BYTES);
            (key.to_vec(), suffix.to_vec())
        }
    }
}

pub(super) fn join(key: &(Vec<u8>, Vec<u8>)) -> Vec<u8> {
    [&key.0[..], &key.1[..]].concat()
}

struct Run {
    vfs: SimVfs,
    bench: Bench,
    models: Vec<Model>,
    /// The models when the running checkpoint began.
    job: Option<(CheckpointJob, Vec<Model>)>,
    durable: Vec<Model>,
    /// Views that must never change.
    views: Vec<(Vec<Tree>, Arc<Pages>, Vec<Model>)>,
    clock: u64,
}

pub(super) fn key(u: &mut Unstructured<'_>, kind: TreeKind) -> arbitrary::Result<Vec<u8>> {
    let shape = u.int_in_range(0..=19u8)?;
    let mut key = match shape {
        0 => Vec::new(),
        1 => vec![0; u.int_in_range(1..=3)?],
        // A long shared prefix, and sometimes a key of several units.
        2 => [vec![b'p'; 300], u.arbitrary::<[u8; 2]>()?.to_vec()].concat(),
        3 => [
            vec![b'q'; 5000 * u.int_in_range(0..=2)?],
            vec![u.arbitrary()?],
        ]
        .concat(),
        _ => format!("/registry/pods/{:04}", u.int_in_range(0..=700u16)?).into_bytes(),
    };
    if kind.order == KeyOrder::KeyThenRevision {
        let revision = !u64::from(u.int_in_range(1..=6u8)?);
        key.extend_from_slice(&revision.to_be_bytes());
        key.extend_from_slice(&[0xff; 4]);
    }
    Ok(key)
}

pub(super) fn value(u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
    let len = match u.int_in_range(0..=30u8)? {
        0 => 0,
        1 => u.int_in_range(3000..=9000)?,
        2 => u.int_in_range(15000..=70000)?,
        3..=8 => u.int_in_range(1..=1500)?,
        _ => 40,
    };
    Ok(vec![u.arbitrary()?; len])
}

impl Run {
    fn new() -> Run {
        let vfs = disk();
        let (bench, _) = Bench::open(&vfs).unwrap();
        Run {
            vfs,
            bench,
            models: vec![Model::new(); KINDS.len()],
            job: None,
            durable: vec![Model::new(); KINDS.len()],
            views: Vec::new(),
            clock: 0,
        }
    }

    fn step(&mut self, u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
        let tree = u.int_in_range(0..=KINDS.len() - 1)?;
        match u.int_in_range(0..=99u8)? {
            0..=39 => self.insert(tree, &key(u, KINDS[tree])?, &value(u)?),
            40..=49 => {
                // In order, as revisions come.
                for _ in 0..u.int_in_range(1..=60)? {
                    self.clock += 1;
                    let key = format!("~{:012}~~~~~~~~~~~~", self.clock).into_bytes();
                    self.insert(tree, &key, &value(u)?);
                }
            }
            50..=64 => self.remove(tree, &key(u, KINDS[tree])?),
            65..=69 => self.remove_range(tree, &key(u, KINDS[tree])?, u.int_in_range(1..=200)?),
            70..=76 => self.update(tree, &key(u, KINDS[tree])?),
            77..=84 => self.seek(tree, &key(u, KINDS[tree])?),
            85..=88 => self.begin(),
            89..=91 => self.finish(),
            92 if u.arbitrary()? => {
                self.remove_first(tree, u.int_in_range(1..=200)?, u.arbitrary()?)
            }
            92 => self.finish(),
            93 if u.arbitrary()? => self.release(u.int_in_range(1..=50)?),
            93 => {
                let (part, from) = (u.arbitrary()?, key(u, KINDS[tree])?);
                self.bench.relocate(tree, part, &from).unwrap();
            }
            94 => self.bench.spill(u.int_in_range(1..=100_000)?).unwrap(),
            95..=96 => self.view(),
            97 => self.forget_view(u.arbitrary()?),
            98 => self.compare(),
            _ => self.reopen(),
        }
        Ok(())
    }

    fn insert(&mut self, tree: usize, key: &[u8], value: &[u8]) {
        let replaced = self.bench.insert(tree, key, value);
        let old = self.models[tree].insert(split(KINDS[tree], key), value.to_vec());
        assert_eq!(replaced, old.is_some());
    }

    fn remove(&mut self, tree: usize, key: &[u8]) {
        let removed = self.bench.remove(tree, key);
        let old = self.models[tree].remove(&split(KINDS[tree], key));
        assert_eq!(removed, old.is_some());
    }

    fn remove_range(&mut self, tree: usize, key: &[u8], count: usize) {
        let from = split(KINDS[tree], key);
        let keys: Vec<_> = self.models[tree]
            .range(from..)
            .take(count)
            .map(|(k, _)| join(k))
            .collect();
        keys.iter().for_each(|key| self.remove(tree, key));
    }

    /// The first entries in one call, sometimes through a key that may not exist.
    fn remove_first(&mut self, tree: usize, count: usize, is_exact: bool) {
        let Some(last) = beginning(&self.models[tree], count, is_exact) else {
            return;
        };
        let removed = self.bench.remove_through(tree, &last).unwrap();
        assert_eq!(
            removed,
            forget_through(&mut self.models[tree], KINDS[tree], &last)
        );
    }

    fn update(&mut self, tree: usize, key: &[u8]) {
        let flip = |value: &mut [u8]| value.iter_mut().for_each(|b| *b ^= 1);
        let found = self.bench.trees[tree]
            .update(self.bench.file.writer(), key, flip)
            .unwrap();
        let value = self.models[tree].get_mut(&split(KINDS[tree], key));
        assert_eq!(found, value.is_some());
        value.into_iter().for_each(|value| flip(value));
    }

    fn seek(&mut self, tree: usize, key: &[u8]) {
        let pages = self.bench.file.pages().clone();
        let (model, tree) = (&self.models[tree], &self.bench.trees[tree]);
        let place = split(tree.kind, key);
        let found = tree.get(&pages, key).unwrap();
        assert_eq!(found.as_deref(), model.get(&place).map(|v| &v[..]));
        let mut cursor = tree.cursor(&pages);
        for _ in 0..2 {
            // The second time the cursor may stay in its leaf.
            let expected = model.range(place.clone()..).next();
            assert_eq!(cursor.seek(key).unwrap(), expected.is_some());
            if let Some((k, v)) = expected {
                assert_eq!((cursor.key(), cursor.value()), (&join(k)[..], &v[..]));
            }
        }
        // Forward from the first entry, and from one that is nearer.
        for skipped in [0, model.range(..place.clone()).count() / 2] {
            let expected = model.range(place.clone()..).next();
            let mut cursor = tree.cursor(&pages);
            if let Some((before, _)) = model.range(..place.clone()).nth(skipped) {
                cursor.seek(&join(before)).unwrap();
            }
            assert_eq!(cursor.seek_on(key).unwrap(), expected.is_some());
            if let Some((k, v)) = expected {
                assert_eq!((cursor.key(), cursor.value()), (&join(k)[..], &v[..]));
            }
        }
        let weight: Weight = model
            .range(..place)
            .map(|(k, v)| weigh(join(k).len(), v))
            .sum();
        assert_eq!(tree.weight_before(&pages, key).unwrap(), weight);
    }

    fn begin(&mut self) {
        if self.job.is_none() {
            let job = self.bench.begin(b"user");
            self.job = Some((job, self.models.clone()));
        }
    }

    fn finish(&mut self) {
        if let Some((job, models)) = self.job.take() {
            let done = job.run().unwrap();
            self.bench.file.finish_checkpoint(done);
            self.durable = models;
            self.bench.check().unwrap();
        }
    }

    fn release(&mut self, budget: usize) {
        self.bench.release(budget);
        if self.job.is_none() {
            self.bench.check().unwrap();
            self.bench.file.take_retired();
            let stats = self.bench.file.stats();
            assert_eq!(stats.memory_bytes, stats.dirty_bytes);
        }
    }

    fn view(&mut self) {
        if self.views.len() < 3 {
            let pages = self.bench.file.pages().clone();
            self.views
                .push((self.bench.trees.clone(), pages, self.models.clone()));
        }
    }

    fn forget_view(&mut self, which: u8) {
        if !self.views.is_empty() {
            self.views.remove(which as usize % self.views.len());
        }
    }

    fn compare(&self) {
        let pages = self.bench.file.pages().clone();
        compare(&self.bench.trees, &pages, &self.models);
        for (trees, pages, models) in &self.views {
            compare(trees, pages, models);
        }
    }

    /// Like a restart after a kill: data in no checkpoint is gone.
    fn reopen(&mut self) {
        self.compare();
        self.job = None;
        self.views.clear();
        self.vfs = self.vfs.process_killed();
        (self.bench, _) = Bench::open(&self.vfs).unwrap();
        self.models = self.durable.clone();
        self.bench.check().unwrap();
        self.compare();
    }
}

/// The key of entry `count`, or of the last one; with another end if it is not `is_exact`.
pub(super) fn beginning(model: &Model, count: usize, is_exact: bool) -> Option<Vec<u8>> {
    let (last, _) = model.iter().take(count).next_back()?;
    let mut key = join(last);
    if let Some(end) = key.last_mut() {
        *end ^= u8::from(!is_exact);
    }
    Some(key)
}

/// Removes the entries up to `key` from the model; returns how many there were.
pub(super) fn forget_through(model: &mut Model, kind: TreeKind, key: &[u8]) -> u64 {
    let (before, place) = (model.len(), split(kind, key));
    model.retain(|key, _| *key > place);
    (before - model.len()) as u64
}

pub(super) fn compare(trees: &[Tree], pages: &Pages, models: &[Model]) {
    for (tree, model) in trees.iter().zip(models) {
        let expected: Vec<_> = model.iter().map(|(k, v)| (join(k), v.clone())).collect();
        assert!(
            entries(tree, pages).unwrap() == expected,
            "tree {}",
            tree.kind.id
        );
        assert_eq!(tree.len(), model.len() as u64);
        let weight: Weight = model.iter().map(|(k, v)| weigh(join(k).len(), v)).sum();
        assert_eq!(tree.weight(), weight);
    }
}

/// Runs bytes as a program on trees and maps side by side; panics if they differ.
pub(crate) fn agree(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let mut run = Run::new();
    while !u.is_empty() {
        run.step(u)?;
    }
    run.finish();
    run.compare();
    run.bench.check().unwrap();
    Ok(())
}

#[test]
fn trees_agree_with_maps_through_checkpoints_views_and_reopening() {
    arbtest::arbtest(agree)
        .size_min(2000)
        .size_max(60_000)
        .budget_ms(4_000);
}

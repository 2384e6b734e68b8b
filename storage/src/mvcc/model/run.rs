//! Runs bytes as a program on [`Store`] and [`Model`] side by side and compares them. The model
//! test, the fuzzer and the power-cut test use the same bytes.

mod compare;
mod input;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::super::{
    Applied, Attempt, Bucket, CheckpointDone, CheckpointJob, KeyRange, LonePut, Options, Store,
    View,
};
use super::Model;
use crate::Result;
use crate::encryption::sample;
use crate::mvcc::keys::DeltaLimits;
use crate::vfs::sim::SimVfs;

pub(crate) use compare::compare;
pub(crate) use input::Input;

pub(crate) const DIR: &str = "/data/member/store";

const OPENED: &str = "opened before the first step";

/// Range of the call that `survive` chooses; programs of a few kilobytes make this many calls.
const CALLS_MAX: u64 = 200;

/// So little that entries of some changes write leaves before their end.
const ENTRY_BYTES_IN_MEMORY: u64 = 24 << 10;

/// So small that most programs have several delta trees, and merge them.
const DELTA_LIMITS: DeltaLimits = DeltaLimits {
    direct_bytes: 400,
    close_parts: 4,
    close_bytes: 200,
    close_bytes_max: 400,
    merge_trees: 2,
    base_entries: 100,
    merge_trees_max: 3,
    merge_every: 3,
    merge_entries: 5,
};

/// Keys that an entry deletes at once, by program.
const KEYS_DELETED_AT_ONCE: [u64; 4] = [0, 3, 20, u64::MAX];

/// Leases to which keys are attached at a time, and none.
const LEASES: usize = 4;

/// Most old views held, each with the model of its time.
const VIEWS_MAX: usize = 3;

pub(crate) struct Runner {
    vfs: SimVfs,
    store: Option<Store>,
    pub(crate) model: Model,
    applied: Applied,
    /// The model at each checkpoint begun, by applied index; a restart may find any of them.
    pub(crate) saved: BTreeMap<u64, Model>,
    /// The newest two checkpoints whose end the store has seen, oldest first.
    pub(crate) durable: [u64; 2],
    job: Option<(u64, CheckpointJob)>,
    done: Option<(u64, CheckpointDone)>,
    views: Vec<(View, Model)>,
    limits: DeltaLimits,
    keys_deleted_at_once: u64,
    /// Those to which keys are attached; 0 for none. Most that end are granted again with another id.
    leases: [i64; LEASES],
    /// See [`agree`].
    overlaps: [u64; 2],
    /// Compare at each step. The power-cut test compares only at its end.
    compare: bool,
}

/// Runs all of `data`; panics if store and model differ. Returns how often deletions began whose part
/// overlaps another's: those of leases' keys, and those of ranges.
pub(crate) fn agree(data: &[u8]) -> [u64; 2] {
    let mut runner = Runner::new(disk(1, data), true);
    // Some programs change the base directly, as a small store does.
    if data.first().is_some_and(|byte| byte % 4 == 0) {
        runner.limits = DeltaLimits::default();
    }
    runner.delete_as_said(data);
    runner.run(&mut Input(data)).expect("a disk without faults");
    let overlaps = runner.overlaps;
    runner.finish();
    overlaps
}

/// Every other program runs on a sealed store.
fn disk(seed: u64, program: &[u8]) -> SimVfs {
    let vfs = SimVfs::new(seed);
    if !program.len().is_multiple_of(2) {
        sample::give_key(&vfs);
    }
    vfs
}

/// Runs `data`, without its first three bytes, on a disk. The first two bytes name the call at
/// which power fails, the third chooses which unsynced blocks survive. Panics if the remaining
/// store is wrong, or cannot be used further.
pub(crate) fn survive(data: &[u8]) {
    let (head, program) = data.split_at(data.len().min(3));
    let [a, b, survival] = [0, 1, 2].map(|place| head.get(place).copied().unwrap_or(0));
    let call = u64::from(u16::from_be_bytes([a, b])) % CALLS_MAX;
    let vfs = disk(u64::from(survival), program);
    vfs.fail_after(call);
    let mut runner = Runner::new(vfs.clone(), false);
    runner.delete_as_said(program);
    // It ends with the error of the failing call, or before that call.
    let _ = runner.run(&mut Input(program));
    let cut = vfs.power_cut(u64::from(survival));
    found_after(&cut, &runner, call);
    let mut store = open(&cut).expect("what opened once opens again");
    let index = store.root().applied().index + 1;
    store
        .write(Applied { index, term: 9 })
        .put(b"after", b"", 0)
        .expect("power is back");
    let job = store.begin_checkpoint().expect("something to save");
    store.finish_checkpoint(job.run().expect("power is back"));
    drop(store);
    let store = open(&cut.power_cut(0)).expect("a checkpoint that ended opens");
    assert_eq!(store.root().applied().index, index);
    store.check().expect("no page is lost or used twice");
}

/// Opens the store after a power cut and compares it with the model of its checkpoint.
pub(crate) fn found_after(cut: &SimVfs, runner: &Runner, calls: u64) {
    let store = open(cut).unwrap_or_else(|e| panic!("cut at call {calls}: {e}"));
    let index = store.root().applied().index;
    let newest = runner.durable[1];
    assert!(
        index >= newest,
        "cut at call {calls}: {index} is older than the last sync"
    );
    let model: &Model = &runner.saved[&index];
    compare(store.root(), model, 0, &mut Input(&[]));
    let oldest = model.compacted().max(1);
    compare(store.root(), model, oldest, &mut Input(&[]));
    store
        .check()
        .unwrap_or_else(|e| panic!("cut at call {calls}: {e}"));
}

impl Runner {
    pub(crate) fn new(vfs: SimVfs, compare: bool) -> Runner {
        let model = Model::new();
        Runner {
            vfs,
            store: None,
            applied: Applied::default(),
            saved: BTreeMap::from([(0, model.clone())]),
            durable: [0, 0],
            model,
            job: None,
            done: None,
            views: Vec::new(),
            limits: DELTA_LIMITS,
            keys_deleted_at_once: KEYS_DELETED_AT_ONCE[1],
            leases: std::array::from_fn(|i| i as i64),
            overlaps: [0; 2],
            compare,
        }
    }

    fn delete_as_said(&mut self, program: &[u8]) {
        let byte = usize::from(program.first().copied().unwrap_or_default());
        self.keys_deleted_at_once = KEYS_DELETED_AT_ONCE[byte / 4 % KEYS_DELETED_AT_ONCE.len()];
    }

    fn open(&self) -> Result<Store> {
        let mut store = open(&self.vfs)?;
        store.delta_limits = self.limits;
        store.set_keys_deleted_at_once(self.keys_deleted_at_once);
        Ok(store)
    }

    pub(crate) fn run(&mut self, input: &mut Input<'_>) -> Result<()> {
        self.store = Some(self.open()?);
        while !input.0.is_empty() {
            self.step(input)?;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self) {
        for at in [self.model.compacted().max(1), self.model.revision()] {
            let input = &mut Input(&[0x5a, 0xc3, 0x17, 0x88, 0x21, 0xee]);
            let store = self.store.as_ref().expect(OPENED);
            compare(store.root(), &self.model, at, input);
        }
        for (view, model) in &self.views {
            compare(view, model, model.revision(), &mut Input(&[]));
        }
        self.store().delete_step(usize::MAX).expect("no faults");
        self.checkpoint_to_its_end().expect("a disk without faults");
        while !self.store().compact_step(64).expect("no faults").done {}
        self.store().check().expect("no page is lost or used twice");
        self.checkpoint_to_its_end().expect("a disk without faults");
        self.store().check().expect("no page is lost or used twice");
        let rows = self.model.changes(0, i64::MAX).len() as u64;
        assert_eq!(
            self.store().root().revisions.len(),
            rows,
            "compaction left rows behind"
        );
        assert_eq!(
            self.store().root().versions().expect("no faults"),
            rows,
            "compaction left versions behind"
        );
    }

    pub(crate) fn store(&mut self) -> &mut Store {
        self.store.as_mut().expect(OPENED)
    }

    fn step(&mut self, input: &mut Input<'_>) -> Result<()> {
        match input.below(32) {
            0..9 => self.write(input)?,
            9 => self.put_all(input)?,
            10..12 => self.compact(input)?,
            12..14 => {
                let budget = input.below(12);
                self.store().compact_step(budget)?;
                self.store().delete_step(budget)?;
            }
            14..18 => self.begin_checkpoint(),
            18..22 => self.run_checkpoint()?,
            22..25 => self.finish_checkpoint(),
            25 => self.reopen()?,
            26 => self.hold_view(),
            27 if !self.views.is_empty() => {
                let which = input.below(self.views.len());
                let (view, model) = self.views.swap_remove(which);
                if self.compare {
                    compare(&view, &model, 0, input);
                }
            }
            28 => self.store().publish(),
            29 => match input.below(4) {
                0 => {
                    let budget = input.below(5);
                    self.store().release_step(budget);
                }
                1 => {
                    self.store().relocate_step(512 << 10)?;
                }
                2 => self.store().settle_space(),
                _ => {
                    self.store().reserve(true)?;
                    if let Some(job) = self.store().spill()? {
                        job.run()?;
                    }
                }
            },
            _ if self.compare => {
                let first = self.model.compacted().max(1);
                let at = first + input.below((self.model.revision() - first + 1) as usize) as i64;
                let store = self.store.as_ref().expect(OPENED);
                compare(store.root(), &self.model, at, input);
            }
            _ => {}
        }
        Ok(())
    }

    /// Entries of one put each; some keys come more than once.
    fn put_all(&mut self, input: &mut Input<'_>) -> Result<()> {
        let mut rows = Vec::new();
        for _ in 0..input.below(40) {
            self.applied.index += 1;
            self.applied.term = 1 + self.applied.index / 100;
            let lease = self.leases[input.below(LEASES)];
            rows.push((self.applied, input.key(), input.value(), lease));
        }
        let puts: Vec<LonePut<'_>> = rows
            .iter()
            .map(|(applied, key, value, lease)| LonePut {
                applied: *applied,
                key,
                value,
                lease: *lease,
            })
            .collect();
        for put in &puts {
            self.model.put(put.key, put.value, put.lease);
            self.model.end();
        }
        // What the newest published state knows may be older than the puts before these.
        let found = if puts.len().is_multiple_of(2) {
            Some(self.store().reader().view().find_for(&puts)?)
        } else {
            None
        };
        match self.store().put_all(&puts, found)? {
            Some(job) => job.run(),
            None => Ok(()),
        }
    }

    fn write(&mut self, input: &mut Input<'_>) -> Result<()> {
        self.applied.index += 1;
        self.applied.term = 1 + self.applied.index / 100;
        let model = &mut self.model;
        let store = self.store.as_mut().expect(OPENED);
        let mut write = store.write(self.applied);
        let (before, overlapped) = (write.revision(), write.overlaps());
        let mut deleted: Vec<Vec<u8>> = Vec::new();
        for _ in 0..1 + input.below(5) {
            match input.below(11) {
                0 => {
                    let (key, end) = input.range();
                    let range = KeyRange::from_wire(&key, &end);
                    deleted.extend(model.range(range, i64::MAX).into_iter().map(|v| v.key));
                    assert_eq!(write.delete_range(range)?, model.delete_range(range));
                }
                1 => {
                    // Enough keys for a tree of several levels; all of a lease, or some, and others
                    // between them of another.
                    let (first, value) = (input.below(400), input.value());
                    let (lease, every) = (input.below(LEASES), 1 + input.below(3));
                    let other = 1 + lease % (LEASES - 1);
                    let leases = [self.leases[lease], self.leases[other], 0];
                    for i in first..first + input.below(100) {
                        let key = format!("k{i:03}").into_bytes();
                        let lease = leases[i % every];
                        if !deleted.contains(&key) {
                            write.put(&key, &value[..value.len().min(200)], lease)?;
                            model.put(&key, &value[..value.len().min(200)], lease);
                        }
                    }
                }
                2 => {
                    let (key, value) = (input.key(), input.value());
                    write.set(Bucket::Lease, &key, &value)?;
                    model.set(Bucket::Lease, &key, &value);
                }
                3 => {
                    let key = input.key();
                    write.remove(Bucket::Lease, &key)?;
                    model.remove(Bucket::Lease, &key);
                }
                4 => {
                    let place = 1 + input.below(LEASES - 1);
                    let lease = self.leases[place];
                    let attached = model.attached(lease);
                    assert_eq!(write.delete_attached(lease)?, attached.len() as u64);
                    for key in attached {
                        model.delete_range(KeyRange::from_wire(&key, b""));
                        deleted.push(key);
                    }
                    if !self.applied.index.is_multiple_of(4) {
                        self.leases[place] += LEASES as i64;
                    }
                }
                _ => {
                    let (key, value) = (input.key(), input.value());
                    // etcd refuses a transaction that puts a key it has deleted.
                    if deleted.contains(&key) {
                        continue;
                    }
                    let lease = self.leases[input.below(LEASES)];
                    write.put(&key, &value, lease)?;
                    model.put(&key, &value, lease);
                }
            }
            assert_eq!(write.revision(), model.revision());
        }
        assert_eq!(write.changed(), model.revision() > before);
        for (kind, overlaps) in write.overlaps().into_iter().enumerate() {
            self.overlaps[kind] += overlaps.saturating_sub(overlapped[kind]);
        }
        model.end();
        Ok(())
    }

    fn compact(&mut self, input: &mut Input<'_>) -> Result<()> {
        let (compacted, revision) = (self.model.compacted(), self.model.revision());
        if compacted == revision {
            return Ok(());
        }
        // Often near the newest, so that there are several compactions.
        let span = if input.byte() < 200 { 12 } else { 200 };
        let to = (compacted + 1 + input.below(span) as i64).min(revision);
        self.applied.index += 1;
        let applied = self.applied;
        self.store().write(applied).compact(to)?;
        self.model.compact(to);
        Ok(())
    }

    fn begin_checkpoint(&mut self) {
        if self.job.is_some() || self.done.is_some() {
            assert!(self.store().begin_checkpoint().is_none(), "one at a time");
            return;
        }
        if let Some(job) = self.store().begin_checkpoint() {
            self.saved.insert(self.applied.index, self.model.clone());
            self.job = Some((self.applied.index, job));
        }
    }

    fn run_checkpoint(&mut self) -> Result<()> {
        if let Some((index, job)) = self.job.take() {
            match job.attempt()? {
                Attempt::Done(done) => {
                    self.done = Some((index, *done));
                    self.durable = [self.durable[1], index];
                }
                Attempt::Full(job, _) => {
                    self.store().ran_out();
                    self.job = Some((index, *job));
                }
            }
        }
        Ok(())
    }

    fn finish_checkpoint(&mut self) {
        if let Some((_, done)) = self.done.take() {
            let behind = self.store().finish_checkpoint(done);
            assert_eq!(
                behind, self.durable[0],
                "the log is needed from the older meta on"
            );
        }
    }

    fn checkpoint_to_its_end(&mut self) -> Result<()> {
        for _ in 0..2 {
            self.begin_checkpoint();
            while self.job.is_some() {
                self.run_checkpoint()?;
            }
            self.finish_checkpoint();
        }
        Ok(())
    }

    /// Like a restart after a kill: the log must bring back what followed the newest checkpoint.
    fn reopen(&mut self) -> Result<()> {
        // A job that ran into a full disk may have written its meta page, or half of it.
        let waiting = self.job.take().map(|(index, _)| index);
        (self.done, self.store) = (None, None);
        self.views.clear();
        let store = self.open()?;
        let index = store.root().applied().index;
        if index != self.durable[1] {
            assert_eq!(Some(index), waiting);
            self.durable = [self.durable[1], index];
        }
        self.applied = store.root().applied();
        self.model = self.saved[&index].clone();
        self.store = Some(store);
        Ok(())
    }

    fn hold_view(&mut self) {
        if self.views.len() < VIEWS_MAX {
            let store = self.store();
            store.publish();
            let view = store.reader().view();
            self.views.push((view, self.model.clone()));
        }
    }
}

pub(crate) fn open(vfs: &SimVfs) -> Result<Store> {
    let data_keys = sample::keys_of(vfs)?;
    let mut store = Store::open(Arc::new(vfs.clone()), Path::new(DIR), Options { data_keys })?;
    store.set_entry_bytes_in_memory(ENTRY_BYTES_IN_MEMORY);
    store.delta_limits = DELTA_LIMITS;
    Ok(store)
}

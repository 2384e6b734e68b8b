//! Cuts power at every call of the work that runs beside the writes: a checkpoint, a compaction,
//! the return of space. (`encryption::tests` does the same for re-encryption.) Each must be hit.
//! The state found afterwards is one of the last two checkpoints, and can be used further.

use std::collections::BTreeMap;

use super::*;
use crate::Result;

/// The file must be some mebibytes long before its end is given back.
const KEYS: u32 = 40;
const KEPT: u32 = 6;
const VALUE_BYTES: usize = 40_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Fill,
    Checkpoint,
    Compaction,
    SpaceReturn,
}

struct Work {
    store: Store,
    index: u64,
    /// What clients see at each checkpoint begun, by applied index.
    saved: BTreeMap<u64, String>,
    /// The applied index of the newest checkpoint that finished.
    completed: u64,
    /// The work that runs now.
    phase: Phase,
    /// Length of the file before space is returned.
    longest: u64,
}

impl Work {
    fn open(vfs: &SimVfs) -> Result<Work> {
        let store = run::open(vfs)?;
        let index = store.root().applied().index;
        Ok(Work {
            index,
            saved: BTreeMap::from([(index, visible(store.root())?)]),
            completed: index,
            store,
            phase: Phase::Fill,
            longest: 0,
        })
    }

    fn run(&mut self) -> Result<()> {
        self.phase = Phase::Fill;
        for i in 0..KEYS {
            self.put(i * 37 % KEYS)?;
        }
        self.checkpoint()?;
        self.phase = Phase::Checkpoint;
        for i in 0..KEYS / 2 {
            self.put(i)?;
        }
        self.saved.insert(self.index, visible(self.store.root())?);
        let saves = self.index;
        let job = self.store.begin_checkpoint().expect("something is new");
        for i in 0..10 {
            self.put(i)?;
        }
        let done = job.run()?;
        self.completed = saves;
        self.store.finish_checkpoint(done);
        self.phase = Phase::Compaction;
        let to = self.store.root().revision() - 5;
        self.write().compact(to)?;
        self.remove_what_is_compacted()?;
        self.phase = Phase::SpaceReturn;
        self.longest = self.store.stats().file_bytes;
        let most = KeyRange::from_wire(b"key/0006", b"key/9");
        self.write().delete_range(most)?;
        let to = self.store.root().revision();
        self.write().compact(to)?;
        self.remove_what_is_compacted()?;
        self.settle()?;
        while !self.store.relocate_step(512 << 10)? {}
        self.settle()
    }

    fn write(&mut self) -> Write<'_> {
        self.index += 1;
        let index = self.index;
        self.store.write(Applied { index, term: 1 })
    }

    fn put(&mut self, key: u32) -> Result<()> {
        let value = vec![self.index as u8; VALUE_BYTES];
        self.write()
            .put(format!("key/{key:04}").as_bytes(), &value, 0)
    }

    fn remove_what_is_compacted(&mut self) -> Result<()> {
        while !self.store.compact_step(4)?.done {
            self.checkpoint()?;
        }
        self.checkpoint()
    }

    /// After some checkpoints, given-up space is free and the end of the file is cut off.
    fn settle(&mut self) -> Result<()> {
        for _ in 0..4 {
            self.store.settle_space();
            self.checkpoint()?;
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.saved.insert(self.index, visible(self.store.root())?);
        if let Some(job) = self.store.begin_checkpoint() {
            let done = job.run()?;
            self.completed = self.index;
            self.store.finish_checkpoint(done);
        }
        self.store.publish();
        while !self.store.release_step(1000) {}
        Ok(())
    }
}

fn visible(root: &Root) -> Result<String> {
    let mut text = format!("{} {}", root.revision(), root.compacted());
    root.range(KeyRange::ALL, 0, Want::Values, &mut |item| {
        let (key, at, of) = (item.key, item.mod_revision, item.value[0]);
        assert!(item.value.len() == VALUE_BYTES && item.value.iter().all(|byte| *byte == of));
        text += &format!("\n{} {at} {of}", key.escape_ascii());
        ControlFlow::Continue(())
    })?;
    root.changes(root.compacted().max(1), i64::MAX, &mut |change| {
        text += &format!("\n{:?}", Row::from(change).revision);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(text)
}

/// The state found is a checkpoint's, and all the work can be done on it again.
fn look_after(cut: &SimVfs, work: &Work, call: u64, go_on: bool) {
    let mut found = Work::open(cut).unwrap_or_else(|error| panic!("call {call}: {error}"));
    let index = found.index;
    assert!(index >= work.completed, "call {call}: {index}");
    assert!(found.saved[&index] == work.saved[&index], "call {call}");
    let checked = found.store.check();
    checked.unwrap_or_else(|error| panic!("call {call}: {error}"));
    if go_on {
        found.run().expect("power is back");
        found.store.check().expect("no page is lost or used twice");
        let left = found.store.root().count(KeyRange::ALL, 0).unwrap();
        assert_eq!(left, u64::from(KEPT));
    }
}

#[test]
fn power_cut_at_any_call_of_checkpoint_compaction_and_space_return_loses_nothing() {
    let mut hits: BTreeMap<Phase, u32> = BTreeMap::new();
    for call in 0.. {
        let vfs = SimVfs::new(call);
        vfs.fail_after(call);
        let mut finished = false;
        if let Ok(mut work) = Work::open(&vfs) {
            finished = work.run().is_ok();
            look_after(&vfs.power_cut(call), &work, call, call % 25 == 0);
            if finished {
                let bytes = work.store.stats().file_bytes;
                let longest = work.longest;
                assert!(
                    bytes < longest / 4 * 3,
                    "space comes back: {longest} to {bytes}"
                );
            } else {
                *hits.entry(work.phase).or_default() += 1;
            }
        }
        if finished {
            break;
        }
    }
    println!("cuts: {hits:?}");
    for phase in [Phase::Checkpoint, Phase::Compaction, Phase::SpaceReturn] {
        assert!(hits[&phase] > 10, "{hits:?}");
    }
}

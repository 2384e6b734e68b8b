use std::path::Path;
use std::sync::Arc;

use storage::mvcc::{Applied, KeyRange, Options};
use storage::vfs::sim::SimVfs;

use super::*;

const KEYS: u64 = 2000;
const VALUE_BYTES: usize = 8192;
const SECOND: Now = Now::from_secs(1);
const MINUTE: Now = Now::from_secs(60);

struct Stage {
    space: Space,
    store: Store,
    now: Now,
    entries: u64,
}

impl Stage {
    /// A store of about 16 MiB.
    fn full() -> Stage {
        let vfs = Arc::new(SimVfs::new(1));
        let store = Store::open(vfs, Path::new("/store"), Options::default()).unwrap();
        let mut stage = Stage {
            space: Space::default(),
            store,
            now: Now::ZERO,
            entries: 0,
        };
        stage.put_all();
        stage.checkpoint();
        stage
    }

    fn next(&mut self) -> Applied {
        self.entries += 1;
        Applied {
            index: self.entries,
            term: 1,
        }
    }

    fn put_all(&mut self) {
        for key in 0..KEYS {
            let applied = self.next();
            let mut write = self.store.write(applied);
            let value = [self.entries as u8; VALUE_BYTES];
            write.put(&key.to_be_bytes(), &value, 0).unwrap();
        }
    }

    fn compact(&mut self) {
        let (applied, newest) = (self.next(), self.store.root().revision());
        self.store.write(applied).compact(newest).unwrap();
        while !self.store.compact_step(256).unwrap().done {}
        self.checkpoint();
        self.space.freed();
        self.note();
        self.checkpoint();
    }

    fn note(&mut self) {
        let stats = self.store.stats();
        self.space.note(self.now, &stats);
    }

    fn checkpoint(&mut self) {
        self.store.publish();
        if let Some(job) = self.store.begin_checkpoint() {
            let done = job.run().unwrap();
            self.store.finish_checkpoint(done);
            while !self.store.release_step(usize::MAX) {}
        }
        self.store.publish();
    }

    /// Takes a step; true if it wishes for a checkpoint.
    fn step(&mut self, urgent: bool) -> bool {
        self.note();
        let store = &mut self.store;
        let step = self.space.step(self.now, urgent, 512 << 10, store);
        step.unwrap().checkpoint
    }

    /// Takes all steps that are due by `until`.
    fn pass(&mut self, until: Now, urgent: bool) {
        while let Some(at) = self.space.wake_at(self.now).filter(|at| *at <= until) {
            self.now = at;
            if self.step(urgent) {
                self.space.began();
                self.checkpoint();
            }
        }
        self.now = until;
    }

    /// Takes steps until one wishes for a checkpoint.
    fn next_wish(&mut self) {
        loop {
            self.now = self.space.wake_at(self.now).expect("there is unused space");
            if self.step(false) {
                return;
            }
        }
    }

    fn file_bytes(&self) -> u64 {
        self.store.stats().file_bytes
    }

    fn delete_most(&mut self) {
        for key in KEYS / 10..KEYS {
            let applied = self.next();
            let key = key.to_be_bytes();
            let range = KeyRange::from_wire(&key, &[]);
            self.store.write(applied).delete_range(range).unwrap();
        }
        self.compact();
    }
}

#[test]
fn what_stays_unused_comes_back_within_a_minute_and_at_once_where_it_is_needed() {
    for urgent in [false, true] {
        let mut stage = Stage::full();
        let full = stage.file_bytes();
        stage.delete_most();
        stage.pass(SECOND, urgent);
        assert_eq!(stage.file_bytes() < full / 2, urgent);
        stage.pass(MINUTE, urgent);
        let stats = stage.store.stats();
        assert!(stats.file_bytes < 2 * stats.in_use_bytes, "{stats:?}");
        assert!(stats.file_bytes < full / 4, "{stats:?}");
        assert_eq!(stage.space.wake_at(MINUTE), None);
    }
}

#[test]
fn what_is_used_again_and_again_is_not_moved_about() {
    let mut stage = Stage::full();
    let mut longest = 0;
    for round in 1..40 {
        stage.put_all();
        stage.compact();
        stage.pass(SECOND * 5 * round, false);
        assert_eq!(stage.space.state, State::Resting);
        assert!(stage.file_bytes() >= longest, "round {round}");
        longest = longest.max(stage.file_bytes());
    }
}

#[test]
fn a_checkpoint_that_finds_no_space_is_tried_again_later_and_the_pass_goes_on() {
    let mut stage = Stage::full();
    let full = stage.file_bytes();
    stage.delete_most();
    for begun in 0..4 {
        for _ in 0..begun {
            stage.next_wish();
            stage.space.began();
            stage.checkpoint();
        }
        stage.next_wish();
        assert!(stage.space.could_not_begin(stage.now).is_empty());
        assert_eq!(stage.space.wake_at(stage.now), Some(stage.now + LOOK_BACK));
    }
    stage.pass(stage.now + MINUTE * 2, false);
    assert!(stage.file_bytes() < full / 4);
    assert_eq!(stage.space.wake_at(stage.now), None);
}

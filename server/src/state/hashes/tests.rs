use std::path::Path;
use std::sync::Arc;
use std::thread;

use storage::mvcc::{Applied, Options, Store};
use storage::vfs::sim::SimVfs;

use super::*;

struct Stage {
    store: Store,
    index: u64,
    hashes: Arc<Hashes>,
}

impl Stage {
    fn new() -> Stage {
        let vfs = Arc::new(SimVfs::new(1));
        Stage {
            store: Store::open(vfs, Path::new("/store"), Options::default()).unwrap(),
            index: 0,
            hashes: Arc::default(),
        }
    }

    fn put(&mut self, key: usize) {
        self.index += 1;
        let applied = Applied {
            index: self.index,
            term: 1,
        };
        let mut write = self.store.write(applied);
        write.put(&key.to_be_bytes(), b"value", 0).unwrap();
        drop(write);
        self.store.publish();
    }

    fn job(&self) -> HashJob {
        let view = self.store.reader().view();
        let revision = view.revision();
        HashJob { view, revision }
    }
}

fn go_on() -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn revisions(hashes: &Hashes) -> Vec<i64> {
    let finished = hashes.finished();
    finished.iter().map(|hash| hash.hash_revision).collect()
}

#[test]
fn a_newer_compaction_takes_the_place_of_one_that_waits() {
    let mut stage = Stage::new();
    for key in 0..3 {
        stage.put(key);
        stage.hashes.announce(stage.job());
    }
    stage.hashes.run_one();
    stage.hashes.run_one();
    assert_eq!(revisions(&stage.hashes), [4]);
    // The others are treated like revisions without a compaction: nobody waits for their hashes.
    let view = stage.store.reader().view();
    let hash = stage.hashes.at(&view, 3).unwrap();
    assert_eq!(hash.hash_revision, 3);
}

#[test]
fn the_last_ten_are_kept_the_newest_first() {
    let mut stage = Stage::new();
    for key in 0..15 {
        stage.put(key);
        stage.hashes.announce(stage.job());
        stage.hashes.run_one();
    }
    let newest: Vec<i64> = (7..=16).rev().collect();
    assert_eq!(revisions(&stage.hashes), newest);
}

#[test]
fn a_reader_waits_for_a_digest_in_the_making_and_hurries_it() {
    let mut stage = Stage::new();
    for key in 0..PIECE_ROWS + 1 {
        stage.put(key);
    }
    let (job, hashes) = (stage.job(), Arc::clone(&stage.hashes));
    let (view, revision) = (job.view.clone(), job.revision);
    let expected = current(&view, &mut go_on).unwrap();
    hashes.announce(job);
    thread::scope(|scope| {
        let reader = scope.spawn(|| hashes.at(&view, revision));
        // The worker's only rest lasts until a reader waits.
        scope.spawn(|| {
            hashes.run(|| {
                while !hashes.is_awaited() {
                    thread::yield_now();
                }
            });
        });
        assert_eq!(reader.join().unwrap().unwrap(), expected);
        hashes.stop();
    });
}

#[test]
fn a_stop_ends_the_work_and_those_who_wait_for_it() {
    let mut stage = Stage::new();
    for key in 0..PIECE_ROWS * 2 {
        stage.put(key);
    }
    let job = stage.job();
    let (view, revision) = (job.view.clone(), job.revision);
    stage.hashes.announce(job);
    let stopping = Arc::clone(&stage.hashes);
    let mut rests = 0;
    stage.hashes.run(|| {
        rests += 1;
        stopping.stop();
    });
    assert_eq!(rests, 1);
    let cut_short = stage.hashes.at(&view, revision);
    assert_eq!(cut_short, Err(Error::Stopped));
}

#[test]
fn a_digest_whose_asker_left_is_not_finished() {
    let mut stage = Stage::new();
    for key in 0..PIECE_ROWS * 2 {
        stage.put(key);
    }
    let view = stage.store.reader().view();
    let mut asked = 0;
    let result = stage.hashes.at_while(&view, 0, &mut || {
        asked += 1;
        ControlFlow::Break(())
    });
    assert_eq!((result, asked), (Err(Error::Stopped), 1));
}

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use storage::mvcc::{Applied, KeyRange, Options, Store, Write};
use storage::vfs::sim::SimVfs;

use super::*;

/// Rows between two rests.
const PIECE_ROWS: usize = 256;

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
        let mut write = self.write();
        write.put(&key.to_be_bytes(), b"value", 0).unwrap();
        drop(write);
        self.store.publish();
    }

    fn write(&mut self) -> Write<'_> {
        self.index += 1;
        let applied = Applied {
            index: self.index,
            term: 1,
        };
        self.store.write(applied)
    }

    /// Announces the hash of a compaction at the newest revision, and compacts.
    fn compact(&mut self) {
        let job = self.job();
        self.hashes.announce(job);
        let revision = self.store.root().revision();
        self.write().compact(revision).unwrap();
        self.store.publish();
    }

    fn job(&mut self) -> HashJob {
        let view = self.store.reader().view();
        let revision = view.revision();
        HashJob {
            view,
            revision,
            oldest_removed: self.store.take_oldest_removed(),
        }
    }
}

fn go_on() -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The hash of a job, computed from the beginning of history.
fn afresh(job: &HashJob) -> KvHash {
    let rows = job
        .view
        .hash_rows_at_compaction(job.revision, &mut go_on)
        .unwrap();
    compute(
        &job.view,
        job.revision,
        rows.unwrap(),
        (Revision::default(), HashKv::new()),
        &mut Places::none(),
        &mut go_on,
    )
    .unwrap()
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
        let job = stage.job();
        stage.hashes.announce(job);
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
        let job = stage.job();
        stage.hashes.announce(job);
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
                || {
                    while !hashes.is_awaited() {
                        thread::yield_now();
                    }
                    ControlFlow::Continue(())
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
    let rests = Cell::new(0);
    stage.hashes.run(|| {
        || {
            rests.set(rests.get() + 1);
            stopping.stop();
            ControlFlow::Continue(())
        }
    });
    assert_eq!(rests.get(), 1);
    let cut_short = stage.hashes.at(&view, revision);
    assert_eq!(cut_short, Err(Error::Stopped));
}

#[test]
fn a_digest_that_is_given_up_leaves_its_revision_to_be_hashed_anew() {
    let mut stage = Stage::new();
    for key in 0..PIECE_ROWS * 2 {
        stage.put(key);
    }
    let job = stage.job();
    let (view, revision) = (job.view.clone(), job.revision);
    let expected = current(&view, &mut go_on).unwrap();
    stage.hashes.announce(job);
    let taken = stage.hashes.state.lock().queue.take();
    let (job, removed) = taken.unwrap();
    let mut give_up = || ControlFlow::Break(());
    stage.hashes.compute(&job, removed, &mut give_up);
    assert_eq!(stage.hashes.finished(), []);
    assert_eq!(stage.hashes.at(&view, revision).unwrap(), expected);
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

#[test]
fn members_that_hash_a_few_of_many_compactions_hash_the_same_ones() {
    let hashed = |every: usize, after: usize| {
        let mut stage = Stage::new();
        let mut hashed = Vec::new();
        for n in 0..200 {
            stage.put(n);
            stage.compact();
            if n % every == after {
                stage.hashes.run_one();
                hashed.extend(revisions(&stage.hashes).first().copied());
            }
        }
        hashed
    };
    let (one, other) = (hashed(40, 3), hashed(29, 17));
    assert!(one.len() <= 5 && other.len() <= 7);
    let shared = one.iter().filter(|revision| other.contains(revision));
    assert!(shared.count() >= 2, "{one:?}, {other:?}");
}

#[test]
fn a_compaction_of_a_higher_level_breaks_off_the_running_one() {
    let mut stage = Stage::new();
    for key in 0..512 {
        stage.put(key);
    }
    stage.compact();
    stage.hashes.run_one();
    stage.put(0);
    stage.compact();
    let hashes = Arc::clone(&stage.hashes);
    let (job, removed) = hashes.state.lock().queue.take().unwrap();
    let mut rests = 0;
    hashes.compute(&job, removed, &mut || {
        rests += 1;
        // From revision 514 over 1024, while the hash at 514 is computed.
        for key in 0..512 {
            stage.put(key);
        }
        stage.compact();
        ControlFlow::Continue(())
    });
    assert_eq!(rests, 1);
    assert_eq!(revisions(&hashes), [513]);
    hashes.run_one();
    assert_eq!(revisions(&hashes), [1026, 513]);
}

#[test]
fn a_hash_that_a_reader_waits_for_is_not_broken_off() {
    let mut stage = Stage::new();
    for key in 0..512 {
        stage.put(key);
    }
    stage.compact();
    let hashes = Arc::clone(&stage.hashes);
    let (job, removed) = hashes.state.lock().queue.take().unwrap();
    let view = job.view.clone();
    let mut stage = Some(stage);
    thread::scope(|scope| {
        let reader = scope.spawn(|| hashes.at(&view, 513));
        hashes.compute(&job, removed, &mut || {
            let Some(mut stage) = stage.take() else {
                return ControlFlow::Continue(());
            };
            while !hashes.is_awaited() {
                thread::yield_now();
            }
            for key in 0..512 {
                stage.put(key);
            }
            stage.compact();
            ControlFlow::Continue(())
        });
        assert_eq!(reader.join().unwrap().unwrap().hash_revision, 513);
    });
    assert_eq!(revisions(&hashes), [513]);
}

#[test]
fn a_hash_continues_where_nothing_has_changed_and_is_the_same() {
    const KEYS: usize = 3000;
    let mut stage = Stage::new();
    for key in 0..KEYS {
        stage.put(key);
    }
    let (mut pieces, mut seed) = (0, 1_u64);
    for round in 0..60 {
        for _ in 0..20 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let random = (seed >> 33) as usize;
            // Most rounds change young keys alone. Some change old ones, or delete some.
            match (round % 10, random % 3) {
                (7, 0) => stage.put(random % KEYS),
                (8, 0) => {
                    let key = (random % KEYS).to_be_bytes();
                    let key = KeyRange::from_wire(&key, b"");
                    stage.write().delete_range(key).unwrap();
                }
                _ => stage.put(KEYS - 1 - random % 100),
            }
        }
        stage.compact();
        // Some removals are not over when the next compaction comes.
        for _ in 0..round % 4 * 4 {
            stage
                .store
                .compact_step(if round == 1 { 4000 } else { 16 })
                .unwrap();
        }
        stage.store.publish();
        let (job, removed) = stage.hashes.state.lock().queue.take().unwrap();
        // Some are given up, at any piece. What is known of their beginnings is used by the next.
        let mut left = if round % 6 == 4 {
            round % 11
        } else {
            usize::MAX
        };
        stage.hashes.compute(&job, removed, &mut || {
            pieces += 1;
            left = left.saturating_sub(1);
            if left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let hashed = revisions(&stage.hashes).contains(&job.revision);
        assert!(hashed || left == 0);
        if !hashed {
            continue;
        }
        assert_eq!(stage.hashes.finished()[0], afresh(&job), "round {round}");
    }
    // From the beginning each time, it would be 60 * 12 pieces.
    assert!(pieces < 400, "read {pieces} pieces of history");
}

#[test]
fn a_hash_that_is_given_up_again_and_again_comes_to_its_end() {
    let mut stage = Stage::new();
    for key in 0..3000 {
        stage.put(key);
    }
    stage.compact();
    stage.hashes.run_one();
    while !stage.store.compact_step(1000).unwrap().done {}
    let mut attempts = 0;
    loop {
        // Each compaction removes what the last attempt saw of the youngest key.
        stage.put(2999);
        stage.compact();
        stage.store.compact_step(16).unwrap();
        stage.store.publish();
        let (job, removed) = stage.hashes.state.lock().queue.take().unwrap();
        let mut pieces = 0;
        stage.hashes.compute(&job, removed, &mut || {
            pieces += 1;
            if pieces == 3 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        attempts += 1;
        let last = stage.hashes.finished()[0];
        if last.hash_revision == job.revision {
            assert_eq!(last, afresh(&job));
            break;
        }
        assert!(attempts < 8, "3000 rows, three pieces of 256 each time");
    }
    assert!(
        attempts > 3,
        "all of history in {attempts} times three pieces"
    );
}

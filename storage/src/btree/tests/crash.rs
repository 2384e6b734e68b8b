//! Power cuts and damaged files.

use super::*;
use crate::Error;
use crate::encryption::sample;
use crate::vfs::sim::rng::Rng;

const BOTH_TORN: &str = "no meta page can be used \
    (slot 0: checksum does not match; slot 1: checksum does not match)";

type Rows = Vec<Vec<(Vec<u8>, Vec<u8>)>>;

/// A workload with many checkpoints; notes the content of each when it begins.
struct Workload {
    rng: Rng,
    /// By number of the checkpoint; 0 is the new file.
    held: Vec<Rows>,
    /// Number of checkpoints whose job finished.
    completed: usize,
    /// Checkpoints that said what is free by its changes.
    recorded: usize,
    /// Waits for space instead of giving up.
    patient: bool,
}

impl Workload {
    fn new() -> Workload {
        Workload {
            patient: false,
            rng: Rng(11),
            held: vec![vec![Vec::new(); KINDS.len()]],
            completed: 0,
            recorded: 0,
        }
    }

    fn run(&mut self, vfs: &SimVfs, rounds: usize) -> Result<()> {
        let (mut bench, _) = Bench::open(vfs)?;
        for _ in 0..rounds {
            self.edit(&mut bench, 40)?;
            bench.spill(40_000)?;
            self.held.push(rows(&bench)?);
            let job = bench.begin(&[self.held.len() as u8 - 1]);
            self.edit(&mut bench, 15)?;
            let done = self.finish(job)?;
            self.completed += 1;
            self.edit(&mut bench, 5)?;
            bench.file.finish_checkpoint(done);
            bench.spill(20_000)?;
            bench.file.reserve(true)?;
            // It has all of what is free written.
            if self.held.len().is_multiple_of(3) {
                bench.relocate(self.rng.below(3) as usize, 128, b"")?;
            }
            let records = bench
                .file
                .space
                .as_ref()
                .map_or(0, |space| space.records().len());
            self.recorded += usize::from(records > 1);
            if self.rng.below(2) == 0 {
                bench.release(10);
            }
            bench.check()?;
        }
        assert!(rounds < 2 || self.recorded > 0);
        Ok(())
    }

    fn finish(&self, mut job: CheckpointJob) -> Result<CheckpointDone> {
        loop {
            job = match job.attempt()? {
                Attempt::Done(done) => return Ok(*done),
                Attempt::Full(job, _) if self.patient => *job,
                Attempt::Full(_, error) => return Err(error),
            };
        }
    }

    fn edit(&mut self, bench: &mut Bench, count: u64) -> Result<()> {
        for _ in 0..count {
            let tree = self.rng.below(3) as usize;
            let key = format!("key-{:03}-and-a-suffix", self.rng.below(400)).into_bytes();
            let len = if self.rng.below(20) == 0 { 9000 } else { 150 };
            let value = vec![self.rng.next() as u8; len];
            let writer = bench.file.writer();
            if self.rng.below(3) == 0 {
                bench.trees[tree].remove(writer, &key)?;
            } else {
                bench.trees[tree].insert(writer, &key, &value)?;
            }
        }
        Ok(())
    }
}

fn rows(bench: &Bench) -> Result<Rows> {
    bench
        .trees
        .iter()
        .map(|tree| entries(tree, bench.file.pages()))
        .collect()
}

/// Opens, checks everything, and returns the checkpoint that was found.
fn found(vfs: &SimVfs, held: &[Rows]) -> Result<usize> {
    let (bench, opened) = Bench::open(vfs)?;
    let number = opened.user_meta.first().map_or(0, |n| *n as usize);
    bench.check()?;
    assert!(
        rows(&bench)? == held[number],
        "checkpoint {number} holds something else"
    );
    Ok(number)
}

fn zero_meta(vfs: &SimVfs, slot: usize) -> SimVfs {
    let vfs = vfs.process_killed();
    let mut bytes = vfs.contents(Path::new(PATH)).unwrap();
    bytes[slot * 4096 + 100] ^= 1;
    vfs.install(Path::new(PATH), &bytes);
    vfs
}

#[test]
fn power_cut_at_any_call_leaves_one_of_the_two_last_checkpoints() {
    cut_at_every_call(disk);
}

#[test]
fn power_cut_at_any_call_leaves_one_of_the_two_last_sealed_checkpoints() {
    cut_at_every_call(sealed_disk);
}

fn sealed_disk() -> SimVfs {
    let vfs = disk();
    sample::give_key(&vfs);
    vfs
}

fn cut_at_every_call(disk: fn() -> SimVfs) {
    let rounds = 12;
    let mut calls = 0;
    loop {
        let vfs = disk();
        vfs.fail_after(calls);
        let mut work = Workload::new();
        let outcome = work.run(&vfs, rounds);
        for seed in 0..3 {
            let cut = vfs.power_cut(seed);
            let number = found(&cut, &work.held).unwrap_or_else(|e| panic!("call {calls}: {e}"));
            let last = [work.completed, work.held.len() - 1];
            assert!(
                last.contains(&number),
                "call {calls}: checkpoint {number} of {last:?}"
            );
            // The older checkpoint must be whole, too, if there was one.
            let newest_lost = zero_meta(&cut, number % 2);
            if work.completed == number && number > 0 && outcome.is_err() {
                match found(&newest_lost, &work.held) {
                    Ok(older) => assert_eq!(older, number - 1, "call {calls}"),
                    // The older meta was just being overwritten; nothing else may be wrong.
                    Err(error) => assert!(
                        error.to_string().ends_with(BOTH_TORN),
                        "call {calls}: {error}"
                    ),
                }
            }
            // The recovered file takes more checkpoints.
            let mut again = Workload::new();
            let (bench, opened) = Bench::open(&cut).unwrap();
            drop((bench, opened));
            again.run(&cut, 3).unwrap();
        }
        if outcome.is_ok() {
            break;
        }
        calls += 1;
    }
    assert!(
        calls > 60,
        "a workload with a few calls proves little: {calls}"
    );
}

/// After that, the newest meta may be in memory only, and marked clean.
#[test]
fn a_restart_after_a_failed_sync_trusts_no_meta_that_only_memory_has() {
    let mut lost = 0;
    for disk in [disk, sealed_disk] {
        for calls in 0.. {
            let vfs = disk();
            // The process that creates the file takes care of its name.
            drop(Bench::open(&vfs).unwrap());
            vfs.fail_after(calls);
            let mut work = Workload::new();
            if work.run(&vfs, 8).is_ok() {
                break;
            }
            let number = found(&vfs.process_killed(), &work.held).unwrap();
            lost += usize::from(number != found(&vfs.power_cut(1), &work.held).unwrap());
            let go_on = |image: &SimVfs, rounds| {
                let mut again = Workload::new();
                again.held = work.held[..=number].to_vec();
                again.completed = number;
                let done = again.run(image, rounds);
                (again, done)
            };
            // The next checkpoint falls back to this state, so it must be on the disk.
            let image = vfs.process_killed();
            let (again, done) = go_on(&image, 1);
            done.unwrap();
            let newest_lost = zero_meta(&image.power_cut(calls), (number + 1) % 2);
            let older = found(&newest_lost, &again.held);
            assert_eq!(
                older.unwrap_or_else(|e| panic!("call {calls}: {e}")),
                number
            );
            for second in (calls % 3..30).step_by(3) {
                let image = vfs.process_killed();
                image.fail_after(second);
                let (again, _) = go_on(&image, 2);
                for image in [image.power_cut(calls), image.process_killed()] {
                    let after = found(&image, &again.held);
                    let after = after.unwrap_or_else(|e| panic!("calls {calls}, {second}: {e}"));
                    let mut last = vec![again.completed, again.held.len() - 1];
                    if again.completed == number {
                        // No later checkpoint has written it again.
                        last.push(work.completed);
                    }
                    assert!(
                        last.contains(&after),
                        "{calls}, {second}: {after} of {last:?}"
                    );
                }
            }
        }
    }
    assert!(lost > 0, "no sync of a meta failed");
}

#[test]
fn a_file_of_which_any_read_or_map_fails_loses_nothing() {
    let vfs = disk();
    let mut work = Workload::new();
    work.run(&vfs, 3).unwrap();
    for reads in 0.. {
        let image = vfs.process_killed();
        image.fail_reads_after(reads);
        let mut again = Workload::new();
        again.held = work.held.clone();
        again.completed = work.completed;
        let done = again.run(&image, 2);
        for image in [image.process_killed(), image.power_cut(reads)] {
            let number = found(&image, &again.held).unwrap();
            let last = [again.completed, again.held.len() - 1];
            assert!(last.contains(&number), "{reads}: {number} of {last:?}");
        }
        match done {
            Err(Error::Io {
                op: "read" | "map", ..
            }) => {}
            Err(error) => panic!("{reads}: {error}"),
            Ok(()) => {
                assert!(reads > 15, "few reads prove little: {reads}");
                break;
            }
        }
    }
}

/// A file after two checkpoints; nothing is in memory.
fn two_checkpoints() -> (SimVfs, Workload) {
    let vfs = disk();
    let mut work = Workload::new();
    work.run(&vfs, 2).unwrap();
    (vfs.process_killed(), work)
}

#[test]
fn torn_newest_meta_falls_back_and_says_so() {
    let (vfs, work) = two_checkpoints();
    assert_eq!(found(&vfs, &work.held).unwrap(), 2);
    let torn = zero_meta(&vfs, 0);
    assert_eq!(found(&torn, &work.held).unwrap(), 1);
    let (bench, opened) = Bench::open(&torn).unwrap();
    assert_eq!(
        opened.unusable_meta.as_deref(),
        Some("meta page 0: checksum does not match")
    );
    assert_eq!(bench.file.older_user_meta(), [1]);
}

#[test]
fn two_torn_metas_are_refused_with_both_reasons() {
    let (vfs, _) = two_checkpoints();
    let torn = zero_meta(&zero_meta(&vfs, 0), 1);
    let error = Bench::open(&torn).map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("/store/pages is damaged at byte 0: {BOTH_TORN}")
    );
}

#[test]
fn file_that_lost_its_end_is_refused() {
    let (vfs, _) = two_checkpoints();
    let bytes = vfs.contents(Path::new(PATH)).unwrap();
    for len in [0, 100, 4096, 8192, 20_000] {
        let vfs = disk();
        vfs.install(Path::new(PATH), &bytes[..len]);
        let error = Bench::open(&vfs).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("file ends"), "{len}: {error}");
    }
}

#[test]
fn any_flipped_bit_is_found_when_its_page_is_read() {
    let (vfs, work) = two_checkpoints();
    let len = vfs.contents(Path::new(PATH)).unwrap().len() as u64;
    // Each unit in turn, anywhere in it; units that the newest checkpoint does not use may rot.
    let mut noticed = 0;
    for unit in 0..len / 4096 {
        let bit = unit * 4096 * 8 + (unit * 7919) % (4096 * 8);
        let rotten = vfs.process_killed();
        rotten.flip(Path::new(PATH), bit);
        match found(&rotten, &work.held) {
            Err(Error::Corrupt { offset, what, .. }) => {
                // The error names the beginning of the damaged run.
                assert!(offset / 4096 <= unit && unit < offset / 4096 + 4, "{what}");
                noticed += 1;
            }
            Err(error) => panic!("{error}"),
            // The damage hit nothing in use, or a root or meta of the newest one.
            Ok(number) => noticed += u64::from(number != 2),
        }
    }
    assert!(noticed > len / 4096 / 3, "{noticed} of {len} bytes");
}

#[test]
fn reference_to_itself_ends_with_an_error() {
    let vfs = disk();
    let (mut bench, _) = Bench::open(&vfs).unwrap();
    for i in 0..400u32 {
        bench.insert(1, &i.to_be_bytes(), &[0; 200]);
    }
    bench.checkpoint(b"").unwrap();
    bench.release(1000);
    let Some(node::Link::Disk { page, level }) = bench.trees[1].root else {
        panic!("released");
    };
    assert_eq!(level, 1);
    // A page that refers to itself can have no right checksum, so the checksum must not be what
    // ends the descent here: the page was verified before it changed.
    bench.trees[1].get(bench.file.pages(), b"x").unwrap();
    let start = page.id * 4096;
    let bytes = vfs.contents(Path::new(PATH)).unwrap();
    let slot = node::page::u32_at(&bytes[start as usize..], node::page::HEADER) as u64;
    let child = node::page::child_value(Weight::NONE, page);
    bench.file.file.write_at(&child, start + slot + 4).unwrap();
    let error = bench.trees[1]
        .get(bench.file.pages(), &[0; 4])
        .map(|_| ())
        .unwrap_err();
    assert!(error.to_string().contains("another kind"), "{error}");
}

#[test]
fn full_disk_fails_the_checkpoint_and_leaves_the_last_one() {
    let vfs = disk();
    let mut work = Workload::new();
    work.run(&vfs, 2).unwrap();
    let len = vfs.contents(Path::new(PATH)).unwrap().len() as u64;
    vfs.set_capacity(len + 4096);
    let (mut bench, _) = Bench::open(&vfs).unwrap();
    // More than was reserved.
    for i in 0..8000u32 {
        bench.insert(1, &i.to_be_bytes(), &[0; 2000]);
    }
    let error = bench.checkpoint(b"x").unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert_eq!(found(&vfs.process_killed(), &work.held).unwrap(), 2);
}

/// They are behind the end of the file, and a later checkpoint that needs little leaves them free.
#[test]
fn places_that_a_full_disk_did_not_take_are_not_part_of_the_file() {
    let vfs = disk();
    let (mut bench, _) = Bench::open(&vfs).unwrap();
    for number in 0..2 {
        bench.insert(0, b"key-and-a-suffix", &[number]);
        bench.checkpoint(&[number]).unwrap();
    }
    // A spill writes all but the last; each has a leaf of 25 units.
    let large = [b"a", b"b", b"c"];
    for key in large {
        bench.insert(1, key, &[1; 100_000]);
    }
    let len = || vfs.contents(Path::new(PATH)).unwrap().len();
    let before = len();
    vfs.full_after(0, 1);
    bench.spill(1 << 20).unwrap();
    assert_eq!(vfs.times_full(), 1);
    for key in large {
        assert!(bench.remove(1, key));
    }
    for number in 2..4 {
        bench.insert(0, b"key-and-a-suffix", &[number]);
        bench.checkpoint(&[number]).unwrap();
        bench.check().unwrap();
        assert!(len() < before + 20 * UNIT, "nothing large was written");
        let (_, opened) = Bench::open(&vfs.process_killed()).unwrap();
        assert_eq!(
            (opened.user_meta, opened.unusable_meta),
            (vec![number], None)
        );
    }
}

#[test]
fn a_disk_full_at_any_call_delays_a_checkpoint_and_does_no_harm() {
    for disk in [disk, sealed_disk] {
        let plain = disk();
        let mut expected = Workload::new();
        expected.run(&plain, 8).unwrap();
        for calls in 0.. {
            let vfs = disk();
            // The file itself must exist first.
            drop(Bench::open(&vfs).unwrap());
            vfs.full_after(calls, 1 + calls % 3);
            let mut work = Workload::new();
            work.patient = true;
            work.run(&vfs, 8)
                .unwrap_or_else(|e| panic!("full at call {calls}: {e}"));
            assert!(
                work.held == expected.held,
                "full at call {calls}: other data"
            );
            for image in [vfs.process_killed(), vfs.power_cut(calls)] {
                let number = found(&image, &work.held);
                let number = number.unwrap_or_else(|e| panic!("full at call {calls}: {e}"));
                assert_eq!(number, 8, "full at call {calls}");
            }
            if vfs.times_full() == 0 {
                assert!(calls > 60, "few calls prove little: {calls}");
                break;
            }
        }
    }
}

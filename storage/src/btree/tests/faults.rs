//! The model's operations on a disk that fails: power fails at some call, or there is no space
//! left. The file found afterwards is one of the last two checkpoints, whole, and takes more.

use super::model::{Model, beginning, compare, forget_through, join, key, split, value};
use super::*;

/// Range of the failing call; programs of a few kilobytes make this many calls.
const CALLS_MAX: u64 = 150;
/// Upper bound of the disk's size, in units, when space is short.
const ROOM_MAX: u64 = 200;
/// Upper bound of each value when many are inserted in order.
const IN_ORDER_BYTES_MAX: usize = 1500;

type Models = Vec<Model>;

struct Faulty {
    bench: Bench,
    models: Models,
    /// The content of each checkpoint begun; its number is its user meta. 0 is the new file.
    held: Vec<Models>,
    completed: usize,
    job: Option<CheckpointJob>,
    done: Option<CheckpointDone>,
    clock: u64,
}

impl Faulty {
    fn open(vfs: &SimVfs) -> Result<Faulty> {
        let (bench, _) = Bench::open(vfs)?;
        Ok(Faulty {
            bench,
            models: new_models(),
            held: vec![new_models()],
            completed: 0,
            job: None,
            done: None,
            clock: 0,
        })
    }

    /// The outer error: the program ends within an operation, like any other end.
    fn step(&mut self, u: &mut Unstructured<'_>) -> arbitrary::Result<Result<()>> {
        let tree = u.int_in_range(0..=KINDS.len() - 1)?;
        Ok(match u.int_in_range(0..=99u8)? {
            0..=29 => self.insert(tree, &key(u, KINDS[tree])?, &value(u)?),
            30..=39 => {
                // In order, as revisions come; the second tree is the one that is spilled.
                let mut value = value(u)?;
                value.truncate(IN_ORDER_BYTES_MAX);
                (0..u.int_in_range(1..=60)?).try_for_each(|_| {
                    self.clock += 1;
                    let key = format!("~{:012}~~~~~~~~~~~~", self.clock).into_bytes();
                    self.insert(1, &key, &value)
                })
            }
            40..=47 => self.remove(tree, &key(u, KINDS[tree])?),
            48..=49 => self.remove_first(tree, u.int_in_range(1..=100)?),
            50..=64 => self.begin(),
            65..=79 => self.run_job(),
            80..=89 => {
                if let Some(done) = self.done.take() {
                    self.bench.file.finish_checkpoint(done);
                }
                Ok(())
            }
            90..=92 => {
                self.bench.release(u.int_in_range(1..=50)?);
                Ok(())
            }
            93..=96 => self.bench.spill(u.int_in_range(1..=100_000)?),
            _ => {
                let (part, from) = (u.arbitrary()?, key(u, KINDS[tree])?);
                self.bench.relocate(tree, part, &from)
            }
        })
    }

    fn insert(&mut self, tree: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let writer = self.bench.file.writer();
        let replaced = self.bench.trees[tree].insert(writer, key, value)?;
        let old = self.models[tree].insert(split(KINDS[tree], key), value.to_vec());
        assert_eq!(replaced, old.is_some());
        Ok(())
    }

    fn remove(&mut self, tree: usize, key: &[u8]) -> Result<()> {
        let writer = self.bench.file.writer();
        // Half of the time a key that exists.
        let place = split(KINDS[tree], key);
        let next = self.models[tree].range(place..).next();
        let key = next.map_or(key.to_vec(), |(next, _)| join(next));
        let removed = self.bench.trees[tree].remove(writer, &key)?;
        let old = self.models[tree].remove(&split(KINDS[tree], &key));
        assert_eq!(removed, old.is_some());
        Ok(())
    }

    fn remove_first(&mut self, tree: usize, count: usize) -> Result<()> {
        if let Some(last) = beginning(&self.models[tree], count, true) {
            let removed = self.bench.remove_through(tree, &last)?;
            assert_eq!(
                removed,
                forget_through(&mut self.models[tree], KINDS[tree], &last)
            );
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        if self.job.is_none() && self.done.is_none() {
            let number = u32::try_from(self.held.len()).expect("a short program");
            self.held.push(self.models.clone());
            self.job = Some(self.bench.begin(&number.to_be_bytes()));
        }
        Ok(())
    }

    fn run_job(&mut self) -> Result<()> {
        if let Some(job) = self.job.take() {
            self.done = Some(job.run()?);
            self.completed = self.held.len() - 1;
        }
        Ok(())
    }
}

fn new_models() -> Models {
    vec![Model::new(); KINDS.len()]
}

/// Runs `data`, without its first four bytes, on a disk that fails as those four say. Panics if the
/// remaining file is wrong, or cannot be used further.
pub(crate) fn survive(data: &[u8]) {
    let (head, program) = data.split_at(data.len().min(4));
    let [a, b, survival, how] = [0, 1, 2, 3].map(|i| head.get(i).copied().unwrap_or(0));
    let number = u64::from(u16::from_be_bytes([a, b]));
    let vfs = disk();
    if how & 1 != 0 {
        sample::give_key(&vfs);
    }
    match how & 6 {
        0 => vfs.set_capacity((4 + number % ROOM_MAX) * UNIT as u64),
        _ => vfs.fail_after(number % CALLS_MAX),
    }
    let (mut held, mut completed) = (vec![new_models()], 0);
    // No error: the program did not reach the failing call.
    if let Ok(mut run) = Faulty::open(&vfs) {
        let mut u = Unstructured::new(program);
        while !u.is_empty() && matches!(run.step(&mut u), Ok(Ok(()))) {}
        (held, completed) = (run.held, run.completed);
    }
    let cut = match how & 8 {
        0 => vfs.power_cut(u64::from(survival)),
        _ => vfs.process_killed(),
    };
    cut.set_capacity(u64::MAX);
    let last = [completed, held.len() - 1];
    let number = found(&cut, &held).unwrap_or_else(|error| panic!("{error}"));
    assert!(last.contains(&number), "checkpoint {number} of {last:?}");
    go_on(&cut, &held[number], program);
}

/// Opens, checks everything, and returns the checkpoint that was found.
fn found(vfs: &SimVfs, held: &[Models]) -> Result<usize> {
    let (bench, opened) = Bench::open(vfs)?;
    let number = opened.user_meta.first_chunk::<4>();
    let number = number.map_or(0, |number| u32::from_be_bytes(*number) as usize);
    bench.check()?;
    compare(&bench.trees, bench.file.pages(), &held[number]);
    Ok(number)
}

/// The disk works again: the same program runs once more on the found file, to its end.
fn go_on(vfs: &SimVfs, models: &Models, program: &[u8]) {
    let mut run = Faulty::open(vfs).expect("what opened once opens again");
    run.models = models.clone();
    run.held = vec![models.clone()];
    let mut u = Unstructured::new(program);
    while !u.is_empty()
        && let Ok(step) = run.step(&mut u)
    {
        step.expect("a disk without faults");
    }
    run.run_job().expect("a disk without faults");
    if let Some(done) = run.done.take() {
        run.bench.file.finish_checkpoint(done);
    }
    run.begin().expect("a disk without faults");
    run.run_job().expect("a disk without faults");
    let done = run.done.take().expect("just run");
    run.bench.file.finish_checkpoint(done);
    run.bench.check().expect("no page is lost or used twice");
    let number = found(&vfs.power_cut(0), &run.held).expect("a checkpoint that ended opens");
    assert_eq!(number, run.completed);
}

#[cfg(test)]
mod tests {
    #[test]
    fn trees_survive_a_failing_disk_in_arbitrary_programs() {
        arbtest::arbtest(|u| {
            super::survive(u.bytes(u.len())?);
            Ok(())
        })
        .size_min(500)
        .size_max(20_000)
        .budget_ms(2_000);
    }
}

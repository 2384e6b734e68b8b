//! `cargo sim --seed N` replays one run aloud; `cargo sim --seeds N` runs many and tells figures.

#![expect(
    clippy::disallowed_methods,
    reason = "a tool for people: it uses their cores and tells how long that took"
)]

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use sim::{Canary, Failure, Figures, Options};

const USAGE: &str = "\
cargo sim --seed N              one run, with its trace
cargo sim --seeds N [--from N]  so many runs from there on (0), and figures; one that fails is told,
                                and the next goes on
          --workers N           so many at a time; as many as there are cores
          --quiet               no trace
          --canary BUG          with this bug put in on purpose; a wrong name tells all of them
          --only FAULT          with this one kind of fault; a wrong name tells all of them
";

/// One of so many seeds is run twice, to see that it is the same both times.
const TWICE_EVERY: u64 = 20;

/// Whoever runs many wants to see that it goes on.
const TELL_EVERY: u64 = 500;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| -> Option<u64> {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse().ok()
    };
    let text = |name: &str| -> Option<&'static str> {
        let at = arguments.iter().position(|argument| argument == name)?;
        Some(&*arguments.get(at + 1)?.clone().leak())
    };
    let options = Options {
        only: text("--only"),
        canary: text("--canary").map(canary),
        ..Options::default()
    };
    let aloud = !arguments.iter().any(|argument| argument == "--quiet");
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get) as u64;
    let workers = number("--workers").unwrap_or_else(cores);
    match (number("--seed"), number("--seeds")) {
        (Some(seed), _) => one(seed, Options { aloud, ..options }),
        (None, Some(seeds)) => many(number("--from").unwrap_or(0), seeds, workers, options),
        (None, None) => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn canary(name: &str) -> Canary {
    let known = sim::canary::ALL;
    let found = known.into_iter().find(|canary| canary.name() == name);
    found.unwrap_or_else(|| panic!("there are {known:?}"))
}

fn one(seed: u64, options: Options) -> ExitCode {
    match sim::run(seed, options) {
        Ok(figures) => {
            println!("{figures:#?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// What all workers did so far.
struct Tally {
    next: u64,
    under_way: BTreeSet<u64>,
    done: u64,
    total: Figures,
    failed: BTreeSet<u64>,
    began: Instant,
}

impl Tally {
    fn begin(&mut self, end: u64) -> Option<u64> {
        let seed = self.next;
        self.next += u64::from(seed < end);
        (seed < end && self.under_way.insert(seed)).then_some(seed)
    }

    fn end(&mut self, seed: u64, run: Result<Figures, Box<Failure>>) {
        self.under_way.remove(&seed);
        self.done += 1;
        match run {
            Ok(figures) => self.total += figures,
            // A panic is told with its seed here; its own words came before.
            Err(failure) => {
                for line in &failure.trace {
                    println!("    {line}");
                }
                println!("{failure}");
                self.failed.insert(seed);
            }
        }
        if self.done.is_multiple_of(TELL_EVERY) {
            // Where to resume: what is behind it is all done.
            let from = self.under_way.first().copied().unwrap_or(self.next);
            self.tell(&format!("{} seeds, go on with --from {from}", self.done));
        }
    }

    fn tell(&self, what: &str) {
        let seconds = self.began.elapsed().as_secs();
        println!("{what}: {seconds} s, {}", self.total);
        if !self.failed.is_empty() {
            println!("failed: {:?}", self.failed);
        }
    }
}

fn many(from: u64, seeds: u64, workers: u64, options: Options) -> ExitCode {
    let tally = Mutex::new(Tally {
        next: from,
        under_way: BTreeSet::new(),
        done: 0,
        total: Figures::default(),
        failed: BTreeSet::new(),
        began: Instant::now(),
    });
    let tally_of = || tally.lock().unwrap_or_else(PoisonError::into_inner);
    let begin = || tally_of().begin(from + seeds);
    let work = || {
        while let Some(seed) = begin() {
            let run = match seed % TWICE_EVERY {
                0 => sim::run_twice(seed, options),
                _ => sim::run(seed, options),
            };
            tally_of().end(seed, run);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            scope.spawn(work);
        }
    });
    let tally = tally_of();
    tally.tell(&format!("{seeds} seeds from {from}"));
    if tally.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

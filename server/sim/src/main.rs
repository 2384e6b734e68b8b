//! `cargo sim --seed N` replays one run aloud; `cargo sim --seeds N` runs many and tells figures.

use std::process::ExitCode;

use sim::{Canary, Figures, Options};

const USAGE: &str = "\
cargo sim --seed N              one run, with its trace
cargo sim --seeds N [--from N]  so many runs from there on (0), and figures
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
    match (number("--seed"), number("--seeds")) {
        (Some(seed), _) => one(seed, Options { aloud, ..options }),
        (None, Some(seeds)) => many(number("--from").unwrap_or(0), seeds, options),
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

fn many(from: u64, seeds: u64, options: Options) -> ExitCode {
    // A panic is told with its seed below; its own words come in between.
    let (mut total, mut failed) = (Figures::default(), Vec::new());
    for seed in from..from + seeds {
        if seed > from && (seed - from).is_multiple_of(TELL_EVERY) {
            println!("up to seed {seed}: {total}");
        }
        let run = match seed % TWICE_EVERY {
            0 => sim::run_twice(seed, options),
            _ => sim::run(seed, options),
        };
        match run {
            Ok(figures) => total += figures,
            Err(failure) => {
                for line in &failure.trace {
                    println!("    {line}");
                }
                println!("{failure}");
                failed.push(seed);
            }
        }
    }
    println!("{seeds} seeds from {from}: {total}");
    match failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => {
            println!("failed: {failed:?}");
            ExitCode::FAILURE
        }
    }
}

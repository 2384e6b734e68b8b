//! Every checker sees the bug that was made for it.

use sim::canary::ALL;
use sim::{Canary, Options};

/// A canary that sings in none of these runs is not heard.
const SEEDS: u64 = 60;

/// The first seed that shows the bug, and how it was caught.
fn caught(canary: Canary) -> Option<(u64, String)> {
    let options = Options {
        canary: Some(canary),
        ..Options::default()
    };
    for seed in 0..SEEDS {
        let run = match canary {
            Canary::Nondeterminism => sim::run_twice(seed, options),
            _ => sim::run(seed, options),
        };
        match run {
            Err(failure) if canary.caught_by().contains(&failure.check) => {
                return Some((seed, failure.to_string()));
            }
            Err(failure) => println!("{}: also {failure}", canary.name()),
            Ok(_) => {}
        }
    }
    None
}

#[test]
fn every_canary_is_caught_by_its_checker() {
    let mut silent = Vec::new();
    for canary in ALL {
        match caught(canary) {
            Some((seed, how)) => println!("{} at seed {seed}: {how}\n", canary.name()),
            None => silent.push(canary),
        }
    }
    assert!(silent.is_empty(), "nobody noticed {silent:?}");
}

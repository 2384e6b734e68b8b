//! Runs that every change has to pass. `cargo sim --seeds 200` runs more, and faster.

use sim::{Figures, Options};

const SEEDS: u64 = 24;

#[test]
fn some_clusters_keep_every_promise() {
    let mut total = Figures::default();
    for seed in 0..SEEDS {
        match sim::run(seed, Options::default()) {
            Ok(figures) => total += figures,
            Err(failure) => panic!("{}\n{failure}", failure.trace.join("\n")),
        }
    }
    // The trouble must not be such that nothing happens.
    println!("{total}");
    assert!(total.operations > 100 * SEEDS as usize, "{total}");
    assert!(total.elections > SEEDS as usize, "{total}");
    assert!(total.crashes > SEEDS as usize, "{total}");
    assert_eq!(total.undecided, 0, "{total}");
}

#[test]
fn one_seed_makes_one_run() {
    for seed in [3, 11] {
        if let Err(failure) = sim::run_twice(seed, Options::default()) {
            panic!("{failure}");
        }
    }
}

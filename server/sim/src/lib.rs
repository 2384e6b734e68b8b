//! Whole clusters from one seed, in one thread: the actors that `server::runtime` puts on threads,
//! on simulated disks (`storage::vfs::sim`), links and clocks, under crashes, partitions, stalls
//! and jumps, with clients and watchers. Every step is told to the checkers in [`check`], and every
//! committed entry to the [`model`] that answers, events and states are held against; the same seed
//! gives the same run, to the byte.
//!
//! What is real: Raft, the member, the log and its files, the applier, the store, its checkpoints
//! and compactions, leases, the watch hub and its streams. What is not: tokio, gRPC, the peers'
//! connections and their bytes (messages travel as values), threads, and the real file system.

#![forbid(unsafe_code)]

pub mod canary;
pub mod check;
mod clients;
mod digest;
mod host;
pub mod model;
mod nemesis;
mod net;
mod trace;
mod watchers;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use canary::Canary;
pub use testkit::history;
pub use world::Figures;
use world::World;

/// Parts in a million that a clock may be too fast or too slow.
pub(crate) const DRIFT: u64 = 10_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Print the trace as it comes.
    pub aloud: bool,
    /// A bug put in on purpose.
    pub canary: Option<Canary>,
    /// The one kind of fault there is to be, by name.
    pub only: Option<&'static str>,
}

/// A promise that was broken.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    /// The name of the promise; `panic` when an actor's own assertion failed.
    pub check: &'static str,
    pub what: String,
    /// The end of the trace.
    pub trace: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {}: {}: {}", self.seed, self.check, self.what)?;
        write!(f, "replay with: cargo sim --seed {}", self.seed)
    }
}

/// One run.
pub fn run(seed: u64, options: Options) -> Result<Figures, Box<Failure>> {
    let mut world = World::new(seed, options);
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run()));
    let (check, what) = match outcome {
        Ok(Ok(())) => return Ok(world.figures()),
        Ok(Err(failed)) => failed,
        Err(panic) => ("panic", words(&*panic)),
    };
    Err(Box::new(Failure {
        seed,
        check,
        what,
        trace: world.last_lines(),
    }))
}

/// The same seed twice; the second time must be like the first.
pub fn run_twice(seed: u64, options: Options) -> Result<Figures, Box<Failure>> {
    let first = run(seed, options)?;
    let second = run(seed, options)?;
    check::determinism::same(first.digest, second.digest).map_err(|what| {
        Box::new(Failure {
            seed,
            check: "determinism",
            what,
            trace: Vec::new(),
        })
    })?;
    Ok(first)
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no words").to_owned()
}

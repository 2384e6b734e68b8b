//! Runs etcd's own `benchmark` program against real etcd and Stele in turn, each on a fresh
//! directory; and against an empty gRPC server, as the lower bound for any server.
//!
//! Absolute figures vary with the machine. So the sides alternate within each round, the order is
//! reversed from round to round, and the result is ratios of medians within one run.

mod big;
mod cluster;
mod floor;
mod generator;
mod loads;
mod login;
mod options;
mod report;
mod side;
mod tls;

use std::process::ExitCode;

use options::{Command, Options, Part, Side};
use report::Record;
use side::Run;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// The program: options from the command line, the table on stdout, progress on stderr.
pub fn main() -> ExitCode {
    let result = match options::parse(std::env::args_os()) {
        Ok(Command::Floor(floor)) => floor::serve(&floor),
        Ok(Command::Measure(options)) => measure(&options),
        Err(error) => error.exit(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("versus: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<()> {
    let encrypted = options.sides.iter().find(|side| side.is_encrypted());
    let can_encrypt = matches!(options.part, Part::Loads | Part::Combined);
    if let (Some(side), false) = (encrypted, can_encrypt) {
        return Err(format!("{} runs loads and `combined` only", side.name()).into());
    }
    let programs = options.programs()?;
    match options.part {
        Part::Loads | Part::Cluster => loads(options, &programs),
        Part::Takeover => cluster::takeover::run(options, &programs),
        Part::Steady => cluster::steady::run(options, &programs),
        Part::Absent => cluster::absent::run(options, &programs),
        Part::Join => cluster::join::run(options, &programs),
        Part::Combined => cluster::combined::run(options, &programs),
        Part::Big => big::run(options, &programs),
        Part::Snapshot => cluster::snapshot::run(options, &programs),
    }
}

fn loads(options: &Options, programs: &options::Programs) -> Result<()> {
    let mut record = Record::new(options, programs);
    for load in &options.loads {
        for round in 0..options.rounds_or(3) {
            for side in order(&options.sides, round) {
                if side == Side::Floor && !load.floor {
                    continue;
                }
                let run = match options.part {
                    Part::Cluster if side == Side::Floor => continue,
                    Part::Cluster => cluster::puts::run(side, load, programs, options),
                    _ => side::run(side, load, programs, options),
                };
                let run =
                    run.map_err(|error| format!("{} on {}: {error}", load.name, side.name()))?;
                eprintln!("{:16} {:6} {}", load.name, side.name(), progress(&run));
                record.add(load, side, run);
            }
        }
        // Written after each load, so that an interrupted run keeps its results.
        record.write(&options.out)?;
    }
    print!("{}", record.markdown());
    eprintln!("record: {}", options.out.display());
    Ok(())
}

/// Every second round is reversed, so that neither side always runs on the warmer machine.
fn order(sides: &[Side], round: usize) -> Vec<Side> {
    let mut sides = sides.to_vec();
    if round % 2 == 1 {
        sides.reverse();
    }
    sides
}

fn progress(run: &Run) -> String {
    format!(
        "{:>9.0}/s  p50 {:>7.2} ms  p99 {:>7.2} ms  {:>6.1} us CPU",
        run.per_second.unwrap_or(f64::NAN),
        run.p50_ms,
        run.p99_ms,
        run.cpu_us_per_op()
    )
}

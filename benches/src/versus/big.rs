//! `versus --only big`: what a large store costs. Each part fills a fresh server and measures one
//! thing, on etcd and on Stele in turn; the table shows the goal.
//!
//! Uses the servers only as programs. It has its own load generator, on one thread, so that both
//! sides have the same remaining share of the machine.

mod bulk;
mod bystander;
mod cold;
mod count;
mod feed;
mod fill;
mod large;
mod lease;
mod load;
mod pauses;
mod restart;
mod sizes;
mod space;
mod stall;
mod subject;
mod table;
mod watch;

use clap::{Arg, ArgAction, ArgMatches, value_parser};

use super::Result;
use super::options::{Options, Programs, Side};
use large::Way;
use subject::Subject;
use table::Table;

/// Number of clients that put in the background.
const CLIENTS: usize = 50;

/// The options of this part, beside those of all of `versus`.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    parts: Vec<Part>,
    keys: u64,
    /// The stores of the sizes part, in keys.
    sizes: Vec<u64>,
    watchers: u64,
    /// Puts per second, all clients together; `None`: as fast as they are answered.
    rate: Option<u64>,
    /// The fill part puts its keys in random order.
    random: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Fill,
    Count,
    Pauses,
    Return,
    Overwrite,
    Sizes,
    Large,
    Attached,
    Between,
    Stall,
    Cold,
    Bulk,
    Watch,
    Lease,
}

impl Part {
    const ALL: [(&'static str, Part, &'static str); 14] = [
        (
            "fill",
            Part::Fill,
            "puts until it is full, memory, bytes, two restarts",
        ),
        (
            "count",
            Part::Count,
            "counts and pages, at the current and at an older revision",
        ),
        (
            "pauses",
            Part::Pauses,
            "puts of 50 clients while the store does its chores",
        ),
        (
            "return",
            Part::Return,
            "file size after 90 % of the data was deleted",
        ),
        (
            "overwrite",
            Part::Overwrite,
            "file size under a steady load that overwrites",
        ),
        (
            "sizes",
            Part::Sizes,
            "random overwrites, as many as keys, and restarts of stores of several sizes",
        ),
        (
            "large",
            Part::Large,
            "puts while one request deletes the whole store",
        ),
        (
            "attached",
            Part::Attached,
            "puts while a lease ends to which the whole store is attached",
        ),
        (
            "between",
            Part::Between,
            "puts while a lease ends to which every other key is attached",
        ),
        (
            "stall",
            Part::Stall,
            "file size while a client of Snapshot does not read",
        ),
        (
            "cold",
            Part::Cold,
            "random gets and puts on values of 4 KiB, more than the memory",
        ),
        (
            "bulk",
            Part::Bulk,
            "values of 4 KiB: restarts, compaction, a snapshot with nothing cached, a member fed",
        ),
        (
            "watch",
            Part::Watch,
            "delivery to watchers of which one in ten does not read",
        ),
        (
            "lease",
            Part::Lease,
            "many leases, a tenth of them ending in the same second",
        ),
    ];

    fn by_name(name: &str) -> std::result::Result<Part, String> {
        let found = Part::ALL.iter().find(|(known, ..)| *known == name);
        found
            .map(|(_, part, _)| *part)
            .ok_or_else(|| format!("no such part; there are\n{}", describe()))
    }
}

pub(super) fn args() -> Vec<Arg> {
    let number = |name, help| Arg::new(name).long(name).help(help);
    vec![
        number(
            "parts",
            "Of `big`: parts by name, all but sizes, cold and bulk when not given",
        )
        .value_delimiter(',')
        .value_parser(Part::by_name)
        .long_help(format!(
            "Of `big`: parts by name, all but sizes, cold and bulk when not given\n{}",
            describe()
        )),
        number("keys", "Of `big`: keys in the store, or leases").value_parser(value_parser!(u64)),
        number(
            "sizes",
            "Of `big`: the part sizes has stores of so many keys",
        )
        .value_delimiter(',')
        .value_parser(value_parser!(u64))
        .default_value("10000,100000,1000000,10000000"),
        number("watchers", "Of `big`: watchers in all").value_parser(value_parser!(u64)),
        number(
            "rate",
            "Of `big`: puts a second; as fast as they are answered when not given",
        )
        .value_parser(value_parser!(u64)),
        number(
            "random",
            "Of `big`: the part fill puts its keys in random order",
        )
        .action(ArgAction::SetTrue),
    ]
}

pub(super) fn plan(matches: &ArgMatches) -> Plan {
    let parts = matches.get_many::<Part>("parts");
    Plan {
        parts: parts.map_or_else(
            || {
                let all = Part::ALL.iter().map(|(_, part, _)| *part);
                all.filter(|part| !matches!(part, Part::Sizes | Part::Cold | Part::Bulk))
                    .collect()
            },
            |parts| parts.copied().collect(),
        ),
        keys: matches.get_one("keys").copied().unwrap_or(1_000_000),
        sizes: matches
            .get_many("sizes")
            .map_or_else(Vec::new, |sizes| sizes.copied().collect()),
        watchers: matches.get_one("watchers").copied().unwrap_or(10_000),
        rate: matches.get_one("rate").copied(),
        random: matches.get_flag("random"),
    }
}

pub(super) fn run(options: &Options, programs: &Programs) -> Result<()> {
    let plan = &options.big;
    let mut table = Table::default();
    let sides = options.sides.iter().filter(|side| **side != Side::Floor);
    for part in &plan.parts {
        for &side in sides.clone() {
            let mut figures = table.side(side);
            let mut subject = Subject::start(side, programs, options)?;
            let done = match part {
                Part::Fill => fill::measure(&mut subject, plan, &mut figures),
                Part::Count => count::measure(&subject, plan, &mut figures),
                Part::Pauses => pauses::measure(&subject, plan, &mut figures),
                Part::Return => space::measure_return(&subject, plan, &mut figures),
                Part::Overwrite => space::measure_overwrite(&subject, options, &mut figures),
                Part::Sizes => sizes::measure(&mut subject, options, &mut figures),
                Part::Large => large::measure(&mut subject, plan, &mut figures, Way::Range),
                Part::Attached => large::measure(&mut subject, plan, &mut figures, Way::Lease),
                Part::Between => {
                    large::measure(&mut subject, plan, &mut figures, Way::LeaseBetween)
                }
                Part::Stall => stall::measure(&subject, options, &mut figures),
                Part::Cold => cold::measure(&mut subject, options, &mut figures),
                Part::Bulk => bulk::measure(&mut subject, options, &mut figures),
                Part::Watch => watch::measure(&mut subject, plan, &mut figures),
                Part::Lease => lease::measure(&subject, plan, &mut figures),
            };
            done.map_err(|error| format!("{part:?} on {}: {error}", side.name()))?;
            subject.check_alive()?;
        }
        // Written after each part, so that an interrupted run keeps its results.
        table.write(&options.out)?;
    }
    print!("{}", table.markdown());
    Ok(())
}

fn describe() -> String {
    let lines = Part::ALL.map(|(name, _, what)| format!("  {name:10} {what}"));
    lines.join("\n")
}

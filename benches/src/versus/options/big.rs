//! The options of `versus --only big`.

use clap::{Arg, ArgAction, ArgMatches, value_parser};

use crate::workload::KEY_BYTES;

/// Longer than any key of Kubernetes.
const KEY_BYTES_MAX: u64 = 1024;

/// The options of this part, beside those of all of `versus`.
#[derive(Clone, Debug)]
pub(in crate::versus) struct Plan {
    pub(in crate::versus) parts: Vec<Part>,
    pub(in crate::versus) keys: u64,
    /// The stores of the sizes part, in keys.
    pub(in crate::versus) sizes: Vec<u64>,
    /// The length of their keys.
    pub(in crate::versus) key_bytes: usize,
    /// They are overwritten for all of `--minutes`, not only as often as there are keys.
    pub(in crate::versus) sustained: bool,
    pub(in crate::versus) watchers: u64,
    /// Puts per second, all clients together; `None`: as fast as they are answered.
    pub(in crate::versus) rate: Option<u64>,
    /// The fill part puts its keys in random order.
    pub(in crate::versus) random: bool,
    /// A missed aim is an error. Without it, it is only told: a busy machine is no failure.
    pub(in crate::versus) judge: bool,
}

impl Plan {
    /// Refuses what a run would ignore, and then look as if it had measured something else.
    /// `is_big`: this part is the one measured.
    pub(super) fn check(&self, is_big: bool) -> Result<(), &'static str> {
        let has_sizes = is_big && self.parts.contains(&Part::Sizes);
        if self.key_bytes != KEY_BYTES && !has_sizes {
            return Err("--key-bytes is of `--only big --parts sizes` alone");
        }
        if self.sustained && !has_sizes {
            return Err("--sustained is of `--only big --parts sizes` alone");
        }
        if self.judge && !is_big {
            return Err("--judge is of `--only big` alone: nothing else is judged");
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::versus) enum Part {
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
        number(
            "key-bytes",
            "Of `big`: the part sizes has keys of so many bytes; 32 when not given",
        )
        .value_parser(value_parser!(u64).range(KEY_BYTES as u64..=KEY_BYTES_MAX)),
        number(
            "sustained",
            "Of `big`: the part sizes overwrites for all of --minutes",
        )
        .action(ArgAction::SetTrue),
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
        number(
            "judge",
            "Of `big`: ends with an error if Stele missed an aim of the table",
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
        key_bytes: matches
            .get_one::<u64>("key-bytes")
            .map_or(KEY_BYTES, |bytes| *bytes as usize),
        sustained: matches.get_flag("sustained"),
        watchers: matches.get_one("watchers").copied().unwrap_or(10_000),
        rate: matches.get_one("rate").copied(),
        random: matches.get_flag("random"),
        judge: matches.get_flag("judge"),
    }
}

fn describe() -> String {
    let lines = Part::ALL.map(|(name, _, what)| format!("  {name:10} {what}"));
    lines.join("\n")
}

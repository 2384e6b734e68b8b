//! The command line, and the paths of the programs.

pub(super) mod big;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, value_parser};
use testkit::Tools;

use super::Result;
use super::floor::Floor;
use super::loads::{Load, SHORT};

pub(super) enum Command {
    Measure(Box<Options>),
    /// Run as the empty server: started by this program itself, with etcd's flags.
    Floor(Floor),
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Loads on one server.
    Loads,
    /// Some loads on three members.
    Cluster,
    /// The leader of three members is killed, terminated, stopped.
    Takeover,
    /// Three members under full load for some minutes.
    Steady,
    /// New members receive the store while clients write.
    Snapshot,
    /// A member of three is away while clients write, and returns.
    Absent,
    /// An empty member joins a large store.
    Join,
    /// All of it at once, over TLS.
    Combined,
    /// A large store.
    Big,
}

impl Part {
    const ALL: [(&'static str, Part); 9] = [
        ("loads", Part::Loads),
        ("cluster", Part::Cluster),
        ("takeover", Part::Takeover),
        ("steady", Part::Steady),
        ("snapshot", Part::Snapshot),
        ("absent", Part::Absent),
        ("join", Part::Join),
        ("combined", Part::Combined),
        ("big", Part::Big),
    ];
}

/// What a load runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Etcd,
    Stele,
    /// Both again over TLS with client certificates.
    EtcdTls,
    SteleTls,
    /// Stele with encryption at rest.
    Sealed,
    Floor,
}

impl Side {
    pub(super) const ALL: [Side; 6] = [
        Side::Etcd,
        Side::Stele,
        Side::EtcdTls,
        Side::SteleTls,
        Side::Sealed,
        Side::Floor,
    ];
    /// The sides that run if none are named.
    pub(super) const DEFAULT: [Side; 3] = [Side::Etcd, Side::Stele, Side::Floor];

    pub(super) fn is_stele(self) -> bool {
        matches!(self, Side::Stele | Side::SteleTls | Side::Sealed)
    }

    pub(super) fn is_encrypted(self) -> bool {
        matches!(self, Side::EtcdTls | Side::SteleTls)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Side::Etcd => "etcd",
            Side::Stele => "stele",
            Side::EtcdTls => "etcd-tls",
            Side::SteleTls => "stele-tls",
            Side::Sealed => "sealed",
            Side::Floor => "floor",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) part: Part,
    pub(super) big: big::Plan,

    pub(super) loads: Vec<Load>,
    pub(super) sides: Vec<Side>,
    rounds: Option<usize>,
    /// The number of keys for parts that fill a store, if given.
    pub(super) total: Option<u64>,
    /// The duration of parts that run for a time.
    pub(super) minutes: f64,
    pub(super) floor_threads: usize,
    /// The directory of the record.
    pub(super) out: PathBuf,
    /// The parent of the data directories.
    pub(super) dir: PathBuf,
    /// The directory of new members, which then run at low priority, as if on another machine.
    pub(super) learner_dir: Option<PathBuf>,
    /// Additional flags for Stele only.
    pub(super) stele_flags: Vec<String>,
    etcd: Option<PathBuf>,
    stele: Option<PathBuf>,
    benchmark: Option<PathBuf>,
}

/// The paths of all programs of a run.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) benchmark: PathBuf,
    etcd: PathBuf,
    stele: PathBuf,
    floor: PathBuf,
}

impl Programs {
    pub(super) fn server(&self, side: Side) -> &PathBuf {
        match side {
            Side::Etcd | Side::EtcdTls => &self.etcd,
            Side::Stele | Side::SteleTls | Side::Sealed => &self.stele,
            Side::Floor => &self.floor,
        }
    }
}

impl Options {
    pub(super) fn rounds_or(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(usual)
    }

    /// The sides that are real servers.
    pub(super) fn servers(&self) -> impl Iterator<Item = Side> {
        let sides = self.sides.iter().copied();
        sides.filter(|side| *side != Side::Floor)
    }

    /// The given paths, or built programs: etcd's from their Go modules, Stele with cargo.
    pub(super) fn programs(&self) -> Result<Programs> {
        let (etcd, benchmark) = match (&self.etcd, &self.benchmark) {
            (Some(etcd), Some(benchmark)) => (etcd.clone(), benchmark.clone()),
            (etcd, benchmark) => {
                let tools = Tools::locate()?;
                let etcd = etcd.clone().unwrap_or(tools.etcd);
                (etcd, benchmark.clone().unwrap_or(tools.benchmark))
            }
        };
        let stele = match &self.stele {
            Some(stele) => stele.clone(),
            None if self.sides.iter().any(|side| side.is_stele()) => build_stele()?,
            None => PathBuf::new(),
        };
        Ok(Programs {
            benchmark,
            etcd,
            stele,
            floor: std::env::current_exe()?,
        })
    }
}

/// Makes a release build, independent of our own profile.
fn build_stele() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let status = std::process::Command::new(cargo)
        .args(["build", "--release", "-p", "stele", "--bin", "stele"])
        .current_dir(testkit::workspace_root())
        .env("CARGO_TARGET_DIR", testkit::target_dir())
        .status()?;
    if !status.success() {
        return Err("Stele does not build".into());
    }
    Ok(testkit::target_dir().join("release").join("stele"))
}

pub(super) fn parse(
    args: impl IntoIterator<Item = OsString>,
) -> std::result::Result<Command, clap::Error> {
    let matches = command().try_get_matches_from(args)?;
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    if let Some(&threads) = matches.get_one::<usize>("floor") {
        let listen = matches.get_one::<SocketAddr>("listen-client-urls");
        let listen = listen.copied().unwrap_or(([127, 0, 0, 1], 2379).into());
        return Ok(Command::Floor(Floor { listen, threads }));
    }
    let part = matches.get_one::<Part>("only").copied();
    let part = part.unwrap_or(Part::Loads);
    let big = big::plan(&matches);
    let fits = big.check(part == Part::Big);
    fits.map_err(|why| command().error(ErrorKind::ArgumentConflict, why))?;
    let total = matches.get_one::<u64>("total").copied();
    let short = matches.get_flag("short");
    let mut loads: Vec<Load> = match matches.get_many::<Load>("loads") {
        Some(named) => named.cloned().collect(),
        None => Load::all()
            .into_iter()
            .filter(|load| load.default && (part != Part::Cluster || load.cluster))
            .collect(),
    };
    for load in &mut loads {
        load.total = total.unwrap_or(load.total / if short { SHORT } else { 1 });
        if short {
            load.prefill /= SHORT;
        }
        if let Some(&conns) = matches.get_one::<u32>("conns") {
            load.conns = conns.min(load.clients);
        }
    }
    let stele_flags = matches.get_many::<String>("stele-flag");
    let sides = matches.get_many::<Side>("sides");
    let default_out = || testkit::target_dir().join("versus");
    Ok(Command::Measure(Box::new(Options {
        part,
        big,
        loads,
        sides: sides.map_or_else(|| Side::DEFAULT.to_vec(), |sides| sides.copied().collect()),
        rounds: match matches.get_one::<usize>("rounds") {
            Some(&rounds) => Some(rounds.max(1)),
            None => short.then_some(1),
        },
        total,
        minutes: matches.get_one("minutes").copied().unwrap_or(10.0),
        floor_threads: matches.get_one("floor-threads").copied().unwrap_or(1),
        out: path("out").unwrap_or_else(default_out),
        dir: path("dir").unwrap_or_else(std::env::temp_dir),
        learner_dir: path("learner-dir"),
        stele_flags: stele_flags.map_or_else(Vec::new, |flags| flags.cloned().collect()),
        etcd: path("etcd"),
        stele: path("stele"),
        benchmark: path("benchmark"),
    })))
}

fn command() -> clap::Command {
    let path = |name, help| {
        Arg::new(name)
            .long(name)
            .help(help)
            .value_parser(value_parser!(PathBuf))
    };
    let list = |name, help| Arg::new(name).long(name).help(help).value_delimiter(',');
    let number = |name, help| Arg::new(name).long(name).help(help);
    clap::Command::new("versus")
        .about("Runs the same load on real etcd, on Stele and on an empty gRPC server.")
        .after_help(describe_loads())
        .arg(
            number(
                "only",
                "What to measure: loads (usual), cluster, takeover, steady, snapshot, absent, join, combined, big",
            )
            .value_parser(part_by_name),
        )
        .arg(number("minutes", "For parts that go by time").value_parser(value_parser!(f64)))
        .arg(list("loads", "Loads to run, by name").value_parser(load_by_name))
        .arg(
            list(
                "sides",
                "Sides to run: etcd, stele, etcd-tls, stele-tls, sealed (stele with a key), floor",
            )
            .value_parser(side_by_name),
        )
        .arg(number("rounds", "Rounds per load; medians count").value_parser(value_parser!(usize)))
        .arg(number("total", "Requests per load").value_parser(value_parser!(u64)))
        .arg(number("conns", "Connections per load").value_parser(value_parser!(u32)))
        .arg(
            number("floor-threads", "Threads of the empty server")
                .value_parser(value_parser!(usize)),
        )
        .arg(
            Arg::new("short")
                .long("short")
                .action(ArgAction::SetTrue)
                .help("One small round"),
        )
        .arg(path(
            "out",
            "Folder of the record; target/versus when not given",
        ))
        .arg(path("dir", "Where data directories are made"))
        .arg(path(
            "learner-dir",
            "Where new members make theirs, at low priority: a disk other than that of `--dir`",
        ))
        .arg(path(
            "etcd",
            "Real etcd; built from its Go module when not given",
        ))
        .arg(path(
            "benchmark",
            "etcd's benchmark; built from its Go module when not given",
        ))
        .arg(path("stele", "Stele; built with cargo when not given"))
        .arg(
            Arg::new("stele-flag")
                .long("stele-flag")
                .help("One more flag for Stele, as --stele-flag=--name=value")
                .action(ArgAction::Append),
        )
        .args(big::args())
        .args(floor_flags())
}

/// The server flags that the empty server accepts.
fn floor_flags() -> Vec<Arg> {
    let hidden = |name| Arg::new(name).long(name).hide(true);
    let ignored = [
        "data-dir",
        "listen-peer-urls",
        "advertise-client-urls",
        "initial-advertise-peer-urls",
        "initial-cluster",
    ];
    let mut flags: Vec<Arg> = ignored.into_iter().map(hidden).collect();
    flags.push(hidden("floor").value_parser(value_parser!(usize)));
    flags.push(hidden("listen-client-urls").value_parser(|url: &str| {
        let address = url.strip_prefix("http://").unwrap_or(url);
        address.parse::<SocketAddr>()
    }));
    flags
}

fn load_by_name(name: &str) -> std::result::Result<Load, String> {
    let found = Load::all().into_iter().find(|load| load.name == name);
    found.ok_or_else(|| format!("no such load; there are\n{}", describe_loads()))
}

fn part_by_name(name: &str) -> std::result::Result<Part, String> {
    let found = Part::ALL.into_iter().find(|part| part.0 == name);
    let names = || Part::ALL.map(|part| part.0).join(", ");
    found.map(|part| part.1).ok_or_else(names)
}

fn side_by_name(name: &str) -> std::result::Result<Side, String> {
    let found = Side::ALL.into_iter().find(|side| side.name() == name);
    found.ok_or_else(|| Side::ALL.map(Side::name).join(", "))
}

fn describe_loads() -> String {
    let lines = Load::all().into_iter().map(|load| {
        let note = if load.default {
            ""
        } else {
            " (only when named)"
        };
        format!("  {:16} {} x {}{note}", load.name, load.total, load.what)
    });
    format!("Loads:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Command {
        let args = ["versus"].iter().chain(args).map(OsString::from);
        parse(args).unwrap()
    }

    fn measured(args: &[&str]) -> Box<Options> {
        match parsed(args) {
            Command::Measure(options) => options,
            Command::Floor(_) => panic!("a measurement was asked for"),
        }
    }

    fn refusal(args: &[&str]) -> String {
        let args = ["versus"].iter().chain(args).map(OsString::from);
        parse(args).err().unwrap().to_string()
    }

    #[test]
    fn loads_are_chosen_by_name_and_scaled() {
        let options = measured(&["--loads=put-100,watch-1000", "--short"]);
        let totals: Vec<_> = options
            .loads
            .iter()
            .map(|load| (load.name, load.total))
            .collect();
        assert_eq!(totals, [("put-100", 3000), ("watch-1000", 150)]);
        assert_eq!(options.rounds, Some(1));
    }

    #[test]
    fn keys_have_32_bytes_or_as_many_as_given() {
        let usual = measured(&["--only=big", "--parts=sizes"]);
        let long = measured(&["--only=big", "--parts=sizes", "--key-bytes=500"]);
        assert_eq!((usual.big.key_bytes, long.big.key_bytes), (32, 500));
    }

    #[test]
    fn keys_that_are_too_short_or_too_long_are_refused() {
        for bytes in ["31", "1025", "many"] {
            let given = format!("--key-bytes={bytes}");
            let error = refusal(&["--only=big", "--parts=sizes", given.as_str()]);
            let named = error.contains("--key-bytes") && error.contains(bytes);
            assert!(named, "{error}");
        }
    }

    #[test]
    fn long_keys_are_refused_where_no_part_has_them() {
        for only in ["--only=big", "--only=steady"] {
            let error = refusal(&[only, "--parts=fill", "--key-bytes=500"]);
            assert!(error.contains("--only big --parts sizes"), "{error}");
        }
    }

    #[test]
    fn sizes_go_by_the_number_of_keys_or_by_time_alone() {
        assert!(!measured(&["--only=big", "--parts=sizes"]).big.sustained);
        let by_time = measured(&["--only=big", "--parts=sizes", "--sustained"]);
        assert!(by_time.big.sustained);
        let error = refusal(&["--only=big", "--parts=fill", "--sustained"]);
        assert!(error.contains("--only big --parts sizes"), "{error}");
    }

    #[test]
    fn only_what_has_aims_is_judged() {
        assert!(measured(&["--only=big", "--judge"]).big.judge);
        assert!(!measured(&["--only=big"]).big.judge);
        let error = refusal(&["--only=steady", "--judge"]);
        assert!(error.contains("--judge is of `--only big`"), "{error}");
    }

    #[test]
    fn an_unknown_load_is_named_in_the_error() {
        let error = refusal(&["--loads=nonsense"]);
        assert!(
            error.contains("nonsense") && error.contains("put-100"),
            "{error}"
        );
    }

    #[test]
    fn the_empty_server_takes_the_flags_a_server_is_started_with() {
        let Command::Floor(floor) = parsed(&[
            "--data-dir=x",
            "--listen-client-urls=http://127.0.0.1:7",
            "--listen-peer-urls=http://127.0.0.1:8",
            "--initial-cluster=default=http://127.0.0.1:2380",
            "--floor=2",
        ]) else {
            panic!("the empty server was asked for");
        };
        assert_eq!((floor.listen.port(), floor.threads), (7, 2));
    }
}

//! The command line: all commands and flags, and the function that runs each.

use std::io::Write;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};
use clap_complete::Shell;

use crate::defrag::defrag;
use crate::file::open_database;
use crate::hashkv::hash_kv;
use crate::print::{Format, print};
use crate::status::status;
use crate::{Engine, Failure, Import, Restore};
use crate::{inspect, migrate};

/// The etcd version whose tool this replaces.
const ETCD_VERSION: &str = "3.7.3";
const API_VERSION: &str = "3.7";

const KEYS_FOR_NEW: &str = "The keys of encryption at rest: what is made is sealed under the first";

pub(crate) fn command(program: &'static str) -> Command {
    Command::new(program)
        .no_binary_name(true)
        .about("Works on files of etcd and Stele while no server has them open")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(false)
        .arg(
            value("write-out", "simple")
                .short('w')
                .global(true)
                .help("set the output format (fields, json, protobuf, simple, table)"),
        )
        .arg(
            value("timeout", "10s")
                .global(true)
                .help("taken for etcdutl's sake; files are never waited for"),
        )
        .subcommand(snapshot())
        .subcommand(import())
        .subcommand(
            Command::new("hashkv")
                .about("Prints the KV history hash of a given file")
                .arg(files())
                .arg(
                    value("rev", "0")
                        .value_parser(clap::value_parser!(i64))
                        .help("maximum revision to hash (default: latest revision)"),
                ),
        )
        .subcommand(
            Command::new("defrag")
                .about("Does nothing: Stele gives free pages back while it runs")
                .arg(value("data-dir", "").help("Required. A data directory not in use")),
        )
        .subcommand(
            Command::new("inspect")
                .about("Verifies all files of a data directory of Stele not in use: 0 whole, 2 damaged")
                .arg(files())
                .arg(value("wal-dir", "").help("Path to the directory of the log, if apart from the data"))
                .arg(key_file("The keys that the data is sealed under, if it is")),
        )
        .subcommand(
            Command::new("migrate")
                .about("Checks that data of Stele fits a version of etcd: its files are the same for all")
                .arg(value("data-dir", "").help("Required. A data directory not in use"))
                .arg(value("target-version", "").help(
                    "Required. Target etcd version. Minimal value 3.5. Format \"X.Y\" for example 3.6",
                ))
                .arg(flag("force").help("Taken for etcdutl's sake")),
        )
        .subcommand(
            Command::new("completion")
                .about("Generate completion script")
                .arg(
                    Arg::new("shell")
                        .value_name("bash|zsh|fish|powershell")
                        .num_args(0..),
                ),
        )
        .subcommand(Command::new("version").about("Prints the version of etcdutl"))
}

fn snapshot() -> Command {
    Command::new("snapshot")
        .about("Manages etcd node snapshots")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(restore())
        .subcommand(
            Command::new("status")
                .about("Gets backend snapshot status of a given file")
                .arg(files()),
        )
}

fn restore() -> Command {
    Command::new("restore")
        .about("Restores an etcd member snapshot to a data directory of Stele")
        .arg(files())
        .arg(value("data-dir", "").help("Path to the output data directory"))
        .arg(value("wal-dir", "").help("Path to the directory of the log, if apart from the data"))
        .arg(
            value("initial-cluster", "default=http://localhost:2380")
                .help("Initial cluster configuration for restore bootstrap"),
        )
        .arg(
            value("initial-cluster-token", "etcd-cluster")
                .help("Initial cluster token for the etcd cluster during restore bootstrap"),
        )
        .arg(
            value("initial-advertise-peer-urls", "http://localhost:2380")
                .help("List of this member's peer URLs to advertise to the rest of the cluster"),
        )
        .arg(value("name", "default").help("Human-readable name for this member"))
        .arg(
            flag("skip-hash-check").help(
                "Ignore snapshot integrity hash value (required if copied from data directory)",
            ),
        )
        .arg(
            value("initial-memory-map-size", "0")
                .value_parser(clap::value_parser!(u64))
                .help("Taken for etcdutl's sake"),
        )
        .arg(
            value("bump-revision", "0")
                .value_parser(clap::value_parser!(u64))
                .help("How much to increase the latest revision after restore"),
        )
        .arg(flag("mark-compacted").help(
            "Mark the latest revision after restore as the point of scheduled compaction \
             (required if --bump-revision > 0, disallowed otherwise)",
        ))
        .arg(key_file(KEYS_FOR_NEW))
}

fn import() -> Command {
    Command::new("import")
        .about("Takes a data directory of a stopped etcd over into one of Stele")
        .arg(
            Arg::new("file")
                .value_name("etcd data dir")
                .num_args(0..)
                .value_parser(clap::value_parser!(PathBuf)),
        )
        .arg(value("data-dir", "").help("Path to the output data directory"))
        .arg(
            value("wal-dir", "").help("Path to etcd's WAL directory, if it is not in its data dir"),
        )
        .arg(flag("force-new-cluster").help(
            "Take one member of a cluster of several over as a cluster of one; the others must \
             never run again",
        ))
        .arg(key_file(KEYS_FOR_NEW))
}

/// Runs the command of `matches`; `streams` are standard output and standard error.
pub(crate) fn dispatch(
    program: &'static str,
    matches: &ArgMatches,
    engine: &dyn Engine,
    streams: (&mut dyn Write, &mut dyn Write),
) -> Result<(), Failure> {
    let (out, err) = streams;
    match matches.subcommand() {
        Some(("snapshot", matches)) => match matches.subcommand() {
            Some(("restore", matches)) => {
                let lines = engine.restore(&restore_plan(matches)?);
                let lines = lines.map_err(Failure::error)?;
                lines.iter().try_for_each(|line| say(err, line))
            }
            Some(("status", matches)) => {
                let path = one_file(matches, "snapshot status")?;
                let database = open_database(&path)?;
                let format = Format::parse(&text(matches, "write-out"))?;
                let found = status(&database).map_err(|fault| Failure::error(fault.0))?;
                print(format, &found, out)
            }
            _ => unreachable!("clap asks for a subcommand"),
        },
        Some(("import", matches)) => {
            let told = engine
                .import(&import_plan(matches)?)
                .map_err(Failure::error)?;
            say(out, &told)
        }
        Some(("hashkv", matches)) => {
            let database = open_database(&one_file(matches, "hashkv")?)?;
            let format = Format::parse(&text(matches, "write-out"))?;
            let revision = matches.get_one::<i64>("rev").copied().unwrap_or_default();
            let found = hash_kv(&database, revision).map_err(|fault| Failure::error(fault.0))?;
            print(format, &found, out)
        }
        Some(("inspect", matches)) => {
            let dir = one_file(matches, "inspect")?;
            let places = inspect::Given {
                wal_dir: path(matches, "wal-dir"),
                key_file: keys_of(matches),
            };
            inspect::run(&dir, places, out)
        }
        Some(("defrag", matches)) => match text(matches, "data-dir") {
            dir if dir.is_empty() => Err(Failure::error("required flag(s) \"data-dir\" not set")),
            dir => say(out, &defrag(dir.as_ref())?),
        },
        Some(("migrate", matches)) => {
            let (dir, version) = (text(matches, "data-dir"), text(matches, "target-version"));
            say(out, &migrate::migrate(&dir, &version)?)
        }
        Some(("completion", matches)) => completion(program, matches, out),
        Some(("version", _)) => say(
            out,
            &format!("etcdutl version: {ETCD_VERSION}\nAPI version: {API_VERSION}"),
        ),
        _ => unreachable!("clap asks for a subcommand"),
    }
}

fn restore_plan(matches: &ArgMatches) -> Result<Restore, Failure> {
    let snapshot = one_file(matches, "snapshot restore")?;
    let (bump_revision, mark_compacted) = (
        number(matches, "bump-revision"),
        is_set(matches, "mark-compacted"),
    );
    if (bump_revision > 0) != mark_compacted {
        // etcdutl's text, including the wrong flag name.
        return Err(Failure::bad_args(
            "--mark-compacted required if --revision-bump > 0",
        ));
    }
    let name = text(matches, "name");
    let data_dir = match text(matches, "data-dir") {
        dir if dir.is_empty() => format!("{name}.etcd"),
        dir => dir,
    };
    Ok(Restore {
        snapshot,
        data_dir: data_dir.into(),
        wal_dir: path(matches, "wal-dir"),
        name,
        initial_cluster: text(matches, "initial-cluster"),
        initial_cluster_token: text(matches, "initial-cluster-token"),
        initial_advertise_peer_urls: text(matches, "initial-advertise-peer-urls"),
        skip_hash_check: is_set(matches, "skip-hash-check"),
        bump_revision,
        mark_compacted,
        encryption_key_file: keys_of(matches),
    })
}

fn import_plan(matches: &ArgMatches) -> Result<Import, Failure> {
    let etcd_data_dir = one_file(matches, "import")?;
    let data_dir = text(matches, "data-dir");
    if data_dir.is_empty() {
        return Err(Failure::bad_args("required flag(s) \"data-dir\" not set"));
    }
    Ok(Import {
        etcd_data_dir,
        etcd_wal_dir: path(matches, "wal-dir"),
        data_dir: data_dir.into(),
        force_new_cluster: is_set(matches, "force-new-cluster"),
        encryption_key_file: keys_of(matches),
    })
}

/// The same as the server's flag of that name.
fn key_file(help: &'static str) -> Arg {
    value("encryption-key-file", "").help(help)
}

fn keys_of(matches: &ArgMatches) -> Option<PathBuf> {
    path(matches, "encryption-key-file")
}

fn path(matches: &ArgMatches, name: &str) -> Option<PathBuf> {
    let path = text(matches, name);
    (!path.is_empty()).then(|| path.into())
}

/// The files of a command. The command itself checks their number, with etcdutl's text.
fn files() -> Arg {
    Arg::new("file")
        .value_name("filename")
        .num_args(0..)
        .value_parser(clap::value_parser!(PathBuf))
}

fn value(name: &'static str, default: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .default_value(default)
        .action(ArgAction::Set)
}

/// `--name`, or `--name=true` and `--name=false` as in Go.
fn flag(name: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .num_args(0..=1)
        .require_equals(true)
        .default_value("false")
        .default_missing_value("true")
        .value_parser(clap::value_parser!(bool))
}

fn one_file(matches: &ArgMatches, command: &str) -> Result<PathBuf, Failure> {
    let mut files = matches.get_many::<PathBuf>("file").unwrap_or_default();
    match (files.next(), files.next()) {
        (Some(file), None) => Ok(file.clone()),
        _ => Err(Failure::bad_args(format!(
            "{command} requires exactly one argument"
        ))),
    }
}

fn text(matches: &ArgMatches, name: &str) -> String {
    matches.get_one::<String>(name).cloned().unwrap_or_default()
}

fn number(matches: &ArgMatches, name: &str) -> u64 {
    matches.get_one::<u64>(name).copied().unwrap_or_default()
}

fn is_set(matches: &ArgMatches, name: &str) -> bool {
    matches.get_one::<bool>(name).copied().unwrap_or_default()
}

fn completion(
    program: &'static str,
    matches: &ArgMatches,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut names = matches.get_many::<String>("shell").unwrap_or_default();
    let shell = match (names.next(), names.next()) {
        (Some(name), None) => name
            .parse::<Shell>()
            .ok()
            .filter(|shell| *shell != Shell::Elvish)
            .ok_or_else(|| {
                Failure::error(format!(
                    "invalid argument {name:?} for \"{program} completion\""
                ))
            })?,
        _ => {
            let given = matches.get_many::<String>("shell");
            let given = given.map_or(0, |all| all.len());
            return Err(Failure::error(format!(
                "accepts 1 arg(s), received {given}"
            )));
        }
    };
    // The name that the shell sees: for `stele utl`, a word and its first argument.
    let mut command = match program.split_once(' ') {
        Some((outer, inner)) => Command::new(outer).subcommand(command(program).name(inner)),
        None => command(program),
    };
    let name = program.split(' ').next().unwrap_or(program);
    // The generator panics where it cannot write, such as into a pipe that nobody reads.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    out.write_all(&script).map_err(Failure::error)
}

fn say(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    writeln!(out, "{text}").map_err(Failure::error)
}

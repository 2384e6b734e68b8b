//! Measures Kubernetes' own apiserver and ours in turn, each on a fresh Stele with the same keys
//! and certificates, with one client over TLS; then all of `stele-kube up`.
//!
//! Only ratios within one run count: absolute figures vary with the machine.

#![expect(
    clippy::disallowed_methods,
    reason = "measures: runs processes, reads clocks and waits"
)]

mod asker;
mod fan_out;
mod loads;
mod report;
mod side;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};
use testkit::Kubernetes;

use report::Report;
use side::Side;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The program: options from the command line, the table on stdout, progress on stderr.
pub fn main() -> ExitCode {
    match measure(&command().get_matches()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("versus-kube: {error}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    let number = |name: &'static str, default: &'static str| {
        let flag = Arg::new(name).long(name).value_name("N");
        flag.default_value(default)
            .value_parser(value_parser!(usize))
    };
    let path = |name: &'static str| {
        let flag = Arg::new(name).long(name).value_name("FILE");
        flag.value_parser(value_parser!(PathBuf))
    };
    Command::new("versus-kube")
        .about("The same load on Kubernetes' own apiserver and on ours, both over Stele")
        .arg(
            number("pods", "3000")
                .help("How many pods, and custom resources, are written and listed"),
        )
        .arg(number("lists", "10").help("How often all of them are listed"))
        .arg(number("watchers", "100").help("How many clients watch them"))
        .arg(number("changes", "200").help("How many changes each watcher sees"))
        .arg(number("filled", "0").help("Memory with so many pods is measured, too"))
        .arg(path("stele-kube").help("[default: a release build, made first]"))
        .arg(path("kube-apiserver").help("[default: built from its Go module, minutes]"))
        .arg(
            Arg::new("ours-alone")
                .long("ours-alone")
                .action(clap::ArgAction::SetTrue)
                .help("Leaves Kubernetes' own out"),
        )
}

fn measure(options: &ArgMatches) -> Result<()> {
    let path = |name: &str| options.get_one::<PathBuf>(name).cloned();
    let ours = match path("stele-kube") {
        Some(path) => path,
        None => build_ours()?,
    };
    let mut sides = vec![Side::Ours];
    let mut go = PathBuf::new();
    if !options.get_flag("ours-alone") {
        sides.insert(0, Side::Kubernetes);
        go = match path("kube-apiserver") {
            Some(path) => path,
            None => Kubernetes::Apiserver.locate()?,
        };
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut report = Report::default();
    for side in sides {
        let size = Size::of(options);
        runtime.block_on(async {
            let (server, started) = side::start(side, &ours, &go).await?;
            report.start(side, &started);
            loads::run(side, &server, &size, &mut report).await
        })?;
    }
    report.up(&runtime.block_on(side::up(&ours))?);
    print!("{report}");
    Ok(())
}

/// The size of the loads.
struct Size {
    pods: usize,
    lists: usize,
    watchers: usize,
    changes: usize,
    /// Pods in all when memory is measured; 0: not measured.
    filled: usize,
}

impl Size {
    fn of(options: &ArgMatches) -> Size {
        let number = |name: &str| options.get_one(name).copied().unwrap_or(1);
        Size {
            pods: number("pods"),
            lists: number("lists"),
            watchers: number("watchers"),
            changes: number("changes"),
            filled: number("filled"),
        }
    }
}

/// Makes a release build, independent of our own profile.
fn build_ours() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let status = std::process::Command::new(cargo)
        .args(["build", "--release", "-p", "control-plane"])
        .current_dir(testkit::workspace_root())
        .env("CARGO_TARGET_DIR", testkit::target_dir())
        .status()?;
    if !status.success() {
        return Err("stele-kube does not build".into());
    }
    Ok(testkit::target_dir().join("release").join("stele-kube"))
}

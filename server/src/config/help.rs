//! The output of `--help`, `--version` and wrong flags.

use std::env::consts::{ARCH, OS};
use std::fmt::Write as _;

use super::ETCD_VERSION;
use super::flags::{Effect, SECTIONS};

pub(super) const USAGE: &str = "Usage:

  stele [flags]
    Start a server that speaks etcd's API.

  stele --version
    Print the version.

  stele -h | --help
    Print the flags.

  stele gateway start --help
    Print the flags of the gateway, a TCP proxy in front of a cluster.

  stele grpc-proxy start --help
    Print the flags of a proxy before a cluster.

  stele --config-file PATH
    Take the configuration from a YAML or JSON file; other flags and variables are ignored.
    Durations in the file are whole nanoseconds.

Every flag FOO-BAR can be set by the variable ETCD_FOO_BAR instead.
";

/// All flags with their defaults.
pub(super) fn flags() -> String {
    let mut out = String::new();
    for (title, flags) in SECTIONS {
        let _ = writeln!(out, "\n{title}:");
        for flag in *flags {
            let _ = writeln!(out, "  --{} '{}'", flag.name, flag.default);
            let effect = match flag.effect {
                Effect::Used => String::new(),
                Effect::Moot => " Taken, without effect in Stele.".into(),
                Effect::Ignored => " Ignored.".into(),
            };
            let _ = writeln!(out, "    {}{effect}", flag.help);
        }
    }
    out
}

/// etcd's four lines, which tools parse, and one of our own. Go is not used and the commit is not
/// known at build time; the lines say so.
pub(super) fn version() -> String {
    let arch = match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!(
        "etcd Version: {ETCD_VERSION}\nGit SHA: Not provided\nGo Version: none (Rust)\nGo OS/Arch: {OS}/{arch}\nStele Version: {}\n",
        env!("CARGO_PKG_VERSION")
    )
}

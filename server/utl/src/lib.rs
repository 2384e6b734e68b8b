//! `stele utl`: etcdutl's commands, with its flags and its output, plus one that it lacks:
//! importing a data directory of etcd. Also available under the name `etcdutl`.
//!
//! It knows etcd's files and how to report on them. Only the server knows how to turn a snapshot
//! into a data directory of Stele; [`Engine`] is the interface to that.

#![forbid(unsafe_code)]

mod command;
mod defrag;
mod file;
mod hashkv;
mod inspect;
mod migrate;
mod print;
mod status;

pub use status::humanized;

use std::fmt;
use std::io::Write;
use std::path::PathBuf;

use clap::error::ErrorKind;

/// The server's part of the commands: only the server knows its data directories.
pub trait Engine {
    /// Founds a cluster in a new data directory with a snapshot's data; returns its log lines.
    fn restore(&self, plan: &Restore) -> Result<Vec<String>, String>;
    /// Founds a data directory that continues where one of etcd stopped; returns a text for the
    /// user.
    fn import(&self, plan: &Import) -> Result<String, String>;
}

/// Arguments of `snapshot restore`, with all defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    pub snapshot: PathBuf,
    pub data_dir: PathBuf,
    /// The log's own directory; `None` if it is inside `data_dir`.
    pub wal_dir: Option<PathBuf>,
    pub name: String,
    pub initial_cluster: String,
    pub initial_cluster_token: String,
    pub initial_advertise_peer_urls: String,
    pub skip_hash_check: bool,
    /// 0 keeps the revisions as they are.
    pub bump_revision: u64,
    pub mark_compacted: bool,
    /// The new data is sealed under the first key in it.
    pub encryption_key_file: Option<PathBuf>,
}

/// Arguments of `import`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    pub etcd_data_dir: PathBuf,
    pub etcd_wal_dir: Option<PathBuf>,
    pub data_dir: PathBuf,
    /// Use one member's data of a cluster of several, and drop the other members.
    pub force_new_cluster: bool,
    /// As in [`Restore`].
    pub encryption_key_file: Option<PathBuf>,
}

/// Why a command failed: `text` is printed after `Error: `, `code` is the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub text: String,
    pub code: u8,
}

/// etcdutl's exit codes.
pub const EXIT_ERROR: u8 = 1;
/// For `inspect`: it finished, and something is damaged.
pub const EXIT_DAMAGED: u8 = 2;
pub const EXIT_BAD_FEATURE: u8 = 4;
pub const EXIT_BAD_ARGS: u8 = 128;

impl Failure {
    pub fn error(text: impl fmt::Display) -> Failure {
        Failure {
            text: text.to_string(),
            code: EXIT_ERROR,
        }
    }

    pub fn bad_args(text: impl fmt::Display) -> Failure {
        Failure {
            text: text.to_string(),
            code: EXIT_BAD_ARGS,
        }
    }
}

/// Runs one command line (without the program's name) and returns the exit code.
pub fn run(
    program: &'static str,
    args: &[String],
    engine: &dyn Engine,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let matches = match command::command(program).try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => {
            let text = error.render();
            // Without a terminal nobody can be told.
            let _ = match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                    let _ = write!(out, "{text}");
                    return 0;
                }
                _ => write!(err, "{}", capitalized(&text.to_string())),
            };
            return EXIT_ERROR;
        }
    };
    match command::dispatch(program, &matches, engine, (out, err)) {
        Ok(()) => 0,
        Err(failure) => {
            let _ = writeln!(err, "Error: {}", failure.text);
            failure.code
        }
    }
}

fn capitalized(text: &str) -> String {
    text.replacen("error:", "Error:", 1)
}

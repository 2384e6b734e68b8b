//! `stele-kube store`: the store alone, with all of its flags, like the binary `stele`.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Command;
use server::config::{self, Exit};
use server::lifecycle;
use server::lifecycle::signals;
use server::telemetry::logging;
use storage::vfs::os::OsVfs;

/// The subcommand for the help text; the store parses its flags itself.
pub(crate) fn command() -> Command {
    Command::new("store")
        .about("Runs the store alone; takes etcd's flags")
        .disable_help_flag(true)
}

/// Runs until a signal to stop.
pub(crate) fn run(flags: &[String]) -> ExitCode {
    let variables = config::variables();
    let read = |path: &str| std::fs::read_to_string(path);
    let config = match config::parse(flags, &variables, &read) {
        Ok(config) => config,
        Err(Exit::Print {
            stdout,
            stderr,
            code,
        }) => {
            // A closed terminal cannot be reported to anyone.
            let _ = std::io::stdout().write_all(stdout.as_bytes());
            let _ = std::io::stderr().write_all(stderr.as_bytes());
            return ExitCode::from(code);
        }
        Err(Exit::Invalid(invalid)) => return fail(&invalid.reason),
        Err(Exit::Shadowed { variable }) => return fail(&variable),
    };
    if let Err(error) = logging::init(&config.log) {
        return fail(&error);
    }
    crate::raise_limit();
    match lifecycle::run(config, Arc::new(OsVfs)) {
        Ok(signal) => {
            logging::flush();
            signals::exit_by(signal)
        }
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(why: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{why}");
    ExitCode::FAILURE
}

//! The `stele-kube` binary: the parts of the control plane, one subcommand each. Called by the name
//! `kube-apiserver` or `etcd` it is that program.

mod apiserver_command;
mod cluster;
mod connection;
#[cfg(test)]
mod flags_page;
mod logging;
mod loops_command;
mod node_command;
mod scheduler_command;
mod store_client;
mod store_command;
mod switch;
mod test_command;
mod up_command;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Command;
use tracing_subscriber::filter::LevelFilter;

/// Objects are allocated in one thread and freed in another, in large numbers.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// When the loops have looked at everything once, counted from when all serves.
const SETTLED: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    if is_called(apiserver_command::NAME) {
        let arguments = apiserver_command::command_by_name().get_matches();
        logging::begin(LevelFilter::INFO);
        raise_limit();
        return ended(apiserver_command::run(&arguments));
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if is_called("etcd") {
        return store_command::run(&words);
    }
    if let Some(("store", flags)) = words
        .split_first()
        .map(|(first, rest)| (first.as_str(), rest))
    {
        return store_command::run(flags);
    }
    let arguments = command().get_matches();
    logging::begin(LevelFilter::INFO);
    raise_limit();
    let result = match arguments.subcommand() {
        Some(("up", arguments)) => up_command::run(arguments),
        Some(("test", arguments)) => test_command::run(arguments),
        Some(("apiserver", arguments)) => apiserver_command::run(arguments),
        Some(("controller-manager", arguments)) => loops_command::run(arguments),
        Some(("scheduler", arguments)) => scheduler_command::run(arguments),
        Some(("node", arguments)) => node_command::run(arguments),
        _ => unreachable!("clap asks for a subcommand"),
    };
    ended(result)
}

/// Lets the process open as many files as it may: each connection is one.
fn raise_limit() {
    if let Err(error) = server::net::descriptors::raise_limit() {
        tracing::warn!(%error, "failed to raise the limit on open files");
    }
}

/// Gives back what only the start uses of the program. Called once all of it serves.
async fn give_start_back() {
    for pause in [Duration::ZERO, SETTLED] {
        tokio::time::sleep(pause).await;
        if let Err(error) = storage::memory::unmap_program() {
            tracing::debug!(%error, "the program's start stays in memory");
        }
    }
}

/// Whether the file that was started, or a link to it, has this name.
fn is_called(name: &str) -> bool {
    let first = std::env::args_os().next().unwrap_or_default();
    Path::new(&first)
        .file_name()
        .is_some_and(|file| file == name)
}

fn ended(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn command() -> Command {
    Command::new("stele-kube")
        .about("Kubernetes on Stele")
        .subcommand_required(true)
        .subcommand(up_command::command())
        .subcommand(test_command::command())
        .subcommand(apiserver_command::command())
        .subcommand(store_command::command())
        .subcommand(loops_command::command())
        .subcommand(scheduler_command::command())
        .subcommand(node_command::command())
}

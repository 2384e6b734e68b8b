//! The `stele-kube` binary: the parts of the control plane, one subcommand each.

mod apiserver_command;
mod connection;
mod logging;
mod loops_command;
mod node_command;
mod scheduler_command;
mod store_command;
mod up_command;

use std::process::ExitCode;

use clap::Command;

/// Objects are allocated in one thread and freed in another, in large numbers.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("store", flags)) = words
        .split_first()
        .map(|(first, rest)| (first.as_str(), rest))
    {
        return store_command::run(flags);
    }
    let arguments = command().get_matches();
    logging::begin(tracing::Level::INFO);
    let result = match arguments.subcommand() {
        Some(("up", arguments)) => up_command::run(arguments),
        Some(("apiserver", arguments)) => apiserver_command::run(arguments),
        Some(("controller-manager", arguments)) => loops_command::run(arguments),
        Some(("scheduler", arguments)) => scheduler_command::run(arguments),
        Some(("node", arguments)) => node_command::run(arguments),
        _ => unreachable!("clap asks for a subcommand"),
    };
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
        .subcommand(apiserver_command::command())
        .subcommand(store_command::command())
        .subcommand(loops_command::command())
        .subcommand(scheduler_command::command())
        .subcommand(node_command::command())
}

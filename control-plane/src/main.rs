//! The `stele-kube` binary: the parts of the control plane, one subcommand each.

use std::process::ExitCode;

use clap::{Arg, Command};

/// Objects come and go by the thousand, made in one thread and freed in another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = command().get_matches();
    match arguments.subcommand() {
        Some(("apiserver", _)) => unimplemented!(),
        _ => unreachable!("clap asks for a subcommand"),
    }
}

fn command() -> Command {
    let apiserver = Command::new("apiserver")
        .about("Serves the API of Kubernetes from a store that speaks etcd's")
        .arg(
            Arg::new("etcd-servers")
                .long("etcd-servers")
                .value_name("URL")
                .default_value("http://127.0.0.1:2379"),
        )
        .arg(
            Arg::new("bind")
                .long("bind")
                .value_name("ADDRESS")
                .default_value("127.0.0.1:8080"),
        );
    Command::new("stele-kube")
        .about("Kubernetes on Stele")
        .subcommand_required(true)
        .subcommand(apiserver)
}

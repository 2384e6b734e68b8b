//! `stele-kube controller-manager`: the control loops alone, with an apiserver elsewhere.

use std::error::Error;

use clap::{Arg, ArgAction, ArgMatches, Command};
use controllers::{Config, Selection};

use crate::connection;

/// The subcommand and its flags.
pub(crate) fn command() -> Command {
    Command::new("controller-manager")
        .about("Brings the cluster to what was asked for: the loops")
        .args(connection::flags())
        .arg(
            Arg::new("root-ca-file")
                .long("root-ca-file")
                .value_name("FILE")
                .help("The certificate that every namespace gets as kube-root-ca.crt"),
        )
        .arg(controllers_flag("*"))
        .arg(
            Arg::new("leader-elect")
                .long("leader-elect")
                .action(ArgAction::SetTrue)
                .help("Works only while it holds the lease kube-system/kube-controller-manager"),
        )
}

/// The flag that chooses loops.
pub(crate) fn controllers_flag(default: &'static str) -> Arg {
    Arg::new("controllers")
        .long("controllers")
        .value_name("LIST")
        .value_delimiter(',')
        .allow_hyphen_values(true)
        .default_value(default)
        .help("The loops to run: * for all, NAME for one, -NAME for all but one")
}

/// The loops that the flag chooses.
pub(crate) fn selection(arguments: &ArgMatches) -> Result<Selection, String> {
    let words = arguments.get_many::<String>("controllers");
    let words: Vec<String> = words.into_iter().flatten().cloned().collect();
    Selection::parse(&words).map_err(|why| format!("--controllers: {why}"))
}

/// Runs until a signal to stop.
pub(crate) fn run(arguments: &ArgMatches) -> Result<(), Box<dyn Error>> {
    let config = Config {
        // The process ID distinguishes copies on one machine.
        elect: arguments
            .get_flag("leader-elect")
            .then(|| format!("stele-kube_{}", std::process::id())),
        root_ca: match arguments.get_one::<String>("root-ca-file") {
            Some(file) => std::fs::read_to_string(file)?,
            None => String::new(),
        },
        loops: selection(arguments)?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = connection::client(arguments).await?;
        controllers::run(client, config, connection::asked_to_stop()).await?;
        Ok(())
    })
}

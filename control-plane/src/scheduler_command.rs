//! `stele-kube scheduler`: the scheduler alone.

use std::error::Error;

use clap::{Arg, ArgMatches, Command};
use scheduler::Config;

use crate::connection;
use crate::switch::switch;

/// The subcommand and its flags.
pub(crate) fn command() -> Command {
    Command::new("scheduler")
        .about("Gives pods their nodes")
        .args(connection::flags())
        .arg(
            Arg::new("scheduler-name")
                .long("scheduler-name")
                .value_name("NAME")
                .default_value(scheduler::pod::DEFAULT_SCHEDULER)
                .help("The name that pods ask for this scheduler by"),
        )
        .arg(
            switch("leader-elect")
                .help("Works only while it holds the lease kube-system/kube-scheduler"),
        )
}

/// Schedules until a signal to stop.
pub(crate) fn run(arguments: &ArgMatches) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = connection::client(arguments).await?;
        let name = arguments.get_one::<String>("scheduler-name");
        let mut config = Config {
            name: name.cloned().unwrap_or_default(),
            ..Config::default()
        };
        if arguments.get_flag("leader-elect") {
            // The seed is random for each process.
            config.elect = Some(format!("stele-kube_{:016x}", config.seed));
        }
        scheduler::run(client, config, connection::asked_to_stop()).await?;
        Ok(())
    })
}

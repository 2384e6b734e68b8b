//! `stele-kube node`: hollow nodes, any number in one process.

use std::error::Error;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command, value_parser};
use node::host::Size;
use node::{Config, Family, provisioner};

use crate::connection;
use crate::switch::switch;

/// The subcommand and its flags.
pub(crate) fn command() -> Command {
    let flag = |name: &'static str, value: &'static str, default: &'static str| {
        let flag = Arg::new(name).long(name).value_name(value);
        flag.default_value(default)
    };
    let seconds = value_parser!(u64).range(1..);
    Command::new("node")
        .about("Runs hollow nodes: they register, keep their leases and run pods in name only")
        .args(connection::flags())
        .arg(flag("count", "NUMBER", "1").value_parser(value_parser!(usize)))
        .arg(flag("prefix", "TEXT", "node-").help("What the names of the nodes begin with"))
        .arg(
            flag("ip-families", "LIST", "IPv4")
                .value_delimiter(',')
                .value_parser(family)
                .help("The families of their addresses and of their pods', the primary one first"),
        )
        .arg(flag("cpu", "QUANTITY", "8"))
        .arg(flag("memory", "QUANTITY", "16Gi"))
        .arg(flag("max-pods", "NUMBER", "110").value_parser(value_parser!(u32)))
        .arg(flag("lease-seconds", "SECONDS", "10").value_parser(seconds))
        .arg(flag("status-seconds", "SECONDS", "300").value_parser(seconds))
        .arg(switch("volumes").help(format!(
            "Makes volumes, too, for claims of classes with the provisioner {}",
            provisioner::NAME
        )))
}

fn family(name: &str) -> Result<Family, String> {
    Family::named(name).ok_or_else(|| "is neither IPv4 nor IPv6".to_owned())
}

fn families(arguments: &ArgMatches) -> Result<Vec<Family>, String> {
    let families = arguments.get_many::<Family>("ip-families");
    let families: Vec<Family> = families.into_iter().flatten().copied().collect();
    match families[..] {
        [_] => Ok(families),
        [first, second] if first != second => Ok(families),
        _ => Err("--ip-families takes one family, or both".to_owned()),
    }
}

/// Runs the nodes until a signal to stop.
pub(crate) fn run(arguments: &ArgMatches) -> Result<(), Box<dyn Error>> {
    let text = |name: &str| {
        let value = arguments.get_one::<String>(name);
        value.cloned().unwrap_or_default()
    };
    let seconds = |name: &str| Duration::from_secs(*arguments.get_one(name).unwrap_or(&1));
    let config = Config {
        count: *arguments.get_one("count").unwrap_or(&1),
        prefix: text("prefix"),
        families: families(arguments)?,
        size: Size {
            cpu: text("cpu"),
            memory: text("memory"),
            pods: *arguments.get_one("max-pods").unwrap_or(&1),
            ..Size::default()
        },
        lease_period: seconds("lease-seconds"),
        status_period: seconds("status-seconds"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = connection::client(arguments).await?;
        let nodes = node::run(client.clone(), config, connection::asked_to_stop());
        if arguments.get_flag("volumes") {
            let volumes = provisioner::run(client, connection::asked_to_stop());
            tokio::join!(nodes, volumes);
        } else {
            nodes.await;
        }
        Ok(())
    })
}

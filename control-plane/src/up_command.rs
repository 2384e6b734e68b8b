//! `stele-kube up`: a whole cluster in one process, until it is stopped.

use std::error::Error;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::cluster::{self, Component, Plan, Up};
use crate::connection;
use crate::loops_command;

/// The subcommand and its flags.
pub(crate) fn command() -> Command {
    let flag = |name: &'static str, value: &'static str, default: &'static str| {
        let flag = Arg::new(name).long(name).value_name(value);
        flag.default_value(default)
    };
    Command::new("up")
        .about(
            "Runs a whole cluster in one process: store, apiserver, controllers, scheduler, nodes",
        )
        .arg(flag("data-dir", "DIR", "stele-kube.data").help("Where everything is kept"))
        .arg(
            flag(
                "components",
                "LIST",
                "store,apiserver,controller-manager,scheduler,node",
            )
            .value_delimiter(',')
            .value_parser(value_parser!(Component))
            .help("Which parts to run"),
        )
        .arg(loops_command::controllers_flag("*"))
        .arg(
            flag("nodes", "N", "3")
                .value_parser(value_parser!(usize))
                .help("How many hollow nodes"),
        )
        .arg(flag("bind", "ADDRESS", "127.0.0.1:6443").help("Where the apiserver listens"))
        .arg(flag("store-bind", "ADDRESS", "127.0.0.1:2379").help("Where the store listens"))
        .arg(
            Arg::new("etcd-servers")
                .long("etcd-servers")
                .value_name("URL")
                .help("The store, when it is not one of the parts"),
        )
        .arg(flag("service-cidr", "RANGE", "10.96.0.0/16").help(
            "Where services get addresses: one range, or two of different families, as in \
             10.96.0.0/16,fd00:10::/112; nodes and pods get addresses of the same families",
        ))
}

/// Runs until a signal to stop.
pub(crate) fn run(arguments: &ArgMatches) -> Result<(), Box<dyn Error>> {
    let text = |name: &str| {
        let value = arguments.get_one::<String>(name);
        value.cloned().unwrap_or_default()
    };
    let components = arguments.get_many::<Component>("components");
    let plan = Plan {
        directory: PathBuf::from(text("data-dir")),
        components: components.into_iter().flatten().copied().collect(),
        bind: text("bind").parse()?,
        store_bind: text("store-bind").parse()?,
        store_flags: Vec::new(),
        etcd_servers: arguments.get_one("etcd-servers").cloned(),
        service_ranges: cluster::service_ranges("service-cidr", &text("service-cidr"))?,
        loops: loops_command::selection(arguments)?,
        nodes: arguments.get_one("nodes").copied().unwrap_or_default(),
        default_class: true,
        disabled_plugins: Vec::new(),
        faults: None,
    };
    plan.run(greet, connection::asked_to_stop())
}

/// Prints the next commands to run.
fn greet(up: &Up) -> io::Result<()> {
    match (up.api, up.store) {
        (Some(address), _) => greet_from_api(address, &up.kubeconfig),
        (None, Some(address)) => greet_from_store(address),
        (None, None) => Ok(()),
    }
}

fn greet_from_api(address: SocketAddr, kubeconfig: &Path) -> io::Result<()> {
    let path = std::path::absolute(kubeconfig)?;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "The cluster is up at https://{address}. Next:\n\n  \
         export KUBECONFIG={}\n  \
         kubectl create deployment nginx-deployment --image=nginx --replicas=3\n  \
         kubectl get pods -o wide --watch\n",
        path.display()
    )?;
    out.flush()
}

fn greet_from_store(address: SocketAddr) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "The store is up at http://{address}. Next:\n\n  \
         export ETCDCTL_ENDPOINTS=http://{address}\n  \
         etcdctl put greeting hello\n  \
         etcdctl get --prefix ''\n"
    )?;
    out.flush()
}

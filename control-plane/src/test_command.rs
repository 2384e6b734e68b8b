//! `stele-kube test`: a cluster for the tests of an operator. It keeps everything in a temporary
//! directory, takes free ports, and ends with the process that started it.
//!
//! Its first line of output is the path of a kubeconfig. When that line is there, the API answers.

mod directory;

use std::error::Error;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use std::{env, thread};

use apiserver::faults::Faults;
use clap::{Arg, ArgMatches, Command};

use crate::cluster::{self, Component, Plan, Up};
use crate::connection;
use crate::loops_command;
use crate::switch::switch;
use directory::Directory;

/// How often it looks whether the process that started it is still there.
const PARENT_CHECK_EVERY: Duration = Duration::from_millis(200);
/// The loops without which objects that are deleted would stay, and approved requests for
/// certificates unsigned.
const LOOPS: &str = "garbage-collector-controller,namespace-controller,\
     persistentvolumeclaim-protection-controller,persistentvolume-protection-controller,\
     volumeattributesclass-protection-controller,certificatesigningrequest-signing-controller";

/// Upper bound of the seeds that are chosen without `--seed`, short enough to be copied.
const SEEDS: u64 = 1_000_000;

/// The subcommand and its flags.
pub(crate) fn command() -> Command {
    let flag =
        |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    Command::new("test")
        .about(
            "Runs an apiserver on a temporary store for tests, prints its kubeconfig's path as the \
             first line, and ends with its parent process",
        )
        .arg(loops_command::controllers_flag(LOOPS))
        .arg(switch("scheduler").help("Whether pods are assigned to nodes"))
        .arg(
            flag("nodes", "N")
                .value_parser(clap::value_parser!(usize))
                .default_value("0")
                .help("How many hollow nodes, which run pods"),
        )
        .arg(
            flag("service-cluster-ip-range", "RANGE")
                .default_value("10.0.0.0/24")
                .help("Where services get addresses: one range, or two of different families"),
        )
        .arg(
            flag("disable-admission-plugins", "LIST")
                .value_delimiter(',')
                // The service accounts that it wants are made by a loop that is not among ours.
                .default_value("ServiceAccount")
                .help("Admission plugins to switch off"),
        )
        .arg(flag("faults", "LIST").help(
            "Kinds of faults that requests meet on purpose, such as conflicts,throttling=0.1; all \
             for every kind",
        ))
        .arg(
            flag("seed", "N")
                .value_parser(clap::value_parser!(u64))
                .requires("faults")
                .help("Which requests meet faults; the same again for the same number"),
        )
}

/// Runs until a signal to stop, or until the parent process has ended.
pub(crate) fn run(arguments: &ArgMatches) -> Result<(), Box<dyn Error>> {
    let parent = rustix::process::getppid();
    let faults = faults(arguments)?;
    let directory = Directory::new(&env::temp_dir())?;
    let mut components = vec![
        Component::Store,
        Component::Apiserver,
        Component::ControllerManager,
    ];
    let nodes = arguments.get_one("nodes").copied().unwrap_or_default();
    if arguments.get_flag("scheduler") {
        components.push(Component::Scheduler);
    }
    if nodes > 0 {
        components.push(Component::Node);
    }
    let free_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let name = "service-cluster-ip-range";
    let range = arguments.get_one::<String>(name).cloned();
    let disabled = arguments.get_many::<String>("disable-admission-plugins");
    let plan = Plan {
        directory: directory.path().to_owned(),
        components,
        bind: free_port,
        store_bind: free_port,
        // What is in the store is gone with the process.
        store_flags: vec!["--unsafe-no-fsync".to_owned()],
        etcd_servers: None,
        service_ranges: cluster::service_ranges(name, &range.unwrap_or_default())?,
        loops: loops_command::selection(arguments)?,
        nodes,
        // A test makes the classes that it wants.
        default_class: false,
        disabled_plugins: disabled.into_iter().flatten().cloned().collect(),
        faults,
    };
    plan.run(print_kubeconfig, async {
        tokio::select! {
            () = connection::asked_to_stop() => {}
            () = ended(parent) => tracing::info!("the parent process has ended"),
        }
    })
}

/// The faults that were asked for. The log has the flags that make them again.
fn faults(arguments: &ArgMatches) -> Result<Option<Arc<Faults>>, String> {
    let Some(list) = arguments.get_one::<String>("faults") else {
        return Ok(None);
    };
    // The keys of a hasher are random.
    let random = || RandomState::new().build_hasher().finish() % SEEDS;
    let seed = arguments.get_one("seed").copied().unwrap_or_else(random);
    let faults = Faults::parse(seed, list)?;
    tracing::info!("faults on purpose, the same again with {}", faults.flags());
    Ok(Some(Arc::new(faults)))
}

fn print_kubeconfig(up: &Up) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", up.kubeconfig.display())?;
    out.flush()?;
    // Whoever waits for the cluster does not wait for this.
    thread::Builder::new().spawn(|| {
        let removed = directory::remove_left(&env::temp_dir());
        if removed > 0 {
            tracing::info!(
                removed,
                "removed the directories of test clusters that were killed"
            );
        }
    })?;
    Ok(())
}

/// Waits until this process has another parent than `parent`. A signal for that is tied to the
/// thread that started the process, which may end long before its process does.
async fn ended(parent: Option<rustix::process::Pid>) {
    while rustix::process::getppid() == parent {
        tokio::time::sleep(PARENT_CHECK_EVERY).await;
    }
}

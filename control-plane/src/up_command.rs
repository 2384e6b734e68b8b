//! `stele-kube up`: the whole control plane in one process, on one directory.
//!
//! ```text
//! DIR/store/             the store's directory, as for `stele --data-dir`
//! DIR/pki/               keys and certificates, created if missing
//! DIR/admin.kubeconfig   for the owner of the cluster
//! ```

mod inside;
mod parts;

use std::error::Error;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::Config;
use apiserver::Server;
use apiserver::setup::{ISSUER, Mode, Settings};
use clap::{Arg, ArgMatches, Command, value_parser};
use server::lifecycle::local::Local;
use storage::vfs::os::OsVfs;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection;
use parts::{Component, Parts};

/// How long parts may take to stop; after that they are abandoned.
const GRACE: Duration = Duration::from_secs(10);

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
        .arg(flag("service-cidr", "RANGE", "10.96.0.0/16").help("Where services get addresses"))
}

/// Runs until a signal to stop.
#[expect(
    clippy::disallowed_methods,
    reason = "the directory of a whole cluster is made here"
)]
pub(crate) fn run(arguments: &ArgMatches) -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(text(arguments, "data-dir"));
    std::fs::create_dir_all(&directory)
        .map_err(|error| format!("{}: {error}", directory.display()))?;
    let parts = Parts::of(arguments);
    let store = if parts.has(Component::Store) {
        Some(start_store(
            &directory,
            text(arguments, "store-bind").parse()?,
        )?)
    } else {
        None
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(up(arguments, &directory, &parts, store.as_ref()));
    runtime.shutdown_timeout(GRACE);
    // The store stops last, because all other parts write to it.
    if let Some(store) = store {
        store.stop()?;
    }
    result
}

async fn up(
    arguments: &ArgMatches,
    directory: &Path,
    parts: &Parts,
    store: Option<&Local>,
) -> Result<(), Box<dyn Error>> {
    let kubeconfig = directory.join("admin.kubeconfig");
    let (stop, stopping) = watch::channel(false);
    let mut running: JoinSet<Result<(), String>> = JoinSet::new();
    let mut api = None;
    if parts.has(Component::Apiserver) {
        let client = match (store, arguments.get_one::<String>("etcd-servers")) {
            (Some(store), _) => etcd_api::Client::new(store.channel()),
            (None, Some(url)) => etcd_api::Client::connect(url.clone()).await?,
            (None, None) => return Err("an apiserver without a store takes --etcd-servers".into()),
        };
        api = Some(start_api(arguments, directory, &kubeconfig, client, &mut running).await?);
    }
    let connect = async |name: &'static str| match &api {
        Some((server, _)) => Ok(inside::client(server, name)),
        None => connection::client_of(&kubeconfig).await,
    };
    let root_ca = read_authority(directory)?;
    parts
        .start(&connect, &root_ca, &stopping, &mut running)
        .await?;
    if let Some((server, address)) = &api {
        server.ready().await?;
        greet(*address, &kubeconfig)?;
    } else if let Some(address) = store.and_then(|store| store.addresses().first()) {
        greet_from_store(*address)?;
    }
    let ended = tokio::select! {
        () = connection::asked_to_stop() => None,
        ended = running.join_next(), if !running.is_empty() => ended,
    };
    tracing::info!("stopping");
    stop.send_replace(true);
    let finish = async {
        // The loops stop first, so that they can finish their writes.
        while running.len() > usize::from(api.is_some()) {
            let _ = running.join_next().await;
        }
        if let Some((server, _)) = &api {
            server.stop();
        }
        while running.join_next().await.is_some() {}
    };
    if tokio::time::timeout(GRACE, finish).await.is_err() {
        tracing::warn!("some parts did not stop in time");
    }
    match ended {
        None => Ok(()),
        Some(Ok(Ok(()))) => Err("a part ended by itself".into()),
        Some(Ok(Err(why))) => Err(why.into()),
        Some(Err(panic)) => Err(panic.into()),
    }
}

fn text(arguments: &ArgMatches, name: &str) -> String {
    let value = arguments.get_one::<String>(name);
    value.cloned().unwrap_or_default()
}

fn start_store(directory: &Path, bind: SocketAddr) -> Result<Local, Box<dyn Error>> {
    // No peers are expected. The port is fixed so that the address is the same at each start.
    let mut peers = bind;
    peers.set_port(match bind.port() {
        0 => 0,
        port => port.checked_add(1).ok_or("no port is left for peers")?,
    });
    let flags: Vec<String> = [
        format!("--data-dir={}", directory.join("store").display()),
        format!("--listen-client-urls=http://{bind}"),
        format!("--advertise-client-urls=http://{bind}"),
        format!("--listen-peer-urls=http://{peers}"),
        format!("--initial-advertise-peer-urls=http://{peers}"),
        format!("--initial-cluster=default=http://{peers}"),
    ]
    .into();
    let config = server::config::parse(&flags, &[], &|path| std::fs::read_to_string(path))
        .map_err(|exit| format!("the store refuses its flags: {exit:?}"))?;
    let store = Local::start(config, Arc::new(OsVfs))
        .map_err(|error| format!("the store cannot start: {error}"))?;
    tracing::info!(addresses = ?store.addresses(), "the store serves");
    Ok(store)
}

async fn start_api(
    arguments: &ArgMatches,
    directory: &Path,
    kubeconfig: &Path,
    client: etcd_api::Client,
    running: &mut JoinSet<Result<(), String>>,
) -> Result<(Arc<Server>, SocketAddr), Box<dyn Error>> {
    let bind = text(arguments, "bind");
    let listener = TcpListener::bind(&bind)
        .await
        .map_err(|error| format!("cannot listen on {bind}: {error}"))?;
    let address = listener.local_addr()?;
    let settings = Settings {
        directory: Some(directory.join("pki")),
        names: if address.ip().is_unspecified() {
            Vec::new()
        } else {
            vec![address.ip().to_string()]
        },
        service_cidr: text(arguments, "service-cidr"),
        token_file: None,
        anonymous: true,
        mode: Mode::Rbac,
        issuer: ISSUER.to_owned(),
    };
    let setup = settings.open()?;
    let (Some(pki), Some(tls)) = (&setup.pki, setup.tls) else {
        unreachable!("a directory was given for both");
    };
    let reached = connection::reached(address);
    pki.write_admin(kubeconfig, &format!("https://{reached}"))?;
    let server = Arc::new(Server::new(
        client,
        Config {
            advertised: Some(reached),
            allow_privileged: true,
            ..setup.config
        },
    ));
    let serving = Arc::clone(&server);
    running.spawn(async move {
        let served = serving.serve_tls(listener, tls).await;
        served.map_err(|error| format!("the apiserver: {error}"))
    });
    Ok((server, address))
}

/// The CA certificate for pods; empty before the first start of an apiserver.
fn read_authority(directory: &Path) -> Result<String, Box<dyn Error>> {
    let path = directory.join("pki").join("ca.crt");
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}

/// Prints the next three commands to run.
fn greet(address: SocketAddr, kubeconfig: &Path) -> std::io::Result<()> {
    let path = std::path::absolute(kubeconfig)?;
    let mut out = std::io::stdout().lock();
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

/// The same if only the store runs.
fn greet_from_store(address: SocketAddr) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "The store is up at http://{address}. Next:\n\n  \
         export ETCDCTL_ENDPOINTS=http://{address}\n  \
         etcdctl put greeting hello\n  \
         etcdctl get --prefix ''\n"
    )?;
    out.flush()
}

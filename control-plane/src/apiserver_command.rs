//! `stele-kube apiserver`: the API alone, over plain HTTP, from a store somewhere.

use std::error::Error;

use apiserver::{Config, Server};
use clap::{Arg, ArgMatches, Command};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// What it is called and takes.
pub(crate) fn command() -> Command {
    Command::new("apiserver")
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
        )
        .arg(
            Arg::new("service-cidr")
                .long("service-cidr")
                .value_name("RANGE")
                .default_value("10.96.0.0/16"),
        )
}

/// Serves until a signal asks it to stop.
pub(crate) fn run(arguments: &ArgMatches) -> Result<(), Box<dyn Error>> {
    let text = |name: &str| {
        arguments
            .get_one::<String>(name)
            .cloned()
            .unwrap_or_default()
    };
    let (store, bind, cidr) = (text("etcd-servers"), text("bind"), text("service-cidr"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(&bind).await?;
        let address = listener.local_addr()?;
        let client = etcd_api::Client::connect(store).await?;
        let config = Config {
            service_cidr: cidr,
            ..Config::default()
        };
        let server = Server::new(client, config);
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let stopped = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            server.stop();
        };
        let ready = async {
            if server.ready().await.is_ok() {
                tracing::info!(%address, "ready to serve the API");
            }
        };
        let (served, (), ()) = tokio::join!(server.serve(listener), stopped, ready);
        Ok(served?)
    })
}

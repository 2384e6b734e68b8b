//! `stele-kube apiserver`, and `kube-apiserver`, by which name it can be called: the apiserver
//! alone, with a store elsewhere.

mod audit;
mod authentication;
mod authorization;
mod flags;
mod options;
mod plugins;
mod values;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use apiserver::auth::Open;
use apiserver::setup::Setup;
use apiserver::{AtRest, Config, Server};
use clap::{ArgMatches, Command};
use tokio::net::TcpListener;

use crate::connection;
use options::Options;

/// The name by which tools start the apiserver of Kubernetes.
pub(crate) const NAME: &str = "kube-apiserver";

/// The subcommand and its flags.
pub(crate) fn command() -> Command {
    flags::command("apiserver")
}

/// The command by the name that tools know.
pub(crate) fn command_by_name() -> Command {
    flags::command(NAME)
}

/// Serves until a signal to stop.
pub(crate) fn run(arguments: &ArgMatches) -> Result<(), Box<dyn Error>> {
    flags::check(arguments)?;
    let options = Options::read(arguments)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(&options))
}

async fn serve(options: &Options) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(options.bind).await;
    let listener =
        listener.map_err(|error| format!("cannot listen on {}: {error}", options.bind))?;
    let address = listener.local_addr()?;
    let setup = match &options.settings {
        Some(settings) => Some(settings.open()?),
        None => None,
    };
    let mut advertised = connection::reached(address);
    if let Some(ip) = options.advertised {
        advertised.set_ip(ip);
    }
    write_kubeconfig(options, setup.as_ref(), advertised)?;
    let at_rest = match &options.at_rest {
        Some(path) => Arc::new(AtRest::read(path, options.at_rest_changes).await?),
        None => Arc::default(),
    };
    let client = options.store.connect().await?;
    let audit = options.audit.open()?;
    let (config, tls) = match setup {
        Some(setup) => (setup.config, setup.tls),
        None => {
            let config = Config {
                authenticator: Arc::new(Open::to(options.external_hostname.clone())),
                ..Config::default()
            };
            (config, None)
        }
    };
    let mut chain = config.plugins;
    chain.extend(plugins::asked_for(&options.enabled_plugins));
    let config = Config {
        plugins: chain,
        service_ranges: options.service_ranges.clone(),
        allow_privileged: options.allow_privileged,
        // Without TLS pods have no way to reach it.
        advertised: tls.as_ref().map(|_| advertised),
        compact_every: options.compact_every,
        at_rest,
        disabled_plugins: options.disabled_plugins.clone(),
        audit: audit.clone(),
        limits: options.limits,
        store_checks: options.store_checks,
        ..config
    };
    let server = Server::new(client, config);
    let ready = async {
        server.ready().await;
        tracing::info!(%address, "ready to serve the API");
        crate::give_start_back().await;
        std::future::pending::<()>().await;
    };
    let serving = async {
        match tls {
            Some(tls) => server.serve_tls(listener, tls).await,
            None => server.serve(listener).await,
        }
    };
    let mut serving = pin!(serving);
    let served = tokio::select! {
        served = &mut serving => served,
        () = ready => unreachable!("it waits for ever"),
        () = connection::asked_to_stop() => stop(&server, serving).await,
    };
    if let Some(audit) = audit {
        audit.close().await;
    }
    Ok(served?)
}

/// Takes the server out of the endpoints, while requests are still answered, and stops it.
async fn stop(
    server: &Server,
    mut serving: Pin<&mut impl Future<Output = io::Result<()>>>,
) -> io::Result<()> {
    let ended = tokio::select! {
        () = server.leave() => None,
        served = &mut serving => Some(served),
    };
    server.stop();
    match ended {
        Some(served) => served,
        None => serving.await,
    }
}

/// Writes the kubeconfig of the cluster's owner, where one was asked for.
fn write_kubeconfig(
    options: &Options,
    setup: Option<&Setup>,
    advertised: SocketAddr,
) -> Result<(), Box<dyn Error>> {
    let pki = setup.and_then(|setup| setup.pki.as_ref());
    if let (Some(path), Some(pki)) = (&options.admin_kubeconfig, pki) {
        pki.write_admin(path, &format!("https://{advertised}"))?;
    }
    Ok(())
}

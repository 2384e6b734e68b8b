//! How a part of the control plane reaches the apiserver, and the signals that stop it.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use clap::{Arg, ArgMatches};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};

/// The flags that name the apiserver.
pub(crate) fn flags() -> [Arg; 2] {
    let kubeconfig = Arg::new("kubeconfig")
        .long("kubeconfig")
        .value_name("FILE")
        .help("File that says where the apiserver is and who asks");
    let master = Arg::new("master")
        .long("master")
        .visible_alias("server")
        .value_name("URL")
        .default_value("http://127.0.0.1:8080")
        .help("The apiserver, when there is no such file");
    [kubeconfig, master]
}

/// A client of the apiserver that the flags name.
pub(crate) async fn client(arguments: &ArgMatches) -> Result<Client, Box<dyn Error>> {
    if let Some(path) = arguments.get_one::<String>("kubeconfig") {
        return client_of(Path::new(path)).await;
    }
    let master = arguments.get_one::<String>("master");
    let config = Config::new(master.map_or("", String::as_str).parse()?);
    Ok(Client::try_from(config)?)
}

/// A client of the apiserver that a kubeconfig names.
pub(crate) async fn client_of(kubeconfig: &Path) -> Result<Client, Box<dyn Error>> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// The address at which this machine reaches a listener on `address`.
pub(crate) fn reached(address: SocketAddr) -> SocketAddr {
    let mut reached = address;
    if address.ip().is_unspecified() {
        reached.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    reached
}

/// Waits for a signal to stop the process.
pub(crate) async fn asked_to_stop() {
    let signals = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    );
    // Without handlers the signals end the process directly.
    let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

//! How a part of the control plane reaches the apiserver, and how it is asked to stop.

use std::error::Error;

use clap::{Arg, ArgMatches};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};

/// The flags that say where the apiserver is.
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
    let config = match arguments.get_one::<String>("kubeconfig") {
        Some(path) => {
            let file = Kubeconfig::read_from(path)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => {
            let master = arguments.get_one::<String>("master");
            Config::new(master.map_or("", String::as_str).parse()?)
        }
    };
    Ok(Client::try_from(config)?)
}

/// Waits for a signal that asks the process to stop.
pub(crate) async fn asked_to_stop() {
    let signals = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    );
    // Without handlers the signals end the process by themselves.
    let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

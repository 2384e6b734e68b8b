//! `etcd gateway`: a TCP proxy in front of a cluster's client URLs.
//!
//! It copies bytes and knows no protocol. Texts and exit codes are etcd's.

mod command;
mod endpoints;
mod forward;
mod remotes;

use std::io::Write as _;
use std::process::ExitCode;

use tokio::net::TcpListener;

use crate::config::LogConfig;
use crate::dns::split_host_port;
use crate::lifecycle::signals;
use crate::net::socket::in_gos_words;
use crate::telemetry::logging::{self, json};
use command::{Command, Options};
use endpoints::Refused;
use remotes::Remotes;

/// Runs `etcd gateway` with these arguments until a signal ends it.
pub fn run(program: String, args: &[String]) -> ExitCode {
    match command::parse(args) {
        Command::Help(text) => {
            // The terminal may be gone; then nobody reads it.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Command::Wrong { error, usage } => {
            let text = format!("Error: {error}\n{usage}\n{error}");
            let _ = std::io::stderr().write_all(text.as_bytes());
            ExitCode::FAILURE
        }
        Command::Start(options) => start(program, args, &options),
    }
}

fn start(program: String, args: &[String], options: &Options) -> ExitCode {
    if let Err(error) = logging::init(&LogConfig::default()) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    let mut words = vec![program, "gateway".to_owned()];
    words.extend(args.iter().cloned());
    tracing::info!(args = %json(&words), "Running: ");
    let served = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Refused::Stderr(error.to_string()))
        .and_then(|runtime| runtime.block_on(serve(options)));
    logging::flush();
    match served {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Refused::Stdout(text)) => {
            let _ = std::io::stdout().write_all(text.as_bytes());
        }
        Err(Refused::Stderr(text)) => eprintln!("{text}"),
    }
    ExitCode::FAILURE
}

async fn serve(options: &Options) -> Result<(), Refused> {
    let found = endpoints::find(options).await?;
    endpoints::check(&found, &options.listen_addr).await?;
    let listener = listen(&options.listen_addr)
        .await
        .map_err(Refused::Stderr)?;
    signals::notify_ready();
    let addresses: Vec<String> = found.iter().map(ToString::to_string).collect();
    tracing::info!(endpoints = %json(&addresses), "ready to proxy client requests");
    let seed = crate::basics::clock::unix_time().as_nanos() as u64;
    forward::accept(listener, Remotes::new(found, seed), options.retry_delay).await;
    Ok(())
}

/// The errors have Go's texts.
async fn listen(address: &str) -> Result<TcpListener, String> {
    let port = split_host_port(address).map_or("", |(_, port)| port);
    if port.parse::<u16>().is_err() {
        return Err(format!("listen tcp: lookup tcp/{port}: unknown port"));
    }
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| format!("listen tcp {address}: bind: {}", in_gos_words(&error)))
}

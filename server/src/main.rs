//! The `stele` binary: parses the command line, starts logging, runs a server, and exits with
//! etcd's codes. Under the name `etcd` it does the same. `stele utl`, or the name `etcdutl`, works
//! on files instead, and `stele gateway` and `stele grpc-proxy` are proxies.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use server::config::{self, Config, Discovery, ETCD_VERSION, Exit, Invalid, LogConfig, Warning};
use server::discovery::Failure;
use server::lifecycle::signals;
use server::lifecycle::{self, StartError};
use server::telemetry::logging::{self, FATAL, json};
use storage::vfs::os::OsVfs;

/// Each call allocates on one thread and frees on another. Compared with the system's allocator,
/// mimalloc takes a seventh less CPU per call and no more memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut args = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = args.next().unwrap_or_default();
    let args: Vec<String> = args.collect();
    if let Some((name, args)) = utl_command(&program, &args) {
        return utl(name, args);
    }
    match args.split_first() {
        Some((word, rest)) if word == "gateway" => return server::tcp_proxy::run(program, rest),
        Some((word, rest)) if word == "grpc-proxy" => return server::proxy::run(rest),
        _ => {}
    }
    let variables = config::variables();
    match config::parse(&args, &variables, &|path| std::fs::read_to_string(path)) {
        Ok(config) => run(config, program),
        Err(exit) => refuse(exit),
    }
}

/// The tool's name and its arguments, if the command line asks for the file tool.
fn utl_command<'a>(program: &str, args: &'a [String]) -> Option<(&'static str, &'a [String])> {
    if Path::new(program)
        .file_name()
        .is_some_and(|name| name == "etcdutl")
    {
        return Some(("etcdutl", args));
    }
    let (first, rest) = args.split_first()?;
    (first == "utl").then_some(("stele utl", rest))
}

fn utl(name: &'static str, args: &[String]) -> ExitCode {
    let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr().lock());
    let code = utl::run(
        name,
        args,
        &server::member::data_dir::offline::Offline,
        &mut out,
        &mut err,
    );
    ExitCode::from(code)
}

fn run(mut config: Config, program: String) -> ExitCode {
    if let Err(error) = logging::init(&config.log) {
        return refuse(Exit::Invalid(Invalid::flags(error)));
    }
    let host = config.advertise_host(&default_host);
    announce(&config, program);
    if let Some(host) = host {
        tracing::info!(host = %host, "detected default host for advertise");
    }
    if let Err(error) = server::net::descriptors::raise_limit() {
        tracing::warn!(%error, "failed to raise the limit on open files");
    }
    let discovery = config.discovery.clone();
    match lifecycle::run(config, Arc::new(OsVfs)) {
        Ok(signal) => {
            logging::flush();
            signals::exit_by(signal)
        }
        Err(StartError::Discovery(error @ Failure::Registry(_))) => {
            refused_by_registry(&discovery, &error)
        }
        Err(error) => fail("discovery failed", &error.to_string()),
    }
}

/// Exits like etcd when the members that found a cluster could not be found in another cluster.
fn refused_by_registry(discovery: &Discovery, error: &Failure) -> ExitCode {
    if let Discovery::Registry(registry) = discovery {
        tracing::warn!(
            "discovery-token" = registry.token,
            "discovery-endpoints" = %json(&registry.endpoints),
            %error,
            "failed to bootstrap; discovery token was already used"
        );
    }
    tracing::warn!("do not reuse discovery token; generate a new one to bootstrap a cluster");
    logging::flush();
    ExitCode::FAILURE
}

/// The local address of the default route. Sends no packet.
fn default_host() -> Option<IpAddr> {
    // Any address behind the default route works; this one is reserved for documentation.
    const ELSEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(ELSEWHERE).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Logs the start-up lines that operators and tools look for.
fn announce(config: &Config, program: String) {
    let mut command = vec![program];
    command.extend(config.args.iter().cloned());
    tracing::info!(args = %json(&command), "Running: ");
    for note in &config.notes {
        match note {
            Warning::Text(text) => tracing::warn!("{text}"),
            Warning::UnknownVariable(variable) => tracing::warn!(
                "environment-variable" = variable,
                "unrecognized environment variable"
            ),
        }
    }
    if !config.without_effect.is_empty() {
        tracing::warn!(
            flags = %json(&config.without_effect),
            "these flags are taken and have no effect in Stele"
        );
    }
    let members: Vec<String> = config
        .initial_cluster
        .iter()
        .flat_map(|member| {
            member
                .peer_urls
                .iter()
                .map(|url| format!("{}={url}", member.name))
        })
        .collect();
    tracing::info!(
        "etcd-version" = ETCD_VERSION,
        "stele-version" = env!("CARGO_PKG_VERSION"),
        "max-cpu-available" = std::thread::available_parallelism().map_or(1, usize::from),
        name = config.name,
        "data-dir" = %config.data_dir.display(),
        "cluster-size" = config.initial_cluster.len(),
        "heartbeat-interval" = config::duration(config.heartbeat_interval),
        "election-timeout" = config::duration(config.election_timeout),
        "snapshot-count" = config.snapshot_count,
        "snapshot-catchup-entries" = config.snapshot_catchup_entries,
        "initial-advertise-peer-urls" = urls(&config.initial_advertise_peer_urls),
        "listen-peer-urls" = urls(&config.listen_peer_urls),
        "advertise-client-urls" = urls(&config.advertise_client_urls),
        "listen-client-urls" = urls(&config.listen_client_urls),
        "listen-metrics-urls" = urls(&config.listen_metrics_urls),
        "initial-cluster" = members.join(","),
        "initial-cluster-token" = config.initial_cluster_token,
        "quota-backend-bytes" = config.quota_backend_bytes.unwrap_or(0),
        "max-request-bytes" = config.max_request_bytes,
        "max-concurrent-streams" = config.max_concurrent_streams,
        "pre-vote" = config.pre_vote,
        "v2-deprecation" = "write-only",
        "starting an etcd server"
    );
}

fn urls(urls: &[config::Url]) -> String {
    urls.iter()
        .map(config::Url::as_str)
        .collect::<Vec<_>>()
        .join(",")
}

/// Exits before the server has started, with etcd's exit codes.
fn refuse(exit: Exit) -> ExitCode {
    let (what, error) = match exit {
        Exit::Print {
            stdout,
            stderr,
            code,
        } => {
            // The terminal may be gone; then the error cannot be reported.
            let _ = std::io::stdout().write_all(stdout.as_bytes());
            let _ = std::io::stderr().write_all(stderr.as_bytes());
            return ExitCode::from(code);
        }
        Exit::Invalid(invalid) if invalid.starting => ("discovery failed", invalid.reason),
        Exit::Invalid(invalid) => {
            start_usual_logging();
            tracing::warn!(error = invalid.reason, "failed to verify flags");
            logging::flush();
            return ExitCode::FAILURE;
        }
        Exit::Shadowed { variable } => (SHADOWED, variable),
    };
    start_usual_logging();
    fail(what, &error)
}

fn start_usual_logging() {
    if let Err(error) = logging::init(&LogConfig::default()) {
        eprintln!("{error}");
    }
}

/// etcd's text, including its two closing brackets.
const SHADOWED: &str = "conflicting environment variable is shadowed by corresponding \
                        command-line flag (either unset environment variable or disable flag))";

fn fail(what: &str, error: &str) -> ExitCode {
    tracing::error!(target: FATAL, error, "{what}");
    logging::flush();
    ExitCode::FAILURE
}

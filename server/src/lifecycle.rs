//! Runs one server from start to stop: opens its parts in order, logs each step, and closes them in
//! the opposite order. Tools wait for these log lines, so their text and order must not change.

mod corruption;
mod end;
pub mod local;
pub mod signals;
mod upkeep;
mod versions;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::membershippb;
use storage::encryption::DataKeys;
use storage::vfs::Vfs;
use storage::vfs::unsynced::Unsynced;
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, oneshot};

use crate::api;
use crate::api::serve::{BindError, Listeners};
use crate::basics::clock::Clock;
use crate::basics::error::Error;
use crate::config::{Config, Discovery, ETCD_VERSION, Url};
use crate::discovery;
use crate::member::cluster::peer::{Dialer, join};
use crate::member::data_dir::{self, DataDir, EmptyDir, Found, Unusable};
use crate::net::tls::Security;
use crate::net::workers::Workers;
use crate::request::Request;
use crate::runtime::etcd_server::EtcdServer;
use crate::runtime::{self, Running};
use crate::telemetry::logging::json;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::spans::{Exporter, Tracer};
use end::{End, NO_SIGNAL, Signals, close, say_removed, wait_for_end};

/// Time that calls in progress get to end after a stop was requested.
const GRACE: Duration = Duration::from_secs(3);

/// How often a starting member checks whether there is a leader.
const ELECTION_POLL: Duration = Duration::from_millis(2);

/// Why the server could not start.
#[derive(Debug)]
pub enum StartError {
    Bind(BindError),
    /// This member's data differs from that of its peers.
    Corrupt(String),
    DataDir(Unusable),
    /// The founders of the cluster could not be found.
    Discovery(discovery::Failure),
    Publish(Error),
    Runtime(std::io::Error),
    /// Spans cannot be sent to the configured collector.
    Tracing(String),
}

/// Where a server runs, which decides who stops it.
pub enum Host {
    /// A separate process, stopped by signals.
    Process,
    /// Embedded in another program.
    Program {
        /// The server stops when this is answered or its sender is dropped.
        stopped: oneshot::Receiver<()>,
        /// Connections that need no socket.
        connections: mpsc::Receiver<DuplexStream>,
        /// Called with the listen addresses when the server is ready.
        ready: Box<dyn FnOnce(Vec<SocketAddr>) + Send>,
    },
}

/// Runs a server until a signal stops it; returns the signal's number.
pub fn run(config: Config, vfs: Arc<dyn Vfs>) -> Result<i32, StartError> {
    run_in(config, vfs, Host::Process)
}

/// Runs a server until its host stops it.
pub fn run_in(config: Config, vfs: Arc<dyn Vfs>, host: Host) -> Result<i32, StartError> {
    let runtime = Workers::event_loop().map_err(StartError::Runtime)?;
    let signal = runtime.block_on(serve(Arc::new(config), vfs, host))?;
    runtime.shutdown_timeout(GRACE);
    Ok(signal)
}

async fn serve(config: Arc<Config>, vfs: Arc<dyn Vfs>, host: Host) -> Result<i32, StartError> {
    let (mut end, connections, ready) = match host {
        Host::Process => (End::Signal(Signals::default()), None, None),
        Host::Program {
            stopped,
            connections,
            ready,
        } => (End::Asked(stopped), Some(connections), Some(ready)),
    };
    let (tracer, exporter) = trace(&config)?.unzip();
    let security = Security::prepare(&config).map_err(StartError::Bind)?;
    let mut listeners = Listeners::bind(&config, &security).map_err(StartError::Bind)?;
    let vfs: Arc<dyn Vfs> = if config.unsafe_no_fsync {
        tracing::warn!(
            "nothing is synced to the disk (--unsafe-no-fsync): a power cut may lose everything"
        );
        Arc::new(Unsynced(vfs))
    } else {
        vfs
    };
    let (data, config, dialer) = open(vfs, config, security).await?;
    log_start(&config, &data);
    if data.was_removed().map_err(StartError::DataDir)? {
        say_removed();
        return Ok(NO_SIGNAL);
    }
    let consistent = corruption::check_initially(&config, &data, &dialer).await;
    consistent.map_err(StartError::Corrupt)?;
    let data_keys = data.state.store.options().data_keys;
    let metrics = Arc::new(metrics_under(data_keys.as_deref()));
    let workers = Arc::new(Workers::start(Workers::suitable_count()).map_err(StartError::Runtime)?);
    let running = runtime::start(data, &config, Arc::clone(&metrics), &workers, dialer)
        .map_err(StartError::DataDir)?;
    api::peer::listen(listeners.take_peers(), &running.peers, &running.server);
    tokio::select! {
        published = publish(&running.server, &config) => published.map_err(StartError::Publish)?,
        signal = wait_for_end(&running, &mut end) => {
            let _ = tokio::task::spawn_blocking(move || Running::stop(running)).await;
            return Ok(signal);
        }
    }
    defragment_at_start(&running.server, &config).await;
    let mut upkeep = upkeep::start(&running.server, &config, data_keys);

    let (stop, stopping) = tokio::sync::watch::channel(false);
    let (server, for_serving) = (running.server.clone(), Arc::clone(&config));
    let addresses = listeners.addresses();
    if let Some(connections) = connections {
        listeners.add_local(connections);
    }
    let serving = listeners.serve(server, for_serving, metrics, workers, stopping, tracer);
    let serving = tokio::spawn(serving);
    log_serving(&config, &running.server);
    tracing::info!("ready to serve client requests");
    match ready {
        Some(ready) => ready(addresses),
        None => crate::lifecycle::signals::notify_ready(),
    }

    let signal = wait_for_end(&running, &mut end).await;
    upkeep.abort_all();
    close(running, &config, stop, serving).await;
    if let Some(exporter) = exporter {
        exporter.stop().await;
    }
    tracing::info!(name = config.name, "closed etcd server");
    Ok(signal)
}

fn metrics_under(data_keys: Option<&DataKeys>) -> Metrics {
    let metrics = Metrics::default();
    let active = data_keys.map_or(0, DataKeys::active);
    metrics.encryption_key.set(active.into());
    metrics
}

/// Creates the tracer and the exporter, if tracing is configured.
fn trace(config: &Config) -> Result<Option<(Tracer, Exporter)>, StartError> {
    let Some(config) = &config.tracing else {
        return Ok(None);
    };
    let started = Tracer::start(config).map_err(StartError::Tracing)?;
    tracing::info!(
        address = config.address,
        "service-name" = config.service_name,
        "service-instance-id" = config.instance_id,
        "sampling-rate" = config.sampling_rate,
        "distributed tracing setup enabled"
    );
    Ok(Some(started))
}

fn log_start(config: &Config, data: &DataDir) {
    let applied = data.state.store.root().applied().index;
    tracing::info!(
        "etcd-version" = ETCD_VERSION,
        "stele-version" = env!("CARGO_PKG_VERSION"),
        "data-dir" = %config.data_dir.display(),
        name = config.name,
        "cluster-id" = format!("{:x}", data.cluster_id),
        "member-id" = format!("{:x}", data.member_id),
        "cluster-size" = config.initial_cluster.len(),
        "is-new" = data.is_new,
        "applied-index" = applied,
        "replayed-entries" = data.replayed.entries,
        "encryption-key" = data.state.store.options().data_keys.map_or(0, |keys| keys.active()),
        "quota-backend-bytes" = config.quota_backend_bytes.unwrap_or(0),
        "opened the data directory"
    );
}

/// Applies `--bootstrap-defrag-threshold-megabytes`. If the store cannot be defragmented, the
/// server starts anyway.
async fn defragment_at_start(server: &EtcdServer, config: &Config) {
    let Some(threshold) = config.bootstrap_defrag_bytes else {
        return;
    };
    let size = server.shared().space.file_bytes();
    let in_use = server.shared().space.in_use_bytes();
    let free = size.saturating_sub(in_use);
    if free < threshold {
        tracing::info!(
            "current-db-size-bytes" = size,
            "current-db-size-in-use-bytes" = in_use,
            "bootstrap-defrag-threshold-bytes" = threshold,
            "Skipping defragmentation"
        );
        return;
    }
    if let Err(error) = server.defragment().await {
        tracing::warn!(%error, "failed to defragment at the start");
    }
}

fn log_serving(config: &Config, server: &EtcdServer) {
    let texts = |urls: &[Url]| json(&Url::texts(urls));
    tracing::info!(
        "local-member-id" = format!("{:x}", server.identity().member_id),
        "initial-advertise-peer-urls" = %texts(&config.initial_advertise_peer_urls),
        "listen-peer-urls" = %texts(&config.listen_peer_urls),
        "advertise-client-urls" = %texts(&config.advertise_client_urls),
        "listen-client-urls" = %texts(&config.listen_client_urls),
        "listen-metrics-urls" = %texts(&config.listen_metrics_urls),
        "now serving peer/client/metrics"
    );
}

/// Publishes this member's name, URLs and version through the log. Once these entries are applied,
/// all entries before them are applied too.
async fn publish(server: &EtcdServer, config: &Config) -> Result<(), Error> {
    let identity = server.identity();
    let request = Request::ClusterMemberAttrSet(membershippb::ClusterMemberAttrSetRequest {
        member_id: identity.member_id,
        member_attributes: Some(membershippb::Attributes {
            name: identity.name.clone(),
            client_urls: identity.client_urls.clone(),
        }),
    });
    // The first election may still be running.
    while let Err(error) = server.propose(request.clone()).await {
        match error {
            Error::NoLeader
            | Error::Timeout
            | Error::TimeoutByLeader
            | Error::TimeoutByConnection => tokio::time::sleep(ELECTION_POLL).await,
            error => return Err(error),
        }
    }
    tracing::info!(
        "local-member-id" = format!("{:x}", identity.member_id),
        "cluster-id" = format!("{:x}", identity.cluster_id),
        "local-member-attributes" = format!(
            "{{Name:{} ClientURLs:{:?}}}",
            config.name, identity.client_urls
        ),
        "published local member to cluster through raft"
    );
    if server.is_leader() && server.cluster_version()?.is_none() {
        versions::decide(server).await;
    }
    Ok(())
}

/// Opens the data directory, or makes one. Returns the configuration with the founders, if they had to
/// be found, and what connects to the other members.
async fn open(
    vfs: Arc<dyn Vfs>,
    config: Arc<Config>,
    mut security: Security,
) -> Result<(DataDir, Arc<Config>, Dialer), StartError> {
    let seed = crate::basics::clock::unix_time().as_nanos() as u64;
    let began = Clock::start();
    let mut found = DataDir::find(vfs, &config, seed).map_err(StartError::DataDir)?;
    if let Found::Used(data) = &mut found {
        data.replayed.took(began.now());
    }
    let discovered = discover(&found, config, &mut security).await;
    let config = discovered.map_err(StartError::Discovery)?;
    let dialer = Dialer::between_members(&security, config.election_timeout);
    let data = match found {
        Found::Used(data) => *data,
        Found::Empty(empty) => begin(*empty, &config, &dialer)
            .await
            .map_err(StartError::DataDir)?,
    };
    Ok((data, config, dialer))
}

/// Finds out who founds the cluster, if that is still to be known and the flags do not say it.
async fn discover(
    found: &Found,
    config: Arc<Config>,
    security: &mut Security,
) -> Result<Arc<Config>, discovery::Failure> {
    if let Found::Used(_) = found {
        if let Discovery::Registry(_) = config.discovery {
            tracing::warn!(
                "wal-dir" = %config.log_dir().display(),
                "discovery token is ignored since cluster already initialized; valid logs are found"
            );
        }
        return Ok(config);
    }
    let Some(found) = discovery::founders(&config).await? else {
        return Ok(config);
    };
    security.peer_name = found.peer_name;
    Ok(Arc::new(found.config))
}

/// Bootstraps a new cluster or joins a running one.
async fn begin(empty: EmptyDir, config: &Config, dialer: &Dialer) -> Result<DataDir, Unusable> {
    if data_dir::joins(config) {
        let joined = join::join(config, dialer).await.map_err(Unusable::Start)?;
        return empty.join(joined.member_id, joined.cluster_id, joined.members);
    }
    if config.founding_error.is_none() {
        let asked = join::refuse_bootstrapped(config, dialer).await;
        asked.map_err(Unusable::Start)?;
    }
    empty.found(config)
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind(error) => error.fmt(f),
            StartError::Corrupt(error) => f.write_str(error),
            StartError::DataDir(error) => error.fmt(f),
            StartError::Discovery(error) => error.fmt(f),
            StartError::Publish(error) => {
                write!(f, "failed to publish this member to its cluster: {error}")
            }
            StartError::Runtime(error) => write!(f, "failed to start the runtime: {error}"),
            StartError::Tracing(error) => f.write_str(error),
        }
    }
}

impl std::error::Error for StartError {}

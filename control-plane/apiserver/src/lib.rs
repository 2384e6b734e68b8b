//! The API of Kubernetes over a store that speaks etcd's.
//!
//! One layer driven by `machinery::schema` serves every kind; no kind has a handler. The crate
//! knows the store as [`etcd_api::Client`] and nothing else, and people only through
//! [`auth::Gate`].
#![forbid(unsafe_code)]

mod admission;
mod api;
pub mod auth;
mod clock;
pub mod fuzzing;
mod http;
mod registry;
mod resources;
mod storage;
mod validate;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::tls::Tls;
use axum::extract::Request;
use machinery::status::Status;
use tokio::net::TcpListener;

pub use api::Api;
pub use http::connections::Limits;

/// How often the store is made to forget old revisions, and how old they are then.
const COMPACT_EVERY: Duration = Duration::from_secs(300);
/// How long to wait before trying again to make the built-in objects.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// How a server is set up.
#[derive(Clone)]
pub struct Config {
    /// Who may do what.
    pub gate: Arc<dyn auth::Gate>,
    /// Where services get their addresses from, such as `10.96.0.0/16`.
    pub service_cidr: String,
    /// Where pods reach this server; without it the service `kubernetes` has no endpoint.
    pub advertised: Option<SocketAddr>,
    /// Whether containers may be privileged.
    pub allow_privileged: bool,
    /// What clients may take.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            gate: Arc::new(auth::Open),
            service_cidr: "10.96.0.0/16".into(),
            advertised: None,
            allow_privileged: false,
            limits: Limits::default(),
        }
    }
}

/// A running server. It belongs to the tokio runtime it was made in; dropping it ends its tasks.
pub struct Server {
    api: Api,
    ready: tokio::sync::watch::Receiver<bool>,
}

impl Server {
    /// Begins to follow the store; requests wait until it is read.
    pub fn new(client: etcd_api::Client, config: Config) -> Server {
        let store = storage::store::Store { client };
        let core = api::Core {
            feed: Arc::new(storage::feed::Feed::new(store.clone())),
            config,
            store,
            leases: registry::ttl::EventLeases::default(),
            slots: http::slots::Slots::default(),
            allocation: tokio::sync::Mutex::new(()),
            stopping: tokio::sync::watch::Sender::new(false),
            tasks: parking_lot::Mutex::new(Vec::new()),
        };
        let api = Api(Arc::new(core));
        let (made, ready) = tokio::sync::watch::channel(false);
        let feed = tokio::spawn(Arc::clone(&api.0.feed).run());
        let compacting = tokio::spawn(compact(api.0.store.clone()));
        let begun = api.clone();
        let building = tokio::spawn(async move {
            begun.0.feed.loaded().await;
            while let Err(error) = build(&begun).await {
                tracing::warn!(%error, "the built-in objects cannot be made");
                tokio::time::sleep(RETRY_AFTER).await;
            }
            // Nobody may be waiting.
            let _ = made.send(true);
            while let Err(error) = registry::builtin::keep(&begun).await {
                tracing::warn!(%error, "the built-in objects cannot be kept");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        });
        let tasks = [feed, compacting, building].map(|task| task.abort_handle());
        api.0.tasks.lock().extend(tasks);
        Server { api, ready }
    }

    /// What it holds, without the gate.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The service that answers requests, for a listener or for callers in this process. A
    /// request with an [`auth::User`] in its extensions is theirs.
    pub fn router(&self) -> axum::Router {
        let api = self.api.clone();
        axum::Router::new()
            .fallback(move |request: Request| http::serve::serve(api.clone(), request))
    }

    /// Waits until the built-in objects are there and reads are served.
    pub async fn ready(&self) -> Result<(), Status> {
        let mut ready = self.ready.clone();
        let made = ready.wait_for(|made| *made).await;
        made.map(|_| ())
            .map_err(|_| Status::unavailable("the server stopped"))
    }

    /// Answers requests on a listener until [`Server::stop`].
    pub async fn serve(&self, listener: TcpListener) -> std::io::Result<()> {
        http::connections::keep_alive::set(&listener)?;
        http::connections::serve(&self.api, listener, None).await
    }

    /// Answers requests over encrypted connections until [`Server::stop`].
    pub async fn serve_tls(&self, listener: TcpListener, tls: Tls) -> std::io::Result<()> {
        http::connections::keep_alive::set(&listener)?;
        http::connections::serve(&self.api, listener, Some(tls)).await
    }

    /// Ends watches and listeners.
    pub fn stop(&self) {
        self.api.0.stopping.send_replace(true);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        for task in self.api.0.tasks.lock().drain(..) {
            task.abort();
        }
    }
}

/// Makes what has to be there before requests are served.
async fn build(api: &Api) -> Result<(), Status> {
    registry::builtin::make(api).await?;
    api.0.config.gate.prepare(api).await
}

/// Lets the store forget what is older than one period.
async fn compact(store: storage::store::Store) {
    let mut before = None;
    loop {
        tokio::time::sleep(COMPACT_EVERY).await;
        if let Some(revision) = before {
            // Another server may have been faster; then there is nothing to do.
            if let Err(error) = store.compact(revision).await {
                tracing::debug!(%error, revision, "the store was not compacted");
            }
        }
        before = store.revision().await.ok();
    }
}

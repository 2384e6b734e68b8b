//! The Kubernetes API over a store that speaks etcd's API.
//!
//! One layer driven by `machinery::schema` serves every kind; no kind has a handler. The crate
//! knows the store only as [`etcd_api::Client`]. A request passes these layers, each of which uses
//! only those after it:
//!
//! - `http` decodes requests and encodes responses;
//! - [`auth`] authenticates and authorizes users;
//! - `registry` creates, changes and deletes objects; every write passes [`admission`];
//! - `storage` holds the objects, `resources` lists the kinds.
//!
//! [`faults`] decides which requests meet faults on purpose, for tests of clients.
//!
//! Beside them, `upkeep` follows what changes the API itself: definitions of custom resources,
//! policies, the objects of flow control. `setup` puts the layers together.
#![forbid(unsafe_code)]

pub mod admission;
pub mod audit;
pub mod auth;
mod basics;
mod flow;
pub mod fuzzing;
mod http;
mod registry;
mod resources;
pub mod setup;
mod storage;
#[cfg(test)]
mod tests;
mod upkeep;
mod validate;
mod webhook;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use auth::tls::{Certificates, Tls};
use axum::extract::Request;
use basics::steps::{Step, Steps};
use machinery::status::Status;
use tokio::net::TcpListener;

use admission::{Chain, Context};
use http::aggregation::Aggregator;
use http::api::{Api, Core};
use registry::Registry;
use registry::builtin::bootstrap;
use resources::catalogue::{Catalogue, Resource};
use storage::reflector::Reflector;
use storage::store::Store;
use upkeep::endpoints::OwnEndpoint;

pub use http::faults;
pub use http::limits::{Limits, StoreChecks};
pub use resources::custom;
pub use setup::config::Config;
pub use storage::at_rest::AtRest;
pub use storage::reader::Reader;

/// How long to wait before trying again to make the built-in objects.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// A running server. It belongs to the tokio runtime that created it; dropping it ends its tasks.
pub struct Server {
    api: Api,
    endpoint: Arc<OwnEndpoint>,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl Server {
    /// Starts to follow the store. Requests wait until the caches are loaded.
    pub fn new(client: etcd_api::Client, config: Config) -> Server {
        let compact_every = config.compact_every;
        let at_rest = Arc::clone(&config.at_rest);
        let api = connected(client, config);
        let following = tokio::spawn(Arc::clone(&api.reader().reflector).run());
        let compacting = tokio::spawn(compact(api.reader().store.clone(), compact_every));
        let building = tokio::spawn(keep_built(Arc::clone(&api.0.registry)));
        let defining = tokio::spawn(upkeep::definitions::follow(Arc::clone(&api.0.registry)));
        let listing = tokio::spawn(upkeep::api_services::follow(Arc::clone(&api.0.registry)));
        let checking = tokio::spawn(upkeep::type_checking::follow(Arc::clone(&api.0.registry)));
        let aggregating = tokio::spawn(http::aggregation::follow(
            Arc::clone(&api.0.registry),
            Arc::clone(&api.0.aggregator),
        ));
        let keeping = tokio::spawn(upkeep::flow::follow(Arc::clone(&api.0.registry)));
        let repairing = tokio::spawn(upkeep::addresses::follow(Arc::clone(&api.0.registry)));
        let freeing = tokio::spawn(upkeep::addresses::give_back(Arc::clone(&api.0.registry)));
        let marking = tokio::spawn(upkeep::ports::follow(Arc::clone(&api.0.registry)));
        let endpoint = Arc::new(OwnEndpoint::default());
        let being = Arc::clone(&endpoint).keep(Arc::clone(&api.0.registry));
        let being = tokio::spawn(being);
        let recording = tokio::spawn(upkeep::legacy_tokens::follow(Arc::clone(&api.0.registry)));
        let sealing = tokio::spawn(async move { at_rest.follow().await });
        let tasks = [
            following,
            compacting,
            building,
            defining,
            listing,
            checking,
            aggregating,
            keeping,
            repairing,
            freeing,
            marking,
            being,
            recording,
            sealing,
        ];
        let tasks = tasks.map(|task| task.abort_handle());
        Server {
            api,
            endpoint,
            tasks: tasks.into(),
        }
    }

    /// The service that answers requests, for a listener or for callers in this process. If a
    /// request has an [`auth::User`] in its extensions, that is its user.
    pub fn router(&self) -> axum::Router {
        let api = self.api.clone();
        axum::Router::new()
            .fallback(move |request: Request| http::door::serve::serve(api.clone(), request))
    }

    /// Waits until the built-in objects exist and reads are served, of custom resources too. From
    /// then on the checks of `/readyz` pass.
    pub async fn ready(&self) {
        self.api.0.registry.steps.all().await;
    }

    /// Serves a custom resource, in the place of the one with the same group and plural if there
    /// is one. It returns when all its objects are found by lists and watches. Nothing changes if
    /// the definition is refused or the store cannot be read.
    pub async fn add_resource(&self, definition: &custom::Definition) -> Result<(), Status> {
        let (group, plural) = (definition.group.as_str(), &*definition.names.plural);
        let reflector = &self.api.reader().reflector;
        let is_it = |one: &Resource| (one.kind.group(), one.kind.plural()) == (group, plural);
        let catalogue = reflector.catalogue();
        let joining = definition.resources(catalogue.custom_storage(group, plural))?;
        let mut all = catalogue.resources().iter();
        if all.any(|one| one.custom.is_none() && is_it(one)) {
            return Err(Status::already_exists(
                group,
                plural,
                definition.names.kind.as_ref(),
            ));
        }
        reflector.replace(is_it, joining).await?;
        if let Some(storage) = reflector.catalogue().custom_storage(group, plural) {
            storage.store_in(definition.stored_in()?);
        }
        Ok(())
    }

    /// Serves a custom resource no longer: its paths answer 404, and its watches end with that.
    /// Its objects stay in the store. Built-in resources stay.
    pub async fn remove_resource(&self, group: &str, plural: &str) -> Result<(), Status> {
        let is_it = |one: &Resource| {
            one.custom.is_some() && (one.kind.group(), one.kind.plural()) == (group, plural)
        };
        let reflector = &self.api.reader().reflector;
        reflector.replace(is_it, Vec::new()).await
    }

    /// Answers requests on a listener until [`Server::stop`].
    pub async fn serve(&self, listener: TcpListener) -> std::io::Result<()> {
        http::door::connections::keep_alive::set(&listener)?;
        http::door::connections::serve(&self.api, listener, None).await
    }

    /// Answers requests over encrypted connections until [`Server::stop`], with the certificates
    /// that are there when a connection begins.
    pub async fn serve_tls(&self, listener: TcpListener, tls: Tls) -> std::io::Result<()> {
        http::door::connections::keep_alive::set(&listener)?;
        let serving = http::door::connections::serve(&self.api, listener, Some(tls.clone()));
        tokio::select! {
            served = serving => served,
            () = follow_certificates(&self.api.0.registry, &tls) => unreachable!("it never ends"),
        }
    }

    /// Takes this server out of the endpoints of the service `kubernetes`, so that new clients go to
    /// others. To be called before [`Server::stop`].
    pub async fn leave(&self) {
        self.endpoint.leave(&self.api.0.registry).await;
    }

    /// Ends watches and listeners.
    pub fn stop(&self) {
        self.api.0.stopping.send_replace(true);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The layers over a store that cannot be reached. Nothing of it runs; it needs a tokio runtime.
#[cfg(test)]
fn without_store(config: Config) -> Api {
    connected(storage::store::unreachable(), config)
}

/// Connects the layers.
fn connected(client: etcd_api::Client, config: Config) -> Api {
    let store = Store::new(client, config.at_rest);
    let catalogue = Catalogue::new(registry::strategy::builtin().iter().cloned());
    let reflector = Arc::new(Reflector::new(store.clone(), catalogue));
    let reader = Reader {
        store: store.clone(),
        reflector,
    };
    let context = Context {
        reader: reader.clone(),
        authorizer: Arc::clone(&config.authorizer),
    };
    let registry = Registry {
        reader,
        admission: Chain::new(context, config.plugins, &config.disabled_plugins),
        authenticator: config.authenticator,
        authorizer: config.authorizer,
        issuer: config.issuer,
        settings: registry::Settings {
            service_ranges: config.service_ranges,
            advertised: config.advertised,
            allow_privileged: config.allow_privileged,
            first_objects: config.first_objects,
            client_authority: config.client_authority,
            proxies: config.proxies,
        },
        leases: registry::ttl::EventLeases::default(),
        allocations: Default::default(),
        steps: Steps::default(),
    };
    Api(Arc::new(Core {
        registry: Arc::new(registry),
        slots: http::limits::slots::Slots::new(&config.limits),
        flow: http::door::serve::flow_control(&config.limits),
        answers: Default::default(),
        aggregator: Arc::new(Aggregator::new(config.proxy_identity)),
        discovery: Default::default(),
        custom_documents: Default::default(),
        old_document: Default::default(),
        audit: config.audit,
        faults: config.faults,
        limits: config.limits,
        store_checks: config.store_checks,
        store_answers: Default::default(),
        stopping: tokio::sync::watch::Sender::new(false),
    }))
}

/// Reads the certificates again for ever, and publishes new authorities.
async fn follow_certificates(registry: &Registry, tls: &Tls) {
    let mut current = tls.changed().await;
    loop {
        current = until_newer(registry, &current, tls.changed()).await;
    }
}

/// Publishes the authorities of certificates until there are newer ones. These do not wait for a
/// store that does not answer.
async fn until_newer(
    registry: &Registry,
    current: &Certificates,
    newer: impl Future<Output = Certificates>,
) -> Certificates {
    let mut newer = pin!(newer);
    tokio::select! {
        newer = &mut newer => newer,
        () = publish(registry, current) => newer.await,
    }
}

async fn publish(registry: &Registry, certificates: &Certificates) {
    // Otherwise those of the start could come last.
    registry.steps.reach(Step::Authorities).await;
    let of_clients = certificates.clients.as_deref();
    let of_proxies = certificates.proxies.as_deref();
    let publish = || bootstrap::publish_authorities(registry, of_clients, of_proxies);
    while let Err(error) = publish().await {
        tracing::warn!(%error, "new authorities of certificates cannot be published");
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Creates the objects that must exist before requests are served, and creates them again after a
/// deletion.
async fn keep_built(registry: Arc<Registry>) {
    registry.reader.reflector.loaded().await;
    registry.steps.done(Step::Caches);
    while let Err(error) = build(&registry).await {
        tracing::warn!(%error, "the built-in objects cannot be made");
        tokio::time::sleep(RETRY_AFTER).await;
    }
    while let Err(error) = registry::builtin::keep(&registry).await {
        tracing::warn!(%error, "the built-in objects cannot be kept");
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

async fn build(registry: &Arc<Registry>) -> Result<(), Status> {
    registry::builtin::make(registry).await?;
    upkeep::flow::make(registry).await?;
    registry.steps.done(Step::FlowControl);
    bootstrap::make(registry).await?;
    // Last: a store whose addresses are in disorder still has its roles and its flow control.
    registry::builtin::make_services(registry).await
}

/// Lets the store forget what is older than one period; never if that is zero.
async fn compact(store: Store, period: Duration) {
    let mut before = None;
    while !period.is_zero() {
        tokio::time::sleep(period).await;
        if let Some(revision) = before {
            // Another server may have compacted further already.
            if let Err(error) = store.compact(revision).await {
                tracing::debug!(%error, revision, "the store was not compacted");
            }
        }
        before = store.revision().await.ok();
    }
}

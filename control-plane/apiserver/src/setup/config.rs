//! The configuration of a server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::admission::Plugin;
use crate::audit;
use crate::auth::authenticate::front_proxy::FrontProxy;
use crate::auth::authenticate::token::Issuer;
use crate::auth::pki::Identity;
use crate::auth::{Authenticator, Authorizer, Open};
use crate::basics::service_ranges::ServiceRanges;
use crate::http::faults::Faults;
use crate::http::limits::Limits;
use crate::http::limits::StoreChecks;
use crate::storage::at_rest::AtRest;

/// How often Kubernetes compacts its store.
const COMPACT_EVERY: Duration = Duration::from_secs(300);

/// How a server is set up.
#[derive(Clone)]
pub struct Config {
    /// Authenticates requests.
    pub authenticator: Arc<dyn Authenticator>,
    /// Decides what users may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// Admission plugins, besides those that are always on.
    pub plugins: Vec<Arc<dyn Plugin>>,
    /// Names of admission plugins that are switched off.
    pub disabled_plugins: Vec<String>,
    /// Signs tokens of service accounts; without it none are issued.
    pub issuer: Option<Arc<Issuer>>,
    /// Certificate (PEM) of the authority for client certificates, if there is one.
    pub client_authority: Option<String>,
    /// Proxies that name users, as servers behind this one have to know them.
    pub proxies: Option<Arc<FrontProxy>>,
    /// What this server shows to servers that extend it, if anything.
    pub proxy_identity: Option<Identity>,
    /// Where services get addresses from.
    pub service_ranges: ServiceRanges,
    /// The address of this server for pods; without it, the service `kubernetes` has no endpoint.
    pub advertised: Option<SocketAddr>,
    /// True if containers may be privileged.
    pub allow_privileged: bool,
    /// What a new cluster begins with, of versions `v1`: made once, so that its owner may delete it.
    pub first_objects: Vec<Value>,
    /// How often the store forgets old revisions, and how old they are then; zero for never.
    pub compact_every: Duration,
    /// How the values of the store are sealed.
    pub at_rest: Arc<AtRest>,
    /// Where events about requests go, if anywhere.
    pub audit: Option<Arc<audit::Log>>,
    /// Faults on purpose, for tests of clients.
    pub faults: Option<Arc<Faults>>,
    /// What clients may take.
    pub limits: Limits,
    /// How long the store may take to answer the checks of health.
    pub store_checks: StoreChecks,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            authenticator: Arc::new(Open::default()),
            authorizer: Arc::new(Open::default()),
            plugins: Vec::new(),
            disabled_plugins: Vec::new(),
            issuer: None,
            client_authority: None,
            proxies: None,
            proxy_identity: None,
            service_ranges: ServiceRanges::default(),
            advertised: None,
            allow_privileged: false,
            first_objects: Vec::new(),
            compact_every: COMPACT_EVERY,
            at_rest: Arc::default(),
            audit: None,
            faults: None,
            limits: Limits::default(),
            store_checks: StoreChecks::default(),
        }
    }
}

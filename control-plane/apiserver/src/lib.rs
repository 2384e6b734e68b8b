//! The API of Kubernetes over a store that speaks etcd's.
//!
//! One layer driven by `machinery::schema` serves every kind; no kind has a handler. The crate
//! knows the store as [`etcd_api::Client`] and nothing else, and people only through
//! [`auth::Gate`].
#![forbid(unsafe_code)]

pub mod auth;

use std::sync::Arc;

use machinery::schema::Kind;
use machinery::status::Status;
use serde_json::Value;

/// How a server is set up.
#[derive(Clone)]
pub struct Config {
    /// Who may do what.
    pub gate: Arc<dyn auth::Gate>,
    /// Where services get their addresses from, such as `10.96.0.0/16`.
    pub service_cidr: String,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            gate: Arc::new(auth::Open),
            service_cidr: "10.96.0.0/16".into(),
        }
    }
}

/// A running server. It belongs to the tokio runtime it was made in.
pub struct Server {
    api: Api,
}

impl Server {
    /// Begins to follow the store; requests wait until it is read.
    pub fn new(store: etcd_api::Client, config: Config) -> Server {
        Server {
            api: Api(Arc::new(Inner { store, config })),
        }
    }

    /// What it holds, without the gate.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The service that answers requests, for a listener or for callers in this process. A
    /// request with an [`auth::User`] in its extensions is theirs.
    pub fn router(&self) -> axum::Router {
        unimplemented!()
    }

    /// Waits until the built-in objects are there and reads are served.
    pub async fn ready(&self) -> Result<(), Status> {
        unimplemented!()
    }

    /// Ends watches, so that connections can end.
    pub fn stop(&self) {
        unimplemented!()
    }
}

/// Objects, for parts of this process: no gate, no admission of other people's.
#[derive(Clone)]
pub struct Api(#[expect(dead_code, reason = "the first piece")] Arc<Inner>);

#[expect(dead_code, reason = "the first piece")]
struct Inner {
    store: etcd_api::Client,
    config: Config,
}

impl Api {
    /// The object as the store has it now.
    pub async fn get(
        &self,
        _kind: &'static Kind,
        _namespace: &str,
        _name: &str,
    ) -> Result<Arc<Value>, Status> {
        unimplemented!()
    }

    /// The object as last heard of; no round trip.
    pub fn cached(
        &self,
        _kind: &'static Kind,
        _namespace: &str,
        _name: &str,
    ) -> Option<Arc<Value>> {
        unimplemented!()
    }

    /// All objects of a namespace (all namespaces when empty) as last heard of.
    pub fn cached_list(&self, _kind: &'static Kind, _namespace: &str) -> Vec<Arc<Value>> {
        unimplemented!()
    }

    /// Stores a new object, defaulted and validated; answers `AlreadyExists` if there is one.
    pub async fn create(
        &self,
        _kind: &'static Kind,
        _namespace: &str,
        _object: Value,
    ) -> Result<Arc<Value>, Status> {
        unimplemented!()
    }
}

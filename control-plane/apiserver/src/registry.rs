//! Creates, changes and deletes objects, for every kind and every subresource. It does not know the
//! encoding of requests or responses.

pub(crate) mod allocate;
pub(crate) mod answer;
pub(crate) mod api_service;
pub(crate) mod builtin;
pub(crate) mod definition;
pub(crate) mod lifecycle;
pub(crate) mod options;
pub(crate) mod printers;
pub(crate) mod strategy;
pub(crate) mod ttl;
pub(crate) mod verbs;

use std::net::SocketAddr;
use std::sync::Arc;

use machinery::object;
use machinery::schema::Kind;
use machinery::status::Status;
use serde_json::Value;

use crate::admission::Chain;
use crate::auth::authenticate::front_proxy::FrontProxy;
use crate::auth::authenticate::token::Issuer;
use crate::auth::{Authenticator, Authorizer, User};
use crate::basics::service_ranges::ServiceRanges;
use crate::basics::steps::Steps;
use crate::storage::reader::Reader;
use crate::storage::views;
use ttl::EventLeases;
use verbs::writer::Writer;

/// The field manager of this process's own writes.
const OWN_MANAGER: &str = "kube-apiserver";

/// Everything that a write needs.
pub(crate) struct Registry {
    pub(crate) reader: Reader,
    /// The admission plugins for every write.
    pub(crate) admission: Chain,
    /// Authenticator and authorizer also answer reviews.
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// Signs tokens of service accounts; if `None`, none are issued.
    pub(crate) issuer: Option<Arc<Issuer>>,
    pub(crate) settings: Settings,
    pub(crate) leases: EventLeases,
    /// What requests allocate for services.
    pub(crate) allocations: Arc<allocate::Allocations>,
    /// How far the start of this server is.
    pub(crate) steps: Steps,
}

/// Settings by the owner of a cluster about objects.
pub(crate) struct Settings {
    pub(crate) service_ranges: ServiceRanges,
    pub(crate) advertised: Option<SocketAddr>,
    pub(crate) allow_privileged: bool,
    /// What a new cluster begins with, of versions `v1`.
    pub(crate) first_objects: Vec<Value>,
    /// Certificate (PEM) of the authority for client certificates, if there is one.
    pub(crate) client_authority: Option<String>,
    /// Proxies that name users.
    pub(crate) proxies: Option<Arc<FrontProxy>>,
}

impl Registry {
    /// Stores a new object of this process, with defaults, admission and validation like any other.
    /// `AlreadyExists` if the object exists.
    pub(crate) async fn create(
        &self,
        kind: &Kind,
        namespace: &str,
        object: Value,
    ) -> Result<Arc<Value>, Status> {
        let user = User::default();
        let writer = self.own_writer(&user, kind, namespace)?;
        let decoded = writer.create(object).await?;
        views::of_decoded(&writer.resource, &decoded).await
    }

    /// Replaces an object for this process, by the rules for a PUT of a client.
    pub(crate) async fn update(
        &self,
        kind: &Kind,
        namespace: &str,
        object: Value,
    ) -> Result<Arc<Value>, Status> {
        let user = User::default();
        let writer = self.own_writer(&user, kind, namespace)?;
        let name = object::name(&object).to_owned();
        let decoded = writer.replace(&name, "", object).await?.decoded();
        views::of_decoded(&writer.resource, &decoded).await
    }

    /// Replaces the status of an object for this process, by the rules for a PUT from outside.
    pub(crate) async fn update_status(&self, kind: &Kind, object: Value) -> Result<(), Status> {
        let (name, namespace) = (object::name(&object).to_owned(), object::namespace(&object));
        let (user, namespace) = (User::default(), namespace.to_owned());
        let writer = self.own_writer(&user, kind, &namespace)?;
        writer.replace(&name, "status", object).await.map(|_| ())
    }

    /// Deletes an object for this process, or begins to. `Conflict` if the object of this name has
    /// another uid.
    pub(crate) async fn delete(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<(), Status> {
        let user = User::default();
        let writer = self.own_writer(&user, kind, namespace)?;
        let options = verbs::delete::Options {
            uid: Some(uid.to_owned()),
            ..verbs::delete::Options::default()
        };
        writer.delete(name, options).await.map(|_| ())
    }

    /// A writer for this process itself, as [`User::is_this_process`] tells it apart.
    fn own_writer<'a>(
        &'a self,
        user: &'a User,
        kind: &Kind,
        namespace: &'a str,
    ) -> Result<Writer<'a>, Status> {
        Ok(Writer {
            registry: self,
            user,
            resource: self.reader.resource_of(kind)?,
            namespace,
            dry: false,
            options: Value::Null,
            audit: None,
            warnings: Arc::default(),
            manager: OWN_MANAGER.to_owned(),
        })
    }
}

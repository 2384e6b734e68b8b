//! How a server is set up.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::admission::Plugin;
use crate::auth::token::Issuer;
use crate::auth::{Authenticator, Authorizer, Open};
use crate::http::connections::Limits;

/// How a server is set up.
#[derive(Clone)]
pub struct Config {
    /// Tells who sends a request.
    pub authenticator: Arc<dyn Authenticator>,
    /// Decides what users may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// Admission plugins besides those that are always on.
    pub plugins: Vec<Arc<dyn Plugin>>,
    /// Signs tokens of service accounts; without it none are issued.
    pub issuer: Option<Arc<Issuer>>,
    /// The certificate (PEM) that client certificates are signed with, if there is one.
    pub client_authority: Option<String>,
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
            authenticator: Arc::new(Open),
            authorizer: Arc::new(Open),
            plugins: Vec::new(),
            issuer: None,
            client_authority: None,
            service_cidr: "10.96.0.0/16".into(),
            advertised: None,
            allow_privileged: false,
            limits: Limits::default(),
        }
    }
}

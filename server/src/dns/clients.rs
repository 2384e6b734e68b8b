//! The endpoints of a cluster for its clients, in the SRV records of a domain: for the programs
//! between clients and a cluster. Log lines and errors are etcd's.

use std::time::Duration;

use tokio::time::timeout;

use super::{Service, dial, service_name, services};
use crate::telemetry::logging::json;

/// What the services of clients are called.
const SERVICE: &str = "etcd-client";

/// Limit for connecting to an endpoint that was found.
const DIAL_PATIENCE: Duration = Duration::from_secs(5);

/// Where endpoints are looked up, and which of them are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Domain {
    /// Empty: nothing is looked up.
    pub(crate) name: String,
    /// The end of the services' names; may be empty.
    pub(crate) suffix: String,
    /// Takes endpoints without TLS and endpoints that cannot be reached, too.
    pub(crate) insecure: bool,
    /// If given, it must be readable: otherwise no endpoint is taken.
    pub(crate) trusted_ca_file: String,
}

/// An endpoint found in DNS.
pub(crate) struct Found {
    /// `https` if its service is one with TLS.
    pub(crate) url: String,
    pub(crate) service: Service,
}

impl Domain {
    /// The endpoints that are taken, those with TLS first; none if there is no domain.
    pub(crate) async fn endpoints(&self) -> Result<Vec<Found>, String> {
        let domain = &self.name;
        if domain.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.lookup().await?;
        tracing::info!("srv-server" = domain, endpoints = %urls(&found), "discovered cluster from SRV");
        if self.insecure {
            return Ok(found);
        }
        tracing::info!("srv-server" = domain, endpoints = %urls(&found), "validating discovered SRV endpoints");
        let (valid, errors) = self.validate(found).await;
        let endpoints = urls(&valid);
        if errors.is_empty() {
            tracing::info!("srv-server" = domain, %endpoints, "using validated discovered SRV endpoints");
        } else {
            let error = errors.join(",");
            tracing::warn!("srv-server" = domain, %endpoints, error, "failed to validate discovered endpoints");
        }
        Ok(valid)
    }

    /// The client services of the domain, with TLS and without.
    async fn lookup(&self) -> Result<Vec<Found>, String> {
        let of = async |secure, scheme| {
            let name = service_name(SERVICE, secure, &self.suffix);
            let found = services(&name, &self.name).await?;
            let found = found.into_iter().map(|service| Found {
                url: format!("{scheme}://{service}"),
                service,
            });
            Ok::<Vec<Found>, String>(found.collect())
        };
        match (of(true, "https").await, of(false, "http").await) {
            (Err(secure), Err(plain)) => Err(format!("dns lookup errors: {secure} and {plain}")),
            (secure, plain) => Ok(secure.into_iter().chain(plain).flatten().collect()),
        }
    }

    /// The endpoints that have TLS and can be reached, and what is wrong with the others. As in
    /// etcd, no certificate is looked at: those who make the real connections do that.
    async fn validate(&self, found: Vec<Found>) -> (Vec<Found>, Vec<String>) {
        if let Err(error) = crate::net::tls::check_authorities(&self.trusted_ca_file) {
            return (Vec::new(), vec![error]);
        }
        let (mut valid, mut errors) = (Vec::new(), Vec::new());
        for found in found {
            let url = &found.url;
            let Some(address) = url.strip_prefix("https://") else {
                errors.push(format!("{url:?} is insecure"));
                continue;
            };
            let late = |_| Err(format!("dial tcp {address}: i/o timeout"));
            let dialed = timeout(DIAL_PATIENCE, dial(address)).await;
            match dialed.unwrap_or_else(late) {
                Ok(_) => valid.push(found),
                Err(error) => errors.push(format!("{url:?} failed to dial ({error})")),
            }
        }
        (valid, errors)
    }
}

/// As a list in JSON, for the log.
fn urls(found: &[Found]) -> String {
    let urls: Vec<&str> = found.iter().map(|found| found.url.as_str()).collect();
    json(&urls)
}

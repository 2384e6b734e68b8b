//! Where connections go: endpoints from flags, or from the SRV records of a domain.

use std::collections::HashSet;
use std::net::IpAddr;

use super::command::Options;
use crate::dns::{Service, split_host_port};

/// Why the gateway does not start, and where etcd says so.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Stdout(String),
    Stderr(String),
}

/// The endpoints: those in DNS, or if there are none, those of the flags.
pub(super) async fn find(options: &Options) -> Result<Vec<Service>, Refused> {
    let found = options.domain.endpoints().await.map_err(Refused::Stderr)?;
    if !found.is_empty() {
        return Ok(found.into_iter().map(|found| found.service).collect());
    }
    let given = options.endpoints.iter().map(|endpoint| {
        let address = without_scheme(endpoint);
        let (host, port) = split_host_port(address)
            .ok_or_else(|| Refused::Stdout(format!("error parsing endpoint {address:?}")))?;
        Ok(Service {
            target: host.to_owned(),
            port: port.parse().unwrap_or(0),
            priority: 0,
            weight: 0,
        })
    });
    given.collect()
}

/// The host and port of a URL; anything else is left as it is.
fn without_scheme(endpoint: &str) -> &str {
    let Some((_, rest)) = endpoint.split_once("://") else {
        return endpoint;
    };
    let address = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if address.is_empty() {
        endpoint
    } else {
        address
    }
}

/// Refuses to listen where an endpoint is: the gateway would be its own client.
pub(super) async fn check(endpoints: &[Service], listen_addr: &str) -> Result<(), Refused> {
    let stdout = |text: String| Err(Refused::Stdout(text));
    let Some((host, port)) = split_host_port(listen_addr) else {
        return stdout(format!(
            "failed to validate listen address: {listen_addr}\n"
        ));
    };
    let Some(own) = addresses(host).await else {
        return stdout(format!("failed to resolve listen host: {host}\n"));
    };
    let own: HashSet<IpAddr> = own.into_iter().collect();
    for service in endpoints {
        let target = &service.target;
        let Some(theirs) = addresses(target).await else {
            return stdout(format!("failed to resolve endpoint host: {target}\n"));
        };
        if service.port.to_string() != port {
            continue;
        }
        if let Some(same) = theirs.iter().find(|address| own.contains(address)) {
            let port = service.port;
            return stdout(format!(
                "SRV or endpoint ({target}:{port}->{same}:{port}) should not resolve to the gateway listen addr ({listen_addr})\n"
            ));
        }
    }
    if endpoints.is_empty() {
        return stdout("no endpoints found\n".to_owned());
    }
    Ok(())
}

async fn addresses(host: &str) -> Option<Vec<IpAddr>> {
    let found = tokio::net::lookup_host((host, 0)).await.ok()?;
    Some(found.map(|address| address.ip()).collect())
}

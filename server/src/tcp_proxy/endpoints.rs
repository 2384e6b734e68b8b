//! Where connections go: endpoints from flags, or from the SRV records of a domain.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::timeout;

use super::command::Options;
use super::forward::dial;
use crate::dns::{self, Service, service_name, split_host_port};
use crate::telemetry::logging::json;

/// What the services of clients are called.
const SERVICE: &str = "etcd-client";

/// Limit for connecting to an endpoint that was found in DNS.
const DIAL_PATIENCE: Duration = Duration::from_secs(5);

/// Why the gateway does not start, and where etcd says so.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Stdout(String),
    Stderr(String),
}

/// An endpoint found in DNS.
struct Found {
    url: String,
    service: Service,
}

/// The endpoints: those in DNS, or if there are none, those of the flags.
pub(super) async fn find(options: &Options) -> Result<Vec<Service>, Refused> {
    let discovered = discover(options).await?;
    if !discovered.is_empty() {
        return Ok(discovered);
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

async fn discover(options: &Options) -> Result<Vec<Service>, Refused> {
    let domain = &options.discovery_srv;
    if domain.is_empty() {
        return Ok(Vec::new());
    }
    let found = lookup(domain, &options.discovery_srv_name)
        .await
        .map_err(Refused::Stderr)?;
    let urls: Vec<&str> = found.iter().map(|found| found.url.as_str()).collect();
    tracing::info!("srv-server" = domain, endpoints = %json(&urls), "discovered cluster from SRV");
    if options.insecure_discovery {
        return Ok(found.into_iter().map(|found| found.service).collect());
    }
    tracing::info!("srv-server" = domain, endpoints = %json(&urls), "validating discovered SRV endpoints");
    let (valid, errors) = validate(found, &options.trusted_ca_file).await;
    let urls: Vec<&str> = valid.iter().map(|found| found.url.as_str()).collect();
    if errors.is_empty() {
        tracing::info!("srv-server" = domain, endpoints = %json(&urls), "using validated discovered SRV endpoints");
    } else {
        let error = errors.join(",");
        tracing::warn!("srv-server" = domain, endpoints = %json(&urls), error, "failed to validate discovered endpoints");
    }
    Ok(valid.into_iter().map(|found| found.service).collect())
}

/// The client services of a domain, with TLS and without.
async fn lookup(domain: &str, suffix: &str) -> Result<Vec<Found>, String> {
    let of = async |secure, scheme| {
        let services = dns::services(&service_name(SERVICE, secure, suffix), domain).await?;
        let found = services.into_iter().map(|service| Found {
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

/// The endpoints that have TLS and can be reached, and what is wrong with the others. As in etcd,
/// certificates are left to the clients, whose connections go through to the members.
async fn validate(found: Vec<Found>, trusted_ca_file: &str) -> (Vec<Found>, Vec<String>) {
    if let Err(error) = crate::net::tls::check_authorities(trusted_ca_file) {
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
        match timeout(DIAL_PATIENCE, dial(address))
            .await
            .unwrap_or_else(late)
        {
            Ok(_) => valid.push(found),
            Err(error) => errors.push(format!("{url:?} failed to dial ({error})")),
        }
    }
    (valid, errors)
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

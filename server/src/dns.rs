//! Names: the SRV records of a domain, and the addresses of hosts, which the system's own resolver
//! looks up; connections to hosts by name; whether two lists of URLs name the same place.

pub(crate) mod clients;
pub(crate) mod places;

use std::fmt;
use std::net::SocketAddr;

use hickory_resolver::Resolver;
use hickory_resolver::config::ResolverConfig;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::RData;
use hickory_resolver::system_conf::read_system_conf;
use tokio::net::TcpStream;

use crate::net::socket::in_gos_words;

/// Where name servers listen.
const DNS_PORT: u16 = 53;

/// An SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    /// Host, with a dot at the end if it comes from DNS.
    pub(crate) target: String,
    pub(crate) port: u16,
    /// Lower ones are better.
    pub(crate) priority: u16,
    /// Share of connections among endpoints of the same priority; 0 is nearly none.
    pub(crate) weight: u16,
}

/// As `host:port`.
impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.target.contains(':') {
            write!(f, "[{}]:{}", self.target, self.port)
        } else {
            write!(f, "{}:{}", self.target, self.port)
        }
    }
}

/// What comes after the underscore: `base`, `-ssl` if it is secure, and `suffix` if there is one.
pub(crate) fn service_name(base: &str, secure: bool, suffix: &str) -> String {
    let ssl = if secure { "-ssl" } else { "" };
    let dash = if suffix.is_empty() { "" } else { "-" };
    format!("{base}{ssl}{dash}{suffix}")
}

/// The records of `_service._tcp.domain`, best priority first. The error has Go's text.
pub(crate) async fn services(service: &str, domain: &str) -> Result<Vec<Service>, String> {
    let name = format!("_{service}._tcp.{domain}");
    let failed = |error: NetError| format!("lookup {name}: {error}");
    let (config, options) = read_system_conf().map_err(failed)?;
    let server = server(&config).unwrap_or_default();
    let resolver = Resolver::builder_with_config(config, TokioRuntimeProvider::default())
        .with_options(options)
        .build()
        .map_err(failed)?;
    let found = resolver.srv_lookup(name.as_str()).await;
    let found = found.map_err(|error| format!("lookup {name}{server}: {}", reason(&error)))?;
    let records = found.answers().iter();
    let mut services: Vec<Service> = records
        .filter_map(|record| match &record.data {
            RData::SRV(srv) => Some(Service {
                target: srv.target.to_ascii(),
                port: srv.port,
                priority: srv.priority,
                weight: srv.weight,
            }),
            _ => None,
        })
        .collect();
    services.sort_by_key(|service| service.priority);
    Ok(services)
}

/// The addresses of `host:port`, those of IPv4 first, as in Go, whose text the error has.
pub(crate) async fn addresses(address: &str) -> Result<Vec<SocketAddr>, String> {
    let found = tokio::net::lookup_host(address).await;
    let mut found: Vec<SocketAddr> = found.into_iter().flatten().collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    if found.is_empty() {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let server = read_system_conf()
            .ok()
            .and_then(|(config, _)| server(&config));
        let server = server.unwrap_or_default();
        return Err(format!("lookup {host}{server}: no such host"));
    }
    Ok(found)
}

/// The first of these addresses.
pub(crate) async fn resolve(address: &str) -> Result<SocketAddr, String> {
    Ok(addresses(address).await?[0])
}

/// A connection to the first address of `host:port` that takes it. The error has Go's text.
pub(crate) async fn dial(address: &str) -> Result<TcpStream, String> {
    let mut first = None;
    let found = addresses(address).await;
    for address in found.map_err(|error| format!("dial tcp: {error}"))? {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => first.get_or_insert_with(|| {
                format!("dial tcp {address}: connect: {}", in_gos_words(&error))
            }),
        };
    }
    Err(first.unwrap_or_default())
}

/// As errors name the name server.
fn server(config: &ResolverConfig) -> Option<String> {
    let server = config.name_servers().first()?;
    Some(format!(" on {}", SocketAddr::new(server.ip, DNS_PORT)))
}

fn reason(error: &NetError) -> String {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(_)) => "no such host".to_owned(),
        NetError::Dns(DnsError::ResponseCode(_)) => "server misbehaving".to_owned(),
        NetError::Timeout => "i/o timeout".to_owned(),
        error => error.to_string(),
    }
}

/// Splits `host:port`; brackets around an IPv6 address are dropped.
pub(crate) fn split_host_port(address: &str) -> Option<(&str, &str)> {
    let (host, port) = address.rsplit_once(':')?;
    match host.strip_prefix('[') {
        Some(host) => Some((host.strip_suffix(']')?, port)),
        None => (!host.contains([':', '[', ']'])).then_some((host, port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (address, parts) in [
            ("a:1", Some(("a", "1"))),
            (":1", Some(("", "1"))),
            ("[::1]:1", Some(("::1", "1"))),
            ("::1:1", None),
            ("[::1", None),
            ("[::1]x:1", None),
            ("a", None),
        ] {
            assert_eq!(split_host_port(address), parts, "{address}");
        }
    }

    #[test]
    fn names_of_services_have_etcds_form() {
        assert_eq!(service_name("etcd-server", false, ""), "etcd-server");
        assert_eq!(service_name("etcd-server", true, "x"), "etcd-server-ssl-x");
    }
}

//! Discovery by DNS: the founders are in the SRV records of a domain. A member finds itself there by
//! its address.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::Found;
use crate::config::{Config, FoundingMember, Url};
use crate::dns::{self, service_name};
use crate::telemetry::logging::json;

/// What the services of members are called.
const SERVICE: &str = "etcd-server";

/// Finds the founders. The errors have etcd's texts.
pub(super) async fn founders(config: &Config, domain: &str, suffix: &str) -> Result<Found, String> {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for secure in [true, false] {
        let service = service_name(SERVICE, secure, suffix);
        let members = members(config, domain, &service, secure).await;
        let error = members.as_ref().err().cloned();
        found.extend(members.into_iter().flatten());
        let text = if secure {
            "get cluster for etcd-server-ssl SRV"
        } else {
            "get cluster for etcd-server SRV"
        };
        let advertised = &config.initial_advertise_peer_urls;
        let advertised: Vec<&str> = advertised.iter().map(Url::as_str).collect();
        tracing::info!(
            "service-scheme" = scheme(secure),
            "service-name" = service,
            "server-name" = config.name,
            "discovery-srv" = domain,
            "advertise-peer-urls" = %json(&advertised),
            "found-cluster" = %json(&found),
            error,
            "{text}"
        );
        errors.extend(error);
    }
    let error = errors.join("\n");
    if !errors.is_empty() {
        tracing::warn!(error, "failed to resolve during SRV discovery");
    }
    if found.is_empty() {
        return Err(error);
    }
    for node in &found {
        tracing::info!(node, "got bootstrap from DNS for etcd-server");
    }
    let founders = FoundingMember::parse_list(&found.join(","))?;
    if !founders.iter().any(|member| member.name == config.name) {
        let name = &config.name;
        return Err(format!(
            "cannot find local etcd member {name:?} in SRV records"
        ));
    }
    // Without an authority for members the domain is trusted, and so must their certificates be its.
    let is_secure = found.iter().any(|node| node.contains("https://"));
    let trusts_domain = is_secure && config.peer_tls.trusted_ca_file.is_empty();
    Ok(Found {
        config: config.founded_by(founders, true),
        peer_name: trusts_domain.then(|| domain.to_owned()),
    })
}

fn scheme(secure: bool) -> &'static str {
    if secure { "https" } else { "http" }
}

/// The members that a service names, each as `name=url`. This member has its own name, others have
/// numbers.
async fn members(
    config: &Config,
    domain: &str,
    service: &str,
    secure: bool,
) -> Result<Vec<String>, String> {
    let mut own: HashMap<SocketAddr, &Url> = HashMap::new();
    for url in &config.initial_advertise_peer_urls {
        own.insert(dns::resolve(&url.address()).await?, url);
    }
    let failed = |error| format!("error querying DNS SRV records for _{service} {error}");
    let services = dns::services(service, domain).await.map_err(failed)?;
    let (mut members, mut number, mut error) = (Vec::new(), 0, String::new());
    for record in services {
        let address = match dns::resolve(&record.to_string()).await {
            Ok(address) => address,
            Err(failure) => {
                error = failure;
                continue;
            }
        };
        let same = own.get(&address);
        let name = match same {
            Some(_) => config.name.clone(),
            None => {
                number += 1;
                (number - 1).to_string()
            }
        };
        let host = record.to_string().replacen(".:", ":", 1);
        let url = format!("{}://{host}", scheme(secure));
        match same {
            Some(own) if own.is_secure() != secure => {
                error = format!(
                    "bootstrap at {url} from DNS for {service} has scheme mismatch with expected peer {own}"
                );
            }
            _ => members.push(format!("{name}={url}")),
        }
    }
    if members.is_empty() {
        return Err(failed(error));
    }
    Ok(members)
}

//! The addresses by which a member is known: etcd's rule for a member that listens on all
//! interfaces, and the check that the initial cluster contains the member.

use std::net::IpAddr;

use super::url::{Scheme, Url};
use super::{ClusterState, Config};

/// A member that listens here is reached at the machine's address.
const EVERYWHERE: &str = "0.0.0.0";

const DEFAULT_PEER_URL: &str = "http://localhost:2380";
const DEFAULT_CLIENT_URL: &str = "http://localhost:2379";

impl Config {
    /// Replaces the host of a default advertised URL by the machine's address if the member listens
    /// on 0.0.0.0. `host` returns the address of the default route. Returns the address if it was
    /// used.
    pub fn advertise_host(&mut self, host: &dyn Fn() -> Option<IpAddr>) -> Option<IpAddr> {
        let peer = open_port(
            &self.listen_peer_urls,
            &self.initial_advertise_peer_urls,
            DEFAULT_PEER_URL,
        );
        let client = open_port(
            &self.listen_client_urls,
            &self.advertise_client_urls,
            DEFAULT_CLIENT_URL,
        );
        if peer.is_none() && client.is_none() {
            return None;
        }
        let host = host()?;
        if let Some(url) = peer.and_then(|(scheme, port)| url_at(scheme, host, &port)) {
            self.initial_advertise_peer_urls = vec![url];
        }
        if let Some(url) = client.and_then(|(scheme, port)| url_at(scheme, host, &port)) {
            self.advertise_client_urls = vec![url];
        }
        if self.initial_cluster_is_implied {
            for member in &mut self.initial_cluster {
                member.peer_urls = self.initial_advertise_peer_urls.clone();
            }
        }
        self.founding_error = founding_error(self);
        Some(host)
    }
}

/// The member must be one of the founding members, at the URLs that it advertises.
pub(super) fn founding_error(config: &Config) -> Option<String> {
    let name = &config.name;
    let members = &config.initial_cluster;
    let Some(own) = members.iter().find(|member| member.name == *name) else {
        return Some(format!(
            "couldn't find local name {name:?} in the initial cluster configuration"
        ));
    };
    // A joining member's URLs were given to the cluster before it started.
    let joins = config.initial_cluster_state == ClusterState::Existing;
    let advertised = &config.initial_advertise_peer_urls;
    if joins || own.peer_urls == *advertised {
        return None;
    }
    let all = |urls: &[Url]| urls.iter().map(Url::as_str).collect::<Vec<_>>().join(",");
    let (listed, advertised) = (all(&own.peer_urls), all(advertised));
    Some(format!(
        "--initial-cluster has {name}={listed} but missing from --initial-advertise-peer-urls={advertised} (resolved urls: {advertised:?} != {listed:?})"
    ))
}

/// True if the member has as many URLs among the founders as it advertises.
pub(super) fn has_as_many_urls(config: &Config) -> bool {
    let mut members = config.initial_cluster.iter();
    let own = members.find(|member| member.name == config.name);
    own.is_some_and(|own| own.peer_urls.len() == config.initial_advertise_peer_urls.len())
}

/// Scheme and port for the advertised URL, if the first listener listens on all interfaces and the
/// default URL is advertised.
fn open_port(listen: &[Url], advertise: &[Url], default: &str) -> Option<(Scheme, String)> {
    let [advertised] = advertise else { return None };
    let first = listen.first()?;
    let everywhere = first.host() == EVERYWHERE && advertised.as_str() == default;
    everywhere.then(|| (advertised.scheme(), first.port().to_owned()))
}

fn url_at(scheme: Scheme, host: IpAddr, port: &str) -> Option<Url> {
    let scheme = match scheme {
        Scheme::Https => "https",
        _ => "http",
    };
    let host = match host {
        IpAddr::V4(host) => host.to_string(),
        IpAddr::V6(host) => format!("[{host}]"),
    };
    Url::parse(&format!("{scheme}://{host}:{port}")).ok()
}

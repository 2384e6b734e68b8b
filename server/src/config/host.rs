//! The addresses by which a member is known: etcd's rule for a member that listens on all
//! interfaces, and the check that the initial cluster contains the member.

use std::net::IpAddr;

use super::url::{Scheme, Url, compare_lists};
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

    /// This member's URLs among the founding members; `None` if it is not one of them.
    pub(crate) fn listed_peer_urls(&self) -> Option<&[Url]> {
        let mut members = self.initial_cluster.iter();
        let own = members.find(|member| member.name == self.name)?;
        Some(&own.peer_urls)
    }

    /// The same member after the hosts of its advertised and of its listed URLs were looked up:
    /// `compared` decides whether it can found a cluster.
    pub(crate) fn compared_with_listed(&self, compared: Result<(), String>) -> Config {
        let listed = self.listed_peer_urls().unwrap_or_default();
        let error = compared.err().map(|error| mismatch(self, listed, &error));
        Config {
            founding_error: error,
            ..self.clone()
        }
    }
}

/// The member must be one of the founding members, at the URLs that it advertises. Here they are
/// compared as they are written; `Config::compared_with_listed` has the last word.
pub(super) fn founding_error(config: &Config) -> Option<String> {
    let Some(listed) = config.listed_peer_urls() else {
        let name = &config.name;
        return Some(format!(
            "couldn't find local name {name:?} in the initial cluster configuration"
        ));
    };
    // A joining member's URLs were given to the cluster before it started.
    if config.initial_cluster_state == ClusterState::Existing {
        return None;
    }
    let advertised = Url::texts(&config.initial_advertise_peer_urls);
    let error = compare_lists(&advertised, &Url::texts(listed)).err()?;
    Some(mismatch(config, listed, &error))
}

/// Why the member cannot found a cluster: its listed and its advertised URLs differ, as `error`
/// says. The texts are etcd's, and so are their faults: what the last two call `--initial-cluster`
/// are the advertised URLs, and the second leaves `error` out.
fn mismatch(config: &Config, listed: &[Url], error: &str) -> String {
    let (name, advertised) = (&config.name, &config.initial_advertise_peer_urls);
    let all = Url::texts(advertised).join(",");
    let listed_only = listed.iter().filter(|url| !advertised.contains(url));
    let mut listed_only: Vec<String> = listed_only.map(|url| format!("{name}={url}")).collect();
    listed_only.dedup();
    if !listed_only.is_empty() {
        let listed_only = listed_only.join(",");
        return format!(
            "--initial-cluster has {listed_only} but missing from --initial-advertise-peer-urls={all} ({error})"
        );
    }
    let cluster = config.as_founder();
    let advertised_only = advertised.iter().filter(|url| !listed.contains(url));
    let advertised_only: Vec<&str> = advertised_only.map(Url::as_str).collect();
    if !advertised_only.is_empty() {
        let advertised_only = advertised_only.join(",");
        return format!(
            "--initial-advertise-peer-urls has {advertised_only} but missing from --initial-cluster={cluster}"
        );
    }
    format!("failed to resolve {all} to match --initial-cluster={cluster} ({error})")
}

/// True if the member has as many URLs among the founders as it advertises.
pub(super) fn has_as_many_urls(config: &Config) -> bool {
    let listed = config.listed_peer_urls();
    listed.is_some_and(|listed| listed.len() == config.initial_advertise_peer_urls.len())
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

//! How a member with an empty directory finds those that found its cluster with it, if its flags do
//! not list them: in another cluster, or in DNS.

mod registry;
mod service;
mod srv;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::config::{ClusterState, Config, Discovery, FoundingMember, Url};
use crate::dns;

/// Limit for looking up the hosts of this member's URLs, and the time between two tries. etcd's
/// values: a container's name may become known after its start.
const RESOLVE_PATIENCE: Duration = Duration::from_secs(30);
const RESOLVE_RETRY: Duration = Duration::from_secs(1);

/// Why the founders are not known. The texts are etcd's.
#[derive(Debug)]
pub enum Failure {
    /// The registry refused this member, or cannot be asked.
    Registry(String),
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Registry(error) => write!(f, "failed to join discovery cluster ({error})"),
            Failure::Other(error) => f.write_str(error),
        }
    }
}

/// What was found.
pub(crate) struct Found {
    /// The configuration, with the founders.
    pub(crate) config: Config,
    /// The name in the certificates of members; `None`: the host of each.
    pub(crate) peer_name: Option<String>,
}

/// Finds the founders; `None` if the flags list them as they are.
pub(crate) async fn founders(config: &Config) -> Result<Option<Found>, Failure> {
    match &config.discovery {
        Discovery::None => Ok(listed_elsewhere(config).await),
        Discovery::Srv { domain, suffix } => {
            let found = srv::founders(config, domain, suffix).await;
            found.map(Some).map_err(|error| {
                Failure::Other(format!("error setting up initial cluster: {error}"))
            })
        }
        Discovery::Registry(registry) => {
            if config.initial_cluster_state == ClusterState::Existing {
                return Err(Failure::Other(
                    "discovery URL should not be set when joining existing initial cluster".into(),
                ));
            }
            let mut config = config.clone();
            config.initial_cluster_token = registry.token.clone();
            tracing::info!("Bootstrapping cluster using v3 discovery.");
            let listed = registry::join(&config, registry).await;
            let listed = listed.map_err(Failure::Registry)?;
            let founders = FoundingMember::parse_list(&listed).map_err(Failure::Other)?;
            if FoundingMember::have_duplicate_url(&founders) {
                let cluster = FoundingMember::list(&founders);
                return Err(Failure::Other(format!(
                    "discovery cluster {cluster} has duplicate url"
                )));
            }
            let config = config.founded_by(founders, false);
            Ok(Some(Found {
                config,
                peer_name: None,
            }))
        }
    }
}

/// Founders whose list has this member at URLs that look different from those it advertises, but
/// are the same after their hosts are looked up. `None` for any other list.
async fn listed_elsewhere(config: &Config) -> Option<Found> {
    config.founding_error.as_ref()?;
    let mut members = config.initial_cluster.iter();
    let own = members.find(|member| member.name == config.name)?;
    let advertised = &config.initial_advertise_peer_urls;
    let same = is_same_place(&own.peer_urls, advertised, resolve);
    let same = tokio::time::timeout(RESOLVE_PATIENCE, same).await;
    same.unwrap_or(false).then(|| Found {
        config: config.founded_by(config.initial_cluster.clone(), true),
        peer_name: None,
    })
}

/// True if both lists have the same addresses and ports, with TLS or without. As in etcd,
/// `localhost` is not looked up.
async fn is_same_place(
    listed: &[Url],
    advertised: &[Url],
    resolve: impl AsyncFn(&str) -> SocketAddr,
) -> bool {
    if listed.len() != advertised.len() {
        return false;
    }
    let (mut places, mut expected) = (Vec::new(), Vec::new());
    for (urls, places) in [(listed, &mut places), (advertised, &mut expected)] {
        for url in urls {
            let host = url.host();
            let is_name = !url.is_unix() && host != "localhost" && host.parse::<IpAddr>().is_err();
            let address = if is_name {
                resolve(&url.address()).await.to_string()
            } else {
                url.address()
            };
            places.push((url.is_secure(), address));
        }
        places.sort();
    }
    places == expected
}

/// Looks a host up until it is found.
async fn resolve(address: &str) -> SocketAddr {
    loop {
        match dns::resolve(address).await {
            Ok(found) => return found,
            Err(error) => tracing::warn!(host = address, error, "failed to resolve URL Host"),
        }
        tokio::time::sleep(RESOLVE_RETRY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn told(address: &str) -> SocketAddr {
        let address = match address {
            "a.test:2380" => "192.0.2.1:2380",
            "six.test:2380" => "[2001:db8::1]:2380",
            _ => "192.0.2.2:2380",
        };
        address.parse().unwrap()
    }

    #[tokio::test]
    async fn a_member_may_be_listed_by_its_address_and_advertised_by_its_name() {
        for (listed, advertised, same) in [
            ("http://192.0.2.1:2380", "http://a.test:2380", true),
            ("http://[2001:db8::1]:2380", "http://six.test:2380", true),
            // Another order, once the hosts are looked up.
            (
                "http://192.0.2.1:2380,http://b.test:2380",
                "http://192.0.2.2:2380,http://a.test:2380",
                true,
            ),
            ("http://192.0.2.2:2380", "http://a.test:2380", false),
            ("https://192.0.2.1:2380", "http://a.test:2380", false),
            ("http://127.0.0.1:2380", "http://localhost:2380", false),
            (
                "http://192.0.2.1:2380,http://a.test:2380",
                "http://a.test:2380",
                false,
            ),
        ] {
            let urls = [listed, advertised].map(|text| Url::parse_list(text).unwrap());
            let found = is_same_place(&urls[0], &urls[1], told).await;
            assert_eq!(found, same, "{listed} {advertised}");
        }
    }
}

//! How a member with an empty directory finds those that found its cluster with it, if its flags do
//! not list them: in another cluster, or in DNS.

mod registry;
mod service;
mod srv;

use std::fmt;

use crate::config::{ClusterState, Config, Discovery, FoundingMember};
use crate::dns::places::looked_up;

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

/// Founders whose list has this member at URLs that look different from those it advertises; `None`
/// for any other list.
async fn listed_elsewhere(config: &Config) -> Option<Found> {
    Some(Found {
        config: looked_up(config).await?,
        peer_name: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(advertised: &str, listed: &str) -> Config {
        let args = [
            "--name=own".to_owned(),
            format!("--initial-advertise-peer-urls={advertised}"),
            format!("--initial-cluster={listed}"),
        ];
        let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        crate::config::parse(&args, &[], &no_file).unwrap()
    }

    #[tokio::test]
    async fn a_member_may_be_listed_by_another_text_of_its_address() {
        let config = flags(
            "http://[2001:db8::1]:1,http://[2001:DB8::2]:1",
            "own=http://[2001:db8::2]:1,own=http://[2001:db8:0::1]:1",
        );
        assert!(config.founding_error.is_some());
        let found = listed_elsewhere(&config).await.unwrap();
        assert_eq!(found.config.founding_error, None);
        assert_eq!(found.config.initial_cluster, config.initial_cluster);

        let config = flags("http://127.0.0.1:1", "own=http://127.0.0.1:1");
        assert!(listed_elsewhere(&config).await.is_none());
        let config = flags("http://127.0.0.1:1", "other=http://127.0.0.1:1");
        assert!(listed_elsewhere(&config).await.is_none());
    }

    #[tokio::test]
    async fn a_member_that_is_listed_at_other_urls_is_refused_in_etcds_words() {
        for (advertised, listed, error) in [
            (
                "http://127.0.0.1:1,http://[2001:DB8::1]:1",
                "own=http://127.0.0.1:1,own=http://localhost:1",
                "--initial-cluster has own=http://localhost:1 but missing from --initial-advertise-peer-urls=http://127.0.0.1:1,http://[2001:DB8::1]:1 (resolved urls: \"http://[2001:db8::1]:1\" != \"http://localhost:1\")",
            ),
            (
                "http://127.0.0.1:1",
                "own=http://127.0.0.1:1,own=http://127.0.0.1:2",
                "--initial-cluster has own=http://127.0.0.1:2 but missing from --initial-advertise-peer-urls=http://127.0.0.1:1 (len([\"http://127.0.0.1:1\"]) != len([\"http://127.0.0.1:1\" \"http://127.0.0.1:2\"]))",
            ),
            (
                "http://127.0.0.1:1,http://127.0.0.1:2",
                "own=http://127.0.0.1:1",
                "--initial-advertise-peer-urls has http://127.0.0.1:2 but missing from --initial-cluster=own=http://127.0.0.1:1,own=http://127.0.0.1:2",
            ),
            (
                "http://127.0.0.1:1",
                "own=http://127.0.0.1:1,own=http://127.0.0.1:1",
                "failed to resolve http://127.0.0.1:1 to match --initial-cluster=own=http://127.0.0.1:1 (len([\"http://127.0.0.1:1\"]) != len([\"http://127.0.0.1:1\" \"http://127.0.0.1:1\"]))",
            ),
        ] {
            let found = listed_elsewhere(&flags(advertised, listed)).await.unwrap();
            assert_eq!(found.config.founding_error.as_deref(), Some(error));
        }
    }
}

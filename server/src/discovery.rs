//! How a member with an empty directory finds those that found its cluster with it, if its flags do
//! not list them: in another cluster, or in DNS.

mod registry;
mod service;
mod srv;

use std::fmt;

use crate::config::{ClusterState, Config, Discovery, FoundingMember};

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

/// Finds the founders; `None` if the flags list them.
pub(crate) async fn founders(config: &Config) -> Result<Option<Found>, Failure> {
    match &config.discovery {
        Discovery::None => Ok(None),
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

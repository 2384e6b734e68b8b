//! The flags and limits of a member.

use std::path::PathBuf;

use raft::durable::Options;
use server::config::{ClusterState, Config};
use server::member::applier::BackgroundLimits;
use storage::encryption::KeyFile;

/// What a member is told when it starts; the same for all of its runs.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub config: Config,
    pub limits: raft::Limits,
    pub log: Options,
    pub pace: BackgroundLimits,
    /// Ids of keys, the one for new data in front; none: nothing is encrypted.
    pub keys: Vec<u32>,
}

impl Settings {
    /// Member `name` of a cluster of all of `names`, to be founded or, when one `joins`, there.
    pub(crate) fn new(
        name: &str,
        names: &[String],
        (kept_entries, keep_bytes): (u64, u64),
        joins: bool,
    ) -> Settings {
        let url = |name: &str| format!("http://{name}:2380");
        let state = if joins { "existing" } else { "new" };
        let cluster: Vec<String> = names.iter().map(|n| format!("{n}={}", url(n))).collect();
        let args = [
            format!("--name={name}"),
            format!("--initial-advertise-peer-urls={}", url(name)),
            format!("--initial-cluster={}", cluster.join(",")),
            format!("--snapshot-catchup-entries={kept_entries}"),
            format!("--wal-keep-bytes={keep_bytes}"),
            format!("--initial-cluster-state={state}"),
        ];
        let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let mut config = server::config::parse(&args, &[], &no_file)
            .unwrap_or_else(|exit| panic!("the configuration is refused: {exit:?}"));
        config.data_dir = PathBuf::from("/data");
        Settings {
            limits: config.raft_limits(),
            log: Options {
                kept_entries: config.kept_entries(),
                ..Options::default()
            },
            config,
            pace: BackgroundLimits::default(),
            keys: Vec::new(),
        }
    }
}

impl Settings {
    /// It is to be a member of a cluster that runs.
    pub(crate) fn joins(&self) -> bool {
        self.config.initial_cluster_state == ClusterState::Existing
    }

    /// The least TTL of a lease, in seconds: one and a half election timeouts, rounded up.
    pub(crate) fn min_lease_ttl(&self) -> i64 {
        let millis = self.config.election_timeout.as_millis() as u64;
        (millis + millis / 2).div_ceil(1000) as i64
    }

    /// As an operator would write it.
    pub(crate) fn key_file(&self) -> Option<KeyFile> {
        if self.keys.is_empty() {
            return None;
        }
        let line = |id: &u32| format!("{id} {}\n", format!("{id:02x}").repeat(32));
        let text: String = self.keys.iter().map(line).collect();
        let keys = KeyFile::parse("keys", &text);
        Some(keys.unwrap_or_else(|error| panic!("the keys are refused: {error}")))
    }
}

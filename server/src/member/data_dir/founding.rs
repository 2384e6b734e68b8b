//! The first entries of a cluster's log, and the ids that follow from its members.

use std::time::Duration;

use aws_lc_rs::digest;
use bytes::Bytes;
use raft::durable::LogWriter;
use raft::{Recovered, Write};

use crate::config::{Config, Url};
use crate::state::MemberInfo;

/// The term of a new cluster's first entries, one per founding member.
pub(crate) const FOUNDING_TERM: u64 = 1;

/// The first members and ids of a new cluster.
pub(crate) struct Founding {
    pub members: Vec<MemberInfo>,
    /// 0 if the configuration does not list this member.
    pub member_id: u64,
    pub cluster_id: u64,
}

impl Founding {
    pub(crate) fn of(config: &Config) -> Founding {
        let mut members = founders(config);
        // All members write the same log, in whatever order their flags list the members.
        members.sort_by_key(|member| member.id);
        Founding {
            member_id: members
                .iter()
                .find(|member| member.name == config.name)
                .map_or(0, |member| member.id),
            cluster_id: cluster_id(members.iter().map(|member| member.id)),
            members,
        }
    }

    /// Writes the first entries to a log that is no member's yet, and syncs it.
    pub(crate) fn write(&self, log: &mut LogWriter) -> storage::Result<Recovered> {
        let recovered = raft::bootstrap(&changes(&self.members));
        let metadata = encode_metadata(self.member_id, self.cluster_id);
        let first = Write {
            entries: recovered.entries.clone(),
            hard_state: Some(recovered.hard_state),
            ..Write::default()
        };
        log.begin_anew(&metadata, &first)?;
        Ok(recovered)
    }
}

/// The founding members that the flags list.
pub(crate) fn founders(config: &Config) -> Vec<MemberInfo> {
    let member = |name: &str, urls: &[Url]| {
        let mut peer_urls = Url::texts(urls);
        peer_urls.sort();
        let id = member_id(&peer_urls, &config.initial_cluster_token);
        MemberInfo {
            id,
            peer_urls,
            name: name.to_owned(),
            ..Default::default()
        }
    };
    config
        .initial_cluster
        .iter()
        .map(|m| member(&m.name, &m.peer_urls))
        .collect()
}

/// etcd's rule: the first eight bytes of a hash over the sorted peer URLs and the token.
fn member_id(sorted_peer_urls: &[String], token: &str) -> u64 {
    hash_id(&[sorted_peer_urls.concat().as_bytes(), token.as_bytes()].concat())
}

/// etcd's rule for a member that is added at `time` since 1970. The token is not part of it.
pub(crate) fn new_member_id(sorted_peer_urls: &[String], time: Duration) -> u64 {
    let seconds = time.as_secs().to_string();
    hash_id(&[sorted_peer_urls.concat().as_bytes(), seconds.as_bytes()].concat())
}

fn cluster_id(members: impl Iterator<Item = u64>) -> u64 {
    let mut ids: Vec<u64> = members.collect();
    ids.sort_unstable();
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_be_bytes()).collect();
    hash_id(&bytes)
}

fn hash_id(bytes: &[u8]) -> u64 {
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes);
    let (id, _) = digest.as_ref().split_first_chunk().expect("20 bytes");
    u64::from_be_bytes(*id)
}

fn changes(founders: &[MemberInfo]) -> Vec<(u64, Bytes)> {
    let json = |member| serde_json::to_vec(member).expect("members are plain data");
    founders
        .iter()
        .map(|member| (member.id, json(member).into()))
        .collect()
}

/// Member id and cluster id, 8 bytes each, big endian.
pub(crate) fn encode_metadata(member_id: u64, cluster_id: u64) -> Bytes {
    [member_id.to_be_bytes(), cluster_id.to_be_bytes()]
        .concat()
        .into()
}

pub(super) fn decode_metadata(bytes: &[u8]) -> Option<(u64, u64)> {
    let (member, cluster) = bytes.split_at_checked(8)?;
    Some((
        u64::from_be_bytes(member.try_into().ok()?),
        u64::from_be_bytes(cluster.try_into().ok()?),
    ))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use storage::vfs::sim::SimVfs;

    use super::*;
    use crate::config;
    use crate::member::data_dir::{DataDir, Found, Unusable};

    const FOUNDERS: [&str; 3] = ["a", "b", "c"];
    /// More calls than a founding makes.
    const CALLS_MAX: u64 = 200;

    fn config_of(name: &str) -> Config {
        let url = |name: &str| format!("http://{}:2380", name.repeat(200));
        let cluster = FOUNDERS.map(|name| format!("{name}={}", url(name)));
        let args = [
            format!("--name={name}"),
            format!("--initial-advertise-peer-urls={}", url(name)),
            format!("--initial-cluster={}", cluster.join(",")),
        ];
        let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let mut config = config::parse(&args, &[], &no_file).unwrap();
        config.data_dir = PathBuf::from("/data");
        config
    }

    fn find(disk: &SimVfs, config: &Config) -> Result<Found, Unusable> {
        let vfs = Arc::new(disk.clone());
        let options = raft::durable::Options {
            segment_bytes: 16 << 10,
            ..Default::default()
        };
        DataDir::find_alone(vfs, config, None, options, u64::MAX)
    }

    fn found(disk: &SimVfs, config: &Config) -> Result<DataDir, Unusable> {
        match find(disk, config)? {
            Found::Empty(empty) => empty.found(config),
            Found::Used(data) => Ok(*data),
        }
    }

    /// One that knew a part of them would elect itself, and take writes without the others.
    #[test]
    fn a_member_knows_all_founders_or_founds_again_after_any_power_cut() {
        for name in FOUNDERS {
            let config = config_of(name);
            let mut begun = 0;
            for call in 0..CALLS_MAX {
                let disk = SimVfs::new(call);
                disk.fail_after(call);
                let finished = found(&disk, &config).is_ok();
                for survival in 0..4 {
                    let image = disk.power_cut(survival);
                    let is_used = matches!(find(&image, &config).unwrap(), Found::Used(_));
                    assert!(is_used || !finished, "call {call}");
                    begun += u64::from(is_used && !finished);
                    let data = found(&image, &config).unwrap();
                    let members = data.members().unwrap();
                    assert_eq!(members.len(), FOUNDERS.len(), "call {call}: {members:?}");
                }
                if finished {
                    assert!(begun > 0, "no power cut came behind the last write");
                    break;
                }
            }
        }
    }
}

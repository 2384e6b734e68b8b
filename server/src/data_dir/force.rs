//! `--force-new-cluster`: turns a member into a cluster of one, when the others are lost for good.
//!
//! The log keeps all its entries, committed or not: the last ones may have been acknowledged, and
//! this member cannot know. The entries that remove the others follow and count as committed.

use std::collections::BTreeSet;

use raft::{ConfChange, ConfChangeKind, Entry, EntryKind, HardState, Write};

use super::{DataDir, Unusable};
use crate::state::{self, ChangeContext, MemberInfo};

/// The peer URL that etcd assumes for a server that is not a member.
const NO_URL: &str = "http://localhost:2380";

/// Does nothing if this member is the only one already, and knows it.
pub(super) fn keep_only(data: &mut DataDir) -> Result<(), Unusable> {
    let entries = removals(data)?;
    // The log may hold the removal of the last other member, not known to be committed: until it
    // is, that member counts.
    let last = entries.last().or(data.recovered.entries.last());
    let Some(last) = last.filter(|last| last.index > data.recovered.hard_state.commit) else {
        return Ok(());
    };
    let hard_state = HardState {
        commit: last.index,
        ..data.recovered.hard_state
    };
    tracing::info!(
        "cluster-id" = format!("{:x}", data.cluster_id),
        "local-member-id" = format!("{:x}", data.member_id),
        "wal-commit-index" = data.recovered.hard_state.commit,
        "commit-index" = hard_state.commit,
        "forcing restart member"
    );
    data.log.append(&Write {
        entries: entries.clone(),
        hard_state: Some(hard_state),
        ..Write::default()
    })?;
    data.log.sync()?;
    data.recovered.entries.extend(entries);
    data.recovered.hard_state = hard_state;
    Ok(())
}

/// The entries, to be appended to the log, that make this member the only one.
fn removals(data: &DataDir) -> Result<Vec<Entry>, Unusable> {
    let root = data.state.store.root();
    let members = state::members(root)?;
    let own = members.iter().find(|member| member.id == data.member_id);
    let learns = own.is_some_and(|own| own.is_learner);
    let mut ids: BTreeSet<u64> = members.iter().map(|member| member.id).collect();
    let not_applied = data.recovered.entries.iter();
    for entry in not_applied.filter(|entry| entry.index > root.applied().index) {
        if entry.kind == EntryKind::Normal {
            continue;
        }
        if let Ok(change) = raft::wire::decode_conf_change(&entry.data) {
            match change.kind {
                ConfChangeKind::RemoveNode => ids.remove(&change.node),
                ConfChangeKind::UpdateNode => false,
                _ => ids.insert(change.node),
            };
        }
    }
    // First add or promote this member, then remove the others, so that there always is a voter.
    let mut changes = Vec::new();
    if learns || !ids.remove(&data.member_id) {
        changes.push(addition(data.member_id, learns));
        ids.remove(&data.member_id);
    }
    changes.extend(ids.into_iter().map(|node| ConfChange {
        kind: ConfChangeKind::RemoveNode,
        node,
        ..ConfChange::default()
    }));
    let base = data.recovered.base;
    let last = data.recovered.entries.last().map_or(base, Entry::position);
    let entry = |(change, index): (&ConfChange, u64)| Entry {
        term: data.recovered.hard_state.term,
        index,
        kind: EntryKind::ConfChange,
        data: raft::wire::encode_conf_change(change),
    };
    Ok(changes.iter().zip(last.index + 1..).map(entry).collect())
}

fn addition(id: u64, is_promote: bool) -> ConfChange {
    let peer_urls = if is_promote {
        Vec::new()
    } else {
        vec![NO_URL.to_owned()]
    };
    let member = MemberInfo {
        id,
        peer_urls,
        ..Default::default()
    };
    ConfChange {
        kind: ConfChangeKind::AddNode,
        node: id,
        context: ChangeContext { member, is_promote }.encode().into(),
        ..ConfChange::default()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use storage::vfs::sim::SimVfs;

    use super::*;
    use crate::config::{self, Config};
    use crate::data_dir::Found;

    fn config() -> Config {
        let args = [
            "--name=m1",
            "--initial-advertise-peer-urls=http://m1:2380",
            "--initial-cluster=m1=http://m1:2380,m2=http://m2:2380",
        ];
        let no_file = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        let mut config = config::parse(&args.map(str::to_owned), &[], &no_file).unwrap();
        config.data_dir = PathBuf::from("/data");
        config
    }

    fn open(disk: &SimVfs, config: &Config) -> Found {
        let options = raft::durable::Options::default();
        DataDir::find_alone(Arc::new(disk.clone()), config, None, options).unwrap()
    }

    #[test]
    fn the_removal_of_the_last_other_member_counts_though_nobody_knew_it_was_committed() {
        let (disk, mut config) = (SimVfs::new(1), config());
        let Found::Empty(empty) = open(&disk, &config) else {
            panic!("the disk is empty");
        };
        let mut data = empty.found(&config).unwrap();
        let members = data.members().unwrap();
        let other = members.iter().find(|m| m.id != data.member_id).unwrap();
        let removal = ConfChange {
            kind: ConfChangeKind::RemoveNode,
            node: other.id,
            ..ConfChange::default()
        };
        let entry = Entry {
            term: 1,
            index: 3,
            kind: EntryKind::ConfChange,
            data: raft::wire::encode_conf_change(&removal),
        };
        let write = Write {
            entries: vec![entry],
            ..Write::default()
        };
        data.log.append(&write).unwrap();
        data.log.sync().unwrap();
        drop(data);
        config.force_new_cluster = true;
        let Found::Used(data) = open(&disk, &config) else {
            panic!("the disk is a member's");
        };
        assert_eq!(data.recovered.entries.len(), 3);
        assert_eq!(data.recovered.hard_state.commit, 3);
        drop(data);
        // And the next start needs no flag.
        config.force_new_cluster = false;
        let Found::Used(data) = open(&disk, &config) else {
            panic!("the disk is a member's");
        };
        assert_eq!(data.recovered.hard_state.commit, 3);
    }
}

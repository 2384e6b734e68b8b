//! `--force-new-cluster`: turns a member into a cluster of one, when the others are lost for good.
//!
//! The log keeps its entries, committed or not: the last ones may have been acknowledged, and this
//! member cannot know. The entries that remove the others follow and count as committed. Only its
//! own removal, if nobody told it that it is committed, makes way for an empty entry: an ID that was
//! removed never comes back, here or at etcd, and the cluster would end with it. Whoever knows of
//! its removal does not start, forced or not.

use std::collections::BTreeSet;

use bytes::Bytes;
use raft::{ConfChange, ConfChangeKind, Entry, EntryKind, HardState, Write};

use super::{DataDir, Unusable};
use crate::state::{self, ChangeContext, MemberInfo};

/// The peer URL that etcd assumes for a server that is not a member.
const NO_URL: &str = "http://localhost:2380";

/// Does nothing if this member is the only one already, and knows it.
pub(super) fn keep_only(data: &mut DataDir) -> Result<(), Unusable> {
    let mut entries = without_own_removal(data);
    let removals = removals(data, entries.last())?;
    entries.extend(removals);
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
    if let Some(first) = entries.first() {
        let kept = &mut data.recovered.entries;
        kept.truncate(kept.partition_point(|entry| entry.index < first.index));
    }
    data.recovered.entries.extend(entries);
    data.recovered.hard_state = hard_state;
    Ok(())
}

/// What the log holds after this member's first removal that is not applied, with empty entries in
/// the places of such removals. Empty if there is none.
fn without_own_removal(data: &DataDir) -> Vec<Entry> {
    let is_own_removal =
        |entry: &Entry| conf_change(entry).is_some_and(|change| removes(&change, data.member_id));
    let not_applied = not_applied(data);
    let rest = not_applied.skip_while(|entry| !is_own_removal(entry));
    let rest = rest.map(|entry| {
        if is_own_removal(entry) {
            Entry {
                kind: EntryKind::Normal,
                data: Bytes::new(),
                ..*entry
            }
        } else {
            entry.clone()
        }
    });
    rest.collect()
}

/// The entries, to be appended to the log, that make this member the only one. `last` is the last
/// entry of what replaces the end of the log, if anything does.
fn removals(data: &DataDir, last: Option<&Entry>) -> Result<Vec<Entry>, Unusable> {
    let root = data.state.store.root();
    let members = state::members(root)?;
    let own = members.iter().find(|member| member.id == data.member_id);
    let learns = own.is_some_and(|own| own.is_learner);
    let mut ids: BTreeSet<u64> = members.iter().map(|member| member.id).collect();
    for change in not_applied(data).filter_map(conf_change) {
        match change.kind {
            _ if removes(&change, data.member_id) => false,
            ConfChangeKind::RemoveNode => ids.remove(&change.node),
            ConfChangeKind::UpdateNode => false,
            _ => ids.insert(change.node),
        };
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
    let last = last.or(data.recovered.entries.last());
    let last = last.map_or(base, Entry::position);
    let entry = |(change, index): (&ConfChange, u64)| Entry {
        term: data.recovered.hard_state.term,
        index,
        kind: EntryKind::ConfChange,
        data: raft::wire::encode_conf_change(change),
    };
    Ok(changes.iter().zip(last.index + 1..).map(entry).collect())
}

fn not_applied(data: &DataDir) -> impl Iterator<Item = &Entry> {
    let applied = data.state.store.root().applied().index;
    let entries = data.recovered.entries.iter();
    entries.filter(move |entry| entry.index > applied)
}

fn conf_change(entry: &Entry) -> Option<ConfChange> {
    match entry.kind {
        EntryKind::Normal => None,
        _ => raft::wire::decode_conf_change(&entry.data).ok(),
    }
}

fn removes(change: &ConfChange, member: u64) -> bool {
    change.kind == ConfChangeKind::RemoveNode && change.node == member
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
    use crate::member::data_dir::Found;

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
        DataDir::find_alone(Arc::new(disk.clone()), config, None, options, u64::MAX).unwrap()
    }

    /// A directory of one of two members whose log ends with the removal that `removed` picks,
    /// given both IDs, and an empty entry. Nobody said that they are committed.
    fn with_removal_at_the_end(removed: fn(u64, u64) -> u64) -> (SimVfs, Config) {
        let (disk, config) = (SimVfs::new(1), config());
        let Found::Empty(empty) = open(&disk, &config) else {
            panic!("the disk is empty");
        };
        let mut data = empty.found(&config).unwrap();
        let members = data.members().unwrap();
        let other = members.iter().find(|m| m.id != data.member_id).unwrap();
        let removal = ConfChange {
            kind: ConfChangeKind::RemoveNode,
            node: removed(data.member_id, other.id),
            ..ConfChange::default()
        };
        let removal = Entry {
            term: 1,
            index: 3,
            kind: EntryKind::ConfChange,
            data: raft::wire::encode_conf_change(&removal),
        };
        let empty = Entry {
            index: 4,
            kind: EntryKind::Normal,
            data: Bytes::new(),
            ..removal
        };
        let write = Write {
            entries: vec![removal, empty],
            ..Write::default()
        };
        data.log.append(&write).unwrap();
        data.log.sync().unwrap();
        (disk, config)
    }

    fn used(disk: &SimVfs, config: &Config) -> DataDir {
        match open(disk, config) {
            Found::Used(data) => *data,
            Found::Empty(_) => panic!("the disk is a member's"),
        }
    }

    #[test]
    fn the_removal_of_the_last_other_member_counts_though_nobody_knew_it_was_committed() {
        let (disk, mut config) = with_removal_at_the_end(|_, other| other);
        config.force_new_cluster = true;
        let data = used(&disk, &config);
        assert_eq!(data.recovered.entries.len(), 4);
        assert_eq!(data.recovered.hard_state.commit, 4);
        drop(data);
        // And the next start needs no flag.
        config.force_new_cluster = false;
        assert_eq!(used(&disk, &config).recovered.hard_state.commit, 4);
    }

    #[test]
    fn its_own_removal_that_nobody_knew_to_be_committed_makes_way() {
        let (disk, mut config) = with_removal_at_the_end(|own, _| own);
        config.force_new_cluster = true;
        let data = used(&disk, &config);
        let own = data.member_id;
        let entries = &data.recovered.entries;
        let changes: Vec<ConfChange> = entries.iter().filter_map(conf_change).collect();
        assert!(changes.iter().all(|change| !removes(change, own)));
        let last = changes.last().unwrap();
        assert_eq!(last.kind, ConfChangeKind::RemoveNode, "of the other");
        assert_eq!(data.recovered.hard_state.commit, 5);
        let indices: Vec<u64> = entries.iter().map(|entry| entry.index).collect();
        assert_eq!(indices, [1, 2, 3, 4, 5]);
        drop(data);
        config.force_new_cluster = false;
        let data = used(&disk, &config);
        assert!(!data.was_removed().unwrap(), "by what its log says");
        let members = data.members().unwrap();
        let ids: Vec<u64> = members.iter().map(|member| member.id).collect();
        assert_eq!(ids, [own]);
    }
}

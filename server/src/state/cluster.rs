//! The members and the cluster version, as applied from the log; one row per member. Rows are JSON
//! in etcd's format, so that an export copies them unchanged.

use std::ops::ControlFlow;

use etcd_api::membershippb;
use serde::{Deserialize, Deserializer, Serialize};
use storage::mvcc::{Bucket, Root, Write};

use crate::basics::error::Error;

const CLUSTER_VERSION: &[u8] = b"clusterVersion";
const DOWNGRADE: &[u8] = b"downgrade";

/// A downgrade lowers the cluster version below the one that the members support.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Downgrade {
    /// `major.minor.0`; empty if no downgrade is enabled.
    #[serde(rename = "target-version")]
    pub target: String,
    pub enabled: bool,
}

/// A member. Name and client URLs are empty until it has started and published them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberInfo {
    pub id: u64,
    #[serde(rename = "peerURLs", default, deserialize_with = "null_as_none")]
    pub peer_urls: Vec<String>,
    #[serde(
        rename = "isLearner",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_learner: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(
        rename = "clientURLs",
        default,
        deserialize_with = "null_as_none",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub client_urls: Vec<String>,
}

/// The context of a change that adds a member or promotes a learner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeContext {
    #[serde(flatten)]
    pub member: MemberInfo,
    #[serde(
        rename = "isPromote",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_promote: bool,
}

impl ChangeContext {
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("members are plain data")
    }

    /// The context of a change that adds, updates or promotes a member. A removal has none.
    pub fn of(change: &raft::ConfChange) -> Result<ChangeContext, Error> {
        if change.kind == raft::ConfChangeKind::RemoveNode {
            return Ok(ChangeContext::default());
        }
        let context: ChangeContext = serde_json::from_slice(&change.context)
            .map_err(|error| Error::Damaged(format!("a change without a member: {error}")))?;
        if context.member.id != change.node {
            let what = format!(
                "a change of member {:x} that carries member {:x}",
                change.node, context.member.id
            );
            return Err(Error::Damaged(what));
        }
        Ok(context)
    }
}

/// Go encodes a nil list as null.
fn null_as_none<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::<Vec<String>>::deserialize(from)?.unwrap_or_default())
}

/// All members, by id.
pub fn members(root: &Root) -> Result<Vec<MemberInfo>, Error> {
    let mut rows = Vec::new();
    root.side_scan(Bucket::Members, b"", &mut |_, value| {
        rows.push(decode(value));
        ControlFlow::Continue(())
    })?;
    let mut rows: Vec<MemberInfo> = rows.into_iter().collect::<Result<_, _>>()?;
    rows.sort_by_key(|member| member.id);
    Ok(rows)
}

/// The cluster version as `major.minor.0`, once the cluster has agreed on one.
pub fn cluster_version(root: &Root) -> Result<Option<String>, Error> {
    let version = root.side_get(Bucket::Cluster, CLUSTER_VERSION)?;
    Ok(version.map(|version| String::from_utf8_lossy(&version).into_owned()))
}

pub(super) fn set_version(write: &mut Write<'_>, version: &str) -> Result<(), Error> {
    write.set(Bucket::Cluster, CLUSTER_VERSION, version.as_bytes())?;
    Ok(())
}

pub fn downgrade(root: &Root) -> Result<Downgrade, Error> {
    let row = root.side_get(Bucket::Cluster, DOWNGRADE)?;
    let row = row.and_then(|row| serde_json::from_slice(&row).ok());
    Ok(row.unwrap_or_default())
}

pub(super) fn set_downgrade(
    write: &mut Write<'_>,
    request: &membershippb::DowngradeInfoSetRequest,
) -> Result<(), Error> {
    let downgrade = if request.enabled {
        Downgrade {
            target: request.ver.clone(),
            enabled: true,
        }
    } else {
        Downgrade::default()
    };
    let row = serde_json::to_vec(&downgrade).expect("it is plain data");
    write.set(Bucket::Cluster, DOWNGRADE, &row)?;
    Ok(())
}

pub(super) fn set_attributes(
    write: &mut Write<'_>,
    request: &membershippb::ClusterMemberAttrSetRequest,
) -> Result<(), Error> {
    let Some(mut member) = find(write, request.member_id)? else {
        return Ok(()); // Removed meanwhile, so its attributes no longer matter.
    };
    let attributes = request.member_attributes.clone().unwrap_or_default();
    member.name = attributes.name;
    member.client_urls = attributes.client_urls;
    store(write, &member)
}

/// Ids of removed members; they are never used again.
pub fn removed(root: &Root) -> Result<Vec<u64>, Error> {
    let mut ids = Vec::new();
    root.side_scan(Bucket::MembersRemoved, b"", &mut |key, _| {
        let id = std::str::from_utf8(key).ok();
        ids.extend(id.and_then(|id| u64::from_str_radix(id, 16).ok()));
        ControlFlow::Continue(())
    })?;
    Ok(ids)
}

/// An error other than `Damaged` refuses the change on every member: the entry stays in the log and
/// has no effect.
pub(super) fn apply_conf_change(
    write: &mut Write<'_>,
    change: &raft::ConfChange,
    max_learners: usize,
) -> Result<(), Error> {
    check(write, change, max_learners)?;
    match change.kind {
        raft::ConfChangeKind::AddNode | raft::ConfChangeKind::AddLearnerNode => {
            let ChangeContext { member, is_promote } = ChangeContext::of(change)?;
            if !is_promote {
                return store(write, &member);
            }
            update(write, change.node, |member| member.is_learner = false)
        }
        raft::ConfChangeKind::UpdateNode => {
            let peer_urls = ChangeContext::of(change)?.member.peer_urls;
            update(write, change.node, |member| member.peer_urls = peer_urls)
        }
        raft::ConfChangeKind::RemoveNode => {
            write.remove(Bucket::Members, row_key(change.node).as_bytes())?;
            write.set(
                Bucket::MembersRemoved,
                row_key(change.node).as_bytes(),
                b"removed",
            )?;
            Ok(())
        }
    }
}

/// etcd's checks in etcd's order: all members must refuse the same changes.
fn check(root: &Root, change: &raft::ConfChange, max_learners: usize) -> Result<(), Error> {
    let id = change.node;
    let was_removed = root.side_get(Bucket::MembersRemoved, row_key(id).as_bytes())?;
    if was_removed.is_some() {
        return Err(Error::MemberNotFound);
    }
    let members = members(root)?;
    let known = members.iter().find(|member| member.id == id);
    let is_taken = |url: &String| {
        let others = members.iter().filter(|member| member.id != id);
        others
            .flat_map(|member| &member.peer_urls)
            .any(|taken| taken == url)
    };
    match change.kind {
        raft::ConfChangeKind::AddNode | raft::ConfChangeKind::AddLearnerNode => {
            let ChangeContext { member, is_promote } = ChangeContext::of(change)?;
            match known {
                None if is_promote => return Err(Error::MemberNotFound),
                Some(known) if is_promote && !known.is_learner => return Err(Error::NotLearner),
                Some(_) if is_promote => return Ok(()),
                Some(_) => return Err(Error::MemberExists),
                None => {}
            }
            if member.peer_urls.iter().any(is_taken) {
                return Err(Error::PeerUrlExists);
            }
            let learners = members.iter().filter(|member| member.is_learner).count();
            let learns = change.kind == raft::ConfChangeKind::AddLearnerNode;
            if member.is_learner && learns && learners >= max_learners {
                return Err(Error::TooManyLearners);
            }
        }
        raft::ConfChangeKind::RemoveNode => {
            if known.is_none() {
                return Err(Error::MemberNotFound);
            }
            // In a cluster without voters, etcd stops for ever.
            let mut stay = members.iter().filter(|member| member.id != id);
            if !stay.any(|member| !member.is_learner) {
                return Err(Error::NotEnoughStarted);
            }
        }
        raft::ConfChangeKind::UpdateNode => {
            if known.is_none() {
                return Err(Error::MemberNotFound);
            }
            let ChangeContext { member, .. } = ChangeContext::of(change)?;
            if member.peer_urls.iter().any(is_taken) {
                return Err(Error::PeerUrlExists);
            }
        }
    }
    Ok(())
}

fn update(
    write: &mut Write<'_>,
    id: u64,
    change: impl FnOnce(&mut MemberInfo),
) -> Result<(), Error> {
    let Some(mut member) = find(write, id)? else {
        return Err(Error::MemberNotFound);
    };
    change(&mut member);
    store(write, &member)
}

fn find(root: &Root, id: u64) -> Result<Option<MemberInfo>, Error> {
    let row = root.side_get(Bucket::Members, row_key(id).as_bytes())?;
    row.map(|row| decode(&row)).transpose()
}

fn store(write: &mut Write<'_>, member: &MemberInfo) -> Result<(), Error> {
    let (key, row) = member_row(member);
    write.set(Bucket::Members, key.as_bytes(), &row)?;
    Ok(())
}

/// A member as a row: key and value.
pub fn member_row(member: &MemberInfo) -> (String, Vec<u8>) {
    let row = serde_json::to_vec(member).expect("members are plain data");
    (row_key(member.id), row)
}

fn row_key(id: u64) -> String {
    format!("{id:x}")
}

fn decode(row: &[u8]) -> Result<MemberInfo, Error> {
    serde_json::from_slice(row)
        .map_err(|error| Error::Damaged(format!("a member's row is none: {error}")))
}

#[cfg(test)]
mod tests;

//! Who belongs to the cluster, as far as the log has told: one row per member, and the cluster
//! version. Rows are JSON in etcd's own form, so that an export is a copy.

use std::ops::ControlFlow;

use etcd_api::membershippb;
use serde::{Deserialize, Serialize};
use storage::mvcc::{Bucket, Root, Write};

use crate::error::Error;

const CLUSTER_VERSION: &[u8] = b"clusterVersion";

/// A member. Name and client URLs stay empty until it has started and told them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberInfo {
    pub id: u64,
    #[serde(rename = "peerURLs", default)]
    pub peer_urls: Vec<String>,
    #[serde(
        rename = "isLearner",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub is_learner: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(rename = "clientURLs", default, skip_serializing_if = "Vec::is_empty")]
    pub client_urls: Vec<String>,
}

/// All members, by id.
pub fn members(root: &Root) -> Result<Vec<MemberInfo>, Error> {
    let mut rows = Vec::new();
    root.side_scan(Bucket::Members, b"", &mut |_, value| {
        rows.push(decode(value));
        ControlFlow::Continue(())
    })?;
    rows.sort_by_key(|member| member.id);
    Ok(rows)
}

/// `major.minor.0`, once the cluster has agreed on it.
pub fn cluster_version(root: &Root) -> Result<Option<String>, Error> {
    let version = root.side_get(Bucket::Cluster, CLUSTER_VERSION)?;
    Ok(version.map(|version| String::from_utf8_lossy(&version).into_owned()))
}

pub(super) fn set_version(write: &mut Write<'_>, version: &str) -> Result<(), Error> {
    write.set(Bucket::Cluster, CLUSTER_VERSION, version.as_bytes())?;
    Ok(())
}

pub(super) fn set_attributes(
    write: &mut Write<'_>,
    request: &membershippb::ClusterMemberAttrSetRequest,
) -> Result<(), Error> {
    let Some(mut member) = find(write, request.member_id)? else {
        return Ok(()); // Removed meanwhile: what it says of itself matters no more.
    };
    let attributes = request.member_attributes.clone().unwrap_or_default();
    member.name = attributes.name;
    member.client_urls = attributes.client_urls;
    store(write, &member)
}

pub(super) fn apply_conf_change(
    write: &mut Write<'_>,
    change: &raft::ConfChange,
) -> Result<(), Error> {
    match change.kind {
        raft::ConfChangeKind::AddNode | raft::ConfChangeKind::AddLearnerNode => {
            store(write, &decode(&change.context))
        }
        raft::ConfChangeKind::UpdateNode => {
            let peer_urls = decode(&change.context).peer_urls;
            match find(write, change.node)? {
                Some(member) => store(
                    write,
                    &MemberInfo {
                        peer_urls,
                        ..member
                    },
                ),
                None => Ok(()),
            }
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

fn find(root: &Root, id: u64) -> Result<Option<MemberInfo>, Error> {
    let row = root.side_get(Bucket::Members, row_key(id).as_bytes())?;
    Ok(row.map(|row| decode(&row)))
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

fn decode(row: &[u8]) -> MemberInfo {
    serde_json::from_slice(row).expect("member rows are written by this module")
}

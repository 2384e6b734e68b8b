//! Checks that members hold the same data: the conclusions that etcd's three checks draw from the
//! members' hashes, with etcd's log lines. When to check, and how to ask peers, is decided
//! elsewhere.
//!
//! Two hashes are comparable only if they have the same revision and the same compacted revision.
//! Otherwise the check finds nothing.

use std::collections::BTreeMap;
use std::fmt;

use crate::basics::error::Error;
use crate::state::hashes::KvHash;

/// A peer's answer to a request for its hash.
#[derive(Clone, Debug)]
pub(crate) struct PeerHash {
    pub member_id: u64,
    pub urls: Vec<String>,
    pub answer: Result<KvHash, Refusal>,
}

/// Why a peer returned no hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The peer has compacted the revision.
    Compacted,
    /// The peer has not reached the revision yet.
    Future,
    OtherCluster,
    /// The peer could not be reached, or gave another error.
    Failed(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Compacted => Error::Compacted.fmt(f),
            Refusal::Future => Error::FutureRevision.fmt(f),
            Refusal::OtherCluster => f.write_str("etcdserver: cluster ID mismatch"),
            Refusal::Failed(why) => f.write_str(why),
        }
    }
}

/// The result of comparing one compaction's hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// All members have the same hash.
    Same,
    /// Some members could not be compared; try an older revision.
    Incomplete,
    /// The data of these members is corrupt; 0 means the whole cluster.
    Corrupt(Vec<u64>),
}

/// The check before a member starts to serve. An error stops the start.
pub(crate) fn initial(own_id: u64, own: &KvHash, peers: &[PeerHash]) -> Result<(), String> {
    let mut mismatches = 0;
    for peer in peers {
        let warn = |what: &str, peers_view: Option<&KvHash>| {
            tracing::warn!(
                "local-member-id" = hex(own_id),
                "local-member-revision" = own.current_revision,
                "local-member-compact-revision" = own.compact_revision,
                "local-member-hash" = own.hash,
                "remote-peer-id" = hex(peer.member_id),
                "remote-peer-endpoints" = peer.urls.join(","),
                "remote-peer-revision" = peers_view.map(|theirs| theirs.current_revision),
                "remote-peer-compact-revision" = peers_view.map(|theirs| theirs.compact_revision),
                "remote-peer-hash" = peers_view.map(|theirs| theirs.hash),
                "{what}"
            );
        };
        match &peer.answer {
            Ok(theirs) if theirs.hash == own.hash => {}
            Ok(theirs) if theirs.compact_revision == own.compact_revision => {
                warn("found different hash values from remote peer", Some(theirs));
                mismatches += 1;
            }
            Ok(theirs) => warn(
                "found different compact revision values from remote peer",
                Some(theirs),
            ),
            Err(Refusal::Future) => warn("cannot fetch hash from slow remote peer", None),
            Err(Refusal::Compacted) => warn(
                "cannot fetch hash from remote peer; local member is behind",
                None,
            ),
            Err(Refusal::OtherCluster) => warn("cluster ID mismatch", None),
            // Logged where the peer was asked.
            Err(Refusal::Failed(_)) => {}
        }
    }
    match mismatches {
        0 => Ok(()),
        _ => Err(format!("{own_id:x} found data inconsistency with peers")),
    }
}

/// The leader's periodic check. `first` was taken before the peers were asked for their hashes at
/// its revision; `second` was taken after a linearizable read that followed. Returns the first
/// member whose data is corrupt.
pub(crate) fn periodic(
    own_id: u64,
    first: &KvHash,
    second: &KvHash,
    peers: &[PeerHash],
) -> Option<u64> {
    let mut corrupt = None;
    if second.hash != first.hash
        && second.hash_revision == first.hash_revision
        && second.compact_revision == first.compact_revision
    {
        tracing::warn!(
            "revision-1" = first.hash_revision,
            "compact-revision-1" = first.compact_revision,
            "hash-1" = first.hash,
            "revision-2" = second.hash_revision,
            "compact-revision-2" = second.compact_revision,
            "hash-2" = second.hash,
            "found hash mismatch"
        );
        corrupt = Some(own_id);
    }
    let mut checked = 0;
    for peer in peers {
        let Ok(theirs) = &peer.answer else {
            continue;
        };
        checked += 1;
        let id = hex(peer.member_id);
        let before = corrupt;
        if theirs.current_revision > second.current_revision {
            tracing::warn!(
                "leader-revision" = second.current_revision,
                "follower-revision" = theirs.current_revision,
                "follower-peer-id" = id,
                "revision from follower must be less than or equal to leader's"
            );
            corrupt = Some(peer.member_id);
        }
        if theirs.compact_revision > second.compact_revision {
            tracing::warn!(
                "leader-compact-revision" = second.compact_revision,
                "follower-compact-revision" = theirs.compact_revision,
                "follower-peer-id" = id,
                "compact revision from follower must be less than or equal to leader's"
            );
            corrupt = Some(peer.member_id);
        }
        if theirs.compact_revision == first.compact_revision && theirs.hash != first.hash {
            tracing::warn!(
                "leader-compact-revision" = second.compact_revision,
                "leader-hash" = first.hash,
                "follower-compact-revision" = theirs.compact_revision,
                "follower-hash" = theirs.hash,
                "follower-peer-id" = id,
                "same compact revision then hashes must match"
            );
            corrupt = Some(peer.member_id);
        }
        corrupt = before.or(corrupt);
    }
    tracing::info!(
        "number-of-peers-checked" = checked,
        "finished peer corruption check"
    );
    corrupt
}

/// The leader's check of one recent compaction. All members compact at the same revisions, so each
/// has a hash of the same history. The hash of a majority is correct.
pub(crate) fn at_compaction(own_id: u64, own: &KvHash, peers: &[PeerHash]) -> Compared {
    let mut by_hash = BTreeMap::from([(own.hash, vec![own_id])]);
    for peer in peers {
        let reason = match &peer.answer {
            Ok(theirs) if theirs.compact_revision == own.compact_revision => {
                by_hash.entry(theirs.hash).or_default().push(peer.member_id);
                continue;
            }
            Ok(theirs) => format!(
                "the peer's CompactRevision {} doesn't match leader's CompactRevision {}",
                theirs.compact_revision, own.compact_revision
            ),
            Err(_) => "no response".to_owned(),
        };
        tracing::warn!(
            "number-of-peers" = peers.len(),
            "leader-id" = hex(own_id),
            "peer-id" = hex(peer.member_id),
            reason,
            "Skipped peer's hash"
        );
    }
    let checked = by_hash.values().map(Vec::len).sum::<usize>() - 1;
    if by_hash.len() == 1 {
        return all_same(own, checked, peers.len());
    }
    let members = peers.len() + 1;
    let quorum = members / 2 + 1;
    let right = by_hash.iter().find(|(_, members)| members.len() >= quorum);
    let right = right.map(|(hash, _)| *hash);
    if right.is_none() {
        tracing::error!(
            "leader-id" = hex(own_id),
            "leader-revision" = own.hash_revision,
            "leader-compact-revision" = own.compact_revision,
            "leader-hash" = own.hash,
            "Detected compaction hash mismatch but cannot identify the corrupted members, so intentionally set the memberID as 0"
        );
    }
    by_hash.retain(|hash, _| Some(*hash) != right);
    for (hash, members) in &by_hash {
        let ids: Vec<String> = members.iter().map(|id| hex(*id)).collect();
        tracing::error!(
            "leader-id" = hex(own_id),
            "leader-revision" = own.hash_revision,
            "leader-compact-revision" = own.compact_revision,
            "leader-hash" = own.hash,
            "peer-hash" = hash,
            "peer-ids" = ids.join(","),
            "quorum-exist" = right.is_some(),
            "Detected compaction hash mismatch"
        );
    }
    Compared::Corrupt(match right {
        Some(_) => by_hash.into_values().flatten().collect(),
        None => vec![0],
    })
}

fn all_same(own: &KvHash, checked: usize, peers: usize) -> Compared {
    if checked == peers {
        tracing::info!(
            "number-of-peers-checked" = checked,
            revision = own.hash_revision,
            compactRevision = own.compact_revision,
            "successfully checked hash on whole cluster"
        );
        return Compared::Same;
    }
    tracing::warn!(
        "number-of-peers-checked" = checked,
        "number-of-peers" = peers,
        revision = own.hash_revision,
        compactRevision = own.compact_revision,
        "skipped revision in compaction hash check; was not able to check all peers"
    );
    Compared::Incomplete
}

fn hex(id: u64) -> String {
    format!("{id:x}")
}

#[cfg(test)]
mod tests;

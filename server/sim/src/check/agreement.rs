//! Members that have applied the same entries are in the same state: same revision, same rows,
//! same leases, alarms and members.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use raft::Index;
use server::state::hashes::KvHash;
use storage::mvcc::{Bucket, KeyRange, Root, Want};

use super::Verdict;
use crate::digest;

/// Everything that a state has beside its keys.
pub const BUCKETS: [Bucket; 10] = [
    Bucket::Meta,
    Bucket::Lease,
    Bucket::LeaseKeys,
    Bucket::Alarm,
    Bucket::Cluster,
    Bucket::Members,
    Bucket::MembersRemoved,
    Bucket::Auth,
    Bucket::AuthUsers,
    Bucket::AuthRoles,
];

/// A state is digested once in so many indexes; revisions are compared at all of them.
const DIGEST_EVERY: Index = 16;

#[derive(Debug, Default)]
pub struct Agreement {
    /// By applied index: revision and compacted revision.
    revisions: BTreeMap<Index, (i64, i64)>,
    digests: BTreeMap<Index, u64>,
    /// By the compaction's revision: HashKV of the history it is about to cut.
    compactions: BTreeMap<i64, u32>,
    compared: u64,
}

impl Agreement {
    /// What a member shows to readers. `wholly`: whatever the index.
    pub fn shows(&mut self, host: usize, root: &Root, wholly: bool) -> Verdict {
        let index = root.applied().index;
        let is = (root.revision(), root.compacted());
        let known = *self.revisions.entry(index).or_insert(is);
        if known != is {
            return Err(format!(
                "host {host} has applied {index} and shows revision {}, compacted {}; others showed {} and {}",
                is.0, is.1, known.0, known.1
            ));
        }
        if !wholly && !index.is_multiple_of(DIGEST_EVERY) {
            return Ok(());
        }
        let is = state(root).map_err(|error| format!("host {host} cannot be read: {error}"))?;
        let known = *self.digests.entry(index).or_insert(is);
        self.compared += 1;
        if known == is {
            Ok(())
        } else {
            Err(format!(
                "host {host} has another state at {index} than others"
            ))
        }
    }

    /// A compaction is applied.
    pub fn hashes(&mut self, host: usize, hash: &KvHash) -> Verdict {
        let known = *self
            .compactions
            .entry(hash.hash_revision)
            .or_insert(hash.hash);
        self.compared += 1;
        if known == hash.hash {
            Ok(())
        } else {
            Err(format!(
                "host {host} has HashKV {:x} up to {}, others {known:x}",
                hash.hash, hash.hash_revision
            ))
        }
    }

    pub fn compared(&self) -> u64 {
        self.compared
    }
}

/// Everything that members have to agree on.
fn state(root: &Root) -> storage::Result<u64> {
    let mut bytes = Vec::new();
    root.range(KeyRange::ALL, 0, Want::Values, &mut |item| {
        bytes.extend_from_slice(item.key);
        bytes.push(0);
        bytes.extend_from_slice(item.value);
        let numbers = [
            item.create_revision,
            item.mod_revision,
            item.version,
            item.lease,
        ];
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        ControlFlow::Continue(())
    })?;
    for bucket in BUCKETS {
        root.side_scan(bucket, b"", &mut |key, value| {
            bytes.push(bucket as u8);
            bytes.extend_from_slice(key);
            bytes.push(0);
            bytes.extend_from_slice(value);
            ControlFlow::Continue(())
        })?;
    }
    Ok(digest::of(&bytes))
}

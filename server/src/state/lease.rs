//! The replicated part of leases: which exist, their granted TTL, and the attached keys. The lessor
//! decides when they expire.

use std::ops::ControlFlow;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use storage::mvcc::{Bucket, Root, Write};

use crate::basics::error::Error;

/// Nine billion seconds: etcd's limit.
const MAX_TTL: i64 = 9_000_000_000;

/// A stored lease. Row: id (8 bytes, big endian) → granted TTL, remaining TTL (8 bytes each).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseRow {
    pub id: i64,
    /// Seconds.
    pub granted_ttl: i64,
    /// Seconds left at the last checkpoint; 0 if there was none.
    pub remaining_ttl: i64,
}

/// All leases, by id.
pub fn leases(root: &Root) -> Result<Vec<LeaseRow>, Error> {
    let (mut rows, mut damage) = (Vec::new(), None);
    root.side_scan(Bucket::Lease, b"", &mut |key, value| {
        match decode(key, value) {
            Ok(row) => rows.push(row),
            Err(error) => {
                damage = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    damage.map_or(Ok(rows), Err)
}

/// The keys attached to a lease, in key order.
pub fn lease_keys(root: &Root, id: i64) -> Result<Vec<Bytes>, Error> {
    let prefix = id.to_be_bytes();
    let mut keys = Vec::new();
    root.side_scan(Bucket::LeaseKeys, &prefix, &mut |key, _| {
        keys.push(Bytes::copy_from_slice(&key[prefix.len()..]));
        ControlFlow::Continue(())
    })?;
    Ok(keys)
}

/// The first key not less than `from` that is attached to a lease. Whoever must know only whether
/// there are any asks this: a lease may have a million keys.
pub fn first_lease_key(root: &Root, id: i64, from: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    Ok(root.first_attached(id, from)?)
}

pub(super) fn exists(root: &Root, id: i64) -> Result<bool, Error> {
    Ok(root.side_get(Bucket::Lease, &id.to_be_bytes())?.is_some())
}

pub(super) fn grant(
    write: &mut Write<'_>,
    request: &pb::LeaseGrantRequest,
    min_ttl: i64,
) -> Result<LeaseRow, Error> {
    if request.id == 0 {
        return Err(Error::LeaseNotFound);
    }
    if request.ttl > MAX_TTL {
        return Err(Error::LeaseTtlTooLarge);
    }
    if exists(write, request.id)? {
        return Err(Error::LeaseExists);
    }
    // An earlier lease with this id may have ended a moment ago.
    write.end_deletions_of(request.id)?;
    let row = LeaseRow {
        id: request.id,
        granted_ttl: request.ttl.max(min_ttl),
        remaining_ttl: 0,
    };
    store(write, &row)?;
    Ok(row)
}

/// Deletes the attached keys, in key order and under one revision, and the lease. Returns the
/// number of keys deleted.
pub(super) fn revoke(write: &mut Write<'_>, id: i64) -> Result<u64, Error> {
    if !exists(write, id)? {
        return Err(Error::LeaseNotFound);
    }
    let deleted = write.delete_attached(id)?;
    write.remove(Bucket::Lease, &id.to_be_bytes())?;
    Ok(deleted)
}

/// Stores the remaining TTLs, so that a restart does not renew leases in full.
pub(super) fn checkpoint(
    write: &mut Write<'_>,
    request: &pb::LeaseCheckpointRequest,
) -> Result<(), Error> {
    for checkpoint in &request.checkpoints {
        let key = checkpoint.id.to_be_bytes();
        if let Some(value) = write.side_get(Bucket::Lease, &key)? {
            let mut row = decode(&key, &value)?;
            row.remaining_ttl = checkpoint.remaining_ttl;
            store(write, &row)?;
        }
    }
    Ok(())
}

fn store(write: &mut Write<'_>, row: &LeaseRow) -> Result<(), Error> {
    let (key, value) = lease_row(row);
    write.set(Bucket::Lease, &key, &value)?;
    Ok(())
}

/// A lease as a row: key and value.
pub fn lease_row(row: &LeaseRow) -> ([u8; 8], [u8; 16]) {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&row.granted_ttl.to_be_bytes());
    value[8..].copy_from_slice(&row.remaining_ttl.to_be_bytes());
    (row.id.to_be_bytes(), value)
}

fn decode(key: &[u8], value: &[u8]) -> Result<LeaseRow, Error> {
    let number = |bytes: &[u8]| bytes.try_into().ok().map(i64::from_be_bytes);
    let row = || {
        let (granted, remaining) = value.split_at_checked(8)?;
        Some(LeaseRow {
            id: number(key)?,
            granted_ttl: number(granted)?,
            remaining_ttl: number(remaining)?,
        })
    };
    row().ok_or_else(|| Error::Damaged("a lease's row is none".to_owned()))
}

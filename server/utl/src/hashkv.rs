//! `hashkv`: the digest of a database file's history, as a server on that file would return it.
//! Only reads the file.

use std::collections::HashMap;

use etcd_files::bbolt::read::{Bucket, Database, Source};
use etcd_files::hashkv::HashKv;
use etcd_files::schema::{self, RevisionKey, Row};

use crate::print::Report;
use crate::status::Fault;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest {
    hash: u32,
    hash_revision: i64,
    /// -1 if never compacted.
    compact_revision: i64,
}

/// The newest row of each key.
type Newest = HashMap<Vec<u8>, RevisionKey>;

/// The digest at `revision`; 0 is the newest.
pub(crate) fn hash_kv<S: Source>(database: &Database<S>, revision: i64) -> Result<Digest, Fault> {
    let compacted = compacted(database)?;
    let mut hash = HashKv::new();
    let mut newest_revision = compacted.max(1);
    let Some(bucket) = database.bucket(schema::KEY.as_bytes())? else {
        return Err(Fault("the file has no bucket of keys".into()));
    };
    rows(database, &bucket, &mut |at, _| {
        newest_revision = newest_revision.max(at.main)
    })?;
    let revision = if revision == 0 {
        newest_revision
    } else {
        revision
    };
    if revision < compacted {
        return Err(Fault("mvcc: required revision has been compacted".into()));
    }
    if revision > newest_revision {
        return Err(Fault("mvcc: required revision is a future revision".into()));
    }
    let mut newest = newest_rows(database, &bucket, revision)?;
    if newest.values().all(|row| row.tombstone) {
        // Exactly etcd's rule: an empty set of kept rows switches the filter off.
        newest = newest_rows(database, &bucket, compacted)?;
    }
    rows(database, &bucket, &mut |at, row| {
        let superseded = || at.tombstone || newest.get(row.key) != Some(&at);
        if at.main > revision || (at.main <= compacted && superseded()) {
            return;
        }
        if at.tombstone {
            hash.tombstone(at.main, at.sub, row.key)
        } else {
            hash.put(at.main, at.sub, &row)
        }
    })?;
    Ok(Digest {
        hash: hash.finish(),
        hash_revision: revision,
        compact_revision: compacted,
    })
}

fn newest_rows<S: Source>(
    database: &Database<S>,
    bucket: &Bucket,
    through: i64,
) -> Result<Newest, Fault> {
    let mut newest = Newest::new();
    rows(database, bucket, &mut |at, row| {
        if at.main > through {
            return;
        }
        match newest.get_mut(row.key) {
            Some(place) => *place = at,
            None => drop(newest.insert(row.key.to_vec(), at)),
        }
    })?;
    Ok(newest)
}

fn rows<S: Source>(
    database: &Database<S>,
    bucket: &Bucket,
    f: &mut dyn FnMut(RevisionKey, Row<'_>),
) -> Result<(), Fault> {
    database.rows(bucket, &mut |key, value| {
        let bad = || Fault(format!("cannot parse revision key: {}", key.escape_ascii()));
        f(
            RevisionKey::decode(key).ok_or_else(bad)?,
            Row::decode(value).ok_or_else(bad)?,
        );
        Ok(())
    })
}

/// The compacted revision. A scheduled compaction counts, finished or not.
fn compacted<S: Source>(database: &Database<S>) -> Result<i64, Fault> {
    let Some(meta) = database.bucket(schema::META.as_bytes())? else {
        return Ok(-1);
    };
    let mut compacted = -1;
    for name in [
        schema::FINISHED_COMPACT_REVISION,
        schema::SCHEDULED_COMPACT_REVISION,
    ] {
        if let Some(revision) = database
            .get(&meta, name)?
            .as_deref()
            .and_then(RevisionKey::decode)
        {
            compacted = compacted.max(revision.main);
        }
    }
    Ok(compacted)
}

impl Report for Digest {
    fn table(&self) -> Vec<(&'static str, String)> {
        vec![
            ("hash", self.hash.to_string()),
            ("hash revision", self.hash_revision.to_string()),
            ("compact revision", self.compact_revision.to_string()),
        ]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("Hash", self.hash.to_string()),
            ("Hash revision", self.hash_revision.to_string()),
            ("Compact revision", self.compact_revision.to_string()),
        ]
    }

    fn json(&self) -> String {
        format!(
            "{{\"hash\":{},\"hashRevision\":{},\"compactRevision\":{}}}",
            self.hash, self.hash_revision, self.compact_revision
        )
    }
}

//! Loads etcd's database file into a store: every row with its revision, leases, alarms, users, and
//! the membership or a replacement for it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use etcd_files::bbolt::read::{self, Database, Source};
use etcd_files::schema::{self, Alarm, Lease, RevisionKey, Row};
use storage::encryption::Scratch;
use storage::mvcc::{Applied, Bucket, Change, Incoming, Item, Loader, Position, Revision};
use storage::vfs::{File, Vfs};

use super::side_bucket;
use crate::state::{self, MemberInfo};

/// Why a database was refused.
#[derive(Debug)]
pub enum LoadError {
    Read(read::Error),
    Storage(storage::Error),
    /// A row that etcd would not write.
    Row {
        bucket: &'static str,
        what: String,
    },
}

impl From<read::Error> for LoadError {
    fn from(error: read::Error) -> LoadError {
        LoadError::Read(error)
    }
}

impl From<storage::Error> for LoadError {
    fn from(error: storage::Error) -> LoadError {
        LoadError::Storage(error)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Read(error) => error.fmt(f),
            LoadError::Storage(error) => error.fmt(f),
            LoadError::Row { bucket, what } => write!(f, "bucket {bucket}: {what}"),
        }
    }
}

impl std::error::Error for LoadError {}

/// A database in a file of the store's file system.
#[derive(Debug)]
pub(crate) struct FileSource(pub Arc<dyn File>);

impl Source for FileSource {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.0.read_at(buf, offset)
    }
}

/// A received database in a scratch file.
#[derive(Debug)]
pub(crate) struct ScratchSource(pub Scratch);

impl Source for ScratchSource {
    fn len(&self) -> std::io::Result<u64> {
        Ok(self.0.len())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.0.read_at(buf, offset)
    }
}

/// Changes to make while loading.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Members that replace those in the file, including the removed ones.
    pub members: Option<Vec<MemberInfo>>,
    /// The log position to continue from, instead of the one in the file.
    pub applied: Option<Applied>,
    /// Raises the newest revision by this number, and compacts everything up to it.
    pub bump_revision: i64,
    /// Options of the new store.
    pub options: storage::mvcc::Options,
}

/// Fills a new store in `dir`, beside an existing one.
pub(crate) fn load<S: Source>(
    vfs: Arc<dyn Vfs>,
    dir: &Path,
    database: &Database<S>,
    plan: &Plan,
) -> Result<Incoming, LoadError> {
    let mut loader = Loader::create(vfs, dir, plan.options.clone())?;
    let mut position = At::default();
    for bucket in database.buckets()? {
        let Some(name) = schema::BUCKETS
            .into_iter()
            .find(|n| n.as_bytes() == bucket.name)
        else {
            continue; // etcd ignores unknown buckets too.
        };
        let kept =
            plan.members.is_none() || ![schema::MEMBERS, schema::MEMBERS_REMOVED].contains(&name);
        if !kept {
            continue;
        }
        database.rows(&bucket, &mut |key, value| {
            take_row(&mut loader, &mut position, name, key, value)
        })?;
    }
    for member in plan.members.iter().flatten() {
        let (key, row) = state::member_row(member);
        loader.set(Bucket::Members, key.as_bytes(), &row)?;
    }
    Ok(loader.finish(position.settle(plan)?)?)
}

/// The contents of the bucket `meta`, and the newest revision seen.
#[derive(Debug, Default)]
struct At {
    newest: i64,
    finished: Option<i64>,
    scheduled: Option<i64>,
    applied: Applied,
}

impl At {
    /// etcd's rules at opening: the newest revision is the highest one mentioned anywhere, and a
    /// scheduled compaction takes effect.
    fn settle(&self, plan: &Plan) -> Result<Position, LoadError> {
        let finished = self.finished.unwrap_or(-1);
        let compacted = finished.max(self.scheduled.unwrap_or(-1));
        let newest = self.newest.max(compacted).max(1);
        let applied = plan.applied.unwrap_or(self.applied);
        if plan.bump_revision == 0 {
            return Ok(Position {
                revision: newest,
                compacted,
                removed_through: finished,
                applied,
            });
        }
        let bumped = newest.checked_add(plan.bump_revision);
        let revision = bumped.ok_or_else(|| refused(schema::KEY, "the revision is too large"))?;
        Ok(Position {
            revision,
            compacted: revision,
            removed_through: finished,
            applied,
        })
    }
}

fn take_row(
    loader: &mut Loader,
    at: &mut At,
    bucket: &'static str,
    key: &[u8],
    value: &[u8],
) -> Result<(), LoadError> {
    let bad = |what: &str| refused(bucket, format!("{what} (key {})", key.escape_ascii()));
    match bucket {
        schema::KEY => {
            let revision = RevisionKey::decode(key).ok_or_else(|| bad("not a revision"))?;
            let row = Row::decode(value).ok_or_else(|| bad("its value is no record"))?;
            at.newest = at.newest.max(revision.main);
            take_change(loader, &revision, &row)?;
        }
        schema::LEASE => {
            let lease = Lease::decode(value).ok_or_else(|| bad("its value is no lease"))?;
            let row = state::LeaseRow {
                id: lease.id,
                granted_ttl: lease.ttl,
                remaining_ttl: lease.remaining_ttl,
            };
            let (key, value) = state::lease_row(&row);
            loader.set(Bucket::Lease, &key, &value)?;
        }
        schema::ALARM => {
            let alarm = Alarm::decode(key).ok_or_else(|| bad("not an alarm"))?;
            let key = state::alarm_key(alarm.member, alarm.kind);
            loader.set(Bucket::Alarm, &key, b"")?;
        }
        schema::META => take_meta(at, key, value).ok_or_else(|| bad("its value is damaged"))?,
        schema::MEMBERS => {
            // Checked here, because later code relies on readable rows.
            serde_json::from_slice::<MemberInfo>(value).map_err(|error| bad(&error.to_string()))?;
            loader.set(Bucket::Members, key, value)?;
        }
        // A store without this row has this revision, so all stores that never had users are equal.
        schema::AUTH if state::is_default_revision(key, value) => {}
        name => {
            if let Some(bucket) = side_bucket(name) {
                loader.set(bucket, key, value)?;
            }
        }
    }
    Ok(())
}

fn take_change(
    loader: &mut Loader,
    revision: &RevisionKey,
    row: &Row<'_>,
) -> Result<(), LoadError> {
    if row.key.is_empty() {
        return Ok(()); // etcdutl raises the revision by a row without a key.
    }
    let at = Revision {
        main: revision.main,
        sub: revision.sub,
    };
    let item = Item {
        key: row.key,
        value: row.value,
        create_revision: row.create_revision,
        mod_revision: row.mod_revision,
        version: row.version,
        lease: row.lease,
    };
    let change = match revision.tombstone {
        true => Change::Delete {
            revision: at,
            key: row.key,
        },
        false if row.mod_revision != revision.main => {
            let what = format!(
                "revision {} calls itself {}",
                revision.main, row.mod_revision
            );
            return Err(refused(schema::KEY, what));
        }
        false => Change::Put { revision: at, item },
    };
    Ok(loader.push(change)?)
}

fn take_meta(at: &mut At, key: &[u8], value: &[u8]) -> Option<()> {
    let number = || Some(u64::from_be_bytes(value.try_into().ok()?));
    let revision = || Some(RevisionKey::decode(value)?.main);
    match key {
        schema::CONSISTENT_INDEX => at.applied.index = number()?,
        schema::TERM => at.applied.term = number()?,
        schema::FINISHED_COMPACT_REVISION => at.finished = Some(revision()?),
        schema::SCHEDULED_COMPACT_REVISION => at.scheduled = Some(revision()?),
        _ => {}
    }
    Some(())
}

fn refused(bucket: &'static str, what: impl Into<String>) -> LoadError {
    let what = what.into();
    LoadError::Row { bucket, what }
}

//! Converts a state of the store to etcd's database file and back. The Snapshot call sends this
//! file, etcd members send it to each other, and `stele utl` restores it.
//!
//! Writing: [`Snapshot::of`] a view computes sizes, from the trees of keys alone if values are
//! large; [`Snapshot::write`] streams. Memory is bounded, the view does not change, and no other
//! work waits. Reading: [`load`] fills a new store beside the current one.
//!
//! Stele members send each other [`rows`] instead. For both forms [`describe()`] makes Raft's
//! description of the state, and a [`Receiver`] receives another member's state.

mod describe;
pub(crate) mod load;
mod receive;
pub mod rows;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Write};
use std::ops::ControlFlow;

use etcd_files::bbolt::write::{Content, Layout, LengthSink, RowSink};
use etcd_files::schema::{self, Alarm, Lease, REVISION_KEY_BYTES, RevisionKey, Row};
use parking_lot::Mutex;
use storage::mvcc::{Bucket, Change, Revision, Root, View};
use tonic::Code;

use crate::basics::error::Error;
use crate::state;

pub use describe::describe;
pub use receive::{Form, ReceiveError, Received, Receiver, Receiving};

/// Held while lengths are put in order, which takes 64 MiB: for one snapshot at a time.
static MEASURING: Mutex<()> = Mutex::new(());

/// Why a snapshot could not be written completely.
#[derive(Debug)]
pub enum WriteError {
    /// The store could not be read, or does not contain what was measured.
    Data(Error),
    /// The receiver of the bytes is gone.
    Sink(io::Error),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> WriteError {
        match error.kind() {
            // No sink has such an error: it is about the content.
            io::ErrorKind::InvalidData => {
                WriteError::Data(Error::Other(Code::Unknown, error.to_string()))
            }
            _ => WriteError::Sink(error),
        }
    }
}

impl From<storage::Error> for WriteError {
    fn from(error: storage::Error) -> WriteError {
        WriteError::Data(error.into())
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Data(error) => error.fmt(f),
            WriteError::Sink(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WriteError {}

/// A view ready to be written as a database file.
#[derive(Debug)]
pub struct Snapshot {
    content: ViewContent,
    layout: Layout,
}

impl Snapshot {
    /// Computes the length of the file. Reads everything once for that, unless the trees of keys
    /// are a small part of it.
    pub fn of(view: View) -> Result<Snapshot, WriteError> {
        Snapshot::of_while(view, &|| true)
    }

    /// The same for a reader that may go: once `is_wanted` returns false, the rest is not read.
    pub fn of_while(view: View, is_wanted: &dyn Fn() -> bool) -> Result<Snapshot, WriteError> {
        let version = storage_version(&view).map_err(WriteError::Data)?;
        let meta = meta_rows(&view, &version).map_err(WriteError::Data)?;
        let content = ViewContent {
            view,
            meta,
            version,
        };
        let layout = Layout::of(&Wanted {
            content: &content,
            is_wanted,
        })?;
        Ok(Snapshot { content, layout })
    }

    pub fn file_bytes(&self) -> u64 {
        self.layout.file_bytes()
    }

    /// etcd's storage version of the file, such as `3.7.0`; empty if the cluster has not agreed on
    /// one.
    pub fn version(&self) -> &str {
        &self.content.version
    }

    /// The newest log entry in the snapshot.
    pub fn applied(&self) -> storage::mvcc::Applied {
        self.content.view.applied()
    }

    /// Writes exactly `file_bytes` bytes in small pieces, so `out` should be buffered.
    pub fn write(&self, out: &mut dyn Write) -> Result<(), WriteError> {
        self.layout.write(&self.content, out)
    }
}

type MetaRows = Vec<(&'static [u8], Vec<u8>)>;
/// Called with each row of a side table.
type EachRow<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), WriteError> + 'a;

#[derive(Debug)]
struct ViewContent {
    view: View,
    /// The rows of the bucket `meta`, in key order.
    meta: MetaRows,
    version: String,
}

impl Content for ViewContent {
    type Error = WriteError;

    fn buckets(&self) -> &[&'static str] {
        &schema::BUCKETS
    }

    fn rows(&self, bucket: &str, row: &mut RowSink<'_, WriteError>) -> Result<(), WriteError> {
        match bucket {
            schema::KEY => self.history(row),
            schema::META => self
                .meta
                .iter()
                .try_for_each(|(key, value)| row(key, &[value])),
            schema::LEASE => {
                for lease in state::leases(&self.view).map_err(WriteError::Data)? {
                    let value = Lease {
                        id: lease.id,
                        ttl: lease.granted_ttl,
                        remaining_ttl: lease.remaining_ttl,
                    };
                    row(&lease.id.to_be_bytes(), &[&value.encode()])?;
                }
                Ok(())
            }
            schema::ALARM => {
                let alarms = state::alarms(&self.view).map_err(WriteError::Data)?;
                let mut keys: Vec<Vec<u8>> = alarms
                    .iter()
                    .map(|alarm| Alarm {
                        member: alarm.member_id,
                        kind: alarm.alarm,
                    })
                    .map(|alarm| alarm.encode())
                    .collect();
                keys.sort();
                keys.iter().try_for_each(|key| row(key, &[]))
            }
            schema::AUTH => {
                scan(&self.view, Bucket::Auth, &mut |key, value| {
                    row(key, &[value])
                })?;
                // Its key sorts after the only other key of the bucket.
                match state::default_revision_row(&self.view).map_err(WriteError::Data)? {
                    Some((key, value)) => row(key, &[&value]),
                    None => Ok(()),
                }
            }
            name => {
                let bucket = side_bucket(name);
                let bucket = bucket.expect("every other bucket of etcd is one of the store's");
                scan(&self.view, bucket, &mut |key, value| row(key, &[value]))
            }
        }
    }

    fn lengths(
        &self,
        bucket: &str,
        row: &mut LengthSink<'_, WriteError>,
    ) -> Result<bool, WriteError> {
        match bucket {
            schema::KEY => self.history_lengths(row),
            _ => Ok(false),
        }
    }
}

/// Content that is read for as long as somebody wants it.
struct Wanted<'a> {
    content: &'a ViewContent,
    is_wanted: &'a dyn Fn() -> bool,
}

impl Wanted<'_> {
    fn check(&self) -> Result<(), WriteError> {
        if (self.is_wanted)() {
            Ok(())
        } else {
            Err(WriteError::Sink(io::Error::other("the reader has gone")))
        }
    }
}

impl Content for Wanted<'_> {
    type Error = WriteError;

    fn buckets(&self) -> &[&'static str] {
        self.content.buckets()
    }

    fn rows(&self, bucket: &str, row: &mut RowSink<'_, WriteError>) -> Result<(), WriteError> {
        self.content.rows(bucket, &mut |key, value| {
            self.check()?;
            row(key, value)
        })
    }

    fn lengths(
        &self,
        bucket: &str,
        row: &mut LengthSink<'_, WriteError>,
    ) -> Result<bool, WriteError> {
        self.check()?;
        self.content.lengths(bucket, &mut |key, value| {
            self.check()?;
            row(key, value)
        })
    }
}

impl ViewContent {
    fn history_lengths(&self, row: &mut LengthSink<'_, WriteError>) -> Result<bool, WriteError> {
        let _measuring = MEASURING.lock();
        let mut stopped = None;
        let measure = |change: &Change<'_>, value| Lengths::of(change, value).pack();
        let are_known = self.view.measure_changes(&measure, &mut |packed| {
            let lengths = Lengths::unpack(packed);
            match row(lengths.key(), lengths.value) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    stopped = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        stopped.map_or(Ok(are_known), Err)
    }

    fn history(&self, row: &mut RowSink<'_, WriteError>) -> Result<(), WriteError> {
        let (mut key, mut head, mut tail) = (Vec::new(), Vec::new(), Vec::new());
        let mut stopped = None;
        self.view.changes(0, i64::MAX, &mut |change| {
            let (revision, tombstone, record) = record_of(&change);
            for buffer in [&mut key, &mut head, &mut tail] {
                buffer.clear();
            }
            let revision = RevisionKey {
                main: revision.main,
                sub: revision.sub,
                tombstone,
            };
            revision.encode(&mut key);
            record.encode_head(&mut head);
            record.encode_tail(&mut tail);
            Ok(match row(&key, &[&head, record.value, &tail]) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    stopped = Some(error);
                    ControlFlow::Break(())
                }
            })
        })?;
        stopped.map_or(Ok(()), Err)
    }
}

/// The lengths of a row of history in the file.
struct Lengths {
    is_tombstone: bool,
    value: usize,
}

impl Lengths {
    /// Of a change whose value, which it lacks, has so many bytes.
    fn of(change: &Change<'_>, value: u64) -> Lengths {
        let (_, is_tombstone, record) = record_of(change);
        let value = record.encoded_bytes(value as usize);
        Lengths {
            is_tombstone,
            value,
        }
    }

    /// In a number: no request is so large that its value would not fit.
    fn pack(&self) -> u32 {
        let packed = self.value << 1 | usize::from(self.is_tombstone);
        u32::try_from(packed).unwrap_or(u32::MAX)
    }

    fn unpack(packed: u32) -> Lengths {
        Lengths {
            is_tombstone: packed & 1 == 1,
            value: (packed >> 1) as usize,
        }
    }

    fn key(&self) -> usize {
        REVISION_KEY_BYTES + usize::from(self.is_tombstone)
    }
}

/// A change as in etcd's files: its revision, whether it is a tombstone, and its row.
fn record_of<'a>(change: &Change<'a>) -> (Revision, bool, Row<'a>) {
    match *change {
        Change::Put { revision, item } => (revision, false, row_of(&item)),
        Change::Delete { revision, key } => {
            let record = Row {
                key,
                ..Row::default()
            };
            (revision, true, record)
        }
    }
}

/// A row as in etcd's files.
pub(crate) fn row_of<'a>(item: &storage::mvcc::Item<'a>) -> Row<'a> {
    Row {
        key: item.key,
        value: item.value,
        create_revision: item.create_revision,
        mod_revision: item.mod_revision,
        version: item.version,
        lease: item.lease,
    }
}

/// The side tables whose rows are byte for byte those of etcd.
fn side_bucket(name: &str) -> Option<Bucket> {
    Some(match name {
        schema::AUTH => Bucket::Auth,
        schema::AUTH_ROLES => Bucket::AuthRoles,
        schema::AUTH_USERS => Bucket::AuthUsers,
        schema::CLUSTER => Bucket::Cluster,
        schema::MEMBERS => Bucket::Members,
        schema::MEMBERS_REMOVED => Bucket::MembersRemoved,
        _ => return None,
    })
}

fn scan(root: &Root, bucket: Bucket, f: &mut EachRow<'_>) -> Result<(), WriteError> {
    let mut stopped = None;
    root.side_scan(bucket, b"", &mut |key, value| match f(key, value) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            stopped = Some(error);
            ControlFlow::Break(())
        }
    })?;
    stopped.map_or(Ok(()), Err)
}

/// Before 3.6, etcd stored no version in its files.
fn storage_version(view: &Root) -> Result<String, Error> {
    let version = state::cluster_version(view)?.unwrap_or_default();
    Ok(if version.starts_with("3.5") {
        String::new()
    } else {
        version
    })
}

fn meta_rows(view: &Root, version: &str) -> Result<MetaRows, Error> {
    let members = state::members(view)?;
    let ids = |learners| -> Vec<u64> {
        let of_kind = members.iter().filter(|m| m.is_learner == learners);
        of_kind.map(|member| member.id).collect()
    };
    let applied = view.applied();
    let conf_state = schema::conf_state(&ids(false), &ids(true));
    let mut rows = vec![
        (schema::CONF_STATE, conf_state.into_bytes()),
        (
            schema::CONSISTENT_INDEX,
            applied.index.to_be_bytes().to_vec(),
        ),
    ];
    if view.compacted() >= 0 {
        // Rows that the compaction has not removed yet are omitted, so in the file it is finished.
        let mut revision = Vec::new();
        RevisionKey::of_compaction(view.compacted()).encode(&mut revision);
        rows.push((schema::FINISHED_COMPACT_REVISION, revision.clone()));
        rows.push((schema::SCHEDULED_COMPACT_REVISION, revision));
    }
    if !version.is_empty() {
        rows.push((schema::STORAGE_VERSION, version.as_bytes().to_vec()));
    }
    rows.push((schema::TERM, applied.term.to_be_bytes().to_vec()));
    Ok(rows)
}

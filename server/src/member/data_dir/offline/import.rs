//! Imports a data directory of etcd: its database, then the log's entries that are not in the
//! database, applied as this server applies its own. The member keeps its id, its cluster's id and
//! its place in the log.
//!
//! | etcd's files | outcome |
//! |---|---|
//! | the only voter | all entries of the log: an acknowledged one may be above the recorded commit |
//! | one voter of several | refused; with `--force-new-cluster` the committed entries, and it alone |
//! | database behind the last snapshot | the database received with that snapshot is taken |
//! | held by a running etcd | refused |

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use etcd_files::bbolt::read::{self, Database};
use etcd_files::schema;
use etcd_files::wal::{self, Entry, Log};
use raft::durable::LogWriter;
use raft::{ConfChange, HardState, NOBODY, Position};
use storage::mvcc::{Applied, Bucket, Store};
use storage::vfs::{Lock, Vfs};
use utl::Import;

use super::{NewDirectory, named, open, read_keys, refuse_used, text};
use crate::basics::error::Error;
use crate::member::data_dir;
use crate::request::Request;
use crate::state::snapshot::load::{FileSource, Plan, load};
use crate::state::{self, AnswerFor, Effects, MemberInfo, State};

/// Seconds. etcd raises shorter leases to this under its default election timeout.
const MIN_LEASE_TTL: i64 = 2;

/// Bytes of changed pages that start a checkpoint.
const DIRTY_BYTES_MAX: u64 = 48 << 20;

/// Returns the line that reports the result.
pub(super) fn import(vfs: Arc<dyn Vfs>, plan: &Import) -> Result<String, String> {
    refuse_used(&*vfs, &plan.data_dir)?;
    let keys = read_keys(plan.encryption_key_file.as_deref())?;
    let source = Source::open(&*vfs, plan)?;
    let place = NewDirectory::create(Arc::clone(&vfs), (&plan.data_dir, None), keys.as_ref())?;
    let loading = Plan {
        options: place.store_options(),
        ..Plan::default()
    };
    let loaded = load(Arc::clone(&vfs), &place.store(), &source.database, &loading);
    let incoming = loaded.map_err(|error| named(&source.db_path, error))?;
    let store = incoming.install().map_err(text)?;
    let taken_over = store.root().applied().index;

    let mut state = State::new(store, MIN_LEASE_TTL).map_err(text)?;
    let end = source.end(&state, plan.force_new_cluster)?;
    for entry in &source.log.entries {
        if entry.index <= end && entry.index > taken_over {
            apply(&mut state, entry).map_err(|what| format!("entry {}: {what}", entry.index))?;
            write_out(&mut state.store, DIRTY_BYTES_MAX)?;
        }
    }
    keep_only(&mut state, source.log.node_id)?;
    write_out(&mut state.store, 0)?;
    write_log(vfs, &place, &source.log, state.store.root().applied())?;
    let root = state.store.root();
    let told = format!(
        "imported member {:x} of cluster {:x} at revision {}, log index {} ({} entries from the log)",
        source.log.node_id,
        source.log.cluster_id,
        root.revision(),
        root.applied().index,
        root.applied().index.saturating_sub(taken_over),
    );
    drop(state);
    place.finish()?;
    Ok(told)
}

/// etcd's files. The database's rows are not read yet.
struct Source {
    database: Database<FileSource>,
    db_path: PathBuf,
    log: Log,
    /// Keeps etcd from starting on the files during the import.
    _lock: Box<dyn Lock>,
}

impl Source {
    fn open(vfs: &dyn Vfs, plan: &Import) -> Result<Source, String> {
        let member = plan.etcd_data_dir.join("member");
        let snap = member.join("snap");
        let wal_dir = plan.etcd_wal_dir.clone().unwrap_or(member.join("wal"));
        let mut db_path = snap.join("db");
        let mut file = open(vfs, &db_path)?;
        let lock = vfs.lock(&db_path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => format!(
                "{} is in use: stop the etcd that runs on it first",
                db_path.display()
            ),
            _ => named(&db_path, error),
        })?;
        let mut database =
            Database::open(FileSource(file)).map_err(|error| named(&db_path, error))?;
        let index = consistent_index(&database).map_err(|error| named(&db_path, error))?;
        let mut log = read_log(vfs, &wal_dir, index)?;
        let commit = log.commit;
        let snapshots = log.snapshots.iter().rev();
        let newest = snapshots.map(|(index, _)| *index).find(|at| *at <= commit);
        if let Some(newest) = newest.filter(|newest| *newest > index) {
            db_path = snap.join(format!("{newest:016x}.snap.db"));
            file = open(vfs, &db_path)?;
            database = Database::open(FileSource(file)).map_err(|error| named(&db_path, error))?;
            let index = consistent_index(&database).map_err(|error| named(&db_path, error))?;
            log = read_log(vfs, &wal_dir, index)?;
        }
        Ok(Source {
            database,
            db_path,
            log,
            _lock: lock,
        })
    }

    /// Index of the last entry to apply.
    fn end(&self, state: &State, force: bool) -> Result<u64, String> {
        let members = state::members(state.store.root()).map_err(text)?;
        let mut voters: Vec<u64> = members
            .iter()
            .filter(|member| !member.is_learner)
            .map(|member| member.id)
            .collect();
        // Voters added by entries that are not applied yet count as well.
        for entry in &self.log.entries {
            if entry.kind == Entry::CONF_CHANGE
                && let Ok(change) = conf_change(entry)
                && change.kind == raft::ConfChangeKind::AddNode
                && !voters.contains(&change.node)
            {
                voters.push(change.node);
            }
        }
        if voters.iter().all(|voter| *voter == self.log.node_id) {
            return Ok(u64::MAX);
        }
        if force {
            return Ok(self.log.commit);
        }
        Err(format!(
            "this is one of {} voting members: a member of Stele joins their cluster by `etcdctl \
             member add`, or takes this member's data as a cluster of one with --force-new-cluster",
            voters.len()
        ))
    }
}

fn consistent_index(database: &Database<FileSource>) -> Result<u64, read::Error> {
    let Some(meta) = database.bucket(schema::META.as_bytes())? else {
        return Ok(0);
    };
    let value = database.get(&meta, schema::CONSISTENT_INDEX)?;
    let number = value.and_then(|value| Some(u64::from_be_bytes(value.try_into().ok()?)));
    Ok(number.unwrap_or(0))
}

fn read_log(vfs: &dyn Vfs, dir: &Path, index: u64) -> Result<Log, String> {
    let names = vfs.list(dir).map_err(|error| named(dir, error))?;
    let names: Vec<String> = names
        .into_iter()
        .filter(|name| wal::segment_name(name).is_some())
        .collect();
    if names.is_empty() {
        return Err(format!("{} holds no log of etcd", dir.display()));
    }
    let needed = wal::needed(&names, index);
    let mut reader = wal::Reader::new(index);
    for (place, name) in needed.iter().enumerate() {
        let path = dir.join(name);
        let file = open(vfs, &path)?;
        let len = file.len().map_err(|error| named(&path, error))?;
        let mut bytes = vec![0; usize::try_from(len).map_err(text)?];
        file.read_at(&mut bytes, 0)
            .map_err(|error| named(&path, error))?;
        let is_last = place + 1 == needed.len();
        reader
            .segment(name, &bytes, is_last)
            .map_err(|error| named(dir, error))?;
    }
    let log = reader.finish();
    match log.entries.first() {
        Some(first) if first.index != index + 1 => Err(format!(
            "the log goes on with entry {}, the database ends with {index}",
            first.index
        )),
        _ => Ok(log),
    }
}

fn apply(state: &mut State, entry: &Entry) -> Result<(), String> {
    let applied = Applied {
        index: entry.index,
        term: entry.term,
    };
    if entry.kind == Entry::CONF_CHANGE {
        let change = conf_change(entry)?;
        return match state.apply_conf_change(applied, &change) {
            Err(Error::Damaged(what)) => Err(what),
            // Refused, as etcd refused it.
            _ => Ok(()),
        };
    }
    if entry.kind != Entry::NORMAL {
        return Err(format!("a change of membership of kind {}", entry.kind));
    }
    if entry.data.is_empty() {
        state.skip(applied);
        return Ok(());
    }
    let request = Request::decode(&entry.data)?;
    let (by, mut effects) = (Request::auth_info_of(&entry.data), Effects::default());
    match state.apply(applied, &request, &by, AnswerFor::Nobody, &mut effects) {
        Err(Error::Damaged(what)) => Err(what),
        // Refused then and now. The refusal was an answer to a client and changed nothing.
        _ => Ok(()),
    }
}

fn conf_change(entry: &Entry) -> Result<ConfChange, String> {
    let data = Bytes::copy_from_slice(&entry.data);
    let change = raft::wire::decode_conf_change(&data).map_err(|error| format!("{error:?}"))?;
    // Checked before anything else: a refused change must not hide an unreadable context.
    if change.kind != raft::ConfChangeKind::RemoveNode {
        serde_json::from_slice::<MemberInfo>(&change.context).map_err(text)?;
    }
    Ok(change)
}

/// Makes a cluster of one, because the other members are lost for good.
fn keep_only(state: &mut State, id: u64) -> Result<(), String> {
    let members = state::members(state.store.root()).map_err(text)?;
    let Some(own) = members.iter().find(|member| member.id == id) else {
        return Err(format!("{id:x} is not among the members of its cluster"));
    };
    if members.len() == 1 && !own.is_learner {
        return Ok(());
    }
    // Not written as an entry of the log: no other member will ever have it.
    let applied = state.store.root().applied();
    let mut write = state.store.write(Applied {
        index: applied.index + 1,
        ..applied
    });
    for member in &members {
        let voter = MemberInfo {
            is_learner: false,
            ..member.clone()
        };
        let (key, row) = state::member_row(&voter);
        let written = if member.id == id {
            write.set(Bucket::Members, key.as_bytes(), &row)
        } else {
            write
                .remove(Bucket::Members, key.as_bytes())
                .and_then(|()| write.set(Bucket::MembersRemoved, key.as_bytes(), b"removed"))
        };
        written.map_err(text)?;
    }
    Ok(())
}

/// Makes a checkpoint if at least `dirty_bytes` are dirty; always if that is 0.
fn write_out(store: &mut Store, dirty_bytes: u64) -> Result<(), String> {
    if store.stats().dirty_bytes < dirty_bytes {
        return Ok(());
    }
    if let Some(job) = store.begin_checkpoint() {
        let done = job.run().map_err(text)?;
        store.finish_checkpoint(done);
    }
    while !store.release_step(usize::MAX) {}
    store.publish();
    Ok(())
}

/// Writes a log that begins after the entry `applied`.
fn write_log(
    vfs: Arc<dyn Vfs>,
    place: &NewDirectory,
    log: &Log,
    applied: Applied,
) -> Result<(), String> {
    let position = Position {
        term: applied.term,
        index: applied.index,
    };
    let term = log.term.max(applied.term);
    let vote = if term == log.term { log.vote } else { NOBODY };
    let opened = LogWriter::open(vfs, &place.log(), Position::default(), place.log_options());
    let (mut writer, _) = opened.map_err(text)?;
    let metadata = data_dir::encode_metadata(log.node_id, log.cluster_id);
    let first = raft::Write {
        reset: Some(position),
        hard_state: Some(HardState {
            term,
            vote,
            commit: applied.index,
        }),
        ..raft::Write::default()
    };
    writer.begin_anew(&metadata, &first).map_err(text)
}

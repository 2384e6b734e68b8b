//! The data directory: finds out which member it belongs to, and opens everything in it.
//!
//! ```text
//! DIR/member/lock        held while a server runs on it
//! DIR/member/keys        data keys, wrapped, when data is sealed
//! DIR/member/log/        the raft log, the only write-ahead log; or all of --wal-dir
//! DIR/member/store/      the page file
//! ```

mod ahead;
mod force;
mod founding;
pub mod newcomer;
pub mod offline;
pub(crate) mod replay;
mod unusable;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use raft::durable::LogWriter;
use raft::{HardState, Recovered, Write};
use storage::encryption::{DataKeys, KeyFile};
use storage::mvcc::Store;
use storage::vfs::{Lock, Vfs};

use crate::config::keys::KeySource;
use crate::config::{ClusterState, Config};
use crate::member::applier::{BackgroundLimits, KEYS_DELETED_AT_ONCE};
use crate::member::data_dir::replay::{Replayed, Threads};
use crate::state::space_alarm;
use crate::state::{self, MemberInfo, State};
use founding::decode_metadata;
pub(crate) use founding::{FOUNDING_TERM, Founding, encode_metadata, founders, new_member_id};
pub use unusable::Unusable;
use unusable::{
    refuse_downgrade, refuse_etcd, refuse_lost_log, refuse_nameless_log, refuse_second_log,
};

/// An opened data directory of a member, ready to start from.
pub struct DataDir {
    pub vfs: Arc<dyn Vfs>,
    pub store_dir: PathBuf,
    pub state: State,
    /// What the replay of the log added to `state` after the store's checkpoint.
    pub replayed: Replayed,
    pub log: LogWriter,
    pub recovered: Recovered,
    pub member_id: u64,
    pub cluster_id: u64,
    /// The directory belonged to no member.
    pub is_new: bool,
    /// The members as other members reported them, until the log knows better.
    pub remotes: Vec<MemberInfo>,
    /// The bounds under which the log was replayed, and under which the member goes on.
    pub pace: BackgroundLimits,
    /// Held for as long as this value lives.
    pub lock: Box<dyn Lock>,
}

/// What a data directory contains.
pub enum Found {
    Used(Box<DataDir>),
    /// Nothing, or a part of what a power cut kept from being written: the member must bootstrap a
    /// cluster or join one.
    Empty(Box<EmptyDir>),
}

/// A data directory that does not belong to a member yet.
pub struct EmptyDir {
    vfs: Arc<dyn Vfs>,
    store_dir: PathBuf,
    state: State,
    log: LogWriter,
    pace: BackgroundLimits,
    lock: Box<dyn Lock>,
}

impl DataDir {
    /// Opens `config.data_dir` with these keys, on one thread. `options` describe the log's files.
    /// Deletions of more keys than `at_once` are written after the start.
    pub fn find_alone(
        vfs: Arc<dyn Vfs>,
        config: &Config,
        keys: Option<&KeyFile>,
        options: raft::durable::Options,
        at_once: u64,
    ) -> Result<Found, Unusable> {
        DataDir::find_with(vfs, config, keys, options, at_once, Threads::One)
    }

    /// Opens `config.data_dir`. `seed` must differ at every start.
    pub fn find(vfs: Arc<dyn Vfs>, config: &Config, seed: u64) -> Result<Found, Unusable> {
        let keys = config.encryption.as_ref().map(KeySource::read);
        let keys = keys.transpose().map_err(Unusable::Keys)?;
        let options = log_options(&*vfs, config, seed);
        let (keys, at_once) = (keys.as_ref(), KEYS_DELETED_AT_ONCE);
        DataDir::find_with(vfs, config, keys, options, at_once, Threads::Four)
    }

    fn find_with(
        vfs: Arc<dyn Vfs>,
        config: &Config,
        keys: Option<&KeyFile>,
        options: raft::durable::Options,
        at_once: u64,
        threads: Threads,
    ) -> Result<Found, Unusable> {
        let member_dir = config.data_dir.join("member");
        refuse_etcd(&*vfs, &member_dir)?;
        let (log_dir, store_dir) = (config.log_dir(), member_dir.join("store"));
        refuse_second_log(&*vfs, config, &member_dir)?;
        for dir in [&log_dir, &store_dir] {
            vfs.create_dir_all(dir)
                .map_err(storage::Error::io("create", dir))?;
        }
        let lock_path = member_dir.join("lock");
        let lock = vfs.lock(&lock_path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Unusable::Locked(config.data_dir.clone()),
            _ => Unusable::Storage(storage::Error::io("lock", &lock_path)(error)),
        })?;

        let unused = is_unused(&*vfs, &log_dir)? && is_unused(&*vfs, &store_dir)?;
        let data_keys = DataKeys::open(Arc::clone(&vfs), &member_dir.join("keys"), keys, unused)?;
        let options = raft::durable::Options {
            data_keys: data_keys.clone(),
            ..options
        };
        let store_options = storage::mvcc::Options { data_keys };
        let mut store = Store::open(Arc::clone(&vfs), &store_dir, store_options)?;
        if config.memory_mlock {
            store.lock_in_memory()?;
        }
        learn_sizes(&mut store)?;
        store.set_keys_deleted_at_once(at_once);
        let pace = BackgroundLimits::of(config);
        pace.bound(&mut store);
        let mut state = State::new(store, min_lease_ttl(config.election_timeout))?;
        state.max_learners = config.max_learners;
        refuse_lost_log(&*vfs, &log_dir, &state)?;
        let (log, opened, replayed) = replay::open_log(
            Arc::clone(&vfs),
            &log_dir,
            &mut state,
            options,
            threads,
            pace.dirty_bytes_to_checkpoint,
        )?;
        if let Some(voided) = &opened.voided {
            ahead::tell(&log_dir, voided);
        }
        refuse_downgrade(&state)?;
        let empty = EmptyDir {
            vfs,
            store_dir,
            state,
            log,
            pace,
            lock,
        };
        let Some(metadata) = opened.metadata else {
            refuse_nameless_log(&log_dir, &empty.state)?;
            return Ok(Found::Empty(Box::new(empty)));
        };
        let (member_id, cluster_id) =
            decode_metadata(&metadata).ok_or(Unusable::Foreign(log_dir))?;
        let mut data = DataDir {
            recovered: opened.recovered,
            replayed,
            is_new: false,
            ..empty.belonging_to(member_id, cluster_id)
        };
        if config.force_new_cluster {
            force::keep_only(&mut data)?;
        }
        Ok(Found::Used(Box::new(data)))
    }

    /// True if this member has applied its own removal from the cluster.
    pub fn was_removed(&self) -> Result<bool, Unusable> {
        Ok(state::removed(self.state.store.root())?.contains(&self.member_id))
    }

    /// The ids of the voters and of the learners among [`Self::members`].
    pub fn voters_and_learners(&self) -> Result<(Vec<u64>, Vec<u64>), Unusable> {
        let members = self.members()?;
        let ids = |learners| {
            let of_kind = members.iter().filter(|m| m.is_learner == learners);
            of_kind.map(|member| member.id).collect()
        };
        Ok((ids(false), ids(true)))
    }

    /// All members, as of the newest applied entry. Before the first checkpoint the store knows no
    /// members; then the log's first entries name them.
    pub fn members(&self) -> Result<Vec<MemberInfo>, Unusable> {
        let mut members = state::members(self.state.store.root())?;
        if self.state.store.root().applied().index == 0 {
            let changes = self.recovered.entries.iter().take_while(|entry| {
                entry.kind == raft::EntryKind::ConfChange && entry.term == FOUNDING_TERM
            });
            let changes =
                changes.filter_map(|entry| raft::wire::decode_conf_change(&entry.data).ok());
            members
                .extend(changes.filter_map(|change| serde_json::from_slice(&change.context).ok()));
        }
        Ok(members)
    }
}

impl EmptyDir {
    /// Writes the first entries of a new cluster.
    pub fn found(mut self, config: &Config) -> Result<DataDir, Unusable> {
        if let Some(error) = &config.founding_error {
            return Err(Unusable::Start(error.clone()));
        }
        let founding = Founding::of(config);
        let recovered = founding.write(&mut self.log)?;
        Ok(DataDir {
            recovered,
            ..self.belonging_to(founding.member_id, founding.cluster_id)
        })
    }

    /// Joins a running cluster that has added this member. The log stays empty: its entries come
    /// from the others. `members` are all members as the others report them.
    pub fn join(
        mut self,
        member_id: u64,
        cluster_id: u64,
        members: Vec<MemberInfo>,
    ) -> Result<DataDir, Unusable> {
        let metadata = encode_metadata(member_id, cluster_id);
        let first = Write {
            hard_state: Some(HardState::default()),
            ..Write::default()
        };
        self.log.begin_anew(&metadata, &first)?;
        Ok(DataDir {
            remotes: members,
            ..self.belonging_to(member_id, cluster_id)
        })
    }

    fn belonging_to(self, member_id: u64, cluster_id: u64) -> DataDir {
        DataDir {
            vfs: self.vfs,
            store_dir: self.store_dir,
            state: self.state,
            replayed: Replayed::default(),
            log: self.log,
            recovered: Recovered::default(),
            member_id,
            cluster_id,
            is_new: true,
            remotes: Vec::new(),
            pace: self.pace,
            lock: self.lock,
        }
    }
}

/// Needed once, for a store that an older version wrote.
fn learn_sizes(store: &mut Store) -> storage::Result<()> {
    if !store.lacks_sizes() {
        return Ok(());
    }
    tracing::info!("the store is of an older version: adding up the sizes of its values");
    if !store.learn_sizes()? {
        tracing::warn!(
            "the disk is too full to add up the sizes of all values; usage by prefix leaves some out until the next start"
        );
    }
    Ok(())
}

fn log_options(vfs: &dyn Vfs, config: &Config, seed: u64) -> raft::durable::Options {
    let usual = raft::durable::Options::default();
    // The directory may not exist yet, so its closest existing ancestor is measured.
    let log_dir = config.log_dir();
    let mut places = log_dir.ancestors().map(|dir| match dir.as_os_str() {
        name if name.is_empty() => Path::new("."),
        _ => dir,
    });
    let disk = places.find_map(|dir| vfs.space(dir).ok());
    raft::durable::Options {
        seed,
        kept_entries: config.kept_entries(),
        segment_bytes: disk.map_or(usual.segment_bytes, |disk| {
            space_alarm::segment_bytes(disk, usual.segment_bytes)
        }),
        ..usual
    }
}

/// The shortest lease, in seconds: one and a half election timeouts, so that it outlives an
/// election.
fn min_lease_ttl(election_timeout: Duration) -> i64 {
    (election_timeout.as_millis() * 3).div_ceil(2_000) as i64
}

/// True if the member joins a cluster. A bootstrap would make a second one with the same ids.
pub(crate) fn joins(config: &Config) -> bool {
    config.initial_cluster_state == ClusterState::Existing
}

fn is_unused(vfs: &dyn Vfs, dir: &Path) -> storage::Result<bool> {
    let names = vfs.list(dir).map_err(storage::Error::io("list", dir))?;
    Ok(names.is_empty())
}

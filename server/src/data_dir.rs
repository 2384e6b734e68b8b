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
pub mod newcomer;
pub mod offline;
pub(crate) mod replay;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use bytes::Bytes;
use raft::Recovered;
use raft::durable::LogWriter;
use storage::encryption::{DataKeys, KeyFile};
use storage::mvcc::Store;
use storage::vfs::{Lock, Vfs};

use crate::config::keys::KeySource;
use crate::config::{CLUSTER_VERSION, ClusterState, Config, Url};
use crate::data_dir::replay::{Replayed, Threads};
use crate::error::Error;
use crate::state::space_alarm;
use crate::state::{self, MemberInfo, State};

/// Why a server cannot start on a directory. The text says what to do.
#[derive(Debug)]
pub enum Unusable {
    Storage(storage::Error),
    State(Error),
    Locked(PathBuf),
    /// etcd wrote the directory.
    OfEtcd(PathBuf),
    /// The log does not name its member.
    Foreign(PathBuf),
    /// The cluster cannot be bootstrapped or joined as the flags ask. The text is etcd's.
    Start(String),
    /// The keys that the flags name cannot be read.
    Keys(String),
}

/// File names that occur in etcd's log directory and never in Stele's.
const ETCD_NEXT_SEGMENTS: [&str; 2] = ["0.tmp", "1.tmp"];

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
    /// The directory was empty.
    pub is_new: bool,
    /// The members as other members reported them, until the log knows better.
    pub remotes: Vec<MemberInfo>,
    /// Held for as long as this value lives.
    pub lock: Box<dyn Lock>,
}

/// What a data directory contains.
pub enum Found {
    Used(Box<DataDir>),
    /// Nothing: the member must bootstrap a cluster or join one.
    Empty(Box<EmptyDir>),
}

/// A data directory that does not belong to a member yet.
pub struct EmptyDir {
    vfs: Arc<dyn Vfs>,
    store_dir: PathBuf,
    state: State,
    log: LogWriter,
    lock: Box<dyn Lock>,
}

impl DataDir {
    /// Opens `config.data_dir` with these keys, on one thread. `options` describe the log's files.
    pub fn find_alone(
        vfs: Arc<dyn Vfs>,
        config: &Config,
        keys: Option<&KeyFile>,
        options: raft::durable::Options,
    ) -> Result<Found, Unusable> {
        DataDir::find_with(vfs, config, keys, options, Threads::One)
    }

    /// Opens `config.data_dir`. `seed` must differ at every start.
    pub fn find(vfs: Arc<dyn Vfs>, config: &Config, seed: u64) -> Result<Found, Unusable> {
        let keys = config.encryption.as_ref().map(KeySource::read);
        let keys = keys.transpose().map_err(Unusable::Keys)?;
        let options = log_options(&*vfs, config, seed);
        DataDir::find_with(vfs, config, keys.as_ref(), options, Threads::Three)
    }

    fn find_with(
        vfs: Arc<dyn Vfs>,
        config: &Config,
        keys: Option<&KeyFile>,
        options: raft::durable::Options,
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
        let mut state = State::new(store, min_lease_ttl(config.election_timeout))?;
        state.max_learners = config.max_learners;
        refuse_lost_log(&*vfs, &log_dir, &state)?;
        let (log, opened, replayed) =
            replay::open_log(Arc::clone(&vfs), &log_dir, &mut state, options, threads)?;
        if let Some(voided) = &opened.voided {
            ahead::tell(&log_dir, voided);
        }
        refuse_downgrade(&state)?;
        let empty = EmptyDir {
            vfs,
            store_dir,
            state,
            log,
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
        self.log
            .set_metadata(&encode_metadata(member_id, cluster_id));
        self.log.sync()?;
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
            lock: self.lock,
        }
    }
}

/// The term of a new cluster's first entries, one per founding member.
pub(crate) const FOUNDING_TERM: u64 = 1;

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

/// The first members and ids of a new cluster.
pub(crate) struct Founding {
    pub members: Vec<MemberInfo>,
    /// 0 if the configuration does not list this member.
    pub member_id: u64,
    pub cluster_id: u64,
}

impl Founding {
    pub(crate) fn of(config: &Config) -> Founding {
        let mut members = founders(config);
        // All members write the same log, in whatever order their flags list the members.
        members.sort_by_key(|member| member.id);
        Founding {
            member_id: members
                .iter()
                .find(|member| member.name == config.name)
                .map_or(0, |member| member.id),
            cluster_id: cluster_id(members.iter().map(|member| member.id)),
            members,
        }
    }

    /// Writes the first entries to an empty log and syncs it.
    pub(crate) fn write(&self, log: &mut LogWriter) -> storage::Result<Recovered> {
        let recovered = raft::bootstrap(&changes(&self.members));
        log.set_metadata(&encode_metadata(self.member_id, self.cluster_id));
        log.bootstrap(&recovered)?;
        Ok(recovered)
    }
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

/// Refuses to start if this server does not know the cluster's version.
fn refuse_downgrade(state: &State) -> Result<(), Unusable> {
    let minor = |version: &str| -> Option<(u64, u64)> {
        let mut numbers = version.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    let decided = state::cluster_version(state.store.root())?;
    if decided.as_deref().and_then(minor) > minor(CLUSTER_VERSION) {
        Err(Unusable::Start(
            "invalid downgrade; server version is lower than determined cluster version".to_owned(),
        ))
    } else {
        Ok(())
    }
}

fn is_unused(vfs: &dyn Vfs, dir: &Path) -> storage::Result<bool> {
    let names = vfs.list(dir).map_err(storage::Error::io("list", dir))?;
    Ok(names.is_empty())
}

/// Refuses a data directory of etcd. It has all the data, but in another format.
fn refuse_etcd(vfs: &dyn Vfs, member_dir: &Path) -> Result<(), Unusable> {
    let traces = [member_dir.join("snap").join("db"), member_dir.join("wal")];
    for trace in traces {
        if vfs
            .exists(&trace)
            .map_err(storage::Error::io("look for", &trace))?
        {
            return Err(Unusable::OfEtcd(trace));
        }
    }
    Ok(())
}

/// With `--wal-dir`, refuses a log inside the data directory: ignoring it would lose acknowledged
/// writes. Also refuses a `--wal-dir` that holds a log of etcd, which cannot be appended to.
fn refuse_second_log(vfs: &dyn Vfs, config: &Config, member_dir: &Path) -> Result<(), Unusable> {
    let Some(wal_dir) = &config.wal_dir else {
        return Ok(());
    };
    let names = |dir: &Path| match vfs.exists(dir) {
        Ok(true) => vfs.list(dir).map_err(storage::Error::io("list", dir)),
        Ok(false) => Ok(Vec::new()),
        Err(error) => Err(storage::Error::io("look for", dir)(error)),
    };
    let inside = member_dir.join("log");
    if *wal_dir != inside && !names(&inside)?.is_empty() {
        return Err(Unusable::Start(format!(
            "{} holds this member's log; move its files to the --wal-dir {}, or leave that flag out",
            inside.display(),
            wal_dir.display()
        )));
    }
    // Both name their segments alike, but only etcd prepares its next segment under these names.
    let of_etcd = names(wal_dir)?
        .into_iter()
        .find(|name| ETCD_NEXT_SEGMENTS.contains(&name.as_str()));
    match of_etcd {
        Some(name) => Err(Unusable::OfEtcd(wal_dir.join(name))),
        None => Ok(()),
    }
}

/// A store without its log must not bootstrap a new cluster. Call this before opening the log,
/// which creates files.
fn refuse_lost_log(vfs: &dyn Vfs, log_dir: &Path, state: &State) -> Result<(), Unusable> {
    let applied = state.store.root().applied().index;
    if applied == 0 || !is_unused(vfs, log_dir)? {
        return Ok(());
    }
    Err(Unusable::Start(format!(
        "the store is that of a member with {applied} entries, but its log is not in {}; start with the --wal-dir that it was started with",
        log_dir.display()
    )))
}

/// Refuses a log that does not say whose it is beside a store that holds entries: the member would
/// begin anew, without the votes and entries that it promised to keep.
fn refuse_nameless_log(log_dir: &Path, state: &State) -> Result<(), Unusable> {
    match state.store.root().applied().index {
        0 => Ok(()),
        applied => Err(Unusable::Start(format!(
            "the store is that of a member with {applied} entries, but the log in {} does not say whose it is: put the directory back from a copy, or remove the member from the cluster (etcdctl member remove) and add it anew (etcdctl member add) with an empty directory",
            log_dir.display()
        ))),
    }
}

/// The founding members that the flags list.
pub(crate) fn founders(config: &Config) -> Vec<MemberInfo> {
    let member = |name: &str, urls: &[Url]| {
        let mut peer_urls: Vec<String> = urls.iter().map(Url::to_string).collect();
        peer_urls.sort();
        let id = member_id(&peer_urls, &config.initial_cluster_token);
        MemberInfo {
            id,
            peer_urls,
            name: name.to_owned(),
            ..Default::default()
        }
    };
    config
        .initial_cluster
        .iter()
        .map(|m| member(&m.name, &m.peer_urls))
        .collect()
}

/// etcd's rule: the first eight bytes of a hash over the sorted peer URLs and the token.
fn member_id(sorted_peer_urls: &[String], token: &str) -> u64 {
    hash_id(&[sorted_peer_urls.concat().as_bytes(), token.as_bytes()].concat())
}

/// etcd's rule for a member that is added at `time` since 1970. The token is not part of it.
pub(crate) fn new_member_id(sorted_peer_urls: &[String], time: Duration) -> u64 {
    let seconds = time.as_secs().to_string();
    hash_id(&[sorted_peer_urls.concat().as_bytes(), seconds.as_bytes()].concat())
}

fn cluster_id(members: impl Iterator<Item = u64>) -> u64 {
    let mut ids: Vec<u64> = members.collect();
    ids.sort_unstable();
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_be_bytes()).collect();
    hash_id(&bytes)
}

fn hash_id(bytes: &[u8]) -> u64 {
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes);
    let (id, _) = digest.as_ref().split_first_chunk().expect("20 bytes");
    u64::from_be_bytes(*id)
}

fn changes(founders: &[MemberInfo]) -> Vec<(u64, Bytes)> {
    let json = |member| serde_json::to_vec(member).expect("members are plain data");
    founders
        .iter()
        .map(|member| (member.id, json(member).into()))
        .collect()
}

/// Member id and cluster id, 8 bytes each, big endian.
pub(crate) fn encode_metadata(member_id: u64, cluster_id: u64) -> Bytes {
    [member_id.to_be_bytes(), cluster_id.to_be_bytes()]
        .concat()
        .into()
}

fn decode_metadata(bytes: &[u8]) -> Option<(u64, u64)> {
    let (member, cluster) = bytes.split_at_checked(8)?;
    Some((
        u64::from_be_bytes(member.try_into().ok()?),
        u64::from_be_bytes(cluster.try_into().ok()?),
    ))
}

impl From<storage::Error> for Unusable {
    fn from(error: storage::Error) -> Unusable {
        Unusable::Storage(error)
    }
}

impl From<Error> for Unusable {
    fn from(error: Error) -> Unusable {
        Unusable::State(error)
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Storage(error) => error.fmt(f),
            Unusable::Keys(error) => error.fmt(f),
            Unusable::State(error) => error.fmt(f),
            Unusable::Start(text) => f.write_str(text),
            Unusable::Locked(dir) => write!(
                f,
                "{} is in use by another server; stop that one, or give this one its own --data-dir",
                dir.display()
            ),
            Unusable::OfEtcd(trace) => write!(
                f,
                "{} belongs to etcd; to take its data over, stop that etcd, run `stele utl import \
                 {} --data-dir NEW`, and start Stele on --data-dir NEW",
                trace.display(),
                etcd_data_dir(trace).display()
            ),
            Unusable::Foreign(dir) => {
                write!(
                    f,
                    "{} does not say whose log it is; restore it from a copy",
                    dir.display()
                )
            }
        }
    }
}

/// The data directory that contains `member/snap/db` or `member/wal`.
fn etcd_data_dir(trace: &Path) -> &Path {
    let member = trace.ancestors().find(|path| path.ends_with("member"));
    member.and_then(Path::parent).unwrap_or(trace)
}

impl std::error::Error for Unusable {}

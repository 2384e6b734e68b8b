//! Directories that no server may start on, and why.

use std::fmt;
use std::path::{Path, PathBuf};

use storage::vfs::Vfs;

use super::is_unused;
use crate::basics::error::Error;
use crate::config::{CLUSTER_VERSION, Config};
use crate::state::{self, State};

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

/// Refuses to start if this server does not know the cluster's version.
pub(super) fn refuse_downgrade(state: &State) -> Result<(), Unusable> {
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

/// Refuses a data directory of etcd. It has all the data, but in another format.
pub(super) fn refuse_etcd(vfs: &dyn Vfs, member_dir: &Path) -> Result<(), Unusable> {
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
pub(super) fn refuse_second_log(
    vfs: &dyn Vfs,
    config: &Config,
    member_dir: &Path,
) -> Result<(), Unusable> {
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
pub(super) fn refuse_lost_log(
    vfs: &dyn Vfs,
    log_dir: &Path,
    state: &State,
) -> Result<(), Unusable> {
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
pub(super) fn refuse_nameless_log(log_dir: &Path, state: &State) -> Result<(), Unusable> {
    match state.store.root().applied().index {
        0 => Ok(()),
        applied => Err(Unusable::Start(format!(
            "the store is that of a member with {applied} entries, but the log in {} does not say whose it is: put the directory back from a copy, or remove the member from the cluster (etcdctl member remove) and add it anew (etcdctl member add) with an empty directory",
            log_dir.display()
        ))),
    }
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

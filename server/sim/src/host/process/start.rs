//! How a process begins: on what its disk has, or on an empty one.

use std::sync::Arc;
use std::time::Duration;

use raft::durable::Options;
use raft::{Entry, Recovered};
use server::member::data_dir::{DataDir, EmptyDir, Found, Unusable, newcomer};
use server::member::driver::{self, Actors};
use server::member::event::ApplyEvent;
use server::state::hashes::Hashes;
use server::state::{self, MemberInfo};
use storage::vfs::sim::SimVfs;

use super::{ACTORS, Fatal, Process, Settings, SimPorts, Turn};

/// What a running member knows, as it tells `member_id`, whose disk is empty.
#[derive(Clone, Debug)]
pub(crate) struct ClusterView {
    pub member_id: u64,
    pub cluster_id: u64,
    /// What the one that tells has applied.
    pub applied: u64,
    pub members: Vec<MemberInfo>,
}

impl ClusterView {
    /// Whether the one that is told is a member.
    pub(crate) fn knows(&self) -> bool {
        self.members.iter().any(|m| m.id == self.member_id)
    }
}

/// What becomes of a start.
pub(crate) enum Start {
    /// With what the log held, for those who judge it.
    Runs {
        process: Box<Process>,
        found: Recovered,
        /// The disk was empty.
        is_new: bool,
    },
    /// This member was removed.
    Removed,
    /// Others know the member whose disk is empty.
    Refused(String),
}

impl Process {
    /// As `server::lifecycle` does it. `time_of_day` in nanoseconds. An empty disk becomes that of a
    /// new cluster, or takes its place in a running one, if what it is told lets it. `misreads` is the
    /// canary: the log is not as it was written, and nothing notices.
    pub(crate) fn start(
        disk: &SimVfs,
        settings: &Settings,
        time_of_day: u64,
        told: &[ClusterView],
        misreads: bool,
    ) -> Result<Start, Fatal> {
        let options = Options {
            seed: time_of_day,
            ..settings.log.clone()
        };
        let (config, vfs) = (&settings.config, Arc::new(disk.clone()));
        let (keys, at_once) = (settings.key_file(), settings.pace.keys_deleted_at_once);
        let mut data = match DataDir::find_alone(vfs, config, keys.as_ref(), options, at_once)? {
            Found::Used(data) => *data,
            Found::Empty(empty) => match begin(*empty, settings, told) {
                Err(Unusable::Start(why)) => return Ok(Start::Refused(why)),
                begun => begun?,
            },
        };
        if data.was_removed()? {
            return Ok(Start::Removed);
        }
        if misreads && let Some(last) = data.recovered.entries.last_mut() {
            last.data = [&last.data[..], b"!"].concat().into();
        }
        let removed = state::removed(data.state.store.root())?;
        let (found, is_new) = (data.recovered.clone(), data.is_new);
        let run = driver::Settings {
            limits: settings.limits,
            pace: settings.pace,
            stopwatch: None,
            step_clock: None,
            work_clock: None,
            time_of_day: Duration::from_nanos(time_of_day),
            now: Duration::ZERO,
        };
        let actors = Actors::new(data, config, run)?;
        let process = Process {
            member_id: actors.member_id,
            cluster_id: actors.cluster_id,
            consensus: actors.consensus,
            log: actors.log,
            lied_through: None,
            apply: actors.apply,
            watch: actors.watch,
            disks: actors.disks,
            next_look: Duration::ZERO,
            shared: actors.shared,
            quota: config.quota_backend_bytes.unwrap_or(0),
            request_ids: actors.request_ids,
            reader: actors.reader,
            receiver: actors.receiver,
            data_keys: actors.data_keys,
            auth: actors.auth,
            forgotten: None,
            ports: SimPorts {
                now: Duration::ZERO,
                to_consensus: Vec::new(),
                to_log: Vec::new(),
                // No member of a simulated cluster is of another make.
                to_apply: vec![ApplyEvent::LeaseCheckpoints { allowed: true }],
                jobs: Vec::new(),
                hashes: Hashes::default(),
                removed: removed.into_iter().collect(),
                said: Turn::default(),
            },
            turns: [None; ACTORS.len()],
            _lock: actors.lock,
        };
        Ok(Start::Runs {
            process: Box::new(process),
            found,
            is_new,
        })
    }
}

/// The entries of the log on a disk. The disk stays as it is.
pub(crate) fn entries_on(disk: &SimVfs, settings: &Settings) -> Result<Vec<Entry>, Fatal> {
    let vfs = Arc::new(disk.process_killed());
    let keys = settings.key_file();
    let mut config = settings.config.clone();
    config.force_new_cluster = false;
    match DataDir::find_alone(vfs, &config, keys.as_ref(), settings.log.clone(), u64::MAX)? {
        Found::Used(data) => Ok(data.recovered.entries),
        Found::Empty(_) => Ok(Vec::new()),
    }
}

/// What the member may do with an empty directory.
fn begin(empty: EmptyDir, settings: &Settings, told: &[ClusterView]) -> Result<DataDir, Unusable> {
    if let Some(told) = told.first().filter(|_| settings.joins()) {
        newcomer::may_join(told.member_id, &told.members).map_err(Unusable::Start)?;
        return empty.join(told.member_id, told.cluster_id, told.members.clone());
    }
    for told in told {
        newcomer::may_bootstrap(&settings.config, &told.members).map_err(Unusable::Start)?;
    }
    empty.found(&settings.config)
}

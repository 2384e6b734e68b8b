//! Makes the actors of one run from what is on disk.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use raft::Raft;
use storage::encryption::DataKeys;
use storage::mvcc::Reader;
use storage::vfs::Lock;

use super::apply::ApplyDriver;
use super::consensus::ConsensusDriver;
use super::log::Log;
use super::published::Standing;
use super::space::Disks;
use super::watch::Watch;
use super::{Published, RequestIds};
use crate::auth;
use crate::basics::clock::Now;
use crate::config::Config;
use crate::member::applier::{Applier, BackgroundLimits, StepClock, Stopwatch, WorkClock};
use crate::member::cluster::consensus::Consensus;
use crate::member::data_dir::{DataDir, Unusable};
use crate::state::State;
use crate::state::lessor::Lessor;
use crate::state::snapshot::Receiver;
use crate::state::space_alarm::Guard;
use crate::state::watch::{Hub, HubHandle};

/// Settings that do not come from flags.
pub struct Settings {
    pub limits: raft::Limits,
    pub pace: BackgroundLimits,
    /// Measures slow entries; `None`: they are not reported.
    pub stopwatch: Option<Stopwatch>,
    /// Times the steps of chores; `None`: all have the usual size.
    pub step_clock: Option<StepClock>,
    /// Times the application of entries; `None`: that time starts no checkpoints.
    pub work_clock: Option<WorkClock>,
    /// Time since 1970; different at every start.
    pub time_of_day: Duration,
    /// On the member's clock.
    pub now: Now,
}

pub struct Actors {
    pub member_id: u64,
    pub cluster_id: u64,
    pub consensus: ConsensusDriver,
    pub log: Arc<Mutex<Log>>,
    pub apply: ApplyDriver,
    pub watch: Watch,
    pub disks: Disks,
    pub shared: Arc<Published>,
    pub request_ids: Arc<RequestIds>,
    pub reader: Reader,
    /// Receives the states that other members send.
    pub receiver: Receiver,
    pub auth: Arc<auth::CurrentAuth>,
    /// `None`: nothing is encrypted.
    pub data_keys: Option<Arc<DataKeys>>,
    /// Held for as long as the member runs.
    pub lock: Box<dyn Lock>,
}

impl Actors {
    pub fn new(data: DataDir, config: &Config, settings: Settings) -> Result<Actors, Unusable> {
        let member_id = data.member_id;
        let (voters, learners) = data.voters_and_learners()?;
        let shared = Arc::new(Published::new(
            member_id,
            Standing {
                learner: learners.contains(&member_id),
                alone: voters == [member_id] && learners.is_empty(),
            },
        ));
        let request_ids = Arc::new(RequestIds::new(
            member_id,
            settings.time_of_day.as_millis() as u64,
        ));
        let seed = settings.time_of_day.as_nanos() as u64;
        let last_in_log = data.recovered.entries.last().map_or(0, |entry| entry.index);
        let raft_config = raft::Config {
            limits: settings.limits,
            heartbeat: config.heartbeat_interval,
            election_timeout: config.election_timeout,
            suspicion: config.suspicion(),
            pre_vote: config.pre_vote,
            learners,
            ..raft::Config::new(member_id, voters, seed)
        };
        let raft = Raft::new(raft_config, data.recovered, settings.now);
        let (reader, options) = (data.state.store.reader(), data.state.store.options());
        let auth = Arc::clone(data.state.auth.shared());
        let (hub, inbox) = Hub::new(reader.clone());
        let watch = Watch::new(hub, inbox.clone());
        let mut applier = applier(data.state, inbox, last_in_log, member_id, config, settings)?;
        applier.go_on_from(data.replayed.unsaved, data.replayed.sync);
        let log = Arc::new(Mutex::new(Log::new(data.log, Arc::clone(&shared))));
        let consensus = Consensus::new(raft, seed);
        Ok(Actors {
            member_id,
            cluster_id: data.cluster_id,
            consensus: ConsensusDriver::new(
                consensus,
                member_id,
                Arc::clone(&log),
                Arc::clone(&shared),
            ),
            log,
            apply: ApplyDriver::new(
                applier,
                member_id,
                watch.clone(),
                Arc::clone(&request_ids),
                Arc::clone(&shared),
            )?,
            watch,
            disks: Disks::new(
                Arc::clone(&data.vfs),
                data.store_dir.clone(),
                config.log_dir(),
                Arc::clone(&shared),
                config.wal_keep_bytes,
            ),
            shared,
            request_ids,
            reader,
            data_keys: options.data_keys.clone(),
            receiver: Receiver::new(data.vfs, data.store_dir, options)?,
            auth,
            lock: data.lock,
        })
    }
}

fn applier(
    state: State,
    hub: HubHandle,
    last_in_log: u64,
    member_id: u64,
    config: &Config,
    settings: Settings,
) -> Result<Applier, Unusable> {
    let lessor = Lessor::new(config.election_timeout);
    let mut applier = Applier::new(
        state,
        lessor,
        hub,
        last_in_log,
        config.election_timeout,
        settings.now,
    )?;
    applier.set_pace(settings.pace);
    let quota = config.quota_backend_bytes.unwrap_or(0);
    applier.set_guard(Guard::new(quota, config.auto_disarm_nospace), member_id);
    if let Some(stopwatch) = settings.stopwatch {
        applier.set_stopwatch(stopwatch);
    }
    if let Some(clock) = settings.step_clock {
        applier.set_step_clock(clock);
    }
    if let Some(clock) = settings.work_clock {
        applier.set_work_clock(clock);
    }
    Ok(applier)
}

//! The shell around the actors: it starts their threads, reads the clock, carries what they say to
//! each other, and decides nothing.
//!
//! ```text
//!  gRPC tasks ──► member ──► log ──► member ──► apply ──► deliveries ──► gRPC tasks
//!                                                 └─────► hub ──► watch streams
//! ```
//!
//! Under load a batch gathers at each arrow. A write that is alone takes a shorter way: the member
//! thread writes and syncs the log itself.

#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock and starts threads"
)]

mod apply;
pub mod compactor;
mod complaints;
mod deliveries;
pub mod event;
mod lateness;
mod log;
mod member;
pub mod node;
pub mod resealer;
mod rest;
mod space_alarm;
mod watch;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use raft::Raft;
use raft::durable::LogWriter;
use storage::vfs::Lock;

use crate::auth::Tokens;
use crate::cluster::inbox::{Inbox, Sender, inbox};
use crate::cluster::member::Member;
use crate::cluster::peer::{Dialer, Inboxes, Introduction, Peers};
use crate::config::{Config, Url};
use crate::data_dir::{DataDir, Unusable};
use crate::net::workers::Workers;
use crate::runtime::event::{ApplyEvent, LogEvent, MemberEvent};
use crate::runtime::node::{Identity, Inner, Limits, Login, Node, RequestIds, Shared};
use crate::state;
use crate::state::applier::{Applier, Pace, Stopwatch};
use crate::state::hashes::Hashes;
use crate::state::lessor::Lessor;
use crate::state::snapshot::Receiver;
use crate::state::space_alarm::Guard;
use crate::state::watch::{Hub, HubHandle};
use crate::telemetry::metrics::Metrics;
use deliveries::Deliveries;
use lateness::Lateness;
use rest::{DIGEST_REST, rests};

/// Time since the process began to care.
#[derive(Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    pub fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

pub fn unix_time() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// A member at work. `stop` ends it in order; dropping it leaves its threads to the process's end.
pub struct Running {
    pub node: Node,
    pub peers: Peers,
    member: Sender<MemberEvent>,
    space: Sender<space_alarm::Stop>,
    threads: Vec<JoinHandle<()>>,
    _lock: Box<dyn Lock>,
}

/// Starts the actors on an opened data directory. Their answers are delivered by the workers.
pub(crate) fn start(
    data: DataDir,
    config: &Config,
    metrics: Arc<Metrics>,
    workers: &Workers,
    dialer: Dialer,
) -> Result<Running, Unusable> {
    let clock = Clock::start();
    let (voters, learners) = data.voters_and_learners()?;
    let (members, removed) = known_members(&data, config)?;
    let only_learns = learners.contains(&data.member_id);
    let sole_voter = voters == [data.member_id];
    let raft_config = raft_config(config, data.member_id, voters, learners);
    let last_in_log = data.recovered.entries.last().map_or(0, |entry| entry.index);
    let raft = Raft::new(raft_config, data.recovered, clock.now());
    let lessor = Lessor::new(config.election_timeout);
    let tokens =
        Tokens::open(&config.auth_token, |path| std::fs::read(path)).map_err(Unusable::Start)?;
    let login = Login::new(config.bcrypt_cost).map_err(Unusable::State)?;
    let state = data.state;
    let auth = Arc::clone(state.auth.shared());
    auth.tokens.lock().set_time_to_live(config.auth_token_ttl);
    let (reader, store_options) = (state.store.reader(), state.store.options());
    let (hub, hub_handle) = Hub::new(reader.clone());
    let hub = Arc::new(Mutex::new(hub));
    let told = hub_handle.clone();
    let mut applier = Applier::new(
        state,
        lessor,
        told,
        last_in_log,
        config.election_timeout,
        clock.now(),
    )?;
    applier.go_on_from(data.replayed);
    applier.set_pace(Pace::of(config));
    applier.set_stopwatch(stopwatch(config.warning_apply_duration));

    let (member_tx, member_rx) = inbox();
    let (log_tx, log_rx) = inbox();
    let (apply_tx, apply_rx) = inbox();
    let shared = Arc::new(Shared::default());
    shared.sole_voter.store(sole_voter, Ordering::Release);
    shared.learner.store(only_learns, Ordering::Release);
    metrics.is_learner.set(i64::from(only_learns));
    let introduction = Introduction {
        member_id: data.member_id,
        cluster_id: data.cluster_id,
        peer_urls: texts(&config.initial_advertise_peer_urls),
    };
    let disks = space_alarm::Disks {
        vfs: Arc::clone(&data.vfs),
        store_dir: data.store_dir.clone(),
        log_dir: config.log_dir(),
    };
    let receiver = Receiver::new(data.vfs, data.store_dir, store_options)?;
    let peers = Peers::start(
        introduction,
        Inboxes {
            member: member_tx.clone(),
            apply: apply_tx.clone(),
        },
        clock,
        reader.clone(),
        receiver,
        Arc::clone(&metrics),
        dialer,
    )
    .unwrap_or_else(|error| fatal("failed to start a thread", &error));
    peers.set_members(&members, &removed);
    peers.add_remotes(&data.remotes);
    // Whose it was is not known any more.
    let raised = applier.has_space_alarm(data.member_id);
    shared.nospace.store(raised, Ordering::Release);
    shared.nospace_own.store(raised, Ordering::Release);
    let hashes = Arc::new(Hashes::default());
    let for_node = Arc::clone(&metrics);
    let request_ids = Arc::new(RequestIds::new(
        data.member_id,
        unix_time().as_millis() as u64,
    ));
    let links = Links {
        clock,
        member: member_tx.clone(),
        log: log_tx,
        apply: apply_tx.clone(),
        hub: Arc::clone(&hub),
        hub_inbox: hub_handle.clone(),
        replies: Deliveries::start(workers),
        shared: Arc::clone(&shared),
        hashes: Arc::clone(&hashes),
        request_ids: Arc::clone(&request_ids),
        member_id: data.member_id,
        metrics,
        peers: peers.clone(),
    };
    let actors = Actors {
        hub,
        applier,
        apply: apply_rx,
        log: data.log,
        to_log: log_rx,
        raft,
        lateness: Lateness::new(config.heartbeat_interval),
        member: member_rx,
    };
    let (space_tx, space_rx) = inbox();
    let quota = config.quota_backend_bytes.unwrap_or(0);
    let guard = Guard::new(quota, config.auto_disarm_nospace);
    let for_space = links.clone();
    let digesting = Arc::clone(&hashes);
    let mut threads = actors.start(links);
    threads.push(spawn("hash", move || {
        let hurried = Arc::clone(&digesting);
        digesting.run(rests(clock, DIGEST_REST, move || hurried.is_awaited()));
    }));
    threads.push(spawn("space", move || {
        space_alarm::run_space_alarm(guard, disks, space_rx, for_space);
    }));
    let node = Node::new(Inner {
        reader,
        member: member_tx.clone(),
        apply: apply_tx,
        hub: hub_handle,
        shared,
        hashes,
        hash_turn: Node::new_hash_turn(),
        identity: Identity {
            cluster_id: data.cluster_id,
            member_id: data.member_id,
            name: config.name.clone(),
            client_urls: texts(&config.advertise_client_urls),
        },
        limits: limits(config),
        leader_lost: tokio::sync::watch::channel(()).0,
        admission: Node::new_admission(),
        request_ids,
        clock,
        metrics: for_node,
        auth,
        tokens,
        login,
        peers: peers.clone(),
    });
    Ok(Running {
        node,
        peers,
        member: member_tx,
        space: space_tx,
        threads,
        _lock: data.lock,
    })
}

/// What runs on a thread each, with what comes to it.
struct Actors {
    hub: Arc<Mutex<Hub>>,
    applier: Applier,
    apply: Inbox<ApplyEvent>,
    log: LogWriter,
    to_log: Inbox<LogEvent>,
    raft: Raft,
    lateness: Lateness,
    member: Inbox<MemberEvent>,
}

impl Actors {
    fn start(self, links: Links) -> Vec<JoinHandle<()>> {
        let (for_hub, for_apply, for_log) = (links.clone(), links.clone(), links.clone());
        // The member thread writes and syncs what is alone by itself.
        let log = Arc::new(Mutex::new(self.log));
        let log_of_member = Arc::clone(&log);
        vec![
            spawn("watch", move || {
                watch::run_hub(&self.hub, &for_hub.hub_inbox)
            }),
            spawn("apply", move || {
                apply::run_applier(self.applier, self.apply, for_apply)
            }),
            spawn("log", move || log::run_log(&log, self.to_log, for_log)),
            spawn("member", move || {
                let first_read = unix_time().as_nanos() as u64;
                let member = Member::new(self.raft, first_read);
                member::run_member(member, self.lateness, self.member, log_of_member, links)
            }),
        ]
    }
}

fn raft_config(
    config: &Config,
    member_id: u64,
    voters: Vec<u64>,
    learners: Vec<u64>,
) -> raft::Config {
    raft::Config {
        limits: raft::Limits {
            kept_entries: config.kept_entries(),
            ..raft::Limits::default()
        },
        heartbeat: config.heartbeat_interval,
        election_timeout: config.election_timeout,
        suspicion: config.suspicion(),
        pre_vote: config.pre_vote,
        learners,
        ..raft::Config::new(member_id, voters, unix_time().as_nanos() as u64)
    }
}

fn limits(config: &Config) -> Limits {
    Limits {
        max_request_bytes: config.max_request_bytes,
        max_txn_ops: config.max_txn_ops,
        quota_bytes: config.quota_backend_bytes.unwrap_or(0),
        election_timeout: config.election_timeout,
        strict_reconfig_check: config.strict_reconfig_check,
        revokes_first: config.gate("PriorityRequest"),
        slow_apply: config.warning_apply_duration,
        slow_call: config.warning_unary_request_duration,
    }
}

/// A clock read at each entry would cost a tenth of what a put does; the kernel's coarse one, which
/// ticks every few milliseconds, costs next to nothing and tells as well what took a long time.
fn stopwatch(limit: Duration) -> Stopwatch {
    const COARSE_ENOUGH: Duration = Duration::from_millis(20);
    if limit < COARSE_ENOUGH {
        let clock = Clock::start();
        return Stopwatch::new(limit, move || clock.now());
    }
    Stopwatch::new(limit, || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    })
}

fn texts(urls: &[Url]) -> Vec<String> {
    urls.iter().map(Url::to_string).collect()
}

/// Whom to talk to from the start, and to whom not. A cluster of one by force talks to none of its
/// old members: the log that removes them has yet to be applied.
fn known_members(
    data: &DataDir,
    config: &Config,
) -> Result<(Vec<state::MemberInfo>, Vec<u64>), Unusable> {
    let mut removed = state::removed(data.state.store.root())?;
    let (own, others): (Vec<_>, Vec<_>) = data
        .members()?
        .into_iter()
        .partition(|member| member.id == data.member_id);
    if config.force_new_cluster {
        removed.extend(others.iter().map(|member| member.id));
        return Ok((own, removed));
    }
    Ok(([own, others].concat(), removed))
}

impl Running {
    /// Stops the actors one behind the other, with nothing left between them: first no more
    /// proposals, then a last checkpoint, then what of the log it made superfluous goes. Blocks until
    /// all threads have ended.
    pub fn stop(self) {
        // A closed inbox means that its actor has ended already.
        let _ = self.space.send(space_alarm::Stop);
        let _ = self.member.send(MemberEvent::Stop);
        self.node.hub().stop();
        self.node.stop_hashing();
        for thread in self.threads {
            if thread.join().is_err() {
                fatal("a thread of the server panicked", &"see above");
            }
        }
    }
}

/// Ends the process: what is on disk is not known well enough to go on.
pub fn fatal(what: &str, error: &dyn std::fmt::Display) -> ! {
    tracing::error!(error = %error, "{what}");
    crate::telemetry::logging::flush();
    std::process::exit(1)
}

/// Ends of the queues; every actor thread has what it needs of them.
#[derive(Clone)]
struct Links {
    clock: Clock,
    member: Sender<MemberEvent>,
    log: Sender<LogEvent>,
    apply: Sender<ApplyEvent>,
    hub: Arc<Mutex<Hub>>,
    hub_inbox: HubHandle,
    replies: Deliveries,
    shared: Arc<Shared>,
    hashes: Arc<Hashes>,
    request_ids: Arc<RequestIds>,
    member_id: u64,
    metrics: Arc<Metrics>,
    peers: Peers,
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .unwrap_or_else(|error| fatal("failed to start a thread", &error))
}

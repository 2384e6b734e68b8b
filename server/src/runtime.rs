//! The shell around the actors. It starts their threads, reads the clock and carries their events.
//! It decides nothing: the [`driver`] says what goes where, and in which order.
//!
//! ```text
//!  gRPC tasks ──► consensus ──► log ──► consensus ──► apply ──► deliveries ──► gRPC tasks
//!                                                 └─────► hub ──► watch streams
//! ```
//!
//! Under load a batch gathers at each arrow. A single write takes a shorter way: the
//! consensus thread writes and syncs the log itself.
//!
//! [`driver`]: crate::member::driver

#![expect(clippy::disallowed_methods, reason = "the shell waits and reads files")]

mod budget;
pub(crate) mod compactor;
mod complaints;
mod deliveries;
pub(crate) mod etcd_server;
mod lateness;
mod links;
mod notes;
mod threads;

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rustix::time::ClockId;
use storage::vfs::Lock;

use crate::auth::Tokens;
use crate::basics::clock::{Clock, kernel_time, unix_time};
use crate::config::{Config, Url};
use crate::member::applier::{BackgroundLimits, Stopwatch};
use crate::member::cluster::peer::{Dialer, Inboxes, Introduction, Peers};
use crate::member::data_dir::{DataDir, Unusable};
use crate::member::driver::{Actors, Fatal, Settings};
use crate::member::event::inbox::{Inbox, Sender, inbox};
use crate::member::event::{ApplyEvent, ConsensusEvent, LogEvent};
use crate::net::workers::Workers;
use crate::runtime::etcd_server::{EtcdServer, Identity, Inner, Limits, Login};
use crate::state::hashes::Hashes;
use crate::state::held_back::{HashPatience, hurries_hash};
use crate::state::snapshot::Receiver;
use crate::state::{self, MemberInfo};
use crate::telemetry::fatal;
use crate::telemetry::metrics::{Chore, Metrics};
use budget::Budget;
use deliveries::Deliveries;
use lateness::Lateness;
use links::Links;
use notes::Notes;
use threads::StopLooking;

/// A running member. `stop` ends it in order; otherwise its threads run until the process ends.
pub(crate) struct Running {
    pub server: EtcdServer,
    pub peers: Peers,
    consensus: Sender<ConsensusEvent>,
    looks: Sender<StopLooking>,
    threads: Vec<JoinHandle<()>>,
    _lock: Box<dyn Lock>,
}

/// Starts the actors on an opened data directory. The workers deliver their answers.
pub(crate) fn start(
    data: DataDir,
    config: &Config,
    metrics: Arc<Metrics>,
    workers: &Workers,
    dialer: Dialer,
) -> Result<Running, Unusable> {
    let clock = Clock::start();
    let others = Others::known(&data, config)?;
    let tokens =
        Tokens::open(&config.auth_token, |path| std::fs::read(path)).map_err(Unusable::Start)?;
    let login = Login::new(config.bcrypt_cost).map_err(Unusable::State)?;
    let settings = settings(config, data.pace, clock);
    let actors = Actors::new(data, config, settings)?;
    let known = &actors.auth.tokens;
    known.lock().set_time_to_live(config.auth_token_ttl);
    let learns = actors.shared.progress.is_learner();
    metrics.is_learner.set(i64::from(learns));
    let queues = Queues::new();
    let peers = Connecting {
        clock,
        metrics: Arc::clone(&metrics),
        dialer,
        receiver: actors.receiver.clone(),
        me: introduction(&actors, config),
    }
    .connect(&queues, &others);
    let lateness = Lateness::new(config.heartbeat_interval);
    let links = Links {
        clock,
        consensus: queues.consensus.0.clone(),
        log: queues.log.0.clone(),
        apply: queues.apply.0.clone(),
        replies: Deliveries::start(workers),
        hashes: Arc::new(Hashes::default()),
        budget: Budget::new(clock, Arc::clone(&metrics)),
        reader: actors.reader.clone(),
        notes: Notes::new(actors.member_id, Arc::clone(&metrics), lateness),
        metrics,
        peers: peers.clone(),
    };
    let server = server(&actors, &links, config, (tokens, login));
    let (consensus, looks) = (links.consensus.clone(), queues.looks.0.clone());
    let compares_hashes = config.gate("CompactHashCheck");
    let (threads, lock) = start_threads(actors, queues, &links, compares_hashes);
    Ok(Running {
        server,
        peers,
        consensus,
        looks,
        threads,
        _lock: lock,
    })
}

fn server(
    actors: &Actors,
    links: &Links,
    config: &Config,
    (tokens, login): (Tokens, Login),
) -> EtcdServer {
    EtcdServer::new(Inner {
        reader: actors.reader.clone(),
        consensus: links.consensus.clone(),
        apply: links.apply.clone(),
        hub: actors.watch.inbox().clone(),
        shared: Arc::clone(&actors.shared),
        hashes: Arc::clone(&links.hashes),
        hash_turn: EtcdServer::new_hash_turn(),
        identity: identity(actors, config),
        limits: limits(config),
        leader_lost: tokio::sync::watch::channel(()).0,
        admission: EtcdServer::new_admission(),
        request_ids: Arc::clone(&actors.request_ids),
        clock: links.clock,
        metrics: Arc::clone(&links.metrics),
        auth: Arc::clone(&actors.auth),
        tokens,
        login,
        peers: links.peers.clone(),
    })
}

/// Both ends of each actor's inbox.
struct Queues {
    consensus: (Sender<ConsensusEvent>, Inbox<ConsensusEvent>),
    log: (Sender<LogEvent>, Inbox<LogEvent>),
    apply: (Sender<ApplyEvent>, Inbox<ApplyEvent>),
    looks: (Sender<StopLooking>, Inbox<StopLooking>),
}

impl Queues {
    fn new() -> Queues {
        Queues {
            consensus: inbox(),
            log: inbox(),
            apply: inbox(),
            looks: inbox(),
        }
    }
}

fn start_threads(
    actors: Actors,
    queues: Queues,
    links: &Links,
    compares_hashes: bool,
) -> (Vec<JoinHandle<()>>, Box<dyn Lock>) {
    let (clock, shared) = (links.clock, Arc::clone(&actors.shared));
    let (consensus, apply, disks) = (actors.consensus, actors.apply, actors.disks);
    let (log, watch) = (actors.log, actors.watch);
    let links = || links.clone();
    let (budget, hashes) = (links().budget, links().hashes);
    let threads = vec![
        spawn("watch", move || threads::run_hub(&watch)),
        spawn("apply", {
            let links = links();
            move || threads::run_applier(apply, &queues.apply.1, links)
        }),
        spawn("log", {
            let links = links();
            move || threads::run_log(&log, &queues.log.1, links)
        }),
        spawn("consensus", {
            let links = links();
            move || threads::run_consensus(consensus, &queues.consensus.1, links)
        }),
        spawn("hash", move || {
            hashes.run(|| {
                let hurried = Arc::clone(&hashes);
                let work = budget.begin(Chore::Hash, move || hurried.is_awaited());
                let shared = Arc::clone(&shared);
                let behind = Arc::clone(&shared);
                let mut work = work.brisk_while(move || {
                    let held = behind.space.held_back();
                    behind.hash_hurry.is_on() || hurries_hash(compares_hashes, held)
                });
                let mut patience = HashPatience::new(compares_hashes);
                move || {
                    work.rest();
                    let space = &shared.space;
                    patience.look(clock.now(), space.held_back(), space.file_bytes())
                }
            });
        }),
        spawn("space", {
            let links = links();
            move || threads::run_looks(disks, &queues.looks.1, links)
        }),
    ];
    (threads, actors.lock)
}

/// The other members, as known before the log is applied.
struct Others {
    members: Vec<MemberInfo>,
    removed: Vec<u64>,
    /// The members as other members reported them.
    remotes: Vec<MemberInfo>,
}

impl Others {
    /// Which members to talk to from the start, and which to refuse. With `force_new_cluster` all
    /// old members are refused: the log entries that remove them are not applied yet.
    fn known(data: &DataDir, config: &Config) -> Result<Others, Unusable> {
        let mut removed = state::removed(data.state.store.root())?;
        let (mut members, others): (Vec<_>, Vec<_>) = data
            .members()?
            .into_iter()
            .partition(|member| member.id == data.member_id);
        if config.force_new_cluster {
            removed.extend(others.iter().map(|member| member.id));
        } else {
            members.extend(others);
        }
        Ok(Others {
            members,
            removed,
            remotes: data.remotes.clone(),
        })
    }
}

/// Everything that connections to other members need.
struct Connecting {
    clock: Clock,
    metrics: Arc<Metrics>,
    dialer: Dialer,
    receiver: Receiver,
    me: Introduction,
}

impl Connecting {
    fn connect(self, queues: &Queues, others: &Others) -> Peers {
        let inboxes = Inboxes {
            consensus: queues.consensus.0.clone(),
            apply: queues.apply.0.clone(),
        };
        let peers = Peers::start(
            self.me,
            inboxes,
            self.clock,
            self.receiver,
            self.metrics,
            self.dialer,
        )
        .unwrap_or_else(|error| fatal("failed to start a thread", &error));
        peers.set_members(&others.members, &others.removed);
        peers.add_remotes(&others.remotes);
        peers
    }
}

fn introduction(actors: &Actors, config: &Config) -> Introduction {
    Introduction {
        member_id: actors.member_id,
        cluster_id: actors.cluster_id,
        peer_urls: Url::texts(&config.initial_advertise_peer_urls),
    }
}

fn identity(actors: &Actors, config: &Config) -> Identity {
    Identity {
        cluster_id: actors.cluster_id,
        member_id: actors.member_id,
        name: config.name.clone(),
        client_urls: Url::texts(&config.advertise_client_urls),
    }
}

fn settings(config: &Config, pace: BackgroundLimits, clock: Clock) -> Settings {
    Settings {
        limits: config.raft_limits(),
        pace,
        stopwatch: Some(stopwatch(config.warning_apply_duration)),
        step_clock: Some(Box::new(move || clock.now())),
        work_clock: Some(|| kernel_time(ClockId::ThreadCPUTime)),
        time_of_day: unix_time(),
        now: clock.now(),
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

/// Times the entries. Reading the clock for each would cost a tenth of a put. The kernel's coarse
/// clock ticks every few milliseconds and costs next to nothing: enough unless `limit` is short.
fn stopwatch(limit: Duration) -> Stopwatch {
    const COARSE_ENOUGH: Duration = Duration::from_millis(20);
    if limit < COARSE_ENOUGH {
        let clock = Clock::start();
        return Stopwatch::new(limit, move || clock.now());
    }
    Stopwatch::new(limit, || kernel_time(ClockId::MonotonicCoarse))
}

impl Running {
    /// Stops the actors one after the other, so that no event is left between them: first proposals
    /// end, then a last checkpoint is written, then the log drops what that checkpoint made
    /// superfluous. Blocks until all threads have ended.
    pub(crate) fn stop(self) {
        // A closed inbox means that the actor has ended already.
        let _ = self.looks.send(StopLooking);
        let _ = self.consensus.send(ConsensusEvent::Stop);
        self.server.hub().stop();
        self.server.stop_hashing();
        for thread in self.threads {
            if thread.join().is_err() {
                fatal("a thread of the server panicked", &"see above");
            }
        }
    }
}

/// Ends the process: an actor has failed.
fn end(error: &Fatal) -> ! {
    fatal(error.what, &error.error)
}

/// Starts a thread. If that fails, the process ends.
fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .unwrap_or_else(|error| fatal("failed to start a thread", &error))
}

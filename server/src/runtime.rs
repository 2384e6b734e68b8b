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

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use raft::durable::LogWriter;
use raft::{Raft, RoleChange, RoleKind};
use storage::vfs::Lock;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::applier::{Applier, ApplyEffects, HashJob};
use crate::config::Config;
use crate::data_dir::{DataDir, Unusable};
use crate::event::{ApplyEvent, LogEvent, MemberEvent, Proposal, Reply, ReplySlot};
use crate::hashes::Hashes;
use crate::inbox::{Inbox, Sender, inbox};
use crate::lessor::Lessor;
use crate::member::{Member, MemberEffects};
use crate::metrics::Metrics;
use crate::node::{Identity, Inner, Limits, Node, RequestIds, Shared};
use crate::peer::{Introduction, Peers};
use crate::state::State;
use crate::watch::{Hub, HubHandle};
use crate::workers::Workers;

/// Applied entries that members of a cluster keep in memory for each other.
const CLUSTER_KEPT_ENTRIES: usize = 1 << 20;
const CLUSTER_KEPT_BYTES: usize = 256 << 20;

/// Answers of one batch.
type Replies = Vec<(ReplySlot, Reply)>;

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
    apply: Sender<ApplyEvent>,
    threads: Vec<JoinHandle<()>>,
    _lock: Box<dyn Lock>,
}

/// Starts the actors on an opened data directory. Their answers are delivered by the workers.
pub fn start(
    data: DataDir,
    config: &Config,
    metrics: Arc<Metrics>,
    workers: &Workers,
) -> Result<Running, Unusable> {
    let clock = Clock::start();
    let voters = data.voters()?;
    let members = data.members()?;
    let sole_voter = voters == [data.member_id];
    let mut limits = raft::Limits::default();
    if !sole_voter {
        limits.kept_entries = CLUSTER_KEPT_ENTRIES;
        limits.kept_bytes = CLUSTER_KEPT_BYTES;
    }
    let raft_config = raft::Config {
        limits,
        heartbeat: config.heartbeat_interval,
        election_timeout: config.election_timeout,
        pre_vote: config.pre_vote,
        ..raft::Config::new(data.member_id, voters, unix_time().as_nanos() as u64)
    };
    let last_in_log = data.recovered.entries.last().map_or(0, |entry| entry.index);
    let raft = Raft::new(raft_config, data.recovered, clock.now());
    let lessor = Lessor::new(config.election_timeout);
    let state = State::new(data.store, min_lease_ttl(config.election_timeout))?;
    let reader = state.store.reader();
    let (hub, hub_handle) = Hub::new(reader.clone());
    let hub = Arc::new(Mutex::new(hub));
    let told = hub_handle.clone();
    let applier = Applier::new(
        state,
        lessor,
        told,
        last_in_log,
        config.election_timeout,
        clock.now(),
    )?;

    let (member_tx, member_rx) = inbox();
    let (log_tx, log_rx) = inbox();
    let (apply_tx, apply_rx) = inbox();
    let shared = Arc::new(Shared::default());
    shared.sole_voter.store(sole_voter, Ordering::Release);
    let introduction = Introduction {
        member_id: data.member_id,
        cluster_id: data.cluster_id,
        peer_urls: config
            .initial_advertise_peer_urls
            .iter()
            .map(|url| url.to_string())
            .collect(),
    };
    let peers = Peers::start(introduction.clone(), member_tx.clone())
        .unwrap_or_else(|error| fatal("failed to start a thread", &error));
    peers.set_members(&members);
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
    let hub_inbox = hub_handle.clone();
    let log = Arc::new(Mutex::new(data.log));
    let (log_of_member, for_log) = (Arc::clone(&log), links.clone());
    let for_apply = links.clone();
    let threads = vec![
        spawn("watch", move || run_hub(&hub, &hub_inbox)),
        spawn("apply", move || run_applier(applier, apply_rx, for_apply)),
        spawn("log", move || run_log(&log, log_rx, for_log)),
        spawn("member", move || {
            let first_read = unix_time().as_nanos() as u64;
            run_member(
                Member::new(raft, first_read),
                member_rx,
                log_of_member,
                links,
            )
        }),
    ];
    let node = Node::new(Inner {
        reader,
        member: member_tx.clone(),
        apply: apply_tx.clone(),
        hub: hub_handle,
        shared,
        hashes,
        identity: Identity {
            cluster_id: data.cluster_id,
            member_id: data.member_id,
            name: config.name.clone(),
            client_urls: config
                .advertise_client_urls
                .iter()
                .map(|url| url.to_string())
                .collect(),
        },
        limits: Limits {
            max_request_bytes: config.max_request_bytes,
            max_txn_ops: config.max_txn_ops,
            quota_bytes: config.quota_backend_bytes.unwrap_or(0),
            election_timeout: config.election_timeout,
        },
        admission: Node::new_admission(),
        request_ids,
        clock,
        metrics: for_node,
        peers: peers.clone(),
        introduction,
    });
    Ok(Running {
        node,
        peers,
        member: member_tx,
        apply: apply_tx,
        threads,
        _lock: data.lock,
    })
}

impl Running {
    /// Stops the actors one behind the other, with nothing left between them: first no more
    /// proposals, then the log, then a last checkpoint. Blocks until all threads have ended.
    pub fn stop(self) {
        // A closed inbox means that its actor has ended already.
        let _ = self.member.send(MemberEvent::Stop);
        let _ = self.apply.send(ApplyEvent::Stop);
        self.node.hub().stop();
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
    crate::logging::flush();
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

/// The shortest lease, in seconds: one and a half election timeouts, so that an election does not
/// end it.
fn min_lease_ttl(election_timeout: Duration) -> i64 {
    (election_timeout.as_millis() * 3).div_ceil(2_000) as i64
}

/// The way of answers back to the tasks that wait for them. On each worker a task hands out what
/// a batch has for that worker: one wake-up of a thread, however many clients.
#[derive(Clone)]
struct Deliveries(Vec<UnboundedSender<Replies>>);

impl Deliveries {
    fn start(workers: &Workers) -> Deliveries {
        let start = |worker| {
            let (sender, batches) = unbounded_channel();
            workers.spawn(worker, deliver(batches));
            sender
        };
        Deliveries((0..workers.count()).map(start).collect())
    }

    /// Leaves `replies` empty.
    fn send(&self, replies: &mut Replies) {
        if replies.is_empty() {
            return;
        }
        if let [only] = self.0.as_slice() {
            // Nobody is left to be told once the workers have ended.
            let _ = only.send(std::mem::take(replies));
            return;
        }
        let mut parts: Vec<Replies> = self.0.iter().map(|_| Vec::new()).collect();
        for (slot, reply) in replies.drain(..) {
            parts[slot.home()].push((slot, reply));
        }
        for (worker, part) in self.0.iter().zip(parts) {
            if !part.is_empty() {
                let _ = worker.send(part);
            }
        }
    }
}

async fn deliver(mut batches: UnboundedReceiver<Replies>) {
    while let Some(batch) = batches.recv().await {
        for (slot, reply) in batch {
            slot.send(reply);
        }
    }
}

fn run_member(
    mut member: Member,
    inbox: Inbox<MemberEvent>,
    log: Arc<Mutex<LogWriter>>,
    links: Links,
) {
    let (mut events, mut effects) = (Vec::new(), MemberEffects::default());
    loop {
        let now = links.clock.now();
        member.turn(now, &mut events, &mut effects);
        for write in effects.writes.drain(..) {
            if member.is_lone(&write) && write_here(&log, &write, &links) {
                let ticket = write.ticket;
                events.push(MemberEvent::Durable { ticket });
            } else {
                // Its receiver ends only after this thread, or with the process.
                let _ = links.log.send(LogEvent::Write(write));
            }
        }
        links.peers.send(&mut effects.messages);
        let status = member.status();
        links
            .shared
            .committed
            .store(status.commit, Ordering::Relaxed);
        if let Some(change) = effects.role_change.take() {
            let leads = change.role == RoleKind::Leader;
            let _ = links.apply.send(ApplyEvent::Leading(leads));
            note_role(&links, &change);
        }
        if !effects.committed.is_empty() {
            let _ = links.apply.send(ApplyEvent::Committed(std::mem::take(
                &mut effects.committed,
            )));
        }
        for (index, slots) in effects.reads.drain(..) {
            let _ = links.apply.send(ApplyEvent::Reads { index, slots });
        }
        links.replies.send(&mut effects.replies);
        if effects.stop {
            let _ = links.log.send(LogEvent::Stop);
            return;
        }
        if events.is_empty() {
            let wait = member
                .wake_at()
                .map(|at| at.saturating_sub(links.clock.now()));
            inbox.receive(wait, &mut events);
        }
    }
}

/// The short way for a write that nobody else's can gather behind: two threads fewer between a
/// lone client and its answer. False when the log's thread is at work, and nothing is written.
fn write_here(log: &Mutex<LogWriter>, write: &raft::Write, links: &Links) -> bool {
    let Some(mut log) = log.try_lock() else {
        return false;
    };
    append_log(&mut log, write, links);
    sync_log(&mut log, links);
    true
}

fn note_role(links: &Links, change: &RoleChange) {
    links.shared.term.store(change.term, Ordering::Relaxed);
    let previous = links.shared.leader.swap(change.leader, Ordering::Release);
    let id = format!("{:x}", links.member_id);
    match change.role {
        RoleKind::Leader => tracing::info!("{id} became leader at term {}", change.term),
        RoleKind::Follower => tracing::info!("{id} became follower at term {}", change.term),
        RoleKind::PreCandidate => {
            tracing::info!("{id} became pre-candidate at term {}", change.term);
        }
        RoleKind::Candidate => tracing::info!("{id} became candidate at term {}", change.term),
    }
    if change.leader != previous && change.leader != 0 {
        links.shared.leader_changes.fetch_add(1, Ordering::Relaxed);
        let leader = format!("{:x}", change.leader);
        tracing::info!(
            "raft.node: {id} elected leader {leader} at term {}",
            change.term
        );
    }
}

/// One sync per batch: while it runs, the next batch gathers in the inbox.
fn run_log(log: &Mutex<LogWriter>, inbox: Inbox<LogEvent>, links: Links) {
    let mut events = Vec::new();
    loop {
        inbox.receive(None, &mut events);
        let mut log = log.lock();
        let mut newest = None;
        let mut stop = false;
        for event in events.drain(..) {
            match event {
                LogEvent::Write(write) => {
                    newest = Some(write.ticket);
                    append_log(&mut log, &write, &links);
                }
                LogEvent::DropBefore { index } => log
                    .drop_before(index)
                    .unwrap_or_else(|error| unwritten(&error)),
                LogEvent::Stop => stop = true,
            }
        }
        if let Some(ticket) = newest {
            sync_log(&mut log, &links);
            let _ = links.member.send(MemberEvent::Durable { ticket });
        }
        if stop {
            return;
        }
    }
}

fn append_log(log: &mut LogWriter, write: &raft::Write, links: &Links) {
    let began = links.clock.now();
    log.append(write).unwrap_or_else(|error| unwritten(&error));
    links.metrics.wal_write.observe(links.clock.now() - began);
    links.metrics.wal_bytes.set(log.written_bytes() as i64);
}

/// Makes what was appended durable, and sees to the log's next file.
fn sync_log(log: &mut LogWriter, links: &Links) {
    if let Some(job) = log.prepare_next() {
        spawn("log-segment", move || {
            job.run()
                .unwrap_or_else(|error| fatal("failed to prepare the log", &error));
        });
    }
    let began = links.clock.now();
    log.sync()
        .unwrap_or_else(|error| fatal("failed to sync the log", &error));
    links.metrics.wal_fsync.observe(links.clock.now() - began);
}

fn unwritten(error: &dyn std::fmt::Display) -> ! {
    fatal("failed to write the log", error)
}

fn run_hub(hub: &Mutex<Hub>, inbox: &HubHandle) {
    loop {
        inbox.wait();
        let mut hub = hub.lock();
        hub.turn().unwrap_or_else(|error| unwatchable(&error));
        if hub.is_stopped() {
            return;
        }
        let rest = hub.rest();
        drop(hub);
        inbox.rest(rest);
    }
}

/// Tells the watchers, here if that is soon done and the hub is free, else by its thread.
fn advance_hub(revision: i64, links: &Links) {
    let done = match links.hub.try_lock() {
        Some(mut hub) => hub
            .advance_if_brief(revision)
            .unwrap_or_else(|error| unwatchable(&error)),
        None => false,
    };
    if !done {
        links.hub_inbox.advanced(revision);
    }
}

fn unwatchable(error: &dyn std::fmt::Display) -> ! {
    fatal("failed to read the changes to be watched", error)
}

fn run_applier(mut applier: Applier, inbox: Inbox<ApplyEvent>, links: Links) {
    let (mut events, mut effects) = (Vec::new(), ApplyEffects::default());
    loop {
        let now = links.clock.now();
        applier
            .turn(now, &mut events, &mut effects)
            .unwrap_or_else(|error| fatal("failed to apply the log", &error));
        let elapsed = links.clock.now().saturating_sub(now);
        links
            .metrics
            .applied(&mut effects.counts, elapsed, unix_time());
        carry_out(&mut effects, &applier, &links);
        if effects.stopped {
            return;
        }
        let now = links.clock.now();
        let wait = applier.wake_at(now).map(|at| at.saturating_sub(now));
        inbox.receive(wait, &mut events);
    }
}

fn carry_out(effects: &mut ApplyEffects, applier: &Applier, links: &Links) {
    let stats = applier.stats();
    links
        .shared
        .db_bytes
        .store(stats.file_bytes + stats.dirty_bytes, Ordering::Relaxed);
    links
        .shared
        .db_bytes_in_use
        .store(stats.in_use_bytes + stats.dirty_bytes, Ordering::Relaxed);
    for job in effects.hash.drain(..) {
        links.hashes.begin(job.revision);
        let hashes = Arc::clone(&links.hashes);
        spawn("hash", move || {
            let HashJob { view, revision } = job;
            hashes.finish(&view, revision);
        });
    }
    if let Some(revision) = effects.advanced.take() {
        advance_hub(revision, links);
    }
    if std::mem::take(&mut effects.cluster_changed) {
        match applier.members() {
            Ok(members) => {
                let voters = members.iter().filter(|member| !member.is_learner);
                let sole = voters.map(|member| member.id).eq([links.member_id]);
                links.shared.sole_voter.store(sole, Ordering::Release);
                links.peers.set_members(&members);
            }
            Err(error) => fatal("failed to read who the members are", &error),
        }
    }
    for (index, change) in effects.conf_changes.drain(..) {
        let _ = links
            .member
            .send(MemberEvent::ConfChanged { index, change });
    }
    if let Some(index) = effects.applied.take() {
        links.shared.applied.store(index, Ordering::Relaxed);
        let applied = MemberEvent::Applied { index };
        // A leader has no use for it before its next turn; others may wait for it to campaign.
        let leads = links.shared.leader.load(Ordering::Relaxed) == links.member_id;
        let _ = match leads {
            true => links.member.send_quietly(applied),
            false => links.member.send(applied),
        };
    }
    links.replies.send(&mut effects.replies);
    for request in effects.proposals.drain(..) {
        let data = request.encode(links.request_ids.next());
        let _ = links.member.send(MemberEvent::Propose(Proposal {
            request,
            data,
            reply: None,
        }));
    }
    if let Some(index) = effects.drop_log_before.take() {
        let _ = links.log.send(LogEvent::DropBefore { index });
    }
    if let Some(job) = effects.checkpoint.take() {
        let (apply, clock) = (links.apply.clone(), links.clock);
        let metrics = Arc::clone(&links.metrics);
        spawn("checkpoint", move || {
            let began = clock.now();
            let done = Box::new(job.run());
            metrics.backend_commit.observe(clock.now() - began);
            let _ = apply.send(ApplyEvent::CheckpointDone(done));
        });
    }
}

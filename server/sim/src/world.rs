//! The world: time, what is to happen next, the hosts, and who is told of everything.

mod actors;
mod ending;
mod transfers;

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use raft::Message;
use server::state::snapshot::Form;

use crate::canary::Canary;
use crate::check::agreement::Agreement;
use crate::check::durable_prefix::DurablePrefix;
use crate::check::election_safety::ElectionSafety;
use crate::check::leader_completeness::LeaderCompleteness;
use crate::check::leases::Leases;
use crate::check::log_matching::LogMatching;
use crate::check::membership::Membership;
use crate::check::{Verdict, linearizability};
use crate::clients::Clients;
use crate::host::{Crash, Host};
use crate::members::Members;
use crate::nemesis::Nemesis;
use crate::net::Net;
use crate::oracle::Oracle;
use crate::process::{Actor, Settings};
use crate::trace::Trace;
use crate::watchers::Watchers;
use crate::{DRIFT, Options};
use testkit::Rng;

pub(crate) const MICRO: u64 = 1_000;
pub(crate) const MILLI: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// In some runs clients reach it.
pub(crate) const SMALL_QUOTA: u64 = 256 << 10;

/// The name of the check that failed, and what it says.
pub(crate) type Failed = (&'static str, String);

pub(crate) trait Named {
    fn of(self, check: &'static str) -> Result<(), Failed>;
}

impl Named for Verdict {
    fn of(self, check: &'static str) -> Result<(), Failed> {
        self.map_err(|what| (check, what))
    }
}

#[derive(Debug)]
pub(crate) enum Event {
    /// An actor of the host's `life`th process.
    Turn {
        host: usize,
        life: u64,
        actor: Actor,
    },
    Deliver(Box<Message>),
    /// A member's state comes to another one, or as much of it as does.
    Snapshot(Box<Transfer>),
    /// The sender's `life`th process hears how that ended.
    SnapshotSent {
        host: usize,
        life: u64,
        to: u64,
        ok: bool,
    },
    /// The connection of `peer` to `host` was closed by the peer's end.
    Closed {
        host: usize,
        peer: u64,
    },
    /// The client has something to do or to look at.
    Client(usize),
    Watcher(usize),
    Nemesis,
    /// The host's process begins again, unless it has.
    Start(usize),
    /// Its pause ends.
    Resume(usize),
    /// The disk has room again, unless the host's `life`th process has ended.
    Room {
        host: usize,
        life: u64,
    },
    /// A process that was told that it is a member no more ends.
    Leave {
        host: usize,
        life: u64,
    },
}

#[derive(Debug)]
pub(crate) struct Transfer {
    pub from: usize,
    pub life: u64,
    pub to: u64,
    pub form: Form,
    pub bytes: Vec<u8>,
}

struct Scheduled {
    at: u64,
    order: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    /// The earliest is the greatest: what the heap gives first.
    fn cmp(&self, other: &Scheduled) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub digest: u64,
    pub members: usize,
    /// Simulated nanoseconds.
    pub time: u64,
    pub operations: usize,
    pub unknown: usize,
    pub undecided: usize,
    pub elections: usize,
    /// Changes of the members that were acknowledged, machines that joined, and that left.
    pub changes: usize,
    pub joined: usize,
    pub left: usize,
    /// Runs whose last voter never heard that it is alone.
    pub stranded: usize,
    pub entries: usize,
    pub crashes: usize,
    pub partitions: usize,
    pub pauses: usize,
    /// Disks with little room or none, and changes refused for it.
    pub tight: usize,
    pub refused: usize,
    pub defragmented: usize,
    /// Changes of keys that were carried through.
    pub reencrypted: usize,
    pub watch_events: u64,
    pub leases_expired: u64,
    pub checkpoints: usize,
    pub compactions: usize,
    /// States sent to members too far behind, and those put in place.
    pub snapshots: usize,
    pub installs: usize,
    /// Entries read from the log on disk for members too far behind.
    pub fetched: usize,
    pub states_compared: u64,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Figures) {
        self.digest ^= other.digest;
        self.members += other.members;
        self.time += other.time;
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.undecided += other.undecided;
        self.elections += other.elections;
        self.changes += other.changes;
        self.joined += other.joined;
        self.left += other.left;
        self.stranded += other.stranded;
        self.entries += other.entries;
        self.crashes += other.crashes;
        self.partitions += other.partitions;
        self.pauses += other.pauses;
        self.tight += other.tight;
        self.refused += other.refused;
        self.defragmented += other.defragmented;
        self.reencrypted += other.reencrypted;
        self.watch_events += other.watch_events;
        self.leases_expired += other.leases_expired;
        self.checkpoints += other.checkpoints;
        self.compactions += other.compactions;
        self.snapshots += other.snapshots;
        self.installs += other.installs;
        self.fetched += other.fetched;
        self.states_compared += other.states_compared;
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} members, {} simulated seconds, {} operations ({} unheard of, {} searches undecided), \
             {} entries, {} elections, {} changes of members ({} joined, {} left, {} stranded), {} crashes, {} partitions, {} pauses, {} full disks ({} changes refused), {} defragmentations, {} changes of keys, {} checkpoints, \
             {} compactions, {} snapshots ({} installed), {} entries fed from disk, {} leases expired, {} watch events, {} states compared",
            self.members,
            self.time / SECOND,
            self.operations,
            self.unknown,
            self.undecided,
            self.entries,
            self.elections,
            self.changes,
            self.joined,
            self.left,
            self.stranded,
            self.crashes,
            self.partitions,
            self.pauses,
            self.tight,
            self.refused,
            self.defragmented,
            self.reencrypted,
            self.checkpoints,
            self.compactions,
            self.snapshots,
            self.installs,
            self.fetched,
            self.leases_expired,
            self.watch_events,
            self.states_compared,
        )
    }
}

/// Everybody who has to be told.
pub(crate) struct Checks {
    pub election_safety: ElectionSafety,
    pub log_matching: LogMatching,
    pub leader_completeness: LeaderCompleteness,
    pub durable_prefix: DurablePrefix,
    pub agreement: Agreement,
    pub leases: Leases,
    pub membership: Membership,
    pub oracle: Oracle,
}

pub(crate) struct World {
    pub now: u64,
    pub rng: Rng,
    queue: BinaryHeap<Scheduled>,
    ordered: u64,
    pub hosts: Vec<Host>,
    pub net: Net,
    pub clients: Clients,
    pub watchers: Watchers,
    pub nemesis: Nemesis,
    pub members: Members,
    pub checks: Checks,
    pub trace: Trace,
    pub figures: Figures,
    pub canary: Option<Canary>,
    /// The newest entry that anybody knows to be committed.
    newest_commit: u64,
    /// Whose space alarms are raised, as the log has it.
    alarms: BTreeSet<u64>,
    /// Nothing goes wrong any more.
    pub healed_at: Option<u64>,
    /// Clients and watchers do nothing new.
    pub quiet: bool,
}

impl World {
    pub(crate) fn new(seed: u64, options: Options) -> World {
        let mut rng = Rng::new(seed);
        let members = *rng.pick(&[3, 3, 3, 5]);
        let names: Vec<String> = (1..=members).map(|n| format!("m{n}")).collect();
        let settings = |name: &String, rng: &mut Rng| settings(name, &names, false, rng);
        let mut sizes = rng.fork();
        let hosts: Vec<Host> = names
            .iter()
            .map(|name| Host::new(settings(name, &mut sizes.clone()), rng.fork()))
            .collect();
        let _ = sizes.next();
        let net = Net::new(rng.fork());
        let clients = Clients::new(rng.fork(), members);
        let watchers = Watchers::new(rng.fork(), members);
        let nemesis = Nemesis::new(rng.fork(), options.only);
        World {
            now: SECOND,
            rng,
            queue: BinaryHeap::new(),
            ordered: 0,
            hosts,
            net,
            clients,
            watchers,
            nemesis,
            members: Members::default(),
            checks: Checks {
                election_safety: ElectionSafety::default(),
                log_matching: LogMatching::default(),
                leader_completeness: LeaderCompleteness::default(),
                durable_prefix: DurablePrefix::new(members),
                agreement: Agreement::default(),
                leases: Leases::new(1_000_000 + DRIFT),
                membership: Membership::default(),
                oracle: Oracle::new(members),
            },
            trace: Trace::new(options.aloud),
            figures: Figures {
                members,
                ..Figures::default()
            },
            canary: options.canary,
            newest_commit: 0,
            alarms: BTreeSet::new(),
            healed_at: None,
            quiet: false,
        }
    }

    pub(crate) fn run(&mut self) -> Result<(), Failed> {
        if self.canary == Some(Canary::Nondeterminism) {
            static RUNS: AtomicU64 = AtomicU64::new(0);
            self.note(&format!("run {}", RUNS.fetch_add(1, Relaxed)));
        }
        for host in 0..self.hosts.len() {
            let at = self.now + self.rng.below(50 * MILLI);
            self.at(at, Event::Start(host));
        }
        for client in 0..self.clients.count() {
            let at = self.now + self.rng.below(SECOND);
            self.at(at, Event::Client(client));
        }
        for watcher in 0..self.watchers.count() {
            let at = self.now + self.rng.below(2 * SECOND);
            self.at(at, Event::Watcher(watcher));
        }
        let first_fault = self.now + SECOND + self.rng.below(2 * SECOND);
        self.at(first_fault, Event::Nemesis);
        let until = self.now + self.nemesis.lasts();
        self.go_on(until)?;
        self.heal()?;
        self.wait_until_well()?;
        if self.figures.stranded == 0 {
            self.come_to_rest()?;
        }
        self.judge()
    }

    /// Lets everything happen that is due before `until`.
    fn go_on(&mut self, until: u64) -> Result<(), Failed> {
        while self.queue.peek().is_some_and(|next| next.at <= until) {
            let Some(Scheduled { at, event, .. }) = self.queue.pop() else {
                break;
            };
            self.now = self.now.max(at);
            self.happens(event)?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    fn happens(&mut self, event: Event) -> Result<(), Failed> {
        match event {
            Event::Turn { host, life, actor } => self.turn(host, life, actor),
            Event::Deliver(message) => {
                self.deliver(*message);
                Ok(())
            }
            Event::Snapshot(transfer) => self.snapshot_comes(&transfer),
            Event::SnapshotSent { host, life, to, ok } => {
                self.snapshot_sent(host, life, to, ok);
                Ok(())
            }
            Event::Closed { host, peer } => {
                self.closed(host, peer);
                Ok(())
            }
            Event::Client(client) => self.client(client),
            Event::Watcher(watcher) => self.watcher(watcher),
            Event::Nemesis => self.strike(),
            Event::Start(host) => self.start(host),
            Event::Resume(host) => {
                self.resume(host);
                Ok(())
            }
            Event::Room { host, life } => {
                self.make_room(host, life);
                Ok(())
            }
            Event::Leave { host, life } => {
                self.leave(host, life);
                Ok(())
            }
        }
    }

    pub(crate) fn at(&mut self, at: u64, event: Event) {
        self.ordered += 1;
        self.queue.push(Scheduled {
            at: at.max(self.now),
            order: self.ordered,
            event,
        });
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.trace.line(self.now, text);
    }

    pub(crate) fn host_of(&self, id: u64) -> Option<usize> {
        self.hosts.iter().position(|host| host.id == id)
    }

    pub(crate) fn leader(&self) -> Option<usize> {
        let leads = |host: &Host| host.process.as_ref().is_some_and(|p| p.leads());
        let leaders = (0..self.hosts.len()).filter(|h| leads(&self.hosts[*h]));
        leaders.max_by_key(|h| {
            let process = self.hosts[*h].process.as_ref();
            process.map_or(0, |process| process.status().term)
        })
    }

    /// Ends the host's process, and lets its peers' systems notice what they can.
    pub(crate) fn crash(&mut self, host: usize, how: Crash) {
        self.figures.crashes += 1;
        self.note(&format!("h{host} crashes: {how:?}"));
        let peer = self.hosts[host].id;
        self.hosts[host].crash(how);
        if how == Crash::Killed && peer != 0 {
            for other in 0..self.hosts.len() {
                if other != host && !self.net.is_cut((host, other)) {
                    let at = self.now + MILLI / 4 + self.rng.below(2 * MILLI);
                    self.at(at, Event::Closed { host: other, peer });
                }
            }
        }
        self.wake_clients_of(host);
        let back = match self.rng.below(4) {
            0 => self.rng.between(10 * MILLI, 100 * MILLI),
            1 => self.rng.between(2 * SECOND, 6 * SECOND),
            _ => self.rng.between(100 * MILLI, 2 * SECOND),
        };
        self.hosts[host].restart_at = Some(self.now + back);
        self.at(self.now + back, Event::Start(host));
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures {
            digest: self.trace.digest(),
            time: self.now,
            elections: self.checks.election_safety.elections(),
            entries: self.checks.durable_prefix.chosen(),
            watch_events: self.watchers.events(),
            leases_expired: self.checks.leases.expired(),
            changes: self.checks.membership.changes(),
            states_compared: self.checks.agreement.compared(),
            ..self.figures.clone()
        }
    }

    pub(crate) fn last_lines(&self) -> Vec<String> {
        self.trace.last().map(str::to_owned).collect()
    }

    fn judge(&mut self) -> Result<(), Failed> {
        let found = linearizability::judge(self.clients.history());
        let found = found.map_err(|what| ("linearizability", what))?;
        self.figures.operations += found.operations;
        self.figures.undecided = found.undecided;
        Ok(())
    }
}

pub(crate) fn settings(name: &str, names: &[String], joins: bool, rng: &mut Rng) -> Settings {
    // In memory, and on the disk.
    let kept = (
        *rng.pick(&[5, 50, 5000]),
        *rng.pick(&[0, 64 << 10, 1 << 30]),
    );
    let mut settings = Settings::new(name, names, kept, joins);
    settings.limits.append_bytes = *rng.pick(&[500, 5_000, 1 << 20]);
    settings.limits.kept_bytes = *rng.pick(&[1_000, 20_000, 32 << 20]);
    settings.limits.fetch_bytes = *rng.pick(&[1, 5_000, 4 << 20]);
    settings.limits.inflight_messages = *rng.pick(&[2, 16, 512]);
    settings.log.segment_bytes = *rng.pick(&[16 << 10, 64 << 10, 256 << 10]);
    settings.pace.log_bytes_to_checkpoint = *rng.pick(&[2 << 10, 10 << 10, 50 << 10, 1 << 20]);
    settings.pace.log_bytes_with_deltas = settings.pace.log_bytes_to_checkpoint;
    settings.pace.gain_bytes_to_checkpoint = *rng.pick(&[2 << 10, 64 << 10, 16 << 20]);
    settings.pace.dirty_bytes_to_checkpoint = *rng.pick(&[64 << 10, 1 << 20, 96 << 20]);
    settings.pace.dirty_bytes_max = 2 * settings.pace.dirty_bytes_to_checkpoint;
    settings.pace.compact_step_rows = *rng.pick(&[1, 10, 256]);
    if rng.chance(500) {
        settings.keys = vec![1];
    }
    if rng.chance(150) {
        settings.config.quota_backend_bytes = Some(SMALL_QUOTA);
    }
    settings
}

//! The world: time, what is to happen next, the hosts, and who is told of everything.

mod actors;
mod empty_disks;
mod ending;
mod event;
mod figures;
mod judge;
mod recovery;
mod rot;
mod sabotage;
mod starts;
mod transfers;

use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::canary::Canary;
use crate::check::agreement::Agreement;
use crate::check::durable_prefix::DurablePrefix;
use crate::check::election_safety::ElectionSafety;
use crate::check::empty_disks::EmptyDisks;
use crate::check::leader_completeness::LeaderCompleteness;
use crate::check::leases::Leases;
use crate::check::log_matching::LogMatching;
use crate::check::membership::Membership;
use crate::check::real_time::RealTime;
use crate::check::state::States;
use crate::check::tokens::Tokens;
use crate::check::{Verdict, linearizability};
use crate::clients::Clients;
use crate::host::process::Settings;
use crate::host::{Crash, Host};
use crate::model::Model;
use crate::nemesis::Nemesis;
use crate::nemesis::members::Members;
use crate::net::Net;
use crate::trace::Trace;
use crate::watchers::Watchers;
use crate::{DRIFT, Options};
use event::Scheduled;
pub(crate) use event::{Event, Transfer};
pub use figures::Figures;
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

/// Everybody who has to be told.
pub(crate) struct Checks {
    pub election_safety: ElectionSafety,
    pub log_matching: LogMatching,
    pub leader_completeness: LeaderCompleteness,
    pub durable_prefix: DurablePrefix,
    pub agreement: Agreement,
    pub leases: Leases,
    pub membership: Membership,
    pub empty_disks: EmptyDisks,
    pub real_time: RealTime,
    pub states: States,
    pub tokens: Tokens,
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
    /// What the committed entries make.
    pub model: Model,
    pub trace: Trace,
    pub figures: Figures,
    pub canary: Option<Canary>,
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
        let min_lease_ttl = hosts[0].settings.min_lease_ttl();
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
                empty_disks: EmptyDisks::default(),
                real_time: RealTime::default(),
                states: States::new(members),
                tokens: Tokens::new(members),
            },
            model: Model::new(min_lease_ttl),
            trace: Trace::new(options.aloud),
            figures: Figures {
                members,
                ..Figures::default()
            },
            canary: options.canary,
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
            Event::Operator(host) => {
                self.operate(host);
                Ok(())
            }
            Event::Inspect => self.inspect_disks(),
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
            states_compared: self.checks.agreement.compared() + self.checks.states.compared(),
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
    settings.limits.uncommitted_bytes = *rng.pick(&[3_000, 256 << 20, 256 << 20]);
    settings.limits.unapplied_bytes = *rng.pick(&[3_000, 256 << 20, 256 << 20]);
    settings.limits.pending_reads = *rng.pick(&[1, 1 << 16, 1 << 16]);
    settings.limits.inflight_messages = *rng.pick(&[2, 16, 512]);
    settings.log.segment_bytes = *rng.pick(&[16 << 10, 64 << 10, 256 << 10]);
    settings.pace.log.bytes = *rng.pick(&[2 << 10, 10 << 10, 50 << 10, 1 << 20]);
    settings.pace.log_with_deltas.bytes = settings.pace.log.bytes;
    settings.pace.gain_bytes_to_checkpoint = *rng.pick(&[2 << 10, 64 << 10, 16 << 20]);
    settings.pace.dirty_bytes_to_checkpoint = *rng.pick(&[64 << 10, 1 << 20, 96 << 20]);
    settings.pace.dirty_bytes_max = 2 * settings.pace.dirty_bytes_to_checkpoint;
    settings.pace.key_bytes_direct = *rng.pick(&[0, 1_000, 10_000, 64 << 20]);
    settings.pace.keys_deleted_at_once = *rng.pick(&[0, 1, 3, 16 << 10]);
    settings.pace.delete_step_keys = *rng.pick(&[1, 3, 2048]);
    settings.pace.delete_pause = *rng.pick(&[0, 1, 30, 100].map(Duration::from_millis));
    settings.pace.log_bytes_while_deleting = *rng.pick(&[1 << 10, 100 << 10, 1 << 30]);
    settings.pace.compact_step_rows = *rng.pick(&[1, 10, 256]);
    if rng.chance(500) {
        settings.keys = vec![1];
    }
    if rng.chance(150) {
        settings.config.quota_backend_bytes = Some(SMALL_QUOTA);
    }
    settings
}

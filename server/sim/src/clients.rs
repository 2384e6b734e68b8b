//! Clients: each asks one thing at a time of one member, waits for the answer as long as etcd's
//! clients do, and writes down what it saw. Request handlers (`server::runtime::etcd_server`, `server::api::grpc`) are
//! not run here; what they do between a request and the actors is done in this file.

mod request;

use std::collections::BTreeMap;

use server::error::Error;
use server::event::ReplySlot;
use server::event::admission::{Admission, Limits, Permit};
use server::event::{Answer, ApplyEvent, ConsensusEvent, LeaseCall, Outcome, Reply};
use server::request::Request;
use storage::mvcc::View;
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use crate::canary::Canary;
use crate::history::{self, Operation, Record, Step, Value};
use crate::host::Host;
use crate::process::Process;
use crate::world::{Event, Failed, MICRO, MILLI, Named, SECOND, SMALL_QUOTA, World};
use testkit::Rng;

/// etcd's: five seconds and two election timeouts.
const PATIENCE: u64 = 7 * SECOND;
/// Keys of each partition.
const PARTITIONS: [usize; 6] = [1, 1, 1, 1, 3, 3];
/// A compaction leaves so many revisions at least: the oracle reads them as they are applied.
const KEPT_REVISIONS: u64 = 40;
const IN_FLIGHT: Limits = Limits {
    requests: 1 << 20,
    bytes: 1 << 30,
};

/// What is asked for.
#[derive(Clone, Debug)]
enum Ask {
    Operation {
        partition: usize,
        operation: Operation,
    },
    Grant {
        id: i64,
        ttl: i64,
    },
    Attach {
        lease: i64,
    },
    KeepAlive {
        lease: i64,
    },
    Revoke {
        lease: i64,
    },
    Compact {
        revision: i64,
    },
    Defragment,
}

#[derive(Debug)]
enum Stage {
    /// On the way to another member, who leads.
    Forwarded { to: usize },
    /// A keep-alive has come to who leads; others have to confirm that it does.
    Confirming {
        receiver: Receiver<Reply>,
        at: usize,
    },
    Asked {
        receiver: Receiver<Reply>,
        at: usize,
    },
}

#[derive(Debug)]
struct Waiting {
    ask: Ask,
    stage: Stage,
    host: usize,
    /// The process that was asked; a later one knows nothing of it.
    life: u64,
    request_id: Option<u64>,
    called_at: u64,
}

#[derive(Debug, Default)]
struct Client {
    host: usize,
    waiting: Option<Waiting>,
    leases: Vec<i64>,
    /// It thinks until then.
    thinks_until: u64,
    /// What it last saw, by partition.
    seen: BTreeMap<usize, Vec<Value>>,
}

#[derive(Debug)]
pub(crate) struct Clients {
    rng: Rng,
    clients: Vec<Client>,
    hosts: usize,
    history: Vec<Record>,
    /// Changes whose fate is not known, by request id: the place in the history, or `None` while
    /// the client still waits.
    unheard: BTreeMap<u64, usize>,
    /// When requests were first known to be committed.
    committed: BTreeMap<u64, u64>,
    last_value: Value,
    last_lease: i64,
    /// Nanoseconds between an answer and the next request.
    thinks: u64,
    /// Most of what clients do is to keep few leases alive, for as long as they can.
    keepers: bool,
    admission: Admission,
    healed_at: Option<u64>,
    /// Hosts that have not answered a read since the healing.
    silent: Vec<usize>,
}

impl Clients {
    pub(crate) fn new(mut rng: Rng, hosts: usize) -> Clients {
        let count = rng.between(2, 7);
        let clients = (0..count).map(|_| Client {
            host: rng.below(hosts as u64) as usize,
            ..Client::default()
        });
        Clients {
            clients: clients.collect(),
            hosts,
            history: Vec::new(),
            unheard: BTreeMap::new(),
            committed: BTreeMap::new(),
            last_value: 0,
            last_lease: 0,
            keepers: rng.chance(400),
            thinks: *rng.pick(&[2 * MILLI, 10 * MILLI, 40 * MILLI]),
            admission: Admission::new(IN_FLIGHT),
            healed_at: None,
            silent: Vec::new(),
            rng,
        }
    }

    pub(crate) fn add_host(&mut self) {
        self.hosts += 1;
    }

    /// For requests of others than these.
    pub(crate) fn admit(&self) -> Result<Permit, Error> {
        self.admission.admit(0)
    }

    pub(crate) fn count(&self) -> usize {
        self.clients.len()
    }

    pub(crate) fn history(&self) -> &[Record] {
        &self.history
    }

    pub(crate) fn are_idle(&self) -> bool {
        self.clients.iter().all(|client| client.waiting.is_none())
    }

    /// These must serve from now on.
    pub(crate) fn heal(&mut self, now: u64, voters: Vec<usize>) {
        self.healed_at = Some(now);
        self.silent = voters;
    }

    pub(crate) fn silent(&self) -> Vec<usize> {
        self.silent.clone()
    }

    /// The request is committed: whoever asks from now on has to see what it did.
    pub(crate) fn takes_effect(&mut self, request_id: u64, now: u64) {
        self.committed.entry(request_id).or_insert(now);
        if let Some(place) = self.unheard.remove(&request_id) {
            self.history[place].returned_at = now;
        }
    }

    /// Every key of a member at rest, as operations that take no time.
    pub(crate) fn reads_all(&mut self, host: usize, view: &View, now: u64) -> Result<(), Failed> {
        for (partition, keys) in PARTITIONS.into_iter().enumerate() {
            let operation = Operation {
                then: (0..keys).map(Step::Get).collect(),
                ..Operation::default()
            };
            let outcome = request::read(view, partition, &operation);
            self.history.push(Record {
                client: 1000 + host,
                partition,
                operation,
                called_at: now,
                returned_at: now,
                outcome: Some(outcome.map_err(|error| ("agreement", error.to_string()))?),
                revision: Some(view.revision()),
            });
        }
        // What nobody heard of and is not committed by now never happens.
        let never: Vec<usize> = self.unheard.values().copied().collect();
        for place in never.into_iter().rev() {
            self.history[place].partition = usize::MAX;
        }
        self.unheard.clear();
        self.history.retain(|record| record.partition != usize::MAX);
        Ok(())
    }

    fn next_value(&mut self) -> Value {
        self.last_value += 1;
        self.last_value
    }

    /// What `client` does next.
    fn choose(&mut self, client: usize, revision: i64) -> Ask {
        let leases = self.clients[client].leases.clone();
        if self.keepers && self.rng.chance(600) {
            return match self.rng.pick(&[None, leases.first(), leases.last()]) {
                Some(lease) => Ask::KeepAlive { lease: **lease },
                None if leases.len() < 2 => self.grant(),
                None => self.choose_operation(client),
            };
        }
        match self.rng.below(100) {
            0..4 => self.grant(),
            4..8 if !leases.is_empty() => Ask::Attach {
                lease: *self.rng.pick(&leases),
            },
            8..18 if !leases.is_empty() => Ask::KeepAlive {
                lease: *self.rng.pick(&leases),
            },
            18 if !leases.is_empty() => Ask::Revoke {
                lease: *self.rng.pick(&leases),
            },
            19 if revision > 2 * KEPT_REVISIONS as i64 => {
                let kept = self.rng.between(KEPT_REVISIONS, 2 * KEPT_REVISIONS) as i64;
                let revision = revision - kept;
                Ask::Compact { revision }
            }
            20 => Ask::Defragment,
            _ => self.choose_operation(client),
        }
    }

    fn grant(&mut self) -> Ask {
        self.last_lease += 1;
        let (id, ttl) = (self.last_lease, self.rng.between(1, 6) as i64);
        Ask::Grant { id, ttl }
    }

    fn choose_operation(&mut self, client: usize) -> Ask {
        let partition = self.rng.below(PARTITIONS.len() as u64) as usize;
        let keys = PARTITIONS[partition];
        let key = self.rng.below(keys as u64) as usize;
        let seen = self.clients[client].seen.get(&partition).cloned();
        let seen = seen.unwrap_or_else(|| vec![0; keys]);
        let all = || (0..keys).map(Step::Get).collect::<Vec<Step>>();
        let operation = match self.rng.below(10) {
            0..3 => Operation::of(Step::Put(key, self.next_value())),
            3 => Operation::of(Step::Delete(key)),
            4..7 => Operation {
                then: all(),
                ..Operation::default()
            },
            // All keys at once, and what they were with them.
            7 => {
                let mut then = all();
                then.extend((0..keys).map(|key| Step::Put(key, self.next_value())));
                Operation {
                    then,
                    ..Operation::default()
                }
            }
            // As a lock, a counter, or an election does it.
            _ => Operation {
                when: vec![(key, seen[key])],
                then: vec![Step::Put(key, self.next_value()), Step::Get(keys - 1 - key)],
                otherwise: all(),
            },
        };
        Ask::Operation {
            partition,
            operation,
        }
    }
}

impl World {
    pub(crate) fn wake_clients_of(&mut self, host: usize) {
        for client in 0..self.clients.clients.len() {
            let waits = match &self.clients.clients[client].waiting {
                Some(Waiting {
                    stage: Stage::Asked { at, .. } | Stage::Confirming { at, .. },
                    host: asked,
                    ..
                }) => *at == host || *asked == host,
                Some(waiting) => waiting.host == host,
                None => false,
            };
            if waits {
                let soon = self.now + self.clients.rng.between(10 * MICRO, 200 * MICRO);
                self.at(soon, Event::Client(client));
            }
        }
    }

    /// The client looks whether there is something to do.
    pub(crate) fn client(&mut self, client: usize) -> Result<(), Failed> {
        if self.clients.clients[client].waiting.is_none() {
            if !self.quiet && self.now >= self.clients.clients[client].thinks_until {
                self.ask(client);
            }
            return Ok(());
        }
        self.look(client)
    }

    fn later(&mut self, client: usize, mean: u64) {
        let at = self.now + MICRO + self.clients.rng.about(mean);
        self.clients.clients[client].thinks_until = at;
        self.at(at, Event::Client(client));
    }

    fn ask(&mut self, client: usize) {
        let clients = &mut self.clients;
        let moves = if clients.keepers { 400 } else { 100 };
        if clients.rng.chance(moves) {
            clients.clients[client].host = clients.rng.below(clients.hosts as u64) as usize;
        }
        let still = clients
            .silent
            .iter()
            .find(|host| !self.hosts[**host].retired);
        if let Some(silent) = still {
            clients.clients[client].host = *silent;
        }
        let host = clients.clients[client].host;
        let process = self.hosts[host].process.as_ref();
        let Some(process) = process.filter(|process| !process.learns()) else {
            // Connection refused, or one that only learns: another member, then.
            clients.clients[client].host = clients.rng.below(clients.hosts as u64) as usize;
            return self.later(client, 20 * MILLI);
        };
        let ask = clients.choose(client, process.view().revision());
        let life = self.hosts[host].life;
        let mut waiting = Waiting {
            ask,
            stage: Stage::Forwarded { to: host },
            host,
            life,
            request_id: None,
            called_at: self.now,
        };
        self.submit(&mut waiting);
        self.at(self.now + PATIENCE, Event::Client(client));
        if let Stage::Forwarded { to } = waiting.stage
            && to != host
        {
            let at = self.now + self.clients.rng.between(200 * MICRO, 4 * MILLI);
            self.at(at, Event::Client(client));
        }
        self.clients.clients[client].waiting = Some(waiting);
        // What needs no answer from anybody is there at once.
        self.at(self.now + 20 * MICRO, Event::Client(client));
    }

    /// What a request handler does with it.
    fn submit(&mut self, waiting: &mut Waiting) {
        let Ok(permit) = self.clients.admission.admit(0) else {
            return;
        };
        let (slot, receiver) = ReplySlot::new(permit);
        let host = waiting.host;
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        let request = match &waiting.ask {
            Ask::Operation { operation, .. } if operation.is_read() => {
                if process.shared.decides_alone() || self.canary == Some(Canary::LocalRead) {
                    slot.send(Ok(Answer {
                        outcome: Outcome::Done,
                        revision: 0,
                    }));
                } else {
                    process.ports.to_consensus.push(ConsensusEvent::Read(slot));
                }
                waiting.stage = Stage::Asked { receiver, at: host };
                return self.schedule(host);
            }
            Ask::KeepAlive { .. } if !process.leads() => {
                if let Some(to) = self.host_of(self.leader_known_to(host)) {
                    waiting.stage = Stage::Forwarded { to };
                }
                return;
            }
            Ask::KeepAlive { .. } => {
                drop((slot, receiver));
                return self.renew(waiting, host);
            }
            Ask::Defragment => {
                process.ports.to_apply.push(ApplyEvent::Defragment(slot));
                waiting.stage = Stage::Asked { receiver, at: host };
                return self.schedule(host);
            }
            Ask::Operation {
                partition,
                operation,
            } => request::change(*partition, operation, &mut self.clients.rng),
            Ask::Grant { id, ttl } => request::grant(*id, *ttl),
            Ask::Attach { lease } => request::attach(*lease),
            Ask::Revoke { lease } => request::revoke(*lease),
            Ask::Compact { revision } => request::compact(*revision),
        };
        if let Ask::Revoke { lease } = waiting.ask {
            self.checks.leases.revokes(lease);
        }
        if let Some(needed) = process.turns_away(&request) {
            let refused = ApplyEvent::Refused { needed, slot };
            process.ports.to_apply.push(refused);
            waiting.stage = Stage::Asked { receiver, at: host };
            return self.schedule(host);
        }
        let proposal = process.encode(request, Some(slot));
        waiting.request_id = Request::id_of(&proposal.data);
        process
            .ports
            .to_consensus
            .push(ConsensusEvent::Propose(proposal));
        waiting.stage = Stage::Asked { receiver, at: host };
        self.schedule(host);
    }

    fn leader_known_to(&self, host: usize) -> u64 {
        let process = self.hosts[host].process.as_ref();
        process.map_or(0, |process| process.shared.leadership.leader())
    }

    fn look(&mut self, client: usize) -> Result<(), Failed> {
        let Some(mut waiting) = self.clients.clients[client].waiting.take() else {
            return Ok(());
        };
        let host = waiting.host;
        if self.hosts[host].life != waiting.life {
            return self.gives_up(client, waiting);
        }
        let is_late = self.now >= waiting.called_at + PATIENCE;
        if self.hosts[host].paused && !is_late {
            self.clients.clients[client].waiting = Some(waiting);
            return Ok(());
        }
        match &mut waiting.stage {
            Stage::Forwarded { to } => {
                let to = *to;
                self.forwarded(&mut waiting, to);
                if matches!(waiting.stage, Stage::Forwarded { .. }) {
                    return self.gives_up(client, waiting);
                }
            }
            Stage::Confirming { receiver, at } => {
                let at = *at;
                match receiver.try_recv() {
                    Ok(Ok(_)) if self.hosts[at].process.as_ref().is_some_and(Process::leads) => {
                        self.renew(&mut waiting, at);
                    }
                    Err(TryRecvError::Empty) => {}
                    _ => return self.gives_up(client, waiting),
                }
            }
            Stage::Asked { receiver, at } => match receiver.try_recv() {
                Ok(reply) => {
                    let back = *at == host || !self.net.is_cut((*at, host));
                    return if back {
                        self.hears(client, waiting, reply)
                    } else {
                        self.gives_up(client, waiting)
                    };
                }
                Err(TryRecvError::Closed) => return self.gives_up(client, waiting),
                Err(TryRecvError::Empty) => {}
            },
        }
        if is_late {
            return self.gives_up(client, waiting);
        }
        self.clients.clients[client].waiting = Some(waiting);
        Ok(())
    }

    /// A keep-alive comes to who is said to lead.
    fn forwarded(&mut self, waiting: &mut Waiting, to: usize) {
        let is_cut = self.net.is_cut((waiting.host, to)) || self.hosts[to].paused;
        let Some(process) = self.hosts[to].process.as_mut().filter(|_| !is_cut) else {
            return;
        };
        if process.leads() {
            self.renew(waiting, to);
        }
    }

    /// A keep-alive at the member that leads, as `server::runtime::etcd_server` has it: first it makes sure of that.
    fn renew(&mut self, waiting: &mut Waiting, at: usize) {
        let (Ok(permit), Some(process)) =
            (self.clients.admission.admit(0), &mut self.hosts[at].process)
        else {
            return;
        };
        let Ask::KeepAlive { lease } = waiting.ask else {
            return;
        };
        let (slot, receiver) = ReplySlot::new(permit);
        let confirmed =
            matches!(waiting.stage, Stage::Confirming { .. }) || process.shared.decides_alone();
        if confirmed {
            let call = LeaseCall::KeepAlive { id: lease };
            process.ports.to_apply.push(ApplyEvent::Lease(call, slot));
            waiting.stage = Stage::Asked { receiver, at };
        } else {
            process.ports.to_consensus.push(ConsensusEvent::Read(slot));
            waiting.stage = Stage::Confirming { receiver, at };
        }
        self.schedule(at);
    }

    /// No answer came, or none that says what became of the request.
    fn gives_up(&mut self, client: usize, waiting: Waiting) -> Result<(), Failed> {
        self.figures.unknown += 1;
        self.note(&format!("c{client} hears nothing of {:?}", waiting.ask));
        if let Ask::Operation {
            partition,
            operation,
        } = waiting.ask
            && let Some(request_id) = waiting.request_id
        {
            let committed = self.clients.committed.get(&request_id).copied();
            let record = Record {
                client,
                partition,
                operation,
                called_at: waiting.called_at,
                returned_at: committed.unwrap_or(u64::MAX),
                outcome: None,
                revision: None,
            };
            if committed.is_none() {
                let place = self.clients.history.len();
                self.clients.unheard.insert(request_id, place);
            }
            self.clients.history.push(record);
        }
        let clients = &mut self.clients;
        clients.clients[client].host = clients.rng.below(clients.hosts as u64) as usize;
        self.later(client, 20 * MILLI);
        Ok(())
    }

    fn hears(&mut self, client: usize, waiting: Waiting, reply: Reply) -> Result<(), Failed> {
        let Waiting {
            ask,
            host,
            called_at,
            ..
        } = &waiting;
        let (host, called_at) = (*host, *called_at);
        let applied = match reply {
            Ok(applied) => applied,
            Err(error) => return self.is_refused(client, waiting, &error),
        };
        match ask {
            Ask::Operation {
                partition,
                operation,
            } => {
                let (partition, operation) = (*partition, operation.clone());
                let Some((outcome, revision)) = self.outcome(host, partition, &operation, &applied)
                else {
                    return self.gives_up(client, waiting);
                };
                self.clients.sees(client, partition, &operation, &outcome);
                if operation.is_read() && Some(called_at) >= self.clients.healed_at {
                    self.clients.silent.retain(|silent| *silent != host);
                }
                self.note(&format!(
                    "c{client} at h{host}, revision {revision}: {partition} {operation:?} {outcome:?}"
                ));
                self.clients.history.push(Record {
                    client,
                    partition,
                    operation,
                    called_at,
                    returned_at: self.now,
                    outcome: Some(outcome),
                    revision: Some(revision),
                });
            }
            Ask::Grant { id, .. } => {
                let Outcome::LeaseGrant(granted) = &applied.outcome else {
                    unreachable!("a grant is answered as such");
                };
                self.note(&format!("c{client} has lease {id} of {} s", granted.ttl));
                self.checks.leases.granted(*id, granted.ttl, called_at);
                self.clients.clients[client].leases.push(*id);
            }
            Ask::KeepAlive { lease } => {
                self.hears_of_renewal(client, *lease, called_at, &applied)?
            }
            Ask::Attach { lease } => self.note(&format!("c{client} attaches a key to {lease}")),
            Ask::Revoke { lease } => {
                let lease = *lease;
                self.note(&format!("c{client} revokes lease {lease}"));
                self.clients.clients[client]
                    .leases
                    .retain(|id| *id != lease);
            }
            Ask::Defragment => {
                self.figures.defragmented += 1;
                self.note(&format!("c{client} has h{host} defragmented"));
            }
            Ask::Compact { revision } => {
                self.note(&format!("c{client} compacts through {revision}"));
            }
        }
        let thinks = self.clients.thinks;
        self.later(client, thinks);
        Ok(())
    }

    fn hears_of_renewal(
        &mut self,
        client: usize,
        lease: i64,
        called_at: u64,
        applied: &Answer,
    ) -> Result<(), Failed> {
        let Outcome::Lease(answer) = &applied.outcome else {
            unreachable!("a keep-alive is answered as such");
        };
        self.note(&format!("c{client} renews lease {lease}: {} s", answer.ttl));
        if answer.ttl > 0 {
            let judged = self.checks.leases.renewed(lease, called_at);
            return judged.of("leases");
        }
        let leases = &mut self.clients.clients[client].leases;
        leases.retain(|id| *id != lease);
        Ok(())
    }

    /// What an operation answers, and at which revision; `None` if the host cannot read any more.
    fn outcome(
        &self,
        host: usize,
        partition: usize,
        operation: &Operation,
        applied: &Answer,
    ) -> Option<(history::Outcome, i64)> {
        if !operation.is_read() {
            return Some((
                request::outcome(operation, &applied.outcome),
                applied.revision,
            ));
        }
        let view = self.hosts[host].process.as_ref()?.view();
        // An error: its disk has begun to fail.
        let outcome = request::read(&view, partition, operation).ok()?;
        Some((outcome, view.revision()))
    }

    fn may_lack_space(&self) -> bool {
        let has_quota = |host: &Host| {
            let quota = host.settings.config.quota_backend_bytes;
            quota == Some(SMALL_QUOTA)
        };
        self.figures.tight > 0 || self.hosts.iter().any(has_quota)
    }

    fn is_refused(&mut self, client: usize, waiting: Waiting, error: &Error) -> Result<(), Failed> {
        match error {
            // Never entered the log, or was applied without effect.
            Error::NoLeader | Error::TooManyRequests | Error::Compacted => {
                self.note(&format!("c{client} is refused: {error}"));
            }
            // As little: no room was left somewhere, or the quota is used up.
            Error::NoSpace if self.may_lack_space() => {
                self.figures.refused += 1;
                self.note(&format!("c{client} is refused: {error}"));
            }
            Error::LeaseNotFound => {
                if let Ask::Attach { lease } | Ask::Revoke { lease } = waiting.ask {
                    self.clients.clients[client]
                        .leases
                        .retain(|id| *id != lease);
                }
            }
            Error::Timeout | Error::Damaged(_) => return self.gives_up(client, waiting),
            error => {
                let what = format!("{:?} is refused: {error}", waiting.ask);
                return Err(("linearizability", what));
            }
        }
        self.later(client, 20 * MILLI);
        Ok(())
    }
}

impl Clients {
    fn sees(
        &mut self,
        client: usize,
        partition: usize,
        operation: &Operation,
        outcome: &history::Outcome,
    ) {
        let seen = self.clients[client].seen.entry(partition).or_default();
        seen.resize(PARTITIONS[partition], 0);
        let steps = if outcome.succeeded {
            &operation.then
        } else {
            &operation.otherwise
        };
        for (step, result) in steps.iter().zip(&outcome.results) {
            match *step {
                Step::Get(key) => seen[key] = *result,
                Step::Put(key, value) => seen[key] = value,
                Step::Delete(key) => seen[key] = 0,
            }
        }
    }
}

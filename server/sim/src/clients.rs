//! Clients: each asks one thing at a time of one member, waits for the answer as long as etcd's
//! clients do, and writes down what it saw. Request handlers (`server::runtime::etcd_server`, `server::api::grpc`) are
//! not run here; what they do between a request and the actors is done in these files.

mod answer;
mod ask;
mod choose;
mod door;
mod explore;
mod judge;
mod request;
mod users;

use std::collections::{BTreeMap, BTreeSet};

use raft::Index;
use server::basics::error::Error;
use server::member::event::Reply;
use server::member::event::admission::{Admission, Limits, Permit};
use server::request::{AuthRequest, Request};
use storage::mvcc::View;
use tokio::sync::oneshot::Receiver;

use crate::check::Verdict;
use crate::history::{Operation, Record, Step, Value};
use crate::world::{Failed, MILLI, SECOND};
use explore::Read;
use testkit::Rng;
pub(crate) use users::Claim;
use users::{Directory, Who};

/// etcd's: five seconds and two election timeouts.
const PATIENCE: u64 = 7 * SECOND;
/// Keys of each partition.
const PARTITIONS: [usize; 6] = [1, 1, 1, 1, 3, 3];

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
    /// The time that is left, and the keys.
    TimeToLive {
        lease: i64,
    },
    Revoke {
        lease: i64,
    },
    Compact {
        revision: i64,
    },
    /// Any change of keys; the model knows the answer.
    Change(Request),
    /// The same of reads.
    Read {
        read: Read,
        serializable: bool,
    },
    Defragment,
    /// A change of users and roles.
    Govern(AuthRequest),
    /// Who may do what.
    Users,
    Login {
        user: String,
        password: String,
    },
}

#[derive(Debug)]
enum Stage {
    /// On the way to another member, who leads.
    Forwarded { to: usize },
    /// The member has to know as much as anybody before it goes on.
    Confirming {
        receiver: Receiver<Reply>,
        at: usize,
        then: Then,
    },
    Asked {
        receiver: Receiver<Reply>,
        at: usize,
    },
    /// Turned away at the door.
    Refused(Error),
}

/// What a member does once it knows as much as anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It leads, and renews a lease.
    AskLessor,
    /// It knows every token by now.
    Identify,
    /// The same, with the answer to a read at hand.
    JudgeReader,
    /// It knows whether root asks.
    Govern,
    /// It shows users and roles.
    ShowUsers,
    /// It knows the password.
    LogIn,
}

#[derive(Debug)]
struct Waiting {
    ask: Ask,
    claim: Claim,
    /// The member knows every token that was given out before the call.
    caught_up: bool,
    /// What a read is answered from.
    view: Option<View>,
    /// The revision of users when the password was compared.
    compared_at: u64,
    stage: Stage,
    host: usize,
    /// The process that was asked; a later one knows nothing of it.
    life: u64,
    request_id: Option<u64>,
    called_at: u64,
    /// The newest entry that others had seen by then.
    floor: Index,
}

#[derive(Debug, Default)]
struct Client {
    host: usize,
    waiting: Option<Waiting>,
    /// Those it was granted.
    leases: Vec<i64>,
    /// It thinks until then.
    thinks_until: u64,
    /// What it last saw, by partition.
    seen: BTreeMap<usize, Vec<Value>>,
    who: Who,
    token: Claim,
    wants_login: bool,
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
    /// Requests that members turned away: they never happen.
    refused: BTreeSet<u64>,
    last_value: Value,
    last_lease: i64,
    /// Nanoseconds between an answer and the next request.
    thinks: u64,
    /// Most of what clients do is to keep few leases alive, for as long as they can.
    keepers: bool,
    /// Clients use each other's leases.
    shares: bool,
    /// All leases that clients know of.
    leases: Vec<i64>,
    directory: Directory,
    /// Of a thousand operations so many are of other shapes than the linearizability check knows.
    explores: u64,
    /// What a member takes at a time.
    limits: Limits,
    /// By host.
    admission: Vec<Admission>,
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
        let mut clients: Vec<Client> = clients.collect();
        let directory = Directory::new(&mut rng);
        for (number, client) in clients.iter_mut().enumerate() {
            client.who = Clients::introduce(number, &directory, &mut rng);
        }
        let limits = Limits {
            requests: *rng.pick(&[1 << 20, 1 << 20, 1 << 20, 1 << 20, 3, 1]),
            bytes: 1 << 30,
        };
        Clients {
            clients,
            hosts,
            history: Vec::new(),
            refused: BTreeSet::new(),
            shares: rng.chance(500),
            leases: Vec::new(),
            directory,
            explores: *rng.pick(&[100, 500, 800]),
            limits,
            admission: (0..hosts).map(|_| Admission::new(limits)).collect(),
            unheard: BTreeMap::new(),
            committed: BTreeMap::new(),
            last_value: 0,
            last_lease: 0,
            keepers: rng.chance(400),
            thinks: *rng.pick(&[2 * MILLI, 10 * MILLI, 40 * MILLI]),
            healed_at: None,
            silent: Vec::new(),
            rng,
        }
    }

    pub(crate) fn add_host(&mut self) {
        self.hosts += 1;
        self.admission.push(Admission::new(self.limits));
    }

    /// Takes one of the host's places for a request.
    pub(crate) fn admit(&self, host: usize) -> Result<Permit, Error> {
        self.admission[host].admit(0)
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

    /// A request is committed.
    pub(crate) fn judge_committed(&self, request_id: u64) -> Verdict {
        if self.refused.contains(&request_id) {
            return Err(format!(
                "request {request_id:x} is in the log, and its client was told that it was refused"
            ));
        }
        Ok(())
    }

    /// The request is committed: whoever asks after `by` has to see what it did.
    pub(crate) fn takes_effect(&mut self, request_id: u64, by: u64) {
        self.committed.entry(request_id).or_insert(by);
        if let Some(place) = self.unheard.remove(&request_id) {
            self.history[place].returned_at = by;
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

    /// Nobody uses the lease any more.
    fn forget_lease(&mut self, lease: i64) {
        self.leases.retain(|id| *id != lease);
        for client in &mut self.clients {
            client.leases.retain(|id| *id != lease);
        }
    }
}

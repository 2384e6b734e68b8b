//! From a client's wish to the actors: the part of a request's handler before it waits.

use server::event::{Answer, ApplyEvent, ConsensusEvent, LeaseCall, Outcome, ReplySlot};
use server::request::Request;

use super::{Ask, PATIENCE, Stage, Waiting, request};
use crate::canary::Canary;
use crate::model::Revisions;
use crate::world::{Event, Failed, MICRO, MILLI, World};

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

    pub(super) fn later(&mut self, client: usize, mean: u64) {
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
        // A learner answers serializable reads only.
        let learns = process.is_some_and(|process| process.learns());
        let may_ask = !learns || clients.rng.chance(300);
        let Some(process) = process.filter(|_| may_ask) else {
            // Nobody answers here: another member, then.
            clients.clients[client].host = clients.rng.below(clients.hosts as u64) as usize;
            return self.later(client, 20 * MILLI);
        };
        let view = process.view();
        let revisions = Revisions {
            current: view.revision(),
            compacted: view.compacted(),
        };
        let ask = if learns {
            clients.local_read(revisions)
        } else {
            clients.choose(client, revisions)
        };
        let life = self.hosts[host].life;
        let mut waiting = Waiting {
            ask,
            stage: Stage::Forwarded { to: host },
            host,
            life,
            request_id: None,
            called_at: self.now,
            floor: self.checks.real_time.calls(),
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
        let host = waiting.host;
        let permit = match self.clients.admit(host) {
            Ok(permit) => permit,
            Err(error) => {
                waiting.stage = Stage::Refused(error);
                if self.canary == Some(Canary::RefusedButProposed) {
                    self.propose_all_the_same(waiting);
                }
                return;
            }
        };
        let (slot, receiver) = ReplySlot::new(permit);
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        let request = match &waiting.ask {
            Ask::Operation { operation, .. } if operation.is_read() => {
                let is_local = self.canary == Some(Canary::LocalRead);
                waiting.stage = Stage::Asked { receiver, at: host };
                return self.confirm(host, slot, is_local);
            }
            Ask::Read { serializable, .. } => {
                let is_local = *serializable || self.canary == Some(Canary::LocalRange);
                waiting.stage = Stage::Asked { receiver, at: host };
                return self.confirm(host, slot, is_local);
            }
            Ask::KeepAlive { .. } | Ask::TimeToLive { .. } if !process.leads() => {
                if let Some(to) = self.host_of(self.leader_known_to(host)) {
                    waiting.stage = Stage::Forwarded { to };
                }
                return;
            }
            Ask::KeepAlive { .. } | Ask::TimeToLive { .. } => {
                drop((slot, receiver));
                return self.ask_lessor(waiting, host);
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
            Ask::Change(request) => request.clone(),
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

    /// A read from `host` waits until that is known to be new enough.
    fn confirm(&mut self, host: usize, slot: ReplySlot, is_local: bool) {
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        if is_local || process.shared.decides_alone() {
            slot.send(Ok(Answer {
                outcome: Outcome::Done,
                revision: 0,
            }));
        } else {
            process.ports.to_consensus.push(ConsensusEvent::Read(slot));
        }
        self.schedule(host);
    }

    /// The canary: the client is refused, and its request goes its way.
    fn propose_all_the_same(&mut self, waiting: &mut Waiting) {
        let (Ask::Change(request), Some(process)) =
            (&waiting.ask, &mut self.hosts[waiting.host].process)
        else {
            return;
        };
        let proposal = process.encode(request.clone(), None);
        waiting.request_id = Request::id_of(&proposal.data);
        let event = ConsensusEvent::Propose(proposal);
        process.ports.to_consensus.push(event);
        self.schedule(waiting.host);
    }

    fn leader_known_to(&self, host: usize) -> u64 {
        let process = self.hosts[host].process.as_ref();
        process.map_or(0, |process| process.shared.leadership.leader())
    }

    pub(super) fn forwarded(&mut self, waiting: &mut Waiting, to: usize) {
        let is_cut = self.net.is_cut((waiting.host, to)) || self.hosts[to].paused;
        let Some(process) = self.hosts[to].process.as_mut().filter(|_| !is_cut) else {
            return;
        };
        if process.leads() {
            self.ask_lessor(waiting, to);
        }
    }

    /// At the member that leads, as `server::runtime::etcd_server` has it: before a keep-alive it makes
    /// sure of that.
    pub(super) fn ask_lessor(&mut self, waiting: &mut Waiting, at: usize) {
        let (Ok(permit), Some(process)) = (self.clients.admit(at), &mut self.hosts[at].process)
        else {
            return;
        };
        let (call, is_certain) = match waiting.ask {
            Ask::KeepAlive { lease } => {
                let is_confirmed = matches!(waiting.stage, Stage::Confirming { .. });
                let call = LeaseCall::KeepAlive { id: lease };
                (call, is_confirmed || process.shared.decides_alone())
            }
            Ask::TimeToLive { lease } => {
                let (id, keys) = (lease, true);
                (LeaseCall::TimeToLive { id, keys }, true)
            }
            _ => return,
        };
        let (slot, receiver) = ReplySlot::new(permit);
        if is_certain {
            process.ports.to_apply.push(ApplyEvent::Lease(call, slot));
            waiting.stage = Stage::Asked { receiver, at };
        } else {
            process.ports.to_consensus.push(ConsensusEvent::Read(slot));
            waiting.stage = Stage::Confirming { receiver, at };
        }
        self.schedule(at);
    }
}

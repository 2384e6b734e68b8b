//! From a client's wish to the actors: the part of a request's handler before it waits.

use etcd_api::etcdserverpb as pb;
use server::auth::Kind;
use server::basics::error::Error;
use server::member::event::{Answer, ApplyEvent, ConsensusEvent, LeaseCall, Outcome, ReplySlot};
use server::request::{AuthInfo, Request};

use super::{Ask, PATIENCE, Stage, Then, Waiting, request};
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
                return self.ask(client);
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

    fn ask(&mut self, client: usize) -> Result<(), Failed> {
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
            self.later(client, 20 * MILLI);
            return Ok(());
        };
        let view = process.view();
        let is_enabled = process.auth().is_enabled();
        let revisions = Revisions {
            current: view.revision(),
            compacted: view.compacted(),
        };
        let ask = if learns {
            clients.local_read(revisions)
        } else if let Some(ask) = clients.choose_about_users(client, is_enabled) {
            ask
        } else {
            clients.choose(client, revisions)
        };
        let claim = clients.claim(client);
        let life = self.hosts[host].life;
        let mut waiting = Waiting {
            ask,
            claim,
            caught_up: false,
            view: None,
            compared_at: 0,
            stage: Stage::Forwarded { to: host },
            host,
            life,
            request_id: None,
            called_at: self.now,
            floor: self.checks.real_time.calls(),
        };
        self.submit(&mut waiting)?;
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
        Ok(())
    }

    /// What a request handler does with it.
    pub(super) fn submit(&mut self, waiting: &mut Waiting) -> Result<(), Failed> {
        match waiting.ask {
            Ask::Operation { ref operation, .. } if operation.is_read() => {
                let is_local = self.canary == Some(Canary::LocalRead);
                self.confirm(waiting, is_local);
                return Ok(());
            }
            Ask::Read { serializable, .. } => {
                let is_local = serializable || self.canary == Some(Canary::LocalRange);
                self.confirm(waiting, is_local);
                return Ok(());
            }
            Ask::Login { .. } => {
                self.catch_up(waiting, Then::LogIn);
                return Ok(());
            }
            _ => {}
        }
        match self.admits(waiting)? {
            None => self.catch_up(waiting, Then::Identify),
            Some(Err(error)) => waiting.stage = Stage::Refused(error),
            Some(Ok(by)) => match waiting.ask {
                Ask::Govern(_) => self.catch_up(waiting, Then::Govern),
                Ask::Users => self.catch_up(waiting, Then::ShowUsers),
                Ask::KeepAlive { .. } | Ask::TimeToLive { .. } => self.call_lessor(waiting),
                Ask::Defragment => self.hand_over(waiting, ApplyEvent::Defragment),
                _ => self.propose(waiting, &by.unwrap_or_default()),
            },
        }
        Ok(())
    }

    /// What the handler knows of who asks, before the request goes on. `None`: the member has to catch up.
    fn admits(&self, waiting: &Waiting) -> Result<Option<Result<Option<AuthInfo>, Error>>, Failed> {
        let Some(door) = self.door(waiting.host) else {
            return Ok(Some(Ok(None)));
        };
        let by = match door.caller(&waiting.claim)? {
            Some(Ok(by)) => by,
            None if waiting.caught_up => return Ok(Some(Err(Error::InvalidAuthToken))),
            other => return Ok(other),
        };
        let judged = match waiting.ask {
            Ask::Grant { .. } | Ask::Revoke { .. } => door.any(by.as_ref())?,
            Ask::Compact { .. } | Ask::Defragment => door.admin(by.as_ref())?,
            Ask::KeepAlive { lease } => match door.any(by.as_ref())? {
                Ok(()) => door.lease(&by.clone().unwrap_or_default(), Kind::Write, lease)?,
                refused => refused,
            },
            Ask::TimeToLive { lease } => match door.any(by.as_ref())? {
                Ok(()) => door.lease(&by.clone().unwrap_or_default(), Kind::Read, lease)?,
                refused => refused,
            },
            _ => Ok(()),
        };
        Ok(Some(judged.map(|()| by)))
    }

    /// A question about a lease, which the leader answers.
    fn call_lessor(&mut self, waiting: &mut Waiting) {
        let host = waiting.host;
        let leads = self.hosts[host].process.as_ref().is_some_and(|p| p.leads());
        if leads {
            return self.ask_lessor(waiting, host);
        }
        if let Some(to) = self.host_of(self.leader_known_to(host)) {
            waiting.stage = Stage::Forwarded { to };
        }
    }

    /// The applier answers this one.
    fn hand_over(&mut self, waiting: &mut Waiting, event: impl FnOnce(ReplySlot) -> ApplyEvent) {
        let Some(slot) = self.slot(waiting) else {
            return;
        };
        if let Some(process) = &mut self.hosts[waiting.host].process {
            process.ports.to_apply.push(event(slot));
        }
        self.schedule(waiting.host);
    }

    /// Takes one of the places for requests; the answer comes there.
    fn slot(&mut self, waiting: &mut Waiting) -> Option<ReplySlot> {
        let at = waiting.host;
        match self.clients.admit(at) {
            Ok(permit) => {
                let (slot, receiver) = ReplySlot::new(permit);
                waiting.stage = Stage::Asked { receiver, at };
                Some(slot)
            }
            Err(error) => {
                waiting.stage = Stage::Refused(error);
                if self.canary == Some(Canary::RefusedButProposed) {
                    self.propose_all_the_same(waiting);
                }
                None
            }
        }
    }

    /// A change goes into the log, for `by`.
    fn propose(&mut self, waiting: &mut Waiting, by: &AuthInfo) {
        let host = waiting.host;
        let request = match &waiting.ask {
            Ask::Operation {
                partition,
                operation,
            } => request::change(*partition, operation, &mut self.clients.rng),
            Ask::Grant { id, ttl } => request::grant(*id, *ttl),
            Ask::Attach { lease } => request::attach(*lease),
            Ask::Revoke { lease } => request::revoke(*lease),
            Ask::Compact { revision } => request::compact(*revision),
            Ask::Change(request) => request.clone(),
            Ask::Govern(change) => Request::Auth(change.clone()),
            Ask::Login { user, .. } => Request::Authenticate(pb::InternalAuthenticateRequest {
                name: user.clone(),
                simple_token: format!("t{:x}", self.clients.rng.next()),
                ..Default::default()
            }),
            other => unreachable!("{other:?} does not go through the log"),
        };
        if let Ask::Revoke { lease } = waiting.ask {
            self.checks.leases.revokes(lease);
        }
        let Some(process) = &self.hosts[host].process else {
            return;
        };
        if let Some(needed) = process.turns_away(&request) {
            return self.hand_over(waiting, |slot| ApplyEvent::Refused { needed, slot });
        }
        let Some(slot) = self.slot(waiting) else {
            return;
        };
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        let proposal = process.encode(request, by, Some(slot));
        waiting.request_id = Request::id_of(&proposal.data);
        process
            .ports
            .to_consensus
            .push(ConsensusEvent::Propose(proposal));
        self.schedule(host);
    }

    /// The member goes on with a request once it knows as much as anybody.
    pub(super) fn catch_up(&mut self, waiting: &mut Waiting, then: Then) {
        self.confirm(waiting, false);
        let stage = std::mem::replace(&mut waiting.stage, Stage::Refused(Error::Stopped));
        waiting.stage = match stage {
            Stage::Asked { receiver, at } => Stage::Confirming { receiver, at, then },
            other => other,
        };
    }

    /// It does.
    pub(super) fn goes_on(&mut self, waiting: &mut Waiting, then: Then) -> Result<(), Failed> {
        waiting.caught_up = true;
        let host = waiting.host;
        match then {
            Then::Identify => {
                waiting.stage = Stage::Forwarded { to: host };
                return self.submit(waiting);
            }
            Then::Govern => {
                let Some(Ok(by)) = self.admits(waiting)? else {
                    // Its token ended meanwhile.
                    waiting.stage = Stage::Refused(Error::InvalidAuthToken);
                    return Ok(());
                };
                let judged = match self.door(host) {
                    Some(door) => door.admin(Some(&by.clone().unwrap_or_default()))?,
                    None => Ok(()),
                };
                match judged {
                    Ok(()) => self.propose(waiting, &by.unwrap_or_default()),
                    Err(error) => waiting.stage = Stage::Refused(error),
                }
            }
            Then::LogIn => {
                let Ask::Login { user, password } = &waiting.ask else {
                    unreachable!("only a login compares passwords");
                };
                let Some(door) = self.door(host) else {
                    return Ok(());
                };
                let (judged, revision) = (door.password(user, password)?, door.revision());
                waiting.compared_at = revision;
                match judged {
                    Ok(()) => self.propose(waiting, &AuthInfo::default()),
                    Err(error) => waiting.stage = Stage::Refused(error),
                }
            }
            Then::AskLessor | Then::JudgeReader | Then::ShowUsers => {
                unreachable!("the client's answer is ready then");
            }
        }
        Ok(())
    }

    /// A read waits until the member is known to be new enough.
    fn confirm(&mut self, waiting: &mut Waiting, is_local: bool) {
        let host = waiting.host;
        let Some(slot) = self.slot(waiting) else {
            return;
        };
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
        let proposal = process.encode(request.clone(), &AuthInfo::default(), None);
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
                let is_confirmed = matches!(
                    waiting.stage,
                    Stage::Confirming {
                        then: Then::AskLessor,
                        ..
                    }
                );
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
            let then = Then::AskLessor;
            waiting.stage = Stage::Confirming { receiver, at, then };
        }
        self.schedule(at);
    }
}

//! What clients hear, and who judges it.

use server::error::Error;
use server::event::{Answer, Outcome, Reply};
use tokio::sync::oneshot::error::TryRecvError;

use super::door::Asked;
use super::{Ask, Clients, PARTITIONS, PATIENCE, Stage, Then, Waiting, request};
use crate::history::{self, Operation, Record, Step};
use crate::host::process::Process;
use crate::world::{Event, Failed, MICRO, MILLI, Named, World};

/// A read's reply says that the member is new enough, and nothing else.
const READ: Answer = Answer {
    outcome: Outcome::Done,
    revision: 0,
};

impl World {
    pub(super) fn look(&mut self, client: usize) -> Result<(), Failed> {
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
            Stage::Confirming { receiver, at, then } => {
                let (at, then) = (*at, *then);
                match receiver.try_recv() {
                    Ok(Ok(_)) => return self.is_certain(client, waiting, at, then),
                    Err(TryRecvError::Empty) => {}
                    _ => return self.gives_up(client, waiting),
                }
            }
            Stage::Refused(error) => {
                let error = error.clone();
                return self.is_refused(client, waiting, &error);
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

    /// The member knows as much as anybody.
    fn is_certain(
        &mut self,
        client: usize,
        mut waiting: Waiting,
        at: usize,
        then: Then,
    ) -> Result<(), Failed> {
        match then {
            Then::AskLessor => {
                let process = self.hosts[at].process.as_ref();
                if !process.is_some_and(Process::leads) {
                    return self.gives_up(client, waiting);
                }
                self.ask_lessor(&mut waiting, at);
            }
            Then::JudgeReader => {
                waiting.caught_up = true;
                return self.may_read(client, waiting);
            }
            Then::ShowUsers => return self.sees_users(client, waiting),
            then => self.goes_on(&mut waiting, then)?,
        }
        self.clients.clients[client].waiting = Some(waiting);
        self.at(self.now + 20 * MICRO, Event::Client(client));
        Ok(())
    }

    /// No answer came, or none that says what became of the request.
    fn gives_up(&mut self, client: usize, waiting: Waiting) -> Result<(), Failed> {
        self.figures.unknown += 1;
        self.note(&format!("c{client} hears nothing of {:?}", waiting.ask));
        if let Ask::Operation {
            partition,
            ref operation,
        } = waiting.ask
            && let Some(request_id) = waiting.request_id
        {
            let committed = self.clients.committed.get(&request_id).copied();
            let record = Record {
                client,
                partition,
                operation: operation.clone(),
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
        if let Ask::Govern(change) = &waiting.ask
            && clients.rng.chance(500)
        {
            clients.directory.learns(change);
        }
        clients.clients[client].host = clients.rng.below(clients.hosts as u64) as usize;
        self.later(client, 20 * MILLI);
        Ok(())
    }

    fn hears(&mut self, client: usize, waiting: Waiting, reply: Reply) -> Result<(), Failed> {
        let applied = match reply {
            Ok(applied) => applied,
            Err(error) => return self.is_refused(client, waiting, &error),
        };
        if waiting.ask.is_read() {
            return self.may_read(client, waiting);
        }
        self.judge_change(&waiting, &applied)?;
        self.hears_of(client, waiting, &applied)
    }

    /// A member has what a read needs: whether it may give it to the client is judged now.
    fn may_read(&mut self, client: usize, mut waiting: Waiting) -> Result<(), Failed> {
        let host = waiting.host;
        let Some(door) = self.door(host) else {
            return self.gives_up(client, waiting);
        };
        let Some(process) = &self.hosts[host].process else {
            return self.gives_up(client, waiting);
        };
        waiting.view.get_or_insert_with(|| process.view());
        let by = match door.caller(&waiting.claim)? {
            None if waiting.caught_up => Err(Error::InvalidAuthToken),
            None => {
                self.catch_up(&mut waiting, Then::JudgeReader);
                self.clients.clients[client].waiting = Some(waiting);
                self.at(self.now + 20 * MICRO, Event::Client(client));
                return Ok(());
            }
            Some(by) => by,
        };
        let judged = match by {
            Ok(by) => {
                let asked = match &waiting.ask {
                    Ask::Operation {
                        partition,
                        operation,
                    } => Asked::Steps(*partition, &operation.then),
                    Ask::Read { read, .. } => Asked::Read(read),
                    other => unreachable!("{other:?} is no read"),
                };
                door.reads(&by.unwrap_or_default(), asked)?
            }
            Err(error) => Err(error),
        };
        let index = door.index();
        match judged {
            Ok(()) => self.hears_of(client, waiting, &READ),
            Err(error) => {
                // Who is refused learns something, too.
                if !waiting.ask.is_serializable() {
                    self.clients.is_served(host, waiting.called_at);
                    let judged = self.checks.real_time.read(waiting.floor, index);
                    judged.of("real time")?;
                }
                self.is_denied(client, &waiting.ask, &error);
                Ok(())
            }
        }
    }

    /// A request handler, or the log, says that the client may not have this.
    fn is_denied(&mut self, client: usize, ask: &Ask, error: &Error) {
        self.figures.denied += 1;
        self.note(&format!("c{client} may not: {error}"));
        self.clients.hears_of_users(client, ask, error);
        self.later(client, 20 * MILLI);
    }

    /// Users and roles, as a member has them.
    fn sees_users(&mut self, client: usize, waiting: Waiting) -> Result<(), Failed> {
        let host = waiting.host;
        let Some(process) = &self.hosts[host].process else {
            return self.gives_up(client, waiting);
        };
        let (index, image) = (process.view().applied().index, process.image());
        let judged = crate::check::users::same_image(&image, self.model.users_at(index));
        judged.of("users")?;
        self.checks
            .real_time
            .read(waiting.floor, index)
            .of("real time")?;
        self.clients.is_served(host, waiting.called_at);
        self.note(&format!("c{client} sees users of {}", image.revision));
        let thinks = self.clients.thinks;
        self.later(client, thinks);
        Ok(())
    }

    fn is_logged_in(
        &mut self,
        client: usize,
        mut waiting: Waiting,
        applied: &Answer,
    ) -> Result<(), Failed> {
        let Outcome::Authenticated(given) = &applied.outcome else {
            unreachable!("a login is answered as such");
        };
        let revision = self.door(waiting.host).map(|door| door.revision());
        if revision != Some(waiting.compared_at) {
            // The password may be another by now.
            waiting.request_id = None;
            self.catch_up(&mut waiting, Then::LogIn);
            self.clients.clients[client].waiting = Some(waiting);
            self.at(self.now + 20 * MICRO, Event::Client(client));
            return Ok(());
        }
        self.figures.logins += 1;
        self.note(&format!("c{client} is {}", given.user));
        let (user, token) = (given.user.clone(), given.token.clone());
        let revision = given.auth_revision;
        self.clients.is_logged_in(client, &user, &token, revision);
        let thinks = self.clients.thinks;
        self.later(client, thinks);
        Ok(())
    }

    /// What a client has asked for, and may have.
    fn hears_of(
        &mut self,
        client: usize,
        waiting: Waiting,
        applied: &Answer,
    ) -> Result<(), Failed> {
        let Waiting {
            ask,
            host,
            called_at,
            ..
        } = &waiting;
        let (host, called_at) = (*host, *called_at);
        match ask {
            Ask::Login { .. } => return self.is_logged_in(client, waiting, applied),
            Ask::Users => unreachable!("what is known of users is shown elsewhere"),
            Ask::Govern(change) => {
                self.figures.governed += 1;
                self.clients.directory.learns(change);
                self.note(&format!("c{client} did {change:?}"));
            }
            Ask::Operation {
                partition,
                operation,
            } => {
                let (partition, operation) = (*partition, operation.clone());
                if !self.hears_of_operation(client, &waiting, partition, operation, applied) {
                    return self.gives_up(client, waiting);
                }
            }
            Ask::Grant { id, .. } => {
                let Outcome::LeaseGrant(granted) = &applied.outcome else {
                    unreachable!("a grant is answered as such");
                };
                self.note(&format!("c{client} has lease {id} of {} s", granted.ttl));
                let judged = self.checks.leases.renewed(*id, called_at);
                judged.of("leases")?;
                self.clients.clients[client].leases.push(*id);
                self.clients.leases.push(*id);
            }
            Ask::Read { read, serializable } => {
                let serializable = *serializable;
                let Some(shown) = self.judge_read(&waiting, read, serializable)? else {
                    return self.gives_up(client, waiting);
                };
                if !serializable {
                    self.clients.is_served(host, called_at);
                }
                self.figures.reads += 1;
                self.note(&format!("c{client} at h{host}: {read:?} is {shown}"));
            }
            Ask::Change(request) => {
                self.figures.writes += 1;
                self.note(&format!("c{client} at h{host} did {request:?}"));
            }
            Ask::KeepAlive { lease } => {
                self.hears_of_renewal(client, *lease, called_at, applied)?
            }
            Ask::TimeToLive { lease } => self.judge_time_to_live(*lease, applied)?,
            Ask::Attach { lease } => self.note(&format!("c{client} attaches a key to {lease}")),
            Ask::Revoke { lease } => {
                let lease = *lease;
                self.note(&format!("c{client} revokes lease {lease}"));
                self.clients.forget_lease(lease);
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

    /// False if the host cannot read any more.
    fn hears_of_operation(
        &mut self,
        client: usize,
        waiting: &Waiting,
        partition: usize,
        operation: Operation,
        applied: &Answer,
    ) -> bool {
        let (host, called_at) = (waiting.host, waiting.called_at);
        let Some((outcome, revision)) = outcome(waiting, partition, &operation, applied) else {
            return false;
        };
        self.clients.sees(client, partition, &operation, &outcome);
        if operation.is_read() {
            self.clients.is_served(host, called_at);
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
        true
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
        self.clients.forget_lease(lease);
        let judged = self.checks.leases.is_gone(lease, called_at, self.now);
        judged.of("leases")
    }

    fn is_refused(&mut self, client: usize, waiting: Waiting, error: &Error) -> Result<(), Failed> {
        if let Error::Damaged(what) = error {
            // What was passed on to the leader is read from the leader's disk.
            let host = match waiting.stage {
                Stage::Asked { at, .. } => at,
                _ => waiting.host,
            };
            self.is_damaged(host, what)?;
        }
        if let Error::Timeout | Error::Damaged(_) = error {
            return self.gives_up(client, waiting);
        }
        let is_by_users = self.judge_refusal(&waiting, error)?;
        if is_by_users {
            self.is_denied(client, &waiting.ask, error);
            return Ok(());
        }
        self.note(&format!("c{client} is refused: {error}"));
        self.figures.refused += usize::from(*error == Error::NoSpace);
        self.figures.busy += usize::from(*error == Error::TooManyRequests);
        if let (Error::LeaseNotFound, Some(lease)) = (error, waiting.ask.needs_lease()) {
            self.clients.forget_lease(lease);
        }
        self.later(client, 20 * MILLI);
        Ok(())
    }
}

impl Clients {
    /// A host answered a read as new as any that was called at that time.
    fn is_served(&mut self, host: usize, called_at: u64) {
        if Some(called_at) >= self.healed_at {
            self.silent.retain(|silent| *silent != host);
        }
    }

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

/// What an operation answers, and at which revision; `None` if the host cannot read any more.
fn outcome(
    waiting: &Waiting,
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
    let view = waiting.view.as_ref()?;
    // An error: its disk has begun to fail.
    let outcome = request::read(view, partition, operation).ok()?;
    Some((outcome, view.revision()))
}

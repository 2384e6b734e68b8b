//! What clients hear, and who judges it.

mod learn;

use server::basics::error::Error;
use server::member::event::{Answer, Outcome, Reply};
use tokio::sync::oneshot::error::TryRecvError;

use super::door::Asked;
use super::{Ask, Clients, PATIENCE, Stage, Then, Waiting};
use crate::history::Record;
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
}

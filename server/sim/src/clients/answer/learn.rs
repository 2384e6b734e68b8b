//! What clients learn from an answer, and what they write down of it.

use server::member::event::{Answer, Outcome};

use crate::clients::{Ask, Clients, PARTITIONS, Then, Waiting, request};
use crate::history::{self, Operation, Record, Step};
use crate::world::{Event, Failed, MICRO, Named, World};

impl World {
    /// What a client has asked for, and may have.
    pub(super) fn hears_of(
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

    /// Users and roles, as a member has them.
    pub(super) fn sees_users(&mut self, client: usize, waiting: Waiting) -> Result<(), Failed> {
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

//! Who has to be told of what a member does.

use raft::{Entry, EntryKind, Recovered, Write};
use server::request::Request;
use storage::mvcc::View;

use super::rot::is_readable;
use super::{Checks, Failed, Named, World};
use crate::canary::Canary;
use crate::check::users::same_image;
use crate::host::shadow::Log;
use crate::model::{Refusal, Response};

/// Whether users and roles kept a request from having an effect.
fn is_denied(answer: Result<Response, Refusal>) -> bool {
    answer.is_err_and(Refusal::is_about_users)
}

impl World {
    /// A process begins with what it found on its disk. `is_another`: that is not what the process
    /// before left there.
    pub(super) fn judge_start(
        &mut self,
        host: usize,
        found: &Recovered,
        is_another: bool,
    ) -> Result<(), Failed> {
        let this = &mut self.hosts[host];
        let log = if is_another {
            let mut log = Log::default();
            log.reset(found.base);
            found.entries.iter().for_each(|entry| log.push(entry));
            self.checks.durable_prefix.installed(host, found.applied);
            log
        } else {
            let durable_prefix = &mut self.checks.durable_prefix;
            let log = durable_prefix.starts(host, found, &this.shadow);
            log.map_err(|what| ("durable prefix", what))?
        };
        this.shadow.restart(log, found.hard_state);
        let Some(view) = this.process.as_ref().map(|process| process.view()) else {
            return Ok(());
        };
        let known = self.model.newest().current;
        // What was committed before the crash, and applied by nobody.
        let trimmed = std::mem::take(&mut this.before_force).into_iter();
        let trimmed = trimmed.filter(|entry| entry.index <= found.base.index);
        let kept = found.entries.iter().cloned();
        let applied = trimmed.chain(kept.filter(|entry| entry.index <= found.applied));
        for entry in applied {
            self.is_committed(&entry)?;
        }
        self.checks.states.restarts(host, &view, known);
        self.checks.tokens.starts(host, view.applied().index);
        self.shows(host, &view, false)
    }

    pub(super) fn judge_writes(&mut self, host: usize, writes: &[Write]) -> Result<(), Failed> {
        let mut verdict = Ok(());
        let flip = self.canary == Some(Canary::FlippedEntry) && host == 1;
        for write in writes {
            if let Some(position) = write.reset {
                self.checks.durable_prefix.installed(host, position.index);
            }
            let matching = &mut self.checks.log_matching;
            self.hosts[host].shadow.write(write, |before, entry| {
                let mut entry = entry.clone();
                if flip && entry.index == 20 {
                    entry.data = [&entry.data[..], b"!"].concat().into();
                }
                let judged = matching.appends(before, &entry);
                if verdict.is_ok() {
                    verdict = judged;
                }
            });
        }
        verdict.of("log matching")
    }

    pub(super) fn judge_committed(
        &mut self,
        host: usize,
        term: u64,
        committed: &[Entry],
    ) -> Result<(), Failed> {
        for entry in committed {
            let shadow = &self.hosts[host].shadow;
            let judged = self.checks.durable_prefix.hands_out(host, entry, shadow);
            judged.of("durable prefix")?;
            let completeness = &mut self.checks.leader_completeness;
            completeness.committed(entry.index, entry.term, term);
            self.is_committed(entry)?;
        }
        Ok(())
    }

    /// Somebody knows that an entry is committed: from now on everybody has to see it.
    fn is_committed(&mut self, entry: &Entry) -> Result<(), Failed> {
        if entry.index <= self.model.applied() {
            return Ok(());
        }
        self.model.apply(entry).of("model")?;
        if entry.kind != EntryKind::Normal || entry.data.is_empty() {
            return Ok(());
        }
        let request = Request::decode(&entry.data)
            .map_err(|what| ("durable prefix", format!("entry {}: {what}", entry.index)))?;
        let id = Request::id_of(&entry.data);
        let answered = id.and_then(|id| self.model.answer_to(id));
        let answered = answered.map(|answer| answer.response.clone());
        if let Some(id) = id {
            self.clients.judge_committed(id).of("refusals")?;
            // Everybody refuses it in the same way, and whoever asked may never hear of that.
            if answered.as_ref().is_some_and(Result::is_ok) {
                // A member that is alone reads what it has applied: until then nobody can have heard
                // of more. It is alone until it has applied that a learner came.
                let is_asked_for = self.members.voters().count() > 1;
                let by = if is_asked_for { self.now } else { u64::MAX };
                self.clients.takes_effect(id, by);
            }
        }
        match request {
            Request::LeaseGrant(grant) => {
                if let Some(Ok(Response::LeaseGrant(ttl))) = answered {
                    self.checks.leases.begins(grant.id, ttl);
                }
                Ok(())
            }
            // Who asked may not have been allowed to.
            Request::LeaseRevoke(revoke) if !answered.is_some_and(is_denied) => {
                self.checks.leases.ended(revoke.id, self.now).of("leases")
            }
            Request::ClusterMemberAttrSet(set) => {
                self.is_published(&set, entry.index);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What a member shows to readers. `wholly`: whatever the index.
    pub(super) fn shows(&mut self, host: usize, view: &View, wholly: bool) -> Result<(), Failed> {
        if self.hosts[host].disk_has_failed() {
            return Ok(());
        }
        if !self.hosts[host].rotten.is_empty()
            && let Err(error) = is_readable(view)
        {
            // Nobody but the checkers has noticed yet.
            return self.names_rot(host, &error.to_string()).map(drop);
        }
        let Checks {
            agreement, states, ..
        } = &mut self.checks;
        agreement.shows(host, view, wholly).of("agreement")?;
        states.shows(host, view, &self.model, wholly).of("model")?;
        let process = self.hosts[host].process.as_ref();
        match process.filter(|_| self.model.has_users()) {
            Some(process) => {
                let users = self.model.users_at(view.applied().index);
                let judged = same_image(&process.image(), users);
                judged
                    .map_err(|what| format!("host {host}: {what}"))
                    .of("users")
            }
            None => Ok(()),
        }
    }
}

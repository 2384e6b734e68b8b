//! How the process of a host begins, and goes on after a pause.

use super::{Failed, World};
use crate::canary::Canary;
use crate::host::Crash;
use crate::host::process::{Fatal, Process, Start, entries_on};

impl World {
    pub(super) fn start(&mut self, host: usize) -> Result<(), Failed> {
        let this = &mut self.hosts[host];
        if this.is_up() || this.retired || this.restart_at.is_some_and(|at| at > self.now) {
            return Ok(());
        }
        this.restart_at = None;
        let joins = !this.begun && this.settings.joins();
        let told = self.told_of_cluster(host);
        if joins && told.is_empty() {
            self.asks_again(host);
            return Ok(());
        }
        let misreads =
            self.canary == Some(Canary::UncheckedLog) && !self.hosts[host].rotten.is_empty();
        let this = &mut self.hosts[host];
        if this.settings.config.force_new_cluster && this.before_force.is_empty() {
            let entries = entries_on(&this.disk, &this.settings);
            match entries {
                Ok(entries) => this.before_force = entries,
                Err(Fatal(what)) => return self.does_not_start(host, &what),
            }
        }
        let time_of_day = this.clock.time_of_day + self.now;
        let started = Process::start(&this.disk, &this.settings, time_of_day, &told, misreads);
        let (process, found, is_new) = match started {
            Ok(Start::Runs {
                process,
                found,
                is_new,
            }) => (process, found, is_new),
            Ok(Start::Refused(why)) => return self.turns_away_newcomer(host, &told, &why),
            Ok(Start::Removed) => {
                self.note(&format!("h{host} was removed and does not start"));
                self.retire(host);
                return Ok(());
            }
            Err(Fatal(what)) if this.crash_to_come.is_some() => {
                self.note(&format!("h{host} cannot start: {what}"));
                return self.dies(host);
            }
            Err(Fatal(what)) => return self.does_not_start(host, &what),
        };
        self.figures.joined += usize::from(joins);
        let known = std::mem::replace(&mut this.begun, true);
        this.id = process.member_id;
        // The documents say that it is for one start.
        let is_forced = std::mem::take(&mut this.settings.config.force_new_cluster);
        let is_old = std::mem::take(&mut this.has_old_disk);
        let is_another = is_forced || is_old || !known;
        this.clock.start(self.now);
        this.process = Some(*process);
        if is_new {
            self.judge_newcomer(host, &told)?;
        }
        self.judge_start(host, &found, is_another)?;
        let this = &self.hosts[host];
        let (term, last) = (found.hard_state.term, this.shadow.newest.last());
        let text = format!(
            "h{host} starts: term {term}, log to {last}, applied {}",
            found.applied
        );
        self.note(&text);
        self.schedule(host);
        if !joins {
            self.publish(host);
        }
        self.calls_others(host);
        Ok(())
    }

    /// Only a disk that has rotted may be one on which nothing starts.
    fn does_not_start(&mut self, host: usize, what: &str) -> Result<(), Failed> {
        if self.finds_rot(host, what)? {
            self.starts_in_vain(host);
            return Ok(());
        }
        let what = format!("host {host} cannot start on its disk: {what}");
        Err(("durable prefix", what))
    }

    /// An actor could not go on: the process ends, as the server's does.
    pub(super) fn dies(&mut self, host: usize) -> Result<(), Failed> {
        let how = self.hosts[host].crash_to_come;
        self.crash(host, how.unwrap_or(Crash::Killed));
        Ok(())
    }

    pub(super) fn resume(&mut self, host: usize) {
        let this = &mut self.hosts[host];
        if !this.paused {
            return;
        }
        this.paused = false;
        this.clock.wake(self.now);
        self.note(&format!("h{host} goes on"));
        self.schedule(host);
        self.wake_clients_of(host);
    }
}

//! The end of a run: everything is put right, the cluster has to come to itself and then to rest,
//! and every member must show what was promised.

use server::state;
use storage::mvcc::View;

use super::{Event, Failed, MILLI, Named, SECOND, SMALL_QUOTA, World};
use crate::canary::Canary;
use crate::check::liveness::Health;

/// Longer than any lease lasts, its election timeout of grace, and a revoke that got lost.
const LEASES_ARE_GONE_AFTER: u64 = 16 * SECOND;
/// When each machine whose disk is damaged or old has been replaced, at the latest.
const REPLACED_AFTER: u64 = 300 * SECOND;

impl World {
    /// From here on nothing goes wrong.
    pub(super) fn heal(&mut self) -> Result<(), Failed> {
        self.note("everything is healed");
        self.healed_at = Some(self.now);
        self.net.heal();
        if self.canary == Some(Canary::UnhealedLinks) {
            self.net.split(self.hosts.len(), &[0]);
        }
        for host in 0..self.hosts.len() {
            self.hosts[host].stalled_until = 0;
            self.hosts[host].slow_disk_until = 0;
            self.hosts[host].slow_apply_until = 0;
            let life = self.hosts[host].life;
            self.make_room(host, life);
            self.hosts[host].disk.set_capacity(u64::MAX);
            if let Some(how) = self.hosts[host].crash_to_come {
                self.crash(host, how);
            }
            self.resume(host);
            if !self.hosts[host].is_up() && !self.hosts[host].retired {
                let at = self.now + self.rng.below(300 * MILLI);
                self.hosts[host].restart_at = Some(at);
                self.at(at, Event::Start(host));
            }
        }
        for host in 0..self.hosts.len() {
            self.calls_others(host);
        }
        self.inspect_disks()?;
        let voters = (0..self.hosts.len()).filter(|host| self.votes(*host));
        self.clients.heal(self.now, voters.collect());
        Ok(())
    }

    fn health(&self) -> Health {
        let applied = |host: &crate::host::Host| {
            let process = host.process.as_ref()?;
            Some(process.view().applied().index)
        };
        let members = (0..self.hosts.len()).filter(|host| self.belongs(*host));
        let mut silent = self.clients.silent();
        silent.retain(|host| self.votes(*host));
        Health {
            healed_at: self.healed_at.unwrap_or_default(),
            leader: self.leader().map(|leader| leader as u64),
            silent,
            applied: members.map(|host| applied(&self.hosts[host])).collect(),
        }
    }

    /// A member waits for another machine in its place.
    fn is_replacing(&self) -> bool {
        let waits = |host: &usize| {
            let this = &self.hosts[*host];
            this.is_condemned && !this.retired && self.belongs(*host)
        };
        (0..self.hosts.len()).any(|host| waits(&host))
    }

    /// First under load until everybody serves, then without, until everybody is the same.
    pub(super) fn wait_until_well(&mut self) -> Result<(), Failed> {
        let healed_at = self.now;
        let mut is_forced = false;
        loop {
            self.go_on(self.now + 100 * MILLI)?;
            let mut health = self.health();
            // Under load they never all stand at the same entry.
            health.applied = vec![Some(0); health.applied.len()];
            let judged = health.judge(self.now);
            if judged.is_err() && !is_forced && self.is_stranded() {
                self.note("the voters that are left have lost their majority for good");
                is_forced = self.force_new_cluster();
                if is_forced {
                    self.healed_at = Some(self.now);
                    let voters = (0..self.hosts.len()).filter(|host| self.votes(*host));
                    self.clients.heal(self.now, voters.collect());
                    continue;
                }
                self.figures.stranded += 1;
                return Ok(());
            }
            judged.of("liveness")?;
            if health.is_well() && !self.is_replacing() && self.now > healed_at + SECOND {
                break;
            }
            if self.is_replacing() && self.now > healed_at + REPLACED_AFTER {
                return Err(("liveness", "a machine is not replaced".to_owned()));
            }
        }
        self.note("every member serves");
        self.quiet = true;
        let quiet_since = self.now;
        loop {
            self.go_on(self.now + 100 * MILLI)?;
            let mut health = self.health();
            health.healed_at = quiet_since;
            health.judge(self.now).of("liveness")?;
            if health.is_well() && self.clients.are_idle() {
                return Ok(());
            }
        }
    }

    pub(super) fn come_to_rest(&mut self) -> Result<(), Failed> {
        self.go_on(self.now + LEASES_ARE_GONE_AFTER)?;
        let mut health = self.health();
        health.healed_at = 0;
        health.judge(self.now).of("liveness")?;
        let now = self.now;
        for host in 0..self.hosts.len() {
            let Some(process) = &self.hosts[host].process else {
                continue;
            };
            if !self.belongs(host) {
                continue;
            }
            let view = process.view();
            let (members, removed) = match (process.members(), state::removed(&view)) {
                (Ok(members), Ok(removed)) => (members, removed),
                (members, removed) => {
                    let what = format!("{members:?}, {removed:?}");
                    return Err(("agreement", what));
                }
            };
            let judged = self.checks.membership.at_rest(host, &members, &removed);
            judged.of("membership")?;
            self.shows(host, &view, true)?;
            self.alarms_are_gone(host, &view)?;
            let leases = state::leases(&view);
            let leases = leases.map_err(|error| ("agreement", error.to_string()))?;
            let left: Vec<i64> = leases.iter().map(|lease| lease.id).collect();
            self.checks.leases.at_rest(host, &left).of("leases")?;
            self.clients.reads_all(host, &view, now)?;
        }
        self.watchers_have_seen_all()
    }

    /// Every disk has room, and every member has looked: no alarm is left, but for those of a
    /// quota that is still used up.
    fn alarms_are_gone(&self, host: usize, view: &View) -> Result<(), Failed> {
        let alarms = state::alarms(view).map_err(|error| ("agreement", error.to_string()))?;
        for alarm in alarms {
            let Some(of) = self.host_of(alarm.member_id) else {
                continue;
            };
            let whose = &self.hosts[of];
            let by_quota = whose.settings.config.quota_backend_bytes == Some(SMALL_QUOTA);
            if self.belongs(of) && !by_quota {
                let what = format!("h{host} still has an alarm of h{of}, whose disk has room");
                return Err(("space", what));
            }
        }
        Ok(())
    }
}

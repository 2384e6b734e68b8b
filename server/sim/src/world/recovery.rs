//! Disks that come back as they were before, and clusters whose majority is lost for good. Both
//! break promises of Raft, so they come only when what is left still holds all that was promised;
//! and somebody at the controls does what the documents ask for.

use raft::{Complaint, ConfChangeKind};
use server::state::MemberInfo;

use super::{Event, Failed, SECOND, World};
use crate::host::process::Process;
use crate::host::{Crash, Host};
use crate::nemesis::members::Wish;

impl World {
    /// The host's disk becomes what it was when it was copied. False if that could lose what was
    /// promised to clients, or there is no copy yet: then one is made.
    pub(crate) fn roll_back(&mut self, host: usize) -> bool {
        let this = &mut self.hosts[host];
        // A sole voter leads at once on whatever disk it has: nobody could stop an old one.
        let process = this.process.as_ref();
        let has_others = process.is_some_and(Process::has_other_voters);
        if this.image.is_none() && this.begun && !this.retired && has_others {
            this.keep_image();
            return false;
        }
        if !self.may_roll_back(host) {
            return false;
        }
        let Some((image, _)) = self.hosts[host].image.clone() else {
            return false;
        };
        let had = self.hosts[host].shadow.newest.last();
        self.crash(host, Crash::PowerCut);
        let this = &mut self.hosts[host];
        this.disk = image.power_cut(this.rng.next());
        // It may have been copied while it was full.
        this.disk.set_capacity(u64::MAX);
        // Or after it had rotted.
        this.rotten = this.disk.rotted();
        if !this.rotten.is_empty() {
            self.at(self.now + SECOND, Event::Inspect);
        }
        let this = &mut self.hosts[host];
        this.rolled_back = Some(had);
        this.has_old_disk = true;
        self.figures.rolled_back += 1;
        self.note(&format!(
            "h{host} has an old disk, and had entries to {had}"
        ));
        true
    }

    fn may_roll_back(&self, host: usize) -> bool {
        let this = &self.hosts[host];
        let is_usual = this
            .image
            .as_ref()
            .is_some_and(|(_, keys)| *keys == this.settings.keys);
        is_usual && self.others_have_all_of(host)
    }

    /// Everything that the host helped to commit, or may be about to, is with a majority that it
    /// does not belong to; and all others have reached its term, so that no vote of it that is
    /// forgotten can be asked for again.
    pub(super) fn others_have_all_of(&self, host: usize) -> bool {
        let this = &self.hosts[host];
        if !self.votes(host) || self.misses_entries() || self.members.is_changing() {
            return false;
        }
        let committed = self.model.applied();
        let other_voters = (0..self.hosts.len()).filter(|other| *other != host);
        let others: Vec<&Host> = other_voters
            .filter(|other| self.votes(*other) && !self.hosts[*other].retired)
            .map(|other| &self.hosts[other])
            .collect();
        let known = self.members.voters().filter(|id| *id != this.id).count();
        let is_covered = |other: &Host| {
            other.shadow.durable.last() == committed
                && other.shadow.newest.last() == committed
                && other.shadow.durable.term_at(committed) == this.shadow.newest.term_at(committed)
                && other.shadow.hard_state.term >= this.shadow.hard_state.term
        };
        let term = this
            .process
            .as_ref()
            .map_or(0, |process| process.status().term);
        this.shadow.newest.last() == committed
            && term <= this.shadow.hard_state.term
            && known >= 2
            && others.len() == known
            && others.into_iter().all(is_covered)
    }

    /// True while a member with an old or empty disk has less than it once had, one has a disk that
    /// rots, or one is to be removed for it.
    pub(crate) fn misses_entries(&self) -> bool {
        (0..self.hosts.len()).any(|host| {
            let this = &self.hosts[host];
            // What it has is not known before it starts.
            let misses = this.rolled_back > Some(this.shadow.newest.last());
            let is_bad = this.is_condemned || !this.rotten.is_empty();
            (misses || this.has_old_disk || is_bad) && !this.retired && self.belongs(host)
        })
    }

    /// A member says that a log was lost: true of old and empty disks only, and somebody hears it.
    pub(super) fn judge_complaint(
        &mut self,
        host: usize,
        complaint: &Complaint,
    ) -> Result<(), Failed> {
        let whose = match complaint {
            Complaint::Refused { .. } => return Ok(()),
            Complaint::PeerLostLog { peer, .. } => self.host_of(*peer),
            Complaint::OwnLogLost { .. } => Some(host),
            // What it read does not get to anybody.
            Complaint::Misread { .. } if !self.hosts[host].rotten.is_empty() => {
                self.note(&format!("h{host} complains: {complaint:?}"));
                self.condemn(host);
                return Ok(());
            }
            Complaint::Misread { .. } => None,
        };
        self.note(&format!("h{host} complains: {complaint:?}"));
        match whose.filter(|whose| self.hosts[*whose].rolled_back.is_some()) {
            Some(whose) => {
                self.figures.complaints += 1;
                self.condemn(whose);
                Ok(())
            }
            None => {
                let what = format!("no disk lost what was durable: h{host} says {complaint:?}");
                Err(("durable prefix", what))
            }
        }
    }

    /// Removes a member that lost its log, and adds a machine in its place.
    pub(super) fn operate(&mut self, host: usize) {
        if self.hosts[host].retired {
            return;
        }
        if self.belongs(host) {
            let member = MemberInfo {
                id: self.hosts[host].id,
                ..MemberInfo::default()
            };
            self.change(ConfChangeKind::RemoveNode, member, false);
            let again = self.now + SECOND;
            return self.at(again, Event::Operator(host));
        }
        self.note(&format!("h{host} is taken away"));
        self.retire(host);
        if self.healed_at.is_none() {
            self.wish(Wish::AddLearner);
        }
    }

    /// All members but one are lost for good; it goes on alone, with `--force-new-cluster`. False
    /// if nobody has everything that was promised.
    pub(crate) fn force_new_cluster(&mut self) -> bool {
        let has_all = |host: &usize| {
            let this = &self.hosts[*host];
            // What an older disk holds is known when a process begins on it.
            let is_known =
                this.begun && !this.retired && !this.has_old_disk && this.rotten.is_empty();
            let durable = &this.shadow.durable;
            self.belongs(*host) && is_known && self.checks.durable_prefix.is_whole(durable)
        };
        let hosts = 0..self.hosts.len();
        let Some(survivor) = hosts.clone().find(has_all) else {
            return false;
        };
        self.note(&format!("h{survivor} is all that is left"));
        self.figures.forced += 1;
        for other in hosts.filter(|other| *other != survivor) {
            if !self.hosts[other].retired {
                self.retire(other);
                self.wake_clients_of(other);
            }
        }
        // Nothing of theirs arrives any more.
        self.queue
            .retain(|next| !matches!(next.event, Event::Deliver(_) | Event::Snapshot(_)));
        if self.hosts[survivor].is_up() {
            self.crash(survivor, Crash::Killed);
        }
        self.hosts[survivor].settings.config.force_new_cluster = true;
        // What the others did in their terms, and wrote into their logs, has never been.
        self.checks.election_safety.begins_anew();
        self.checks.log_matching.begins_anew();
        let id = self.hosts[survivor].id;
        self.checks.durable_prefix.survives(id);
        true
    }
}

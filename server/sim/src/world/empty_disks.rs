//! Disks that are lost, and empty ones in their place: what a member asks of the others before it
//! begins on one, and what the operator does when it may not.

use etcd_api::membershippb::ClusterMemberAttrSetRequest;
use raft::{Index, RoleKind};
use server::config::ClusterState;
use storage::vfs::sim::SimVfs;

use super::{Event, Failed, Named, World};
use crate::canary::Canary;
use crate::host::process::ClusterView;
use crate::host::{Crash, Host};

impl World {
    /// The host gets an empty disk, and its process the flags of a member that joins, or those of
    /// its first start. False if that could lose what was promised to clients.
    pub(crate) fn wipe(&mut self, host: usize) -> bool {
        if !self.may_lose(host) {
            return false;
        }
        let had = self.hosts[host].shadow.newest.last();
        let id = self.hosts[host].id;
        self.crash(host, Crash::PowerCut);
        let as_new = host < self.figures.members && self.nemesis.rng.chance(500);
        let this = &mut self.hosts[host];
        this.disk = SimVfs::new(this.rng.next());
        this.image = None;
        this.begun = false;
        this.rolled_back = Some(had);
        this.has_old_disk = true;
        this.settings.config.initial_cluster_state = if as_new {
            ClusterState::New
        } else {
            ClusterState::Existing
        };
        // Connections end with the process, and with them what was on its way.
        self.queue.retain(|next| match &next.event {
            Event::Deliver(message) => message.to != id,
            Event::Snapshot(transfer) => transfer.to != id,
            _ => true,
        });
        self.figures.wiped += 1;
        self.note(&format!(
            "h{host} has an empty disk, and had entries to {had}; it starts as new: {as_new}"
        ));
        true
    }

    /// Whether the host may forget entries and votes.
    pub(super) fn may_lose(&self, host: usize) -> bool {
        // A forgotten vote must not be wanted by anybody.
        let runs_for_office = |other: &Host| {
            other.process.as_ref().is_some_and(|process| {
                let role = process.status().role;
                role == RoleKind::Candidate || role == RoleKind::PreCandidate
            })
        };
        let this = &self.hosts[host];
        this.begun
            && !this.retired
            && self.others_have_all_of(host)
            && !self.hosts.iter().any(runs_for_office)
    }

    /// What those that `host` can reach tell it of the cluster, if nothing has begun on its disk. One
    /// that joins asks one after the other for its place, and founders ask each other.
    pub(super) fn told_of_cluster(&self, host: usize) -> Vec<ClusterView> {
        if self.hosts[host].begun {
            return Vec::new();
        }
        let member_id = self.hosts[host].id;
        let joins = self.hosts[host].settings.joins();
        let asks = |other: &usize| {
            *other != host && (joins || *other < self.figures.members) && {
                let is_cut = self.net.is_cut((host, *other)) || self.net.is_cut((*other, host));
                !is_cut && !self.hosts[*other].paused
            }
        };
        let answer = |other: usize| -> Option<ClusterView> {
            let process = self.hosts[other].process.as_ref()?;
            let mut members = process.members().ok()?;
            if self.canary == Some(Canary::ForgottenMember) {
                let own = members.iter_mut().filter(|member| member.id == member_id);
                own.for_each(|own| own.client_urls.clear());
            }
            Some(ClusterView {
                member_id,
                cluster_id: process.cluster_id,
                applied: process.view().applied().index,
                members,
            })
        };
        let answers = (0..self.hosts.len()).filter(asks).filter_map(answer);
        if joins {
            answers.filter(ClusterView::knows).take(1).collect()
        } else {
            answers.collect()
        }
    }

    /// Somebody committed where a member serves clients.
    pub(super) fn is_published(&mut self, set: &ClusterMemberAttrSetRequest, index: Index) {
        let attributes = set.member_attributes.as_ref();
        if attributes.is_some_and(|attributes| !attributes.client_urls.is_empty()) {
            self.checks.empty_disks.publishes(set.member_id, index);
        }
    }

    /// `host` began on an empty disk.
    pub(super) fn judge_newcomer(&self, host: usize, told: &[ClusterView]) -> Result<(), Failed> {
        let id = self.hosts[host].id;
        let judged = self.checks.empty_disks.begins(host, id, &heard(told));
        judged.of("empty disks")
    }

    /// The others know the member: the operator reads why it does not start, while a script starts
    /// it again and again.
    pub(super) fn turns_away_newcomer(
        &mut self,
        host: usize,
        told: &[ClusterView],
        why: &str,
    ) -> Result<(), Failed> {
        self.note(&format!("h{host} does not start: {why}"));
        let id = self.hosts[host].id;
        let judged = self.checks.empty_disks.refuses(host, id, &heard(told));
        judged.of("empty disks")?;
        self.figures.turned_away += 1;
        self.condemn(host);
        self.starts_in_vain(host);
        Ok(())
    }
}

/// How much those had applied that count the asker as a member.
fn heard(told: &[ClusterView]) -> Vec<Index> {
    let known = told.iter().filter(|told| told.knows());
    known.map(|told| told.applied).collect()
}

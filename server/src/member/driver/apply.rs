//! Runs the applier and carries out its effects.

use std::sync::Arc;

use raft::NodeId;

use super::published::Standing;
use super::watch::Watch;
use super::{Fatal, Job, Note, Ports, Published, RequestIds};
use crate::basics::clock::Now;
use crate::basics::error::Error;
use crate::member::applier::{Applier, ApplyEffects};
use crate::member::event::{ApplyEvent, ConsensusEvent, LogEvent, Proposal};
use crate::request::Request;
use crate::state::Downgrade;

pub struct ApplyDriver {
    applier: Applier,
    member_id: NodeId,
    watch: Watch,
    request_ids: Arc<RequestIds>,
    shared: Arc<Published>,
    /// The cluster version at the last report.
    version: Option<String>,
    /// The downgrade at the last report.
    downgrade: Downgrade,
    effects: ApplyEffects,
}

impl ApplyDriver {
    pub fn new(
        applier: Applier,
        member_id: NodeId,
        watch: Watch,
        request_ids: Arc<RequestIds>,
        shared: Arc<Published>,
    ) -> Result<ApplyDriver, Error> {
        // What an earlier run reported is not reported again.
        let (version, downgrade) = (applier.cluster_version()?, applier.downgrade()?);
        shared.progress.set_cluster_version(version.as_deref());
        Ok(ApplyDriver {
            version,
            downgrade,
            applier,
            member_id,
            watch,
            request_ids,
            shared,
            effects: ApplyEffects::default(),
        })
    }

    /// When the next turn is due even if no event arrives.
    pub fn wake_at(&self, now: Now) -> Option<Now> {
        self.applier.wake_at(now)
    }

    /// Takes all of `events`. Returns true if the applier has stopped.
    pub fn turn(
        &mut self,
        now: Now,
        events: &mut Vec<ApplyEvent>,
        ports: &mut impl Ports,
    ) -> Result<bool, Fatal> {
        let installs = |event: &ApplyEvent| matches!(event, ApplyEvent::Install(_));
        let installs = events.iter().any(installs);
        if installs {
            ports.note(Note::Installing);
        }
        self.applier
            .turn(now, events, &mut self.effects)
            .map_err(|error| Fatal::new("failed to apply the log", error))?;
        self.tell_turn(now, ports);
        self.carry_out(ports)?;
        if installs {
            ports.note(Note::Installed);
        }
        if self.effects.stopped {
            ports.to_log(LogEvent::Stop);
        }
        Ok(self.effects.stopped)
    }

    /// Readers already see what the turn changed. The order of the other effects is part of the
    /// protocol:
    ///
    /// 1. The space that is left, before any answer. A client that was told about an alarm, or was
    ///    refused by it, must find the same state at its next request.
    /// 2. Digests of histories that will be compacted, before the compactions are answered. After the
    ///    answer a client may ask for the digest. The end of a compaction comes after its digest.
    /// 3. Watchers, before answers. When the client that made a change continues, the event is
    ///    already on its way.
    /// 4. The members, before raft hears of the change. Then raft's first message to a new member
    ///    has an address, and reads ask other members before raft counts a second voter.
    /// 5. For raft: the change of members, then an installed state, then the applied index. Raft
    ///    assumes that it knows all changes up to an applied index. The index is published before
    ///    answers, because a client with an answer may ask for what that index applied.
    /// 6. Answers. No client waits for the steps after them.
    /// 7. This member's own proposals, the log's dropped part, and jobs for helper threads. A
    ///    checkpoint goes through the log's inbox. The writes of all entries that it holds are there
    ///    already, because raft hands out an entry to be applied after its write.
    fn carry_out(&mut self, ports: &mut impl Ports) -> Result<(), Fatal> {
        self.publish_space(ports);
        for job in self.effects.hash.drain(..) {
            ports.digest(job);
        }
        if let Some(compacted) = self.effects.compacted.take() {
            ports.compaction_ended(compacted);
        }
        if let Some(revision) = self.effects.advanced.take() {
            self.watch.advanced(revision)?;
        }
        if std::mem::take(&mut self.effects.cluster_changed) {
            self.publish_members(ports)?;
        }
        self.tell_member(ports);
        ports.answer(&mut self.effects.replies);
        self.propose(ports);
        if let Some(index) = self.effects.drop_log_before.take() {
            ports.to_log(LogEvent::DropBefore { index });
        }
        self.start_jobs(ports);
        Ok(())
    }

    fn publish_space(&mut self, ports: &mut impl Ports) {
        let stats = self.applier.stats();
        let is_low = self.applier.refuses_growth();
        let is_short = self.applier.is_short();
        self.shared.space.publish(&stats, is_low, is_short);
        ports.note(Note::Store {
            stats: &stats,
            oldest_view: self.effects.oldest_view,
        });
        if let Some(short) = self.effects.log_is_short.take() {
            ports.to_log(LogEvent::Short(short));
        }
    }

    fn publish_members(&mut self, ports: &mut impl Ports) -> Result<(), Fatal> {
        let decided = self.applier.cluster_version().map_err(Fatal::cluster)?;
        if decided != self.version {
            ports.note(Note::ClusterVersion {
                before: self.version.as_deref(),
                now: decided.as_deref(),
            });
            self.shared.progress.set_cluster_version(decided.as_deref());
            self.version = decided;
        }
        let downgrade = self.applier.downgrade().map_err(Fatal::cluster)?;
        if downgrade != self.downgrade {
            if downgrade.enabled {
                ports.note(Note::DowngradeEnabled(&downgrade.target));
            }
            self.downgrade = downgrade;
        }
        let members = self.applier.members().map_err(Fatal::cluster)?;
        let removed = self.applier.removed_members().map_err(Fatal::cluster)?;
        if members.is_empty() {
            return Ok(()); // The first members are not applied yet.
        }
        let standing = Standing::among(self.member_id, &members);
        self.shared.progress.set_standing(standing);
        ports.note(Note::Learns(standing.learner));
        ports.set_members(&members, &removed);
        Ok(())
    }

    fn tell_member(&mut self, ports: &mut impl Ports) {
        for (index, change) in self.effects.conf_changes.drain(..) {
            ports.note(Note::MemberChange(change.as_ref()));
            ports.to_consensus(ConsensusEvent::ConfChanged { index, change });
        }
        if std::mem::take(&mut self.effects.installed) {
            ports.to_consensus(ConsensusEvent::SnapshotInstalled);
        }
        let Some(index) = self.effects.applied.take() else {
            return;
        };
        let term = self.applier.applied_term();
        self.shared.progress.publish(index, term);
        let applied = ConsensusEvent::Applied { index };
        // The member needs this only at its next turn, unless it waits for this index to campaign.
        if self.shared.leadership.has_leader() {
            ports.to_consensus_quietly(applied);
        } else {
            ports.to_consensus(applied);
        }
    }

    fn propose(&mut self, ports: &mut impl Ports) {
        let by = self.applier.own_auth_info();
        for request in self.effects.proposals.drain(..) {
            let data = request.encode_by(self.request_ids.next(), &by);
            ports.to_consensus(ConsensusEvent::Propose(Proposal {
                request,
                data,
                reply: None,
                term: Some(self.effects.term),
            }));
        }
        // An alarm of any member is valid in any term.
        if let Some(alarm) = self.effects.alarm.take() {
            let data = Request::encode_own_alarm(&alarm, self.request_ids.next());
            let request = Request::Alarm(alarm);
            ports.to_consensus(ConsensusEvent::Propose(Proposal {
                request,
                data,
                reply: None,
                term: None,
            }));
        }
    }

    fn start_jobs(&mut self, ports: &mut impl Ports) {
        if let Some(job) = self.effects.sync.take() {
            ports.start(Job::SyncStore(job));
        }
        let hurry = &self.shared.hurry;
        hurry.set(self.applier.hurries());
        hurry.set_entries_wait(self.applier.entries_wait());
        self.shared.hash_hurry.set(self.applier.hurries_hash());
        if let Some(retired) = self.effects.retired.take() {
            ports.start(Job::Retire(retired));
        }
        if let Some(job) = self.effects.checkpoint.take() {
            ports.to_log(LogEvent::Checkpoint(Box::new(job)));
        }
    }

    /// Notes the turn for metrics, log lines and checkers.
    fn tell_turn(&mut self, began: Now, ports: &mut impl Ports) {
        let took = ports.now().saturating_sub(began);
        let counts = &mut self.effects.counts;
        ports.note(Note::Applied { counts, took });
        for slow in self.effects.slow.drain(..) {
            ports.note(Note::Slow(slow));
        }
        if let Some(needed_from) = self.effects.drop_log_before {
            ports.note(Note::Checkpointed { needed_from });
        }
        if let Some(progress) = self.effects.reencryption.take() {
            ports.note(Note::Reencryption(&progress));
        }
        if let Some(look) = self.effects.look.take() {
            ports.note(Note::Look(&look));
        }
        for news in self.effects.space_news.drain(..) {
            ports.note(Note::Space(news));
        }
    }
}

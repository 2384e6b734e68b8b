//! The applier, and where its decisions go.

use std::sync::Arc;

use raft::NodeId;

use super::job::Hurry;
use super::watch::Watch;
use super::{Fatal, Job, Note, Ports, RequestIds, Shared};
use crate::Now;
use crate::applier::{Applier, ApplyEffects};
use crate::error::Error;
use crate::event::{ApplyEvent, LogEvent, MemberEvent, Proposal};

pub struct ApplyDriver {
    applier: Applier,
    member_id: NodeId,
    watch: Watch,
    request_ids: Arc<RequestIds>,
    shared: Arc<Shared>,
    hurry: Hurry,
    /// The cluster's version, as last told.
    version: Option<String>,
    effects: ApplyEffects,
}

impl ApplyDriver {
    pub fn new(
        applier: Applier,
        member_id: NodeId,
        watch: Watch,
        request_ids: Arc<RequestIds>,
        shared: Arc<Shared>,
    ) -> Result<ApplyDriver, Error> {
        Ok(ApplyDriver {
            // What was decided before this run is no news.
            version: applier.cluster_version()?,
            applier,
            member_id,
            watch,
            request_ids,
            shared,
            hurry: Hurry::default(),
            effects: ApplyEffects::default(),
        })
    }

    /// When to call again though nothing arrives.
    pub fn wake_at(&self, now: Now) -> Option<Now> {
        self.applier.wake_at(now)
    }

    /// Takes all of `events`. Whether the applier has stopped.
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

    /// What the turn changed is visible to readers already. The order of the rest is part of the
    /// protocol:
    ///
    /// 1. Whether there is space, before any answer: who was told that an alarm is gone, or refused
    ///    because of it, finds it so.
    /// 2. Digests of histories about to be compacted, before the compactions are answered: from then
    ///    on somebody may ask for them. That a compaction has ended comes behind its digest.
    /// 3. Watchers, before answers: an event is on its way when the client that made the change goes
    ///    on.
    /// 4. Who the members are, before raft hears of the change. Its first message to a new member
    ///    finds a way there, and reads ask others again before raft counts a second voter.
    /// 5. The change for raft, then that a state was installed, then what is applied: raft looks at
    ///    an applied index as one whose changes it knows. The index is published before answers, for
    ///    who has one may ask for what was applied with it.
    /// 6. Answers. What follows keeps no client waiting.
    /// 7. Proposals of this member's own, what the log can drop, and work for helper threads.
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
        self.shared.space.publish(&stats, is_low);
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
            self.version = decided;
        }
        let members = self.applier.members().map_err(Fatal::cluster)?;
        let removed = self.applier.removed_members().map_err(Fatal::cluster)?;
        if members.is_empty() {
            return Ok(()); // The log has yet to tell of the first.
        }
        let own = members.iter().find(|member| member.id == self.member_id);
        let learns = own.is_some_and(|own| own.is_learner);
        let voters = members.iter().filter(|member| !member.is_learner);
        let sole = voters.map(|member| member.id).eq([self.member_id]);
        self.shared.progress.set_members(sole, learns);
        ports.note(Note::Learns(learns));
        ports.set_members(&members, &removed);
        Ok(())
    }

    fn tell_member(&mut self, ports: &mut impl Ports) {
        for (index, change) in self.effects.conf_changes.drain(..) {
            ports.note(Note::MemberChange(change.as_ref()));
            ports.to_member(MemberEvent::ConfChanged { index, change });
        }
        if std::mem::take(&mut self.effects.installed) {
            ports.to_member(MemberEvent::SnapshotInstalled);
        }
        let Some(index) = self.effects.applied.take() else {
            return;
        };
        let term = self.applier.applied_term();
        self.shared.progress.publish(index, term);
        let applied = MemberEvent::Applied { index };
        // Nobody has a use for it before the member's next turn, but for one that waits for it to
        // campaign.
        if self.shared.leadership.has_leader() {
            ports.to_member_quietly(applied);
        } else {
            ports.to_member(applied);
        }
    }

    fn propose(&mut self, ports: &mut impl Ports) {
        let by = self.applier.own_auth_info();
        for request in self.effects.proposals.drain(..) {
            let data = request.encode_by(self.request_ids.next(), &by);
            ports.to_member(MemberEvent::Propose(Proposal {
                request,
                data,
                reply: None,
                term: Some(self.effects.term),
            }));
        }
        // Any member's alarm is good in any term.
        if let Some(request) = self.effects.alarm.take() {
            let data = request.encode(self.request_ids.next());
            ports.to_member(MemberEvent::Propose(Proposal {
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
        self.hurry.set(self.applier.hurries());
        if let Some(retired) = self.effects.retired.take() {
            ports.start(Job::Retire(retired));
        }
        if let Some(job) = self.effects.checkpoint.take() {
            ports.start(Job::Checkpoint(Box::new(job), self.hurry.clone()));
        }
    }

    /// For those who only look.
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
        if let Some(progress) = self.effects.resealing.take() {
            ports.note(Note::Resealing(&progress));
        }
        if let Some(look) = self.effects.look.take() {
            ports.note(Note::Look(&look));
        }
        for news in self.effects.space_news.drain(..) {
            ports.note(Note::Space(news));
        }
    }
}

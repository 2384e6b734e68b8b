//! Changes of the members: the checks before a change enters the log, in etcd's order and words.
//! The checks when it is applied are in `state/cluster.rs`.

use std::time::Duration;

use bytes::Bytes;
use raft::{ConfChange, ConfChangeKind};

use super::{EtcdServer, REQUEST_TIMEOUT, post};
use crate::auth::Credentials;
use crate::basics::error::Error;
use crate::config::Url;
use crate::member::data_dir;
use crate::member::event::{ConsensusEvent, Outcome, RaftView, ReplySlot};
use crate::state::{ChangeContext, MemberInfo};

/// A member counts as connected after this long a connection. etcd's value.
const HEALTHY_AFTER: Duration = Duration::from_secs(5);
/// Share of the leader's log that a learner must have before its promotion. etcd's value.
const READY_PERCENT: u128 = 90;
/// Time between two tries of a promotion to find and ask the leader.
const LEADER_POLL: Duration = Duration::from_millis(100);

impl EtcdServer {
    /// Returns the new member and all members.
    pub(crate) async fn add_member(
        &self,
        urls: &[String],
        is_learner: bool,
        who: &Credentials,
    ) -> Result<(MemberInfo, Vec<MemberInfo>), Error> {
        let mut peer_urls = parse(urls)?;
        self.require_admin(who).await?;
        peer_urls.sort();
        let id = data_dir::new_member_id(&peer_urls, crate::basics::clock::unix_time());
        let member = MemberInfo {
            id,
            peer_urls,
            is_learner,
            ..Default::default()
        };
        self.check_addition(is_learner)?;
        let context = ChangeContext {
            member: member.clone(),
            is_promote: false,
        };
        let kind = if is_learner {
            ConfChangeKind::AddLearnerNode
        } else {
            ConfChangeKind::AddNode
        };
        let members = self.configure(kind, id, context.encode()).await?;
        Ok((member, members))
    }

    /// Returns the remaining members.
    pub(crate) async fn remove_member(&self, id: u64) -> Result<Vec<MemberInfo>, Error> {
        self.check_removal(id)?;
        self.configure(ConfChangeKind::RemoveNode, id, Vec::new())
            .await
    }

    /// Replaces the peer URLs of a member. Returns all members.
    pub(crate) async fn update_member(
        &self,
        id: u64,
        urls: &[String],
        who: &Credentials,
    ) -> Result<Vec<MemberInfo>, Error> {
        parse(urls)?;
        self.require_admin(who).await?;
        let context = ChangeContext {
            member: MemberInfo {
                id,
                peer_urls: urls.to_vec(),
                ..Default::default()
            },
            is_promote: false,
        };
        self.configure(ConfChangeKind::UpdateNode, id, context.encode())
            .await
    }

    /// Only the leader knows whether a learner is ready, so other members ask it.
    pub(crate) async fn promote_member(&self, id: u64) -> Result<Vec<MemberInfo>, Error> {
        match self.promote_here(id).await {
            Err(Error::NotLeader) => {}
            Ok(members) => {
                self.metrics().learner_promote_successes.inc();
                return Ok(members);
            }
            Err(refused) => {
                let reason = match refused {
                    Error::MemberNotFound => NOT_FOUND.to_owned(),
                    Error::NotLearner => NOT_LEARNER.to_owned(),
                    _ => refused.to_string(),
                };
                self.metrics().promote_failed(reason);
                return Err(refused);
            }
        }
        let patience = REQUEST_TIMEOUT + 2 * self.limits().election_timeout;
        match tokio::time::timeout(patience, self.promote_there(id)).await {
            Ok(answer) => answer,
            Err(_) if !self.has_leader() => Err(Error::NoLeader),
            Err(_) => Err(Error::Timeout),
        }
    }

    /// The state of raft here and, on the leader, the progress of the others.
    pub(crate) async fn raft_view(&self) -> Result<RaftView, Error> {
        let (slot, reply) = ReplySlot::new(self.0.admission.admit(0)?);
        post(&self.0.consensus, ConsensusEvent::Describe(slot))?;
        match self.wait(reply).await?.outcome {
            Outcome::Raft(view) => Ok(*view),
            other => unreachable!("a question for raft was answered with {other:?}"),
        }
    }

    async fn promote_here(&self, id: u64) -> Result<Vec<MemberInfo>, Error> {
        let (slot, reply) = ReplySlot::new(self.0.admission.admit(0)?);
        post(
            &self.0.consensus,
            ConsensusEvent::Progress { id, reply: slot },
        )?;
        let progress = self.wait(reply).await?.outcome;
        let Outcome::Progress { matched, leader } = progress else {
            unreachable!("a question for progress was answered with {progress:?}");
        };
        if u128::from(matched) * 100 < u128::from(leader) * READY_PERCENT {
            return Err(Error::LearnerNotReady);
        }
        let (voters, started) = self.voters()?;
        if self.limits().strict_reconfig_check && started + 1 < quorum(voters.len() + 1) {
            return Err(Error::NotEnoughStarted);
        }
        let context = ChangeContext {
            member: MemberInfo {
                id,
                ..Default::default()
            },
            is_promote: true,
        };
        self.configure(ConfChangeKind::AddNode, id, context.encode())
            .await
    }

    async fn promote_there(&self, id: u64) -> Result<Vec<MemberInfo>, Error> {
        let path = format!("/members/promote/{id}");
        loop {
            if let Some(urls) = self.leader_urls() {
                let asked = self.0.peers.post(&urls, &path, Bytes::new()).await;
                if let Ok(answer) = asked {
                    let text = String::from_utf8_lossy(&answer.body);
                    match answer.status {
                        200 => {
                            let members = serde_json::from_slice(&answer.body);
                            return members.map_err(|_| Error::Timeout);
                        }
                        404 => return Err(Error::MemberNotFound),
                        408 => return Err(Error::Timeout),
                        412 if text.contains(&Error::LearnerNotReady.to_string()) => {
                            return Err(Error::LearnerNotReady);
                        }
                        412 if text.contains(NOT_LEARNER) => return Err(Error::NotLearner),
                        _ => {}
                    }
                }
            }
            tokio::time::sleep(LEADER_POLL).await;
        }
    }

    fn leader_urls(&self) -> Option<Vec<String>> {
        let leader = self.0.shared.leadership.leader();
        self.0.peers.urls_of(leader)
    }

    /// Sends a change through the log. Returns the members when it is applied here.
    async fn configure(
        &self,
        kind: ConfChangeKind,
        node: u64,
        context: Vec<u8>,
    ) -> Result<Vec<MemberInfo>, Error> {
        let (slot, reply) = ReplySlot::new(self.0.admission.admit(0)?);
        let change = ConfChange {
            id: self.unique_id(),
            kind,
            node,
            context: context.into(),
        };
        let event = ConsensusEvent::Configure {
            change,
            reply: slot,
        };
        let began = self.0.clock.now();
        post(&self.0.consensus, event)?;
        let applied = self.wait(reply).await;
        applied.map_err(|error| self.explain(error, began))?;
        tracing::info!(
            "local-member-id" = format!("{:x}", self.identity().member_id),
            "raft-conf-change" = conf_change_name(kind),
            "raft-conf-change-node-id" = format!("{node:x}"),
            "applied a configuration change through raft"
        );
        self.members()
    }

    fn check_addition(&self, is_learner: bool) -> Result<(), Error> {
        if !self.limits().strict_reconfig_check {
            return Ok(());
        }
        let (voters, started) = self.voters()?;
        let with_it = voters.len() + 1;
        // A cluster of one may always grow: a restored backup starts that way.
        let of_one = started == 1 && with_it == 2;
        if !is_learner && !of_one && started < quorum(with_it) {
            return Err(Error::NotEnoughStarted);
        }
        // The new member counts as unreachable.
        if voters.len() > 1 && self.connected(&voters) < quorum(with_it) {
            return Err(Error::Unhealthy);
        }
        Ok(())
    }

    fn check_removal(&self, id: u64) -> Result<(), Error> {
        if !self.limits().strict_reconfig_check {
            return Ok(());
        }
        let members = self.members()?;
        if members
            .iter()
            .any(|member| member.id == id && member.is_learner)
        {
            return Ok(());
        }
        let (voters, _) = self.voters()?;
        let staying = voters.iter().filter(|voter| voter.id != id);
        let started = staying.clone().filter(|voter| is_started(voter)).count();
        if started < quorum(staying.count()) {
            return Err(Error::NotEnoughStarted);
        }
        // Removing an unreachable member does not endanger the quorum.
        let is_down = self.0.peers.connected_for(id).is_none();
        if id != self.identity().member_id && is_down {
            return Ok(());
        }
        if self.connected(&voters) < 2 + voters.len().saturating_sub(1) / 2 {
            return Err(Error::Unhealthy);
        }
        Ok(())
    }

    /// The voters, and how many of them have ever started.
    fn voters(&self) -> Result<(Vec<MemberInfo>, usize), Error> {
        let mut members = self.members()?;
        members.retain(|member| !member.is_learner);
        let started = members.iter().filter(|member| is_started(member)).count();
        Ok((members, started))
    }

    /// How many of the voters this member has long been connected to, including itself.
    fn connected(&self, voters: &[MemberInfo]) -> usize {
        let is_connected = |voter: &&MemberInfo| {
            voter.id == self.identity().member_id
                || self
                    .0
                    .peers
                    .connected_for(voter.id)
                    .is_some_and(|time| time > HEALTHY_AFTER)
        };
        voters.iter().filter(is_connected).count()
    }

    /// The voter with the longest connection, as the next leader.
    pub(crate) fn heir(&self) -> Option<u64> {
        let (voters, _) = self.voters().ok()?;
        let others = voters.iter().filter(|v| v.id != self.identity().member_id);
        others
            .filter_map(|voter| Some((self.0.peers.connected_for(voter.id)?, voter.id)))
            .max()
            .map(|(_, id)| id)
    }

    pub(crate) fn is_learner(&self) -> bool {
        self.0.shared.progress.is_learner()
    }
}

/// The leader's HTTP answers to a promotion that it refuses.
pub(crate) const NOT_FOUND: &str = "membership: ID not found";
pub(crate) const NOT_LEARNER: &str = "membership: can only promote a learner member";

/// A member publishes its name when it starts.
fn is_started(member: &MemberInfo) -> bool {
    !member.name.is_empty()
}

fn quorum(members: usize) -> usize {
    members / 2 + 1
}

/// At least one URL, each valid for a member.
fn parse(urls: &[String]) -> Result<Vec<String>, Error> {
    let parsed = urls.iter().map(|url| Url::parse(url));
    let parsed: Result<Vec<Url>, String> = parsed.collect();
    match parsed {
        Ok(urls) if !urls.is_empty() => Ok(Url::texts(&urls)),
        _ => Err(Error::BadMemberUrls),
    }
}

fn conf_change_name(kind: ConfChangeKind) -> &'static str {
    match kind {
        ConfChangeKind::AddNode => "ConfChangeAddNode",
        ConfChangeKind::RemoveNode => "ConfChangeRemoveNode",
        ConfChangeKind::UpdateNode => "ConfChangeUpdateNode",
        ConfChangeKind::AddLearnerNode => "ConfChangeAddLearnerNode",
    }
}

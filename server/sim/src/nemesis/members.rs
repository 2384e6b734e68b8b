//! Members that come and go while everything else goes wrong: who asks for it, machines that join
//! when their place is kept, and those that leave for good. The part of
//! `server::runtime::etcd_server::members`, `server::member::cluster::peer` and
//! `server::lifecycle`, without their checks of what is wise: unwise changes must be safe, too.

use std::collections::BTreeSet;

use raft::{ConfChange, ConfChangeKind, NodeId};
use server::member::event::{ConsensusEvent, Reply, ReplySlot};
use server::state::{ChangeContext, MemberInfo};
use tokio::sync::oneshot::Receiver;
use tokio::sync::oneshot::error::TryRecvError;

use crate::host::process::Process;
use crate::host::{Crash, Host};
use crate::world::{Event, Failed, MILLI, Named, SECOND, World, settings};

/// How long a member stays that learned that it was removed: the server's.
const FAREWELL: u64 = SECOND;
/// Machines of one run, those that are gone among them.
const HOSTS_MAX: usize = 10;
/// More are never asked for.
const VOTERS_MAX: usize = 7;

/// What is asked of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    AddLearner,
    AddVoter,
    Promote,
    Remove,
    /// Removes one and adds a learner in its place.
    Replace,
    /// Tells one's new URLs.
    Update,
}

#[derive(Debug)]
struct Asked {
    change: ConfChange,
    reply: Receiver<Reply>,
}

/// Everybody, as the member that has applied most has them.
#[derive(Debug, Default)]
pub(crate) struct Members {
    index: u64,
    pub newest: Vec<MemberInfo>,
    asked: Vec<Asked>,
    last_change: u64,
}

impl Members {
    /// True while somebody waits for a change.
    pub(crate) fn is_changing(&self) -> bool {
        !self.asked.is_empty()
    }

    pub(crate) fn voters(&self) -> impl Iterator<Item = NodeId> + '_ {
        let voters = self.newest.iter().filter(|member| !member.is_learner);
        voters.map(|member| member.id)
    }
}

impl World {
    /// Everybody belongs to the cluster before its log tells who does.
    pub(crate) fn belongs(&self, host: usize) -> bool {
        let id = self.hosts[host].id;
        let is_named = self.members.newest.iter().any(|member| member.id == id);
        is_named || (self.members.newest.is_empty() && !self.hosts[host].joins)
    }

    pub(crate) fn votes(&self, host: usize) -> bool {
        self.belongs(host) && {
            let id = self.hosts[host].id;
            let own = self.members.newest.iter().find(|member| member.id == id);
            own.is_none_or(|own| !own.is_learner)
        }
    }

    /// Asks some member that is up for it, as a client would.
    pub(crate) fn wish(&mut self, wish: Wish) {
        // Without one more there may be no majority of those that have everything.
        if matches!(wish, Wish::Remove | Wish::Replace) && self.misses_entries() {
            return;
        }
        match wish {
            Wish::Replace => {
                self.wish(Wish::Remove);
                self.wish(Wish::AddLearner);
            }
            Wish::AddLearner | Wish::AddVoter => self.add(wish),
            Wish::Promote => {
                let learners = self.members.newest.iter().filter(|m| m.is_learner);
                let learners: Vec<NodeId> = learners.map(|member| member.id).collect();
                if !learners.is_empty() {
                    let id = *self.nemesis.rng.pick(&learners);
                    let member = MemberInfo {
                        id,
                        ..MemberInfo::default()
                    };
                    self.change(ConfChangeKind::AddNode, member, true);
                }
            }
            Wish::Remove | Wish::Update => {
                let Some(count) = std::num::NonZeroU64::new(self.members.newest.len() as u64)
                else {
                    return;
                };
                let rng = &mut self.nemesis.rng;
                let place = rng.below(count.get()) as usize;
                let (few, rarely) = (self.members.voters().count() <= 2, rng.chance(100));
                let mut member = self.members.newest[place].clone();
                if wish == Wish::Update {
                    member.peer_urls = vec![format!("http://{:x}:{}", member.id, rng.below(9))];
                    return self.change(ConfChangeKind::UpdateNode, member, false);
                }
                // Of two voters, one that goes may leave the other without a majority for ever.
                if member.is_learner || !few || rarely {
                    self.change(ConfChangeKind::RemoveNode, member, false);
                }
            }
        }
    }

    fn add(&mut self, wish: Wish) {
        let number = self.hosts.len() + 1;
        if number > HOSTS_MAX || self.members.voters().count() >= VOTERS_MAX {
            return;
        }
        let id = self.nemesis.rng.next() | 1;
        let is_learner = wish == Wish::AddLearner;
        let name = format!("m{number}");
        let member = MemberInfo {
            id,
            peer_urls: vec![format!("http://{name}:2380")],
            is_learner,
            ..MemberInfo::default()
        };
        let kind = if is_learner {
            ConfChangeKind::AddLearnerNode
        } else {
            ConfChangeKind::AddNode
        };
        let settings = settings(&name, std::slice::from_ref(&name), true, &mut self.rng);
        let mut host = Host::new(settings, self.rng.fork());
        host.id = id;
        host.joins = true;
        self.hosts.push(host);
        self.checks.durable_prefix.add_host();
        self.checks.states.add_host();
        self.checks.tokens.add_host();
        self.clients.add_host();
        self.watchers.add_host();
        let host = self.hosts.len() - 1;
        self.note(&format!("h{host} is to be member {id:x}"));
        let at = self.now + self.rng.below(SECOND);
        self.at(at, Event::Start(host));
        self.change(kind, member, false);
    }

    pub(crate) fn change(&mut self, kind: ConfChangeKind, member: MemberInfo, is_promote: bool) {
        let up: Vec<usize> = (0..self.hosts.len())
            .filter(|host| {
                self.hosts[*host]
                    .process
                    .as_ref()
                    .is_some_and(|p| !p.learns())
            })
            .collect();
        if up.is_empty() {
            return;
        }
        let host = *self.nemesis.rng.pick(&up);
        let Ok(permit) = self.clients.admit(host) else {
            return;
        };
        let Some(process) = &mut self.hosts[host].process else {
            return;
        };
        let (slot, reply) = ReplySlot::new(permit);
        self.members.last_change += 1;
        let node = member.id;
        let context = match kind {
            ConfChangeKind::RemoveNode => Vec::new(),
            _ => ChangeContext { member, is_promote }.encode(),
        };
        let change = ConfChange {
            id: self.members.last_change,
            kind,
            node,
            context: context.into(),
        };
        process.ports.to_consensus.push(ConsensusEvent::Configure {
            change: change.clone(),
            reply: slot,
        });
        self.members.asked.push(Asked { change, reply });
        self.note(&format!("h{host} is asked for {kind:?} of {node:x}"));
        self.schedule(host);
    }

    /// Some answers were given.
    pub(crate) fn hear_of_changes(&mut self) {
        let mut asked = std::mem::take(&mut self.members.asked);
        asked.retain_mut(|asked| {
            let Asked { change, reply } = asked;
            let what = match reply.try_recv() {
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Closed) => "is not answered".to_owned(),
                Ok(Err(error)) => format!("is refused: {error}"),
                Ok(Ok(_)) => {
                    self.checks.membership.acknowledged(change);
                    "is done".to_owned()
                }
            };
            self.note(&format!("{:?} of {:x} {what}", change.kind, change.node));
            false
        });
        self.members.asked = asked;
    }

    /// `host` has applied a change of the members.
    pub(crate) fn members_changed(&mut self, host: usize) -> Result<(), Failed> {
        let Some(process) = &self.hosts[host].process else {
            return Ok(());
        };
        let (index, life) = (process.view().applied().index, self.hosts[host].life);
        let own = process.member_id;
        let removed = process.ports.removed.clone();
        let members = match process.members() {
            Ok(members) => members,
            Err(fatal) if self.names_rot(host, &fatal.0)? => return Ok(()),
            Err(fatal) => return Err(("agreement", fatal.0)),
        };
        let has_no_name = members.iter().any(|m| m.id == own && m.name.is_empty());
        if index > self.members.index && !members.is_empty() {
            self.members.index = index;
            self.members.newest = members;
        }
        if has_no_name {
            self.publish(host);
        }
        if removed.contains(&own) {
            self.at(self.now + FAREWELL, Event::Leave { host, life });
        }
        self.tell_removed(host, &removed);
        Ok(())
    }

    /// Their connections are closed, and where they call they hear why.
    fn tell_removed(&mut self, host: usize, removed: &BTreeSet<NodeId>) {
        for other in 0..self.hosts.len() {
            if other != host && removed.contains(&self.hosts[other].id) {
                self.turn_away(host, other);
            }
        }
    }

    /// `host` does not listen to `other`, which was removed, and says so.
    pub(crate) fn turn_away(&mut self, host: usize, other: usize) {
        let heard = !self.net.is_cut((other, host)) && !self.net.is_cut((host, other));
        if heard && self.hosts[other].is_up() && !self.hosts[other].leaves {
            self.hosts[other].leaves = true;
            self.note(&format!("h{other} hears that it was removed"));
            let life = self.hosts[other].life;
            let leave = Event::Leave { host: other, life };
            self.at(self.now + FAREWELL, leave);
        }
    }

    /// `host` connects to all others: whoever knows that it was removed turns it away.
    pub(crate) fn calls_others(&mut self, host: usize) {
        let id = self.hosts[host].id;
        let knows = |other: &Host| {
            let process = other.process.as_ref().filter(|_| !other.paused);
            process.is_some_and(|process| process.ports.removed.contains(&id))
        };
        let knowing = (0..self.hosts.len()).filter(|other| knows(&self.hosts[*other]));
        for other in knowing.collect::<Vec<usize>>() {
            self.turn_away(other, host);
        }
    }

    pub(crate) fn leave(&mut self, host: usize, life: u64) {
        if self.hosts[host].life != life || !self.hosts[host].is_up() {
            return;
        }
        self.note(&format!("h{host} leaves for good"));
        self.retire(host);
        self.wake_clients_of(host);
    }

    pub(crate) fn retire(&mut self, host: usize) {
        self.hosts[host].crash(Crash::Killed);
        self.hosts[host].retired = true;
        self.figures.left += 1;
    }

    /// Says who it is, through the log.
    pub(crate) fn publish(&mut self, host: usize) {
        let this = &mut self.hosts[host];
        let name = this.settings.config.name.clone();
        let Some(process) = this.process.as_mut().filter(|_| !this.published) else {
            return;
        };
        this.published = true;
        process.publish(name);
        self.schedule(host);
    }

    /// When a machine without a place in the cluster asks again.
    pub(crate) fn asks_again(&mut self, host: usize) {
        let at = self.now + self.rng.between(200 * MILLI, SECOND);
        self.at(at, Event::Start(host));
    }

    /// Whether the majority of which each voter that is left knows has gone for good. With two
    /// voters of which one is removed, the other may never hear of it; etcd's way out is to force
    /// a new cluster.
    pub(crate) fn is_stranded(&self) -> bool {
        let voters: Vec<NodeId> = self.members.voters().collect();
        // Nothing starts on a disk that has rotted.
        let is_lost = |host: &&Host| {
            host.retired || (host.is_condemned && !host.rotten.is_empty() && !host.is_up())
        };
        let can_win = |host: &Host| {
            let Some(members) = host.process.as_ref().and_then(|p| p.members().ok()) else {
                return false;
            };
            let voters = members.iter().filter(|member| !member.is_learner);
            let voters: Vec<NodeId> = voters.map(|member| member.id).collect();
            let left = self.hosts.iter().filter(|host| !is_lost(host));
            let left = left.filter(|host| voters.contains(&host.id)).count();
            left > voters.len() / 2
        };
        let left = self.hosts.iter().filter(|host| !is_lost(host));
        let mut left = left.filter(|host| voters.contains(&host.id));
        !left.any(can_win)
    }

    /// The members that a process has applied, beside those whose majorities it counts.
    pub(crate) fn judge_members(
        &self,
        host: usize,
        process: &Process,
        conf: &raft::ConfState,
    ) -> Result<(), Failed> {
        let view = process.view();
        let applied = view.applied().index;
        let founders = self.figures.members as u64;
        if process.status().applied != applied || applied < founders {
            return Ok(());
        }
        let members = match process.members() {
            Ok(members) => members,
            Err(fatal) if self.names_rot(host, &fatal.0)? => return Ok(()),
            Err(fatal) => return Err(("agreement", fatal.0)),
        };
        let judged = self.checks.membership.counts(host, conf, &members);
        judged.of("membership")
    }
}

//! Turning the actors of a process, and carrying what they say to other hosts and to clients.

use raft::{Body, Message, RoleKind};
use server::member::driver::Replies;
use server::member::event::ConsensusEvent;

use super::sabotage::{clears_alarm, is_revoke, misapply};
use super::{Event, Failed, MICRO, MILLI, Named, World};
use crate::canary::Canary;
use crate::host::process::{ACTORS, Actor, Fatal, Turn};

/// A turn on a slow disk, and one of a slow applier.
const SLOW_SYNC: u64 = 100 * MILLI;
const SLOW_APPLY: u64 = 300 * MILLI;

impl World {
    pub(super) fn deliver(&mut self, mut message: Message) {
        if self.canary == Some(Canary::BoughtVotes) {
            match &mut message.body {
                Body::VoteReply { granted } | Body::PreVoteReply { granted } => *granted = true,
                _ => {}
            }
        }
        let Some(host) = self.host_of(message.to) else {
            return;
        };
        let from = self.host_of(message.from);
        if let Some(process) = &mut self.hosts[host].process {
            if process.ports.removed.contains(&message.from) {
                if let Some(from) = from {
                    self.turn_away(host, from);
                }
                return;
            }
            process
                .ports
                .to_consensus
                .push(ConsensusEvent::Receive(message));
            self.schedule(host);
        }
    }

    pub(super) fn closed(&mut self, host: usize, peer: u64) {
        if let Some(process) = &mut self.hosts[host].process {
            process
                .ports
                .to_consensus
                .push(ConsensusEvent::Disconnected { peer });
            self.schedule(host);
        }
    }

    /// Sees to it that every actor of the host that has something to do gets its turn.
    pub(crate) fn schedule(&mut self, host: usize) {
        let now = self.now;
        let this = &mut self.hosts[host];
        if this.paused {
            return;
        }
        let local = this.clock.now(now);
        let life = this.life;
        let Some(process) = &mut this.process else {
            return;
        };
        let mut turns = Vec::new();
        for (place, actor) in ACTORS.into_iter().enumerate() {
            let mut at = process.wakes_at(actor, local).map(|wake| {
                let at = this.clock.world_at(wake);
                // Nobody is woken on the dot.
                at.max(now) + this.rng.between(MICRO, 300 * MICRO)
            });
            if process.is_busy(actor) {
                let rng = &mut this.rng;
                let is_slow = this.slow_disk_until > now;
                let latency = match actor {
                    Actor::LogSync => {
                        let stall = this.stalled_until.saturating_sub(now);
                        let slow = if is_slow { rng.about(SLOW_SYNC) } else { 0 };
                        rng.about(this.sync_takes) + stall + slow
                    }
                    Actor::Helper if is_slow => rng.about(10 * SLOW_SYNC),
                    Actor::Helper => rng.about(5 * MILLI),
                    Actor::Apply if this.slow_apply_until > now => rng.about(SLOW_APPLY),
                    _ if rng.chance(5) => rng.below(20 * MILLI),
                    _ => rng.between(5 * MICRO, 60 * MICRO),
                };
                at = Some(at.unwrap_or(u64::MAX).min(now + latency));
            }
            let Some(at) = at else { continue };
            // What is in motion already is not hurried along by more of the same.
            if process.turns[place].is_none_or(|planned| at < planned) {
                process.turns[place] = Some(at);
                turns.push((at, actor));
            }
        }
        for (at, actor) in turns {
            self.at(at, Event::Turn { host, life, actor });
        }
    }

    pub(super) fn turn(&mut self, host: usize, life: u64, actor: Actor) -> Result<(), Failed> {
        let (now, canary) = (self.now, self.canary);
        let this = &mut self.hosts[host];
        let Some(process) = this.process.as_mut().filter(|_| this.life == life) else {
            return Ok(());
        };
        let planned = &mut process.turns[actor as usize];
        if *planned != Some(now) {
            return Ok(()); // It was turned earlier.
        }
        *planned = None;
        if this.paused {
            return Ok(());
        }
        let local = this.clock.now(now);
        let mut turn = match actor {
            Actor::Consensus => {
                let turn = process.turn_member(local);
                return self.after_member(host, turn);
            }
            Actor::Apply => {
                if let Some(applied) = process.to_install() {
                    let position = raft::Position {
                        term: applied.term,
                        index: applied.index,
                    };
                    this.shadow.installs(position);
                }
                misapply(process, canary, host);
                let hasty = canary == Some(Canary::HastyLeases);
                let local = if hasty { local * 3 } else { local };
                let turn = process.turn_applier(local);
                return self.after_apply(host, turn);
            }
            Actor::LogWrite => process.write_log(),
            Actor::LogSync if canary == Some(Canary::LyingDisk) => process.lie_of_log(),
            Actor::LogSync => process.sync_log(),
            Actor::Hub => return self.turn_hub(host),
            Actor::Helper => {
                let place = this.rng.below(process.jobs() as u64);
                process.run_job(place as usize)
            }
            Actor::Space => {
                process.look_at_disks(local);
                Turn::default()
            }
        };
        if let Some(Fatal(what)) = turn.failed.take() {
            return self.fails(host, &what);
        }
        if let Some(ticket) = turn.durable {
            this.shadow.durable_through(ticket);
        }
        if let Some(applied) = turn.saves {
            self.figures.checkpoints += 1;
            let shadow = &this.shadow;
            let judged = self.checks.durable_prefix.saves(host, applied, shadow);
            judged.of("durable prefix")?;
        }
        self.schedule(host);
        Ok(())
    }

    fn turn_hub(&mut self, host: usize) -> Result<(), Failed> {
        let Some(process) = &mut self.hosts[host].process else {
            return Ok(());
        };
        match process.turn_hub() {
            Ok(was_busy) => {
                if was_busy {
                    self.wake_watchers_of(host);
                }
                self.schedule(host);
                Ok(())
            }
            Err(Fatal(what)) => self.fails(host, &what),
        }
    }

    /// A process may end by itself only when its disk was made to fail, or has rotted.
    fn fails(&mut self, host: usize, what: &str) -> Result<(), Failed> {
        self.note(&format!("h{host} gives up: {what}"));
        if self.hosts[host].crash_to_come.is_none() && !self.finds_rot(host, what)? {
            let what = format!("host {host} gives up though its disk is well: {what}");
            return Err(("durable prefix", what));
        }
        self.dies(host)
    }

    fn after_member(&mut self, host: usize, turn: Turn) -> Result<(), Failed> {
        let Some(process) = &self.hosts[host].process else {
            return Ok(());
        };
        let status = process.status();
        if let Some(conf) = &turn.conf {
            self.judge_members(host, process, conf)?;
        }
        if status.role == RoleKind::Leader {
            let judged = self.checks.election_safety.leads(status.term, status.id);
            judged.of("election safety")?;
        }
        self.figures.fetched += turn.fetched;
        self.judge_writes(host, &turn.writes)?;
        for complaint in &turn.complaints {
            self.judge_complaint(host, complaint)?;
        }
        if let Some(Fatal(what)) = turn.failed {
            return self.fails(host, &what);
        }
        if let Some(ticket) = turn.durable {
            self.hosts[host].shadow.durable_through(ticket);
        }
        self.judge_committed(host, status.term, &turn.committed)?;
        if status.role == RoleKind::Leader {
            let durable = self.hosts[host].shadow.durable.last();
            let ahead = turn.committed.iter().filter(|entry| entry.index > durable);
            self.figures.ahead += ahead.count();
        }
        if let Some(change) = turn.became {
            let text = format!(
                "h{host} is {:?} of term {}, led by {:?}",
                change.role,
                change.term,
                self.host_of(change.leader)
            );
            self.note(&text);
        }
        if turn
            .became
            .is_some_and(|change| change.role == RoleKind::Leader)
        {
            let mut log = self.hosts[host].shadow.newest.clone();
            if self.canary == Some(Canary::LeaderWithGap) {
                log.entries.truncate(log.entries.len() / 2);
            }
            let judged = self.checks.leader_completeness.leads(status.term, &log);
            judged.of("leader completeness")?;
        }
        if let (Some(first), Some(last)) = (turn.committed.first(), turn.committed.last()) {
            let text = format!("h{host} commits {} to {}", first.index, last.index);
            self.note(&text);
        }
        self.send(host, turn.messages);
        for (message, view) in turn.transfers {
            self.send_snapshot(host, &message, view)?;
        }
        self.answer(host, turn.replies);
        self.schedule(host);
        Ok(())
    }

    fn send(&mut self, host: usize, messages: Vec<Message>) {
        for message in messages {
            let Some(to) = self.host_of(message.to) else {
                continue;
            };
            // What clients want travels at most once, on connections between members as here:
            // nobody could tell a copy from the same wish again.
            let may_come_twice = !matches!(message.body, Body::Propose { .. });
            let arrivals = self.net.arrivals(self.now, (host, to), may_come_twice);
            if arrivals.is_empty() && self.rng.chance(200) {
                let peer = message.to;
                if let Some(process) = &mut self.hosts[host].process {
                    process
                        .ports
                        .to_consensus
                        .push(ConsensusEvent::Unreachable { peer });
                }
            }
            for at in arrivals {
                self.at(at, Event::Deliver(Box::new(message.clone())));
            }
        }
    }

    fn after_apply(&mut self, host: usize, turn: Turn) -> Result<(), Failed> {
        if let Some(Fatal(what)) = turn.failed {
            return self.fails(host, &what);
        }
        let Some(process) = &mut self.hosts[host].process else {
            return Ok(());
        };
        if self.canary == Some(Canary::EternalLeases) {
            process.ports.to_consensus.retain(|event| !is_revoke(event));
        }
        if self.canary == Some(Canary::HastyCheckpoint) {
            process.hurry_checkpoints();
        }
        if self.canary == Some(Canary::StuckAlarm) {
            process
                .ports
                .to_consensus
                .retain(|event| !clears_alarm(event));
        }
        if self.canary == Some(Canary::DeafMember) && host == 1 {
            for event in &mut process.ports.to_consensus {
                if let ConsensusEvent::ConfChanged { change, .. } = event {
                    *change = None;
                }
            }
        }
        let view = process.view();
        let applied = view.applied().index;
        let tokens = &mut self.checks.tokens;
        if turn.installed
            && let Some(at) = self.hosts[host].shadow.installing()
        {
            tokens.installs(host, at.index, &self.model);
        }
        tokens.applies(host, applied, &self.model);
        self.shows(host, &view, false)?;
        if let Some(key) = turn.reencrypted {
            self.figures.reencrypted += 1;
            // The operator removes the others, unless there is a newer one by now.
            let keys = &mut self.hosts[host].settings.keys;
            if keys.first() == Some(&key) {
                keys.truncate(1);
            }
            self.note(&format!("h{host} needs only key {key}"));
        }
        for news in turn.space_news {
            self.note(&format!("h{host}: {news:?}"));
        }
        for hash in turn.hashes {
            self.figures.compactions += 1;
            let judged = self.checks.agreement.hashes(host, &hash);
            judged.of("agreement")?;
        }
        if turn.cluster_changed {
            self.members_changed(host)?;
        }
        if turn.installed {
            self.figures.installs += 1;
            let index = view.applied().index;
            self.note(&format!(
                "h{host} goes on with a state that has applied {index}"
            ));
        }
        self.answer(host, turn.replies);
        self.wake_watchers_of(host);
        self.schedule(host);
        let hub = self.now + self.hosts[host].rng.between(5 * MICRO, 2 * MILLI);
        self.turn_hub_at(host, hub);
        Ok(())
    }

    pub(crate) fn turn_hub_at(&mut self, host: usize, at: u64) {
        let this = &mut self.hosts[host];
        let life = this.life;
        let Some(process) = &mut this.process else {
            return;
        };
        let planned = &mut process.turns[Actor::Hub as usize];
        if planned.is_none_or(|planned| at < planned) {
            *planned = Some(at);
            let actor = Actor::Hub;
            self.at(at, Event::Turn { host, life, actor });
        }
    }

    /// Hands answers to those who wait for them.
    fn answer(&mut self, host: usize, replies: Replies) {
        if replies.is_empty() {
            return;
        }
        for (slot, reply) in replies {
            slot.send(reply);
        }
        self.hear_of_changes();
        self.wake_clients_of(host);
    }
}

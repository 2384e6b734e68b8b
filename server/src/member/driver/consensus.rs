//! Runs the consensus actor, and carries out its effects.

use std::sync::Arc;

use parking_lot::Mutex;
use raft::{NodeId, RoleKind, Ticket};

use super::log::Log;
use super::{Fatal, Job, Note, Ports, Published};
use crate::basics::clock::Now;
use crate::member::cluster::consensus::{Consensus, ConsensusEffects};
use crate::member::event::{ApplyEvent, ConsensusEvent, LogEvent};

pub struct ConsensusDriver {
    consensus: Consensus,
    member_id: NodeId,
    /// Held here for a lone write; otherwise the log actor holds it.
    log: Arc<Mutex<Log>>,
    /// The newest write that the log actor has not reported as durable.
    handed_over: Option<Ticket>,
    shared: Arc<Published>,
    effects: ConsensusEffects,
}

impl ConsensusDriver {
    pub fn new(
        consensus: Consensus,
        member_id: NodeId,
        log: Arc<Mutex<Log>>,
        shared: Arc<Published>,
    ) -> ConsensusDriver {
        let driver = ConsensusDriver {
            consensus,
            member_id,
            log,
            handed_over: None,
            shared,
            effects: ConsensusEffects::default(),
        };
        driver.publish_known();
        driver
    }

    pub fn consensus(&self) -> &Consensus {
        &self.consensus
    }

    /// Takes all of `events`, and leaves events for the next turn there. The member does not sleep
    /// while there are any. Returns true if it has stopped.
    pub fn turn(
        &mut self,
        now: Now,
        events: &mut Vec<ConsensusEvent>,
        ports: &mut impl Ports,
    ) -> Result<bool, Fatal> {
        let mut has_changed = false;
        for event in &*events {
            match event {
                ConsensusEvent::Durable { ticket } if Some(*ticket) >= self.handed_over => {
                    self.handed_over = None;
                }
                ConsensusEvent::ConfChanged { .. } => {
                    has_changed = true;
                    ports.note(Note::ConfChanged);
                }
                ConsensusEvent::SnapshotInstalled => has_changed = true,
                ConsensusEvent::Fetched {
                    fetch,
                    found: Some(part),
                } => {
                    let (to, entries) = (fetch.peer, &part.entries);
                    ports.note(Note::Fetched { to, entries });
                }
                _ => {}
            }
        }
        self.consensus.turn(now, events, &mut self.effects);
        if has_changed {
            self.publish_known();
        }
        self.carry_out(events, ports)?;
        Ok(self.effects.stop)
    }

    /// The order of these steps is part of the protocol:
    ///
    /// 1. The log. Clients wait longest for its sync, which runs beside the steps that follow.
    /// 2. Messages. The other members write to their disks at the same time. A message leaves only
    ///    when what it says is durable here; raft holds back the others.
    /// 3. The role. The applier hears that this member leads before it gets entries of that term,
    ///    because the first such entry makes it take over the leases. It also hears it before the
    ///    role is published, because readers of the role ask the applier about leases.
    /// 4. Committed entries, then reads, whose index may be the last entry's. Then a state to
    ///    install, which follows all entries that it replaces.
    /// 5. Answers and fetches, which depend on none of these steps, and the end.
    fn carry_out(
        &mut self,
        events: &mut Vec<ConsensusEvent>,
        ports: &mut impl Ports,
    ) -> Result<(), Fatal> {
        self.write(events, ports)?;
        for complaint in self.effects.complaints.drain(..) {
            ports.note(Note::Complaint(complaint));
        }
        ports.send(&mut self.effects.messages);
        self.publish(ports);
        self.feed_applier(ports);
        self.carry_snapshots(ports);
        for fetch in self.effects.fetches.drain(..) {
            ports.to_log(LogEvent::Fetch(fetch));
        }
        ports.answer(&mut self.effects.replies);
        if self.effects.stop {
            ports.to_apply(ApplyEvent::Stop);
        }
        Ok(())
    }

    /// Writes reach the file in the order of their tickets. So the short way is open only while the
    /// log actor has no write.
    fn write(
        &mut self,
        events: &mut Vec<ConsensusEvent>,
        ports: &mut impl Ports,
    ) -> Result<(), Fatal> {
        for write in self.effects.writes.drain(..) {
            let ticket = write.ticket;
            ports.note(Note::Write(&write));
            let is_alone = self.handed_over.is_none() && self.consensus.is_lone(&write);
            // The log actor may be busy with work other than writes.
            if is_alone && let Some(mut log) = self.log.try_lock() {
                log.write_alone(&write, ports)?;
                events.push(ConsensusEvent::Durable { ticket });
            } else {
                self.handed_over = Some(ticket);
                ports.to_log(LogEvent::Write(write));
            }
        }
        Ok(())
    }

    /// From now on nobody is told of further entries, if raft has no other member.
    fn publish_known(&self) {
        let commit = self.consensus.status().commit;
        let known = self.consensus.is_alone().then_some(commit);
        self.shared.leadership.set_known(known);
    }

    fn publish(&mut self, ports: &mut impl Ports) {
        let leadership = &self.shared.leadership;
        let status = self.consensus.status();
        leadership.set_committed(status.commit);
        leadership.set_feeding_after(status.feeding_after);
        self.shared.queues.publish(status.waiting);
        let Some(change) = self.effects.role_change.take() else {
            return;
        };
        let leads = (change.role == RoleKind::Leader).then_some(change.term);
        ports.to_apply(ApplyEvent::Leading(leads));
        let previous = leadership.publish(&change, self.member_id, ports.now());
        let change = &change;
        ports.note(Note::RoleChanged { change, previous });
    }

    fn feed_applier(&mut self, ports: &mut impl Ports) {
        if !self.effects.committed.is_empty() {
            let committed = std::mem::take(&mut self.effects.committed);
            ports.to_apply(ApplyEvent::Committed(committed));
        }
        for (index, slots) in self.effects.reads.drain(..) {
            ports.to_apply(ApplyEvent::Reads { index, slots });
        }
    }

    fn carry_snapshots(&mut self, ports: &mut impl Ports) {
        for to in self.effects.snapshots_wanted.drain(..) {
            ports.start(Job::DescribeSnapshot { to });
        }
        for (message, view) in self.effects.transfers.drain(..) {
            ports.send_snapshot(message, view);
        }
        if let Some(received) = self.effects.install.take() {
            ports.to_apply(ApplyEvent::Install(received));
        }
        for received in self.effects.unwanted.drain(..) {
            ports.start(Job::DiscardSnapshot(received));
        }
    }
}

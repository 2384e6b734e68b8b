//! The thread of the [`Member`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use raft::durable::LogWriter;
use raft::{Message, RoleChange, RoleKind};

use super::complaints::Complaints;
use super::lateness::Lateness;
use super::{Links, log};
use crate::cluster::inbox::Inbox;
use crate::cluster::member::{Member, MemberEffects};
use crate::runtime::event::{ApplyEvent, LogEvent, MemberEvent};

pub(super) fn run_member(
    mut member: Member,
    mut lateness: Lateness,
    inbox: Inbox<MemberEvent>,
    log: Arc<Mutex<LogWriter>>,
    links: Links,
) {
    let (mut events, mut effects) = (Vec::new(), MemberEffects::default());
    let mut complaints = Complaints::default();
    // The newest write that the log's thread has and has not said to be durable.
    let mut handed_over = None;
    loop {
        let now = links.clock.now();
        for event in &events {
            match event {
                MemberEvent::Durable { ticket } if Some(*ticket) >= handed_over => {
                    handed_over = None;
                }
                MemberEvent::ConfChanged { .. } => lateness.clear(),
                _ => {}
            }
        }
        member.turn(now, &mut events, &mut effects);
        for write in effects.writes.drain(..) {
            let ticket = write.ticket;
            // Writes reach the disk in the order of their tickets, whichever way they take.
            if handed_over.is_none()
                && member.is_lone(&write)
                && log::write_here(&log, &write, &links)
            {
                events.push(MemberEvent::Durable { ticket });
            } else {
                handed_over = Some(ticket);
                // Its receiver ends only after this thread, or with the process.
                let _ = links.log.send(LogEvent::Write(write));
            }
        }
        for complaint in effects.complaints.drain(..) {
            complaints.tell(links.member_id, complaint);
        }
        note_late(&links, &mut lateness, &effects.messages);
        links.peers.send(&mut effects.messages);
        let status = member.status();
        links
            .shared
            .committed
            .store(status.commit, Ordering::Relaxed);
        if let Some(change) = effects.role_change.take() {
            let leads = (change.role == RoleKind::Leader).then_some(change.term);
            let _ = links.apply.send(ApplyEvent::Leading(leads));
            note_role(&links, &change);
            lateness.clear();
        }
        if !effects.committed.is_empty() {
            let _ = links.apply.send(ApplyEvent::Committed(std::mem::take(
                &mut effects.committed,
            )));
        }
        for (index, slots) in effects.reads.drain(..) {
            let _ = links.apply.send(ApplyEvent::Reads { index, slots });
        }
        for to in effects.snapshots_wanted.drain(..) {
            links.peers.prepare_snapshot(to);
        }
        for (message, view) in effects.transfers.drain(..) {
            links.peers.send_snapshot(message, view);
        }
        if let Some(received) = effects.install.take() {
            let _ = links.apply.send(ApplyEvent::Install(received));
        }
        for received in effects.unwanted.drain(..) {
            links.peers.discard(received);
        }
        links.replies.send(&mut effects.replies);
        if effects.stop {
            let _ = links.apply.send(ApplyEvent::Stop);
            return;
        }
        if events.is_empty() {
            let wait = member
                .wake_at()
                .map(|at| at.saturating_sub(links.clock.now()));
            inbox.receive(wait, &mut events);
        }
    }
}

/// In etcd's words: what it names first is what it nearly always is.
fn note_late(links: &Links, lateness: &mut Lateness, messages: &[Message]) {
    if messages.is_empty() {
        return;
    }
    for (to, over) in lateness.send(links.clock.now(), messages) {
        links.metrics.heartbeat_send_failures.inc();
        tracing::warn!(
            "to" = format!("{to:x}"),
            "heartbeat-interval" = ?lateness.interval(),
            "exceeded-duration" = ?over,
            "leader failed to send out heartbeat on time; took too long, leader is overloaded likely from slow disk"
        );
    }
}

fn note_role(links: &Links, change: &RoleChange) {
    links.shared.term.store(change.term, Ordering::Relaxed);
    let previous = links.shared.leader.swap(change.leader, Ordering::Release);
    let id = format!("{:x}", links.member_id);
    match change.role {
        RoleKind::Leader => tracing::info!("{id} became leader at term {}", change.term),
        RoleKind::Follower => tracing::info!("{id} became follower at term {}", change.term),
        RoleKind::PreCandidate => {
            tracing::info!("{id} became pre-candidate at term {}", change.term);
        }
        RoleKind::Candidate => tracing::info!("{id} became candidate at term {}", change.term),
    }
    if change.leader != previous && change.leader != 0 {
        links.shared.leader_changes.fetch_add(1, Ordering::Relaxed);
        if change.leader == links.member_id {
            let now = links.clock.now().as_nanos() as u64;
            links.shared.led_since.store(now, Ordering::Relaxed);
        }
        let leader = format!("{:x}", change.leader);
        tracing::info!(
            "raft.node: {id} elected leader {leader} at term {}",
            change.term
        );
    }
}

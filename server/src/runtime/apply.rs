//! The thread of the [`Applier`], and what its effects lead to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::rest::{CHECKPOINT_REST, rests};
use super::watch::advance_hub;
use super::{Links, fatal, spawn, unix_time};
use crate::Now;
use crate::cluster::inbox::Inbox;
use crate::config;
use crate::error::Error;
use crate::runtime::event::{ApplyEvent, LogEvent, MemberEvent, Proposal};
use crate::state::ChangeContext;
use crate::state::applier::{Applier, ApplyEffects};
use crate::telemetry::logging::json;
use storage::mvcc::{Attempt, Next, Resealing};

pub(super) fn run_applier(mut applier: Applier, inbox: Inbox<ApplyEvent>, links: Links) {
    let (mut events, mut effects) = (Vec::new(), ApplyEffects::default());
    // What was decided before this run is no news.
    let mut version = applier
        .cluster_version()
        .unwrap_or_else(|error| unreadable(&error));
    loop {
        let now = links.clock.now();
        let installs = events
            .iter()
            .any(|event| matches!(event, ApplyEvent::Install(_)));
        if installs {
            links.metrics.snapshot_apply_in_progress.set(1);
        }
        applier
            .turn(now, &mut events, &mut effects)
            .unwrap_or_else(|error| fatal("failed to apply the log", &error));
        let elapsed = links.clock.now().saturating_sub(now);
        links
            .metrics
            .applied(&mut effects.counts, elapsed, unix_time());
        log_turn(&mut effects, &links);
        carry_out(&mut effects, &applier, &links, &mut version);
        if installs {
            links.metrics.snapshot_apply_in_progress.set(0);
        }
        if effects.stopped {
            let _ = links.log.send(LogEvent::Stop);
            return;
        }
        let now = links.clock.now();
        let wait = applier.wake_at(now).map(|at| at.saturating_sub(now));
        inbox.receive(wait, &mut events);
    }
}

/// What operators wait for: when the last of these lines says so, old keys may go.
fn tell_resealing(progress: &Resealing, links: &Links) {
    let gauges = &links.metrics;
    let done = progress.next == Next::Done;
    let left = progress.total_bytes - progress.walked_bytes;
    gauges.encryption_key.set(progress.active.into());
    gauges.encryption_resealing.set(i64::from(!done));
    gauges
        .encryption_left_bytes
        .set(if done { 0 } else { left as i64 });
    let (key, others) = (progress.active, format!("{:?}", progress.others));
    match progress.next {
        Next::Done => tracing::info!(key, "re-sealed everything; other keys are no longer needed"),
        Next::Step => tracing::info!(
            key,
            others,
            "looked-at-bytes" = progress.walked_bytes,
            "total-bytes" = progress.total_bytes,
            "re-sealing pages"
        ),
        Next::Checkpoint => tracing::info!(
            key,
            others,
            "re-sealing: waiting for checkpoints to drop what is old"
        ),
    }
}

/// The lines that operators look for.
fn log_turn(effects: &mut ApplyEffects, links: &Links) {
    links.metrics.slow_apply.add(effects.slow.len() as u64);
    for slow in effects.slow.drain(..) {
        tracing::warn!(
            took = config::duration(slow.took),
            "expected-duration" = config::duration(slow.limit),
            prefix = "",
            request = slow.request,
            response = slow.response,
            error = slow.error,
            "apply request took too long"
        );
    }
    if let Some(index) = effects.drop_log_before {
        let index = index.saturating_sub(1);
        tracing::info!("snapshot-index" = index, "saved snapshot to disk");
    }
}

/// What handlers ask before they send a change on its way.
fn note_space(stats: &storage::mvcc::Stats, applier: &Applier, links: &Links) {
    let shared = &links.shared;
    shared
        .store_is_short
        .store(stats.is_short, Ordering::Relaxed);
    let raised = applier.has_space_alarm(links.member_id);
    if shared.nospace.swap(raised, Ordering::AcqRel) != raised {
        shared.nospace_asked.store(false, Ordering::Release);
        if !raised {
            shared.nospace_own.store(false, Ordering::Relaxed);
            shared.refused_bytes.store(0, Ordering::Relaxed);
        }
    }
}

fn carry_out(
    effects: &mut ApplyEffects,
    applier: &Applier,
    links: &Links,
    version: &mut Option<String>,
) {
    let stats = applier.stats();
    links
        .shared
        .db_file_bytes
        .store(stats.file_bytes, Ordering::Relaxed);
    links
        .shared
        .db_bytes
        .store(stats.in_use_bytes + stats.dirty_bytes, Ordering::Relaxed);
    note_space(&stats, applier, links);
    let metrics = &links.metrics;
    metrics.views_open.set(stats.views as i64);
    metrics.views_held_bytes.set(stats.viewed_bytes as i64);
    let age = effects.oldest_view.as_secs();
    metrics.views_oldest.set(age as i64);
    if let Some(progress) = effects.resealing.take() {
        tell_resealing(&progress, links);
    }
    for job in effects.hash.drain(..) {
        links.hashes.announce(job);
    }
    // Its digest may have been announced just now.
    if let Some(compacted) = effects.compacted.take() {
        links.hashes.ended(compacted);
    }
    if let Some(revision) = effects.advanced.take() {
        advance_hub(revision, links);
    }
    if std::mem::take(&mut effects.cluster_changed) {
        note_cluster(applier, links, version).unwrap_or_else(|error| unreadable(&error));
    }
    for (index, change) in effects.conf_changes.drain(..) {
        note_change(links, change.as_ref());
        let _ = links
            .member
            .send(MemberEvent::ConfChanged { index, change });
    }
    if std::mem::take(&mut effects.installed) {
        let _ = links.member.send(MemberEvent::SnapshotInstalled);
    }
    if let Some(index) = effects.applied.take() {
        links.shared.applied.store(index, Ordering::Relaxed);
        let term = applier.applied_term();
        links.shared.applied_term.store(term, Ordering::Release);
        let applied = MemberEvent::Applied { index };
        // Nobody has a use for it before the member's next turn, but for one that waits for it to
        // campaign.
        let is_led = links.shared.leader.load(Ordering::Relaxed) != raft::NOBODY;
        let _ = match is_led {
            true => links.member.send_quietly(applied),
            false => links.member.send(applied),
        };
    }
    links.replies.send(&mut effects.replies);
    let by = applier.own_auth_info();
    for request in effects.proposals.drain(..) {
        let data = request.encode_by(links.request_ids.next(), &by);
        let _ = links.member.send(MemberEvent::Propose(Proposal {
            request,
            data,
            reply: None,
            term: Some(effects.term),
        }));
    }
    if let Some(index) = effects.drop_log_before.take() {
        let _ = links.log.send(LogEvent::DropBefore { index });
    }
    if let Some(job) = effects.sync.take() {
        spawn("sync", move || {
            job.run()
                .unwrap_or_else(|error| fatal("failed to sync the store", &error));
        });
    }
    let hurries = &links.shared.checkpoint_hurries;
    hurries.store(applier.hurries(), Ordering::Relaxed);
    if let Some(retired) = effects.retired.take() {
        spawn("retire", move || drop(retired));
    }
    if let Some(job) = effects.checkpoint.take() {
        let (apply, clock) = (links.apply.clone(), links.clock);
        let shared = Arc::clone(&links.shared);
        // When the last piece but one was written: what follows makes the checkpoint durable.
        let written = Arc::new(AtomicU64::new(0));
        let mut rest = rests(clock, CHECKPOINT_REST, move || {
            shared.checkpoint_hurries.load(Ordering::Relaxed)
        });
        let noted = Arc::clone(&written);
        let job = job.resting(move || {
            rest();
            noted.store(clock.now().as_nanos() as u64, Ordering::Relaxed);
        });
        let metrics = Arc::clone(&links.metrics);
        spawn("checkpoint", move || {
            let began = clock.now();
            let ran = Box::new(job.attempt());
            match &*ran {
                Ok(Attempt::Full(_, error)) => {
                    tracing::warn!(%error, "a checkpoint waits for space on the disk");
                }
                _ => {
                    let (now, piece) = (clock.now(), written.load(Ordering::Relaxed));
                    let piece = Now::from_nanos(piece).max(began);
                    metrics.checkpointed(now - began, now - piece);
                }
            }
            let _ = apply.send(ApplyEvent::CheckpointRan(ran));
        });
    }
}

fn unreadable(error: &Error) -> ! {
    fatal("failed to read who the members are", error)
}

/// Tells whoever has to know who the members are now, and the log which version they speak.
fn note_cluster(
    applier: &Applier,
    links: &Links,
    version: &mut Option<String>,
) -> Result<(), Error> {
    let decided = applier.cluster_version()?;
    if decided != *version {
        let now = minor(&decided);
        match version {
            None => tracing::info!("cluster-version" = now, "set initial cluster version"),
            Some(_) => tracing::info!(from = minor(version), to = now, "updated cluster version"),
        }
        *version = decided;
    }
    let (members, removed) = (applier.members()?, applier.removed_members()?);
    if members.is_empty() {
        return Ok(()); // The log has yet to tell of the first.
    }
    let own = members.iter().find(|member| member.id == links.member_id);
    let learns = own.is_some_and(|own| own.is_learner);
    links.shared.learner.store(learns, Ordering::Release);
    links.metrics.is_learner.set(i64::from(learns));
    let voters = members.iter().filter(|member| !member.is_learner);
    let sole = voters.map(|member| member.id).eq([links.member_id]);
    links.shared.sole_voter.store(sole, Ordering::Release);
    links.peers.set_members(&members, &removed);
    Ok(())
}

/// Without the patch, as it is told.
fn minor(version: &Option<String>) -> &str {
    let version = version.as_deref().unwrap_or_default();
    version.rsplit_once('.').map_or(version, |(minor, _)| minor)
}

/// The lines that operators look for.
fn note_change(links: &Links, change: Option<&raft::ConfChange>) {
    let local = format!("{:x}", links.member_id);
    let Some(change) = change else {
        tracing::error!(
            "local-member-id" = local,
            "Validation on configuration change failed"
        );
        return;
    };
    let id = format!("{:x}", change.node);
    match change.kind {
        raft::ConfChangeKind::RemoveNode => tracing::info!(
            "local-member-id" = local,
            "removed-remote-peer-id" = id,
            "removed member"
        ),
        raft::ConfChangeKind::UpdateNode => tracing::info!(
            "local-member-id" = local,
            "updated-remote-peer-id" = id,
            "updated member"
        ),
        kind => {
            // Its context was read when it was applied.
            let context = ChangeContext::of(change).unwrap_or_default();
            if context.is_promote {
                tracing::info!(
                    "local-member-id" = local,
                    "promoted-member-id" = id,
                    "promote member"
                );
                return;
            }
            tracing::info!(
                "local-member-id" = local,
                "added-peer-id" = id,
                "added-peer-peer-urls" = %json(&context.member.peer_urls),
                "added-peer-is-learner" = kind == raft::ConfChangeKind::AddLearnerNode,
                "added member"
            );
        }
    }
}

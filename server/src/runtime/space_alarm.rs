//! The thread that looks how full the disk is, for the [`Guard`].

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use pb::alarm_request::AlarmAction;
use storage::vfs::{DiskSpace, Vfs};

use super::Links;
use crate::cluster::inbox::Inbox;
use crate::runtime::event::{ApplyEvent, MemberEvent, Proposal};
use crate::state::request::Request;
use crate::state::space_alarm::{self, Alarm, Guard, Reading};

/// Between two looks. What fills the disk faster is told by the store, which cannot set space aside
/// any more.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Stop looking.
pub(super) struct Stop;

/// Whose space it is. The log may have a disk to itself.
pub(super) struct Disks {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) store_dir: PathBuf,
    pub(super) log_dir: PathBuf,
}

/// What is known of both.
#[derive(Clone, Copy, Default)]
struct Found {
    store: Option<DiskSpace>,
    log: Option<DiskSpace>,
}

pub(super) fn run_space_alarm(mut guard: Guard, disks: Disks, inbox: Inbox<Stop>, links: Links) {
    let (mut stop, mut was_low, mut failed) = (Vec::new(), false, false);
    while stop.is_empty() {
        let mut space = |dir: &PathBuf| match disks.vfs.space(dir) {
            Ok(space) => Some(space),
            Err(error) => {
                if !std::mem::replace(&mut failed, true) {
                    tracing::warn!(%error, dir = %dir.display(), "cannot tell how full the disk is");
                }
                None
            }
        };
        // Before the look: what is written meanwhile counts twice rather than not at all.
        let written = links.metrics.wal_bytes.get() as u64;
        let found = Found {
            store: space(&disks.store_dir),
            log: space(&disks.log_dir),
        };
        if let Some(disk) = found.log {
            let limit = written + space_alarm::room_for_log(disk);
            links.shared.log_limit_bytes.store(limit, Relaxed);
        }
        was_low = look(&mut guard, found, &links, was_low);
        inbox.receive(Some(LOOK_EVERY), &mut stop);
    }
}

fn look(guard: &mut Guard, found: Found, links: &Links, was_low: bool) -> bool {
    let shared = &links.shared;
    if let Some(disk) = found.store {
        links.metrics.disk_available.set(disk.available as i64);
    }
    if let Some(disk) = found.log {
        links.metrics.log_disk_available.set(disk.available as i64);
        if space_alarm::has_plenty(disk) {
            shared.log_is_short.store(false, Relaxed);
        }
    }
    let disk = space_alarm::fuller([found.store, found.log]);
    let raised = shared.nospace.load(Acquire);
    let reading = Reading {
        disk,
        is_short: shared.store_is_short.load(Relaxed) || shared.log_is_short.load(Relaxed),
        in_use_bytes: shared.db_bytes.load(Relaxed),
        refused_bytes: shared.refused_bytes.load(Relaxed),
        raised,
        is_own: shared.nospace_own.load(Relaxed),
    };
    let verdict = guard.look(&reading);
    shared.disk_is_low.store(verdict.is_low, Release);
    if verdict.is_low || was_low {
        let low = verdict.is_low;
        let _ = links.apply.send(ApplyEvent::Space { low });
    }
    let available = disk.map_or(0, |disk| disk.available);
    match verdict.alarm {
        Some(Alarm::Raise) => {
            if !shared.nospace_own.swap(true, Relaxed) {
                tracing::warn!(
                    "available-bytes" = available,
                    "the disk is nearly full: raising the NOSPACE alarm; what takes space is refused, deletes and compactions are not"
                );
            }
            propose(links, AlarmAction::Activate);
        }
        Some(Alarm::Clear) => {
            tracing::info!(
                "available-bytes" = available,
                "in-use-bytes" = reading.in_use_bytes,
                "there is space again: taking the NOSPACE alarm back"
            );
            propose(links, AlarmAction::Deactivate);
        }
        // One that was asked for may have got lost on its way.
        None if !raised => shared.nospace_asked.store(false, Relaxed),
        None => {}
    }
    verdict.is_low
}

fn propose(links: &Links, action: AlarmAction) {
    let request = Request::Alarm(pb::AlarmRequest {
        action: action as i32,
        member_id: links.member_id,
        alarm: pb::AlarmType::Nospace as i32,
    });
    let data = request.encode(links.request_ids.next());
    let _ = links.member.send(MemberEvent::Propose(Proposal {
        request,
        data,
        reply: None,
        term: None,
    }));
}

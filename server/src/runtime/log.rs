//! The thread of the log, and the way past it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use raft::durable::LogWriter;

use super::rest::{LOG_REST, rests};
use super::{Clock, Links, fatal, spawn};
use crate::cluster::inbox::Inbox;
use crate::runtime::event::{LogEvent, MemberEvent};

/// One sync per batch: while it runs, the next batch gathers in the inbox.
pub(super) fn run_log(log: &Mutex<LogWriter>, inbox: Inbox<LogEvent>, links: Links) {
    let mut events = Vec::new();
    loop {
        inbox.receive(None, &mut events);
        let mut log = log.lock();
        let mut newest = None;
        let mut stop = false;
        for event in events.drain(..) {
            match event {
                LogEvent::Write(write) => {
                    newest = Some(write.ticket);
                    append_log(&mut log, &write, &links);
                }
                LogEvent::DropBefore { index } => drop_before(&mut log, index, links.clock),
                LogEvent::Stop => stop = true,
            }
        }
        if let Some(ticket) = newest {
            sync_log(&mut log, &links);
            let _ = links.member.send(MemberEvent::Durable { ticket });
        }
        if stop {
            return;
        }
    }
}

/// The short way for a write that nobody else's can gather behind: two threads fewer between a
/// lone client and its answer. False when the log's thread is at work, and nothing is written.
pub(super) fn write_here(log: &Mutex<LogWriter>, write: &raft::Write, links: &Links) -> bool {
    let Some(mut log) = log.try_lock() else {
        return false;
    };
    append_log(&mut log, write, links);
    sync_log(&mut log, links);
    true
}

fn append_log(log: &mut LogWriter, write: &raft::Write, links: &Links) {
    let began = links.clock.now();
    log.append(write).unwrap_or_else(|error| unwritten(&error));
    links.metrics.wal_write.observe(links.clock.now() - began);
    links.metrics.wal_bytes.set(log.written_bytes() as i64);
}

/// Makes what was appended durable, and sees to the log's next file.
fn sync_log(log: &mut LogWriter, links: &Links) {
    let is_short = links.shared.log_is_short.load(Ordering::Relaxed);
    if let Some(job) = (!is_short).then(|| log.prepare_next()).flatten() {
        let shared = Arc::clone(&links.shared);
        spawn("log-segment", move || match job.run() {
            Ok(()) => {}
            // The log does without, in what space there is.
            Err(error) if error.is_full() => {
                tracing::warn!(%error, "no space for another file of the log");
                shared.log_is_short.store(true, Ordering::Relaxed);
            }
            Err(error) => fatal("failed to prepare the log", &error),
        });
    }
    let began = links.clock.now();
    log.sync()
        .unwrap_or_else(|error| fatal("failed to sync the log", &error));
    links.metrics.wal_fsync.observe(links.clock.now() - began);
}

fn drop_before(log: &mut LogWriter, index: u64, clock: Clock) {
    log.drop_before(index)
        .unwrap_or_else(|error| unwritten(&error));
    if let Some(job) = log.finish_drop() {
        let rest = rests(clock, LOG_REST, || false);
        spawn("log-segment", move || {
            job.run(rest)
                .unwrap_or_else(|error| fatal("failed to clear up behind the log", &error));
        });
    }
}

fn unwritten(error: &storage::Error) -> ! {
    if error.is_full() {
        let text = format!(
            "{error}: the disk is full. Make room there and start again: all that was acknowledged is in the log"
        );
        fatal("failed to write the log", &text);
    }
    fatal("failed to write the log", error)
}

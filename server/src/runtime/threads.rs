//! The threads. Each one runs an actor's turns, waits for events, and ends the process when the
//! actor fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;
use storage::mvcc::Attempt;

use super::Links;
use super::budget::Work;
use crate::basics::clock::Now;
use crate::member::driver::apply::ApplyDriver;
use crate::member::driver::consensus::ConsensusDriver;
use crate::member::driver::log::Log;
use crate::member::driver::space::Disks;
use crate::member::driver::watch::Watch;
use crate::member::driver::{Done, Fatal, Hurry, Job, Ports};
use crate::member::event::inbox::Inbox;
use crate::member::event::{ApplyEvent, ConsensusEvent, LogEvent};
use crate::telemetry::fatal;
use crate::telemetry::metrics::Chore;

/// Ends the looks at the disk.
pub(super) struct StopLooking;

pub(super) fn run_consensus(
    mut consensus: ConsensusDriver,
    inbox: &Inbox<ConsensusEvent>,
    mut links: Links,
) {
    let mut events = Vec::new();
    loop {
        let now = links.now();
        let stops = consensus
            .turn(now, &mut events, &mut links)
            .unwrap_or_else(|error| end(&error));
        if stops {
            return;
        }
        if events.is_empty() {
            let at = consensus.consensus().wake_at();
            let wait = at.map(|at| at.saturating_sub(links.now()));
            inbox.receive(wait, &mut events);
        }
    }
}

/// One sync per batch: the next batch gathers in the inbox during the sync.
pub(super) fn run_log(log: &Mutex<Log>, inbox: &Inbox<LogEvent>, mut links: Links) {
    let mut events = Vec::new();
    loop {
        inbox.receive(None, &mut events);
        let mut log = log.lock();
        log.write(&mut events, &mut links)
            .and_then(|()| log.sync(&mut links))
            .unwrap_or_else(|error| end(&error));
        if log.is_stopped() {
            return;
        }
    }
}

pub(super) fn run_applier(mut apply: ApplyDriver, inbox: &Inbox<ApplyEvent>, mut links: Links) {
    let mut events = Vec::new();
    loop {
        let now = links.now();
        let stops = apply
            .turn(now, &mut events, &mut links)
            .unwrap_or_else(|error| end(&error));
        if stops {
            return;
        }
        let now = links.now();
        let wait = apply.wake_at(now).map(|at| at.saturating_sub(now));
        inbox.receive(wait, &mut events);
    }
}

pub(super) fn run_hub(watch: &Watch) {
    loop {
        watch.inbox().wait();
        let (stopped, rest) = watch
            .turn(|hub, _| (hub.is_stopped(), hub.rest()))
            .unwrap_or_else(|error| end(&error));
        if stopped {
            return;
        }
        watch.inbox().rest(rest);
    }
}

pub(super) fn run_looks(mut disks: Disks, inbox: &Inbox<StopLooking>, mut links: Links) {
    let mut stop = Vec::new();
    while stop.is_empty() {
        let wait = disks.look(&mut links);
        inbox.receive(Some(wait), &mut stop);
    }
}

/// Runs the job on its own thread, with pauses in which others use the disk.
pub(super) fn start(job: Job, mut links: Links) {
    match &job {
        Job::Checkpoint(_, hurry) => {
            let hurry = hurry.clone();
            spawn(job.name(), move || checkpoint(job, hurry, links))
        }
        Job::ClearLog(_) => spawn(job.name(), move || {
            // Such jobs work one after the other, and call this first when they may begin. Only then
            // does one take the turn of chores. With the turn it would wait for the job before it,
            // which needs the turn for its next piece: neither would ever end.
            let budget = Arc::clone(&links.budget);
            let mut work: Option<Work> = None;
            let done = job.run(&links.reader, move || match &mut work {
                Some(work) => work.rest(),
                None => {
                    work = Some(budget.begin(Chore::LogFiles, || false));
                    0
                }
            });
            deliver(done.unwrap_or_else(|error| end(&error)), &mut links);
        }),
        _ => spawn(job.name(), move || {
            let done = job.run(&links.reader, || 0);
            deliver(done.unwrap_or_else(|error| end(&error)), &mut links);
        }),
    };
}

fn checkpoint(job: Job, hurry: Hurry, mut links: Links) {
    let clock = links.clock;
    // End of the last step but one. The rest of the time makes the checkpoint durable.
    let written = Arc::new(AtomicU64::new(0));
    let noted = Arc::clone(&written);
    let began = clock.now();
    let work = links.budget.begin(Chore::Checkpoint, move || hurry.is_on());
    // A job that waits for space on the disk keeps its `rest`, but not its turn.
    let work = Arc::new(Mutex::new(Some(work)));
    let working = Arc::clone(&work);
    let done = job.run(&links.reader, move || {
        let mut working = working.lock();
        let bytes = working.as_mut().map_or(0, Work::rest);
        noted.store(clock.now().as_nanos() as u64, Ordering::Relaxed);
        bytes
    });
    drop(work.lock().take());
    let done = done.unwrap_or_else(|error| end(&error));
    if let Done::Apply(ApplyEvent::CheckpointRan(ran)) = &done {
        match &**ran {
            Ok(Attempt::Full(_, error)) => {
                tracing::warn!(%error, "a checkpoint waits for space on the disk");
            }
            _ => {
                let (now, piece) = (clock.now(), written.load(Ordering::Relaxed));
                let piece = Now::from_nanos(piece).max(began);
                links.metrics.checkpointed(now - began, now - piece);
            }
        }
    }
    deliver(done, &mut links);
}

fn deliver(done: Done, links: &mut Links) {
    match done {
        Done::Nothing => {}
        Done::Consensus(event) => links.to_consensus(event),
        Done::Apply(event) => links.to_apply(event),
    }
}

fn end(error: &Fatal) -> ! {
    fatal(error.what, &error.error)
}

pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .unwrap_or_else(|error| fatal("failed to start a thread", &error))
}

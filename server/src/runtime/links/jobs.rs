//! The jobs that actors start: each on its own thread, with pauses in which others use the disk. The
//! actor that waits for it is told when it is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use storage::mvcc::Attempt;

use super::Links;
use crate::basics::clock::Now;
use crate::member::driver::{Done, Hurry, Job, Ports};
use crate::member::event::ApplyEvent;
use crate::runtime::budget::Work;
use crate::runtime::{end, spawn};
use crate::telemetry::metrics::Chore;

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

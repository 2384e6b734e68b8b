//! The threads of the actors. Each one runs an actor's turns, waits for events, and ends the process when the
//! actor fails.

use parking_lot::Mutex;

use super::end;
use super::links::Links;
use crate::member::driver::Ports;
use crate::member::driver::apply::ApplyDriver;
use crate::member::driver::consensus::ConsensusDriver;
use crate::member::driver::log::Log;
use crate::member::driver::space::Disks;
use crate::member::driver::watch::Watch;
use crate::member::event::inbox::Inbox;
use crate::member::event::{ApplyEvent, ConsensusEvent, LogEvent};

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

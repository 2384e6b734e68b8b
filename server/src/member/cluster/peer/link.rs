//! Since when a peer is reachable, by etcd's rule: any stream that opens marks it up, any failure
//! marks it down. Also the peer's metrics.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::basics::clock::Clock;
use crate::telemetry::metrics::{Traffic, Transfers};

pub(super) struct Link {
    clock: Clock,
    since: Mutex<Option<Duration>>,
    pub(super) traffic: Arc<Traffic>,
}

impl Link {
    pub(super) fn new(clock: Clock, traffic: Arc<Traffic>) -> Link {
        Link {
            clock,
            since: Mutex::new(None),
            traffic,
        }
    }

    /// Returns true if it was down.
    pub(super) fn up(&self) -> bool {
        let mut since = self.since.lock();
        let was_down = since.is_none();
        since.get_or_insert_with(|| self.clock.now());
        if was_down {
            self.traffic.activated.inc();
            self.traffic.active.set(1);
        }
        was_down
    }

    /// Returns true if it was up.
    pub(super) fn down(&self) -> bool {
        let was_up = self.since.lock().take().is_some();
        if was_up {
            self.traffic.disconnected.inc();
            self.traffic.active.set(0);
        }
        was_up
    }

    /// Time since it came up; `None` if it is down.
    pub(super) fn age(&self) -> Option<Duration> {
        let since = *self.since.lock();
        since.map(|since| self.clock.now().saturating_sub(since))
    }
}

/// Counts a snapshot transfer. It counts as failed unless success is recorded.
pub(super) struct Counting<'a> {
    clock: Clock,
    began: Duration,
    transfers: &'a Transfers,
    has_succeeded: bool,
}

impl<'a> Counting<'a> {
    pub(super) fn begin(clock: Clock, transfers: &'a Transfers) -> Counting<'a> {
        transfers.in_flight.add(1);
        Counting {
            clock,
            began: clock.now(),
            transfers,
            has_succeeded: false,
        }
    }

    pub(super) fn age(&self) -> Duration {
        self.clock.now().saturating_sub(self.began)
    }

    pub(super) fn succeeded(mut self) {
        self.has_succeeded = true;
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.transfers.in_flight.add(-1);
        if self.has_succeeded {
            self.transfers.success.inc();
            self.transfers.duration.observe(self.age());
        } else {
            self.transfers.failures.inc();
        }
    }
}

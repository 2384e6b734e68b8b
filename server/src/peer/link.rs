//! Since when a peer can be reached, as etcd reckons it: any stream that opens says so, any failure
//! takes it back.

use std::time::Duration;

use parking_lot::Mutex;

use crate::runtime::Clock;

pub(super) struct Link {
    clock: Clock,
    since: Mutex<Option<Duration>>,
}

impl Link {
    pub(super) fn new(clock: Clock) -> Link {
        Link {
            clock,
            since: Mutex::new(None),
        }
    }

    /// True when it was down.
    pub(super) fn up(&self) -> bool {
        let mut since = self.since.lock();
        let was_down = since.is_none();
        since.get_or_insert_with(|| self.clock.now());
        was_down
    }

    /// True when it was up.
    pub(super) fn down(&self) -> bool {
        self.since.lock().take().is_some()
    }

    /// For how long it has been up.
    pub(super) fn age(&self) -> Option<Duration> {
        let since = *self.since.lock();
        since.map(|since| self.clock.now().saturating_sub(since))
    }
}

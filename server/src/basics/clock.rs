//! The two clocks of the system. Only the shell reads them; other code is passed the time.

#![expect(
    clippy::disallowed_methods,
    reason = "this is where the clocks are read"
)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time since the process started. Only the shell reads the clock; all other code is given this
/// value.
pub type Now = Duration;

/// Measures the time since it was made.
#[derive(Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }

    pub(crate) fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The time of day, since 1970.
pub(crate) fn unix_time() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

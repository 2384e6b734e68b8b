//! The clocks of the system. Only the shell reads them; other code is passed the time.

#![expect(
    clippy::disallowed_methods,
    reason = "this is where the clocks are read"
)]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

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

/// Reads one of the kernel's clocks that never goes back: its coarse one, or the time of a processor
/// that the calling thread or the process had.
pub(crate) fn kernel_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

//! A host's clock beside the world's time: it may run too fast or too slow, and stand still while
//! the machine is suspended. Never backwards, as the operating systems promise of the clock that
//! counts from the start; the time of day is another matter and may jump.

use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// Parts in a million of the world's speed.
    pub rate: u64,
    /// The world's time when the process started, or when the clock was last set going.
    began: u64,
    shown: u64,
    suspended: bool,
    /// Nanoseconds that the time of day is ahead of the world's.
    pub time_of_day: u64,
}

impl Clock {
    pub(crate) fn new(rate: u64) -> Clock {
        Clock {
            rate,
            began: 0,
            shown: 0,
            suspended: false,
            time_of_day: 1_700_000_000_000_000_000,
        }
    }

    /// A process starts: its clock shows zero.
    pub(crate) fn start(&mut self, world: u64) {
        self.began = world;
        self.shown = 0;
        self.suspended = false;
    }

    pub(crate) fn now(&self, world: u64) -> Duration {
        Duration::from_nanos(self.nanos(world))
    }

    fn nanos(&self, world: u64) -> u64 {
        if self.suspended {
            return self.shown;
        }
        self.shown + scale(world - self.began, self.rate, 1_000_000)
    }

    /// The world's time at which the clock shows `local`, rounded up.
    pub(crate) fn world_at(&self, local: Duration) -> u64 {
        let nanos = u64::try_from(local.as_nanos()).unwrap_or(u64::MAX);
        let ahead = nanos.saturating_sub(self.shown);
        self.began + scale(ahead, 1_000_000, self.rate) + 2
    }

    pub(crate) fn suspend(&mut self, world: u64) {
        self.shown = self.nanos(world);
        self.suspended = true;
    }

    pub(crate) fn wake(&mut self, world: u64) {
        if self.suspended {
            self.suspended = false;
            self.began = world;
        }
    }
}

fn scale(value: u64, by: u64, over: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(by) / u128::from(over);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_world_time_of_a_local_time_is_not_too_early() {
        let mut clock = Clock::new(1_013_007);
        clock.start(12_345);
        for local in [0, 1, 999, 1_000_003, 77_777_777_777] {
            let local = Duration::from_nanos(local);
            assert!(clock.now(clock.world_at(local)) >= local);
        }
    }

    #[test]
    fn a_suspended_clock_goes_on_where_it_stood() {
        let mut clock = Clock::new(1_000_000);
        clock.start(0);
        clock.suspend(500);
        assert_eq!(clock.now(900), Duration::from_nanos(500));
        clock.wake(1000);
        assert_eq!(clock.now(1100), Duration::from_nanos(600));
    }
}

//! How large the steps of a chore are, and how far apart. Steps run on the applier's thread, and
//! entries wait for the one that runs. A step reads and changes pages: from memory each takes a
//! microsecond, from a slow disk some milliseconds. So the size follows from the time that steps
//! take on this machine.

use std::time::Duration;

use raft::Now;

/// Steps that take longer than this become smaller.
const STEP_TIME_MAX: Duration = Duration::from_millis(1);
/// Steps that take less become larger.
const STEP_TIME_MIN: Duration = Duration::from_micros(250);
/// The smallest step is one part in this many of the usual one.
const PARTS: usize = 64;

/// Reads a monotonic clock, at the beginning and the end of each step.
pub type StepClock = Box<dyn Fn() -> Duration + Send>;

/// How much of the processor's time the calling thread had. Only differences count.
pub type WorkClock = fn() -> Duration;

/// Paces the steps of one chore.
#[derive(Debug)]
pub(super) struct Steps {
    /// Size of the next step, in parts of the usual one.
    parts: usize,
    /// Earliest time of the next step.
    not_before: Now,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps {
            parts: PARTS,
            not_before: Now::ZERO,
        }
    }
}

impl Steps {
    /// The size of the next step, of which the `usual` one is the largest.
    pub(super) fn size(&self, usual: usize) -> usize {
        (usual * self.parts / PARTS).max(1)
    }

    pub(super) fn is_due(&self, now: Now) -> bool {
        self.not_before <= now
    }

    /// When the next step is due.
    pub(super) fn due_at(&self, now: Now) -> Now {
        self.not_before.max(now)
    }

    /// The next step comes no earlier than at `until`.
    pub(super) fn wait(&mut self, until: Now) {
        self.not_before = until;
    }

    /// A step of a turn that began at `now` has ended. While clients are `busy`, the chore gets at
    /// most half of the thread's time. `pause` is waited in any case.
    pub(super) fn ended(&mut self, now: Now, took: Duration, busy: bool, pause: Duration) {
        if took > STEP_TIME_MAX {
            self.parts = (self.parts / 2).max(1);
        } else if took < STEP_TIME_MIN {
            self.parts = (self.parts * 2).min(PARTS);
        }
        let rest = if busy { took } else { Duration::ZERO };
        self.not_before = now + took + rest.max(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn steps_are_as_large_as_the_machine_is_fast() {
        let mut steps = Steps::default();
        let mut size_after = |took: Duration, times: u32| {
            for _ in 0..times {
                steps.ended(Now::ZERO, took, false, Duration::ZERO);
            }
            steps.size(256)
        };
        assert_eq!(size_after(MILLI / 10, 1), 256);
        assert_eq!(size_after(MILLI * 20, 1), 128);
        assert_eq!(size_after(MILLI * 20, 2), 32);
        assert_eq!(size_after(MILLI / 2, 9), 32, "just right");
        assert_eq!(size_after(MILLI * 20, 9), 4);
        assert_eq!(size_after(Duration::ZERO, 9), 256);
        assert_eq!(Steps::default().size(0), 1);
    }

    #[test]
    fn clients_get_half_of_the_time_and_without_them_there_are_no_pauses() {
        let mut steps = Steps::default();
        let now = Now::from_secs(1);
        steps.ended(now, MILLI * 5, false, Duration::ZERO);
        assert!(steps.is_due(now + MILLI * 5));
        steps.ended(now, MILLI * 5, true, Duration::ZERO);
        assert_eq!(steps.due_at(now), now + MILLI * 10);
        assert!(!steps.is_due(now + MILLI * 9));
        assert!(steps.is_due(now + MILLI * 10));
        steps.ended(now, MILLI, true, MILLI * 10);
        assert_eq!(steps.due_at(now), now + MILLI * 11);
    }
}

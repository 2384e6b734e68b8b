//! One budget of disk and processor for the chores of helper threads: checkpoints, the removal of
//! the log's files, hashes. They share the disk with the log, whose syncs clients wait for, and the
//! processors with the actors.
//!
//! - Chores work in pieces, and one chore at a time works on a piece: it has the *turn*. So a sync of
//!   the log waits for one piece at most.
//! - After each piece a chore rests, for a multiple of the time that the piece took. The multiple
//!   grows with the part of the machine that the rest of this process uses.
//! - A piece of a checkpoint is as large as this disk writes and syncs in [`PIECE_TIME_MIN`] to
//!   [`PIECE_TIME_MAX`].
//! - What somebody waits for is *hurried*: it takes no turn and does not rest, and its pieces are large.
//! - What delays something that a client waits for, or makes the file longer meanwhile, is *brisk*:
//!   it rests as on an idle machine.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::time::ClockId;
use storage::mvcc::CHECKPOINT_PIECE_BYTES;

use crate::basics::clock::{Clock, Now, kernel_time};
use crate::telemetry::metrics::{Chore, Metrics};

/// Longest rest. A piece that took longer mostly waited for others.
const REST_MAX: Duration = Duration::from_millis(50);

/// Part of the machine's processors from which on clients keep it busy. With the clients on the
/// same machine, a server at its limits uses about half.
const BUSY_PART: f64 = 0.25;
/// Time over which that part is measured.
const MEASURED_OVER: Duration = Duration::from_millis(50);

/// The pieces of a checkpoint: the size at a start, and its bounds.
const PIECE_BYTES: usize = CHECKPOINT_PIECE_BYTES;
const PIECE_BYTES_MIN: usize = 32 << 10;
const PIECE_BYTES_MAX: usize = 1 << 20;
/// A piece of a checkpoint that all puts wait for: no sync of the log can wait for it, and many small
/// syncs would let the disk idle.
const PIECE_BYTES_HURRIED: usize = 4 << 20;
/// A piece becomes larger if it took less, and smaller if it took more.
const PIECE_TIME_MIN: Duration = Duration::from_millis(1);
const PIECE_TIME_MAX: Duration = Duration::from_millis(4);

/// How long a chore rests for the time that it works: on an idle machine and on a busy one.
#[derive(Clone, Copy)]
struct Rests {
    idle: f64,
    busy: f64,
}

/// Checkpoints and files must keep up with clients, who cause them. A hash must not: the part of a
/// processor that it gets on a busy machine is one in 33, less than a fiftieth of two.
fn rests(chore: Chore) -> Rests {
    match chore {
        Chore::Hash => Rests {
            idle: 1.0,
            busy: 32.0,
        },
        _ => Rests {
            idle: 1.0,
            busy: 1.0,
        },
    }
}

pub(super) struct Budget {
    clock: Clock,
    metrics: Arc<Metrics>,
    /// True while a chore works on a piece.
    turn: Mutex<bool>,
    turn_ended: Condvar,
    load: Mutex<Load>,
    piece_bytes: Mutex<usize>,
}

impl Budget {
    pub(super) fn new(clock: Clock, metrics: Arc<Metrics>) -> Arc<Budget> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Arc::new(Budget {
            clock,
            metrics,
            turn: Mutex::new(false),
            turn_ended: Condvar::new(),
            load: Mutex::new(Load::new(processors, clock.now())),
            piece_bytes: Mutex::new(PIECE_BYTES),
        })
    }

    /// Begins the first piece of a chore, which is hurried as long as `hurried` returns true.
    pub(super) fn begin(
        self: &Arc<Budget>,
        chore: Chore,
        hurried: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Work {
        let mut work = Work {
            budget: Arc::clone(self),
            chore,
            hurried: Box::new(hurried),
            brisk: Box::new(|| false),
            has_turn: false,
            began: Now::ZERO,
            began_cpu: Duration::ZERO,
        };
        work.begin_piece();
        work
    }

    fn take_turn(&self) {
        let mut taken = self.turn.lock();
        self.turn_ended.wait_while(&mut taken, |taken| *taken);
        *taken = true;
    }

    fn end_turn(&self) {
        *self.turn.lock() = false;
        self.turn_ended.notify_one();
    }
}

/// A chore in progress. Dropping it ends its last piece.
pub(super) struct Work {
    budget: Arc<Budget>,
    chore: Chore,
    hurried: Box<dyn Fn() -> bool + Send + Sync>,
    brisk: Box<dyn Fn() -> bool + Send + Sync>,
    has_turn: bool,
    began: Now,
    /// What this thread had used of its processor then.
    began_cpu: Duration,
}

impl Work {
    /// It is brisk as long as `brisk` returns true.
    pub(super) fn brisk_while(mut self, brisk: impl Fn() -> bool + Send + Sync + 'static) -> Work {
        self.brisk = Box::new(brisk);
        self
    }

    /// Ends a piece, rests, and begins the next one. Returns the bytes that it should have.
    pub(super) fn rest(&mut self) -> usize {
        let (took, cpu) = self.end_piece();
        let bytes = self.size_after(took);
        if !(self.hurried)() {
            let busy = self.budget.load.lock().busy(self.budget.clock.now(), cpu);
            let busy = self.yielding(busy);
            sleep(rest_after(rests(self.chore), busy, took, cpu));
        }
        self.begin_piece();
        bytes
    }

    fn begin_piece(&mut self) {
        self.has_turn = !(self.hurried)();
        if self.has_turn {
            self.budget.take_turn();
        }
        self.began = self.budget.clock.now();
        self.began_cpu = kernel_time(ClockId::ThreadCPUTime);
    }

    /// Returns how long the piece took, and for how long a processor worked on it.
    fn end_piece(&mut self) -> (Duration, Duration) {
        if std::mem::take(&mut self.has_turn) {
            self.budget.end_turn();
        }
        let took = self.budget.clock.now() - self.began;
        let cpu = kernel_time(ClockId::ThreadCPUTime).saturating_sub(self.began_cpu);
        self.budget.metrics.chores.worked(self.chore, took);
        (took, cpu)
    }

    /// The part of the machine that it yields to, of the `busy` one.
    fn yielding(&self, busy: f64) -> f64 {
        if (self.brisk)() { 0.0 } else { busy }
    }

    fn size_after(&self, took: Duration) -> usize {
        if self.chore == Chore::Checkpoint && (self.hurried)() {
            return PIECE_BYTES_HURRIED;
        }
        let mut bytes = self.budget.piece_bytes.lock();
        if self.chore == Chore::Checkpoint {
            *bytes = next_piece_bytes(*bytes, took);
        }
        *bytes
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.end_piece();
    }
}

/// What waits for the disk, or for a processor that others use, counts once.
fn rest_after(rests: Rests, busy: f64, took: Duration, cpu: Duration) -> Duration {
    let times = rests.idle + (rests.busy - rests.idle) * busy;
    let waited = took.saturating_sub(cpu);
    (cpu.mul_f64(times) + waited).min(REST_MAX)
}

fn next_piece_bytes(bytes: usize, took: Duration) -> usize {
    let bytes = if took < PIECE_TIME_MIN {
        bytes * 2
    } else if took > PIECE_TIME_MAX {
        bytes / 2
    } else {
        bytes
    };
    bytes.clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
}

/// How much of the machine this process uses, without chores.
struct Load {
    processors: f64,
    measured_at: Now,
    /// Processor time of the whole process then.
    process: Duration,
    /// Processor time of chores since then.
    chores: Duration,
    /// From 0, idle, to 1, at [`BUSY_PART`] or more.
    busy: f64,
}

impl Load {
    fn new(processors: usize, now: Now) -> Load {
        Load {
            processors: processors as f64,
            measured_at: now,
            process: kernel_time(ClockId::ProcessCPUTime),
            chores: Duration::ZERO,
            busy: 0.0,
        }
    }

    /// A chore has used a processor for `cpu`, and it is `now`.
    fn busy(&mut self, now: Now, cpu: Duration) -> f64 {
        self.chores += cpu;
        if now.saturating_sub(self.measured_at) >= MEASURED_OVER {
            self.measure(now, kernel_time(ClockId::ProcessCPUTime));
        }
        self.busy
    }

    fn measure(&mut self, now: Now, process: Duration) {
        let span = now.saturating_sub(self.measured_at).as_secs_f64() * self.processors;
        let used = process.saturating_sub(self.process + self.chores);
        self.busy = (used.as_secs_f64() / span / BUSY_PART).clamp(0.0, 1.0);
        (self.measured_at, self.process, self.chores) = (now, process, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    fn budget() -> Arc<Budget> {
        Budget::new(Clock::start(), Arc::default())
    }

    #[test]
    fn a_hash_gets_one_part_in_33_of_a_processor_on_a_busy_machine() {
        let rest = |busy| rest_after(rests(Chore::Hash), busy, MILLI, MILLI);
        assert_eq!(rest(0.0), MILLI);
        assert_eq!(rest(1.0), MILLI * 32);
        assert!(MILLI * 16 < rest(0.5) && rest(0.5) < MILLI * 17);
        // It does not rest 32 times for a slow disk.
        let cold = rest_after(rests(Chore::Hash), 1.0, MILLI * 2, MILLI / 10);
        assert_eq!(cold, MILLI * 51 / 10);
        let checkpoint = rest_after(rests(Chore::Checkpoint), 1.0, MILLI * 4, MILLI);
        assert_eq!(checkpoint, MILLI * 4);
    }

    #[test]
    fn a_hash_that_delays_what_a_client_waits_for_rests_as_on_an_idle_machine() {
        let waits = Arc::new(AtomicBool::new(false));
        let is_brisk = Arc::clone(&waits);
        let work = budget().begin(Chore::Hash, || false);
        let work = work.brisk_while(move || is_brisk.load(Ordering::SeqCst));
        let yielding = |waiting| {
            waits.store(waiting, Ordering::SeqCst);
            work.yielding(1.0)
        };
        assert_eq!([false, true, false].map(yielding), [1.0, 0.0, 1.0]);
    }

    #[test]
    fn a_machine_is_busy_by_what_the_process_does_beside_its_chores() {
        let mut load = Load::new(2, Now::ZERO);
        load.process = Duration::ZERO;
        let second = Duration::from_secs(1);
        load.chores = second / 2;
        load.measure(second, second);
        assert_eq!(load.busy, 1.0);
        load.chores = second / 2;
        load.measure(second * 2, second * 3 / 2);
        assert_eq!(load.busy, 0.0);
        load.measure(second * 3, second * 3 / 2 + second / 4);
        assert_eq!(load.busy, 0.5);
    }

    #[test]
    fn pieces_are_as_large_as_the_disk_is_fast() {
        let after =
            |bytes, took, times| (0..times).fold(bytes, |bytes, _| next_piece_bytes(bytes, took));
        assert_eq!(after(PIECE_BYTES, MILLI * 2, 5), PIECE_BYTES);
        assert_eq!(after(PIECE_BYTES, MILLI / 5, 1), 2 * PIECE_BYTES);
        assert_eq!(after(PIECE_BYTES, MILLI / 5, 9), PIECE_BYTES_MAX);
        assert_eq!(after(PIECE_BYTES, MILLI * 50, 9), PIECE_BYTES_MIN);
    }

    #[test]
    fn one_chore_at_a_time_works_and_what_is_hurried_does_not_wait() {
        let budget = budget();
        let (working, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for chore in [Chore::Checkpoint, Chore::Hash, Chore::LogFiles] {
                let (budget, working, most) = (&budget, &working, &most);
                scope.spawn(move || {
                    let mut work = budget.begin(chore, || false);
                    for _ in 0..20 {
                        let now = working.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        working.fetch_sub(1, Ordering::SeqCst);
                        work.rest();
                    }
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
        // Two at once, on one thread: the second would wait for ever.
        let hurries = Arc::new(AtomicBool::new(true));
        let hurried = Arc::clone(&hurries);
        let hash = budget.begin(Chore::Hash, || false);
        let mut checkpoint =
            budget.begin(Chore::Checkpoint, move || hurried.load(Ordering::SeqCst));
        assert_eq!(checkpoint.rest(), PIECE_BYTES_HURRIED);
        drop(hash);
        hurries.store(false, Ordering::SeqCst);
        assert!(checkpoint.rest() <= PIECE_BYTES_MAX);
        drop(checkpoint);
        drop(budget.begin(Chore::Hash, || false));
    }
}

//! The threads that carry connections.
//!
//! Each thread runs one event loop, and a connection stays on the loop it was given to. First its
//! ready calls run, then the connection itself, so their answers leave in one write. (A
//! work-stealing runtime runs the connection after each call: one write per answer, and about twice
//! the CPU per call.)

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use tokio::runtime::{self, Handle, Runtime};
use tokio::sync::oneshot;

thread_local! {
    static HERE: Cell<usize> = const { Cell::new(0) };
}

/// The first worker is the thread that called [`Workers::start`]. Dropping this ends the others.
pub(crate) struct Workers {
    /// By worker number.
    loops: Vec<Handle>,
    next: AtomicUsize,
    _others: Vec<oneshot::Sender<()>>,
}

impl Workers {
    /// Creates an event loop, for the first worker.
    pub(crate) fn event_loop() -> io::Result<Runtime> {
        runtime::Builder::new_current_thread().enable_all().build()
    }

    /// Half the cores. On a small machine a second connection thread takes more CPU from the actors
    /// than it gains.
    pub(crate) fn suitable_count() -> usize {
        std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
    }

    /// Starts the other workers. Must be called inside the first event loop.
    pub(crate) fn start(count: usize) -> io::Result<Workers> {
        let (mut loops, mut others) = (vec![Handle::current()], Vec::new());
        for number in 1..count {
            let (stop, stopped) = oneshot::channel::<()>();
            let event_loop = Workers::event_loop()?;
            loops.push(event_loop.handle().clone());
            others.push(stop);
            Builder::new()
                .name(format!("clients-{number}"))
                .spawn(move || {
                    HERE.set(number);
                    // Ends when the sender is dropped; nothing is ever sent.
                    let _ = event_loop.block_on(stopped);
                })?;
        }
        Ok(Workers {
            loops,
            next: AtomicUsize::new(0),
            _others: others,
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.loops.len()
    }

    /// The worker for the next connection, round robin.
    pub(crate) fn next(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % self.loops.len()
    }

    pub(crate) fn spawn(&self, worker: usize, task: impl Future<Output = ()> + Send + 'static) {
        self.loops[worker].spawn(task);
    }
}

/// The number of the current worker; 0 on other threads.
pub(crate) fn here() -> usize {
    HERE.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_run_where_they_are_sent_and_connections_go_round() {
        let event_loop = Workers::event_loop().unwrap();
        event_loop.block_on(async {
            let workers = Workers::start(3).unwrap();
            for worker in [2, 0, 1] {
                let (sender, receiver) = oneshot::channel();
                workers.spawn(worker, async move { sender.send(here()).unwrap() });
                assert_eq!(receiver.await, Ok(worker));
            }
            let turns: Vec<_> = (0..6).map(|_| workers.next()).collect();
            assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
        });
    }
}

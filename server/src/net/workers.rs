//! The threads that carry connections.
//!
//! Each is an event loop of its own, and a connection stays with the one it was given to: its
//! calls become ready in turn, the connection itself runs after them, and their answers leave in
//! one write. (A runtime that steals work runs the connection after each single call: a write for
//! every answer, and about twice the CPU for each.)

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

/// The first is the thread that called [`Workers::start`]. Dropping this ends the others.
pub struct Workers {
    /// By number.
    loops: Vec<Handle>,
    next: AtomicUsize,
    _others: Vec<oneshot::Sender<()>>,
}

impl Workers {
    /// An event loop, for the first worker.
    pub fn event_loop() -> io::Result<Runtime> {
        runtime::Builder::new_current_thread().enable_all().build()
    }

    /// As many as the machine has use for. On a small one, a second thread for connections takes
    /// from the actors more than it gives.
    pub fn suitable_count() -> usize {
        std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
    }

    /// Must be called inside the first event loop.
    pub fn start(count: usize) -> io::Result<Workers> {
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
                    // Ends when the other side is dropped, which is the only thing it is for.
                    let _ = event_loop.block_on(stopped);
                })?;
        }
        Ok(Workers {
            loops,
            next: AtomicUsize::new(0),
            _others: others,
        })
    }

    pub fn count(&self) -> usize {
        self.loops.len()
    }

    /// The worker whose turn it is to get a connection.
    pub fn next(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % self.loops.len()
    }

    pub fn spawn(&self, worker: usize, task: impl Future<Output = ()> + Send + 'static) {
        self.loops[worker].spawn(task);
    }
}

/// The number of the worker this runs on; 0 on threads that are none.
pub fn here() -> usize {
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

//! An independent writer on the same disk: a thread that writes and syncs one page of its own file,
//! over and over. A pause that it shares comes from the disk, or from a load that blocks the disk.

#![expect(
    clippy::disallowed_methods,
    reason = "measures time, on a thread of its own"
)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::super::Result;

/// Long enough that it does not disturb the measured load.
const EVERY: Duration = Duration::from_millis(10);
const PAGE: [u8; 4096] = [b'b'; 4096];

pub(super) struct Bystander {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    longest_micros: AtomicU64,
}

impl Bystander {
    /// Starts the thread; its file is in `dir`.
    pub(super) fn start(dir: &Path) -> Result<Bystander> {
        let file = File::create(dir.join("bystander"))?;
        file.write_all_at(&PAGE, 0)?;
        file.sync_all()?;
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let thread = thread::spawn(move || of_thread.run(&file));
        Ok(Bystander {
            shared,
            thread: Some(thread),
        })
    }

    /// The longest sync since the last call, in milliseconds.
    pub(super) fn take(&self) -> f64 {
        self.shared.longest_micros.swap(0, Ordering::Relaxed) as f64 / 1000.0
    }

    pub(super) fn stop(mut self) -> Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("not stopped before");
        thread.join().expect("it does not panic")?;
        Ok(())
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn run(&self, file: &File) -> io::Result<()> {
        while !self.stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            file.write_all_at(&PAGE, 0)?;
            file.sync_data()?;
            let took = began.elapsed().as_micros() as u64;
            self.longest_micros.fetch_max(took, Ordering::Relaxed);
            thread::sleep(EVERY);
        }
        Ok(())
    }
}

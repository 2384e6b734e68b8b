//! What the rest of the server learns of changes: which rules a value was opened by, and when to try
//! again what could not be opened.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

#[derive(Default)]
pub(super) struct Signals {
    /// Counts changes of the rules and of the keys of plugins: a value that was current before may
    /// be stale now.
    generation: AtomicU64,
    retries: watch::Sender<u64>,
}

impl Signals {
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Values may be sealed otherwise from here on, and others readable.
    pub(super) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.retry();
    }

    /// Values that could not be opened may be readable now.
    pub(super) fn retry(&self) {
        self.retries.send_modify(|retries| *retries += 1);
    }

    pub(super) fn retries(&self) -> watch::Receiver<u64> {
        self.retries.subscribe()
    }
}

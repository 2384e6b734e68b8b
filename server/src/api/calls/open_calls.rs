//! How many calls are open on a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the calls open on one connection.
#[derive(Clone, Default)]
pub(crate) struct OpenCalls(Arc<AtomicUsize>);

/// One open call; dropping it ends the count.
pub(crate) struct OpenCall(Arc<AtomicUsize>);

impl OpenCalls {
    pub(crate) fn begin(&self) -> OpenCall {
        self.0.fetch_add(1, Ordering::Relaxed);
        OpenCall(Arc::clone(&self.0))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

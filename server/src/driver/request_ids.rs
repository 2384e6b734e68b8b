//! Numbers for requests.

use std::sync::atomic::{AtomicU64, Ordering};

/// Ids for requests in the log, unlike any other member's and any earlier run's: the member's low
/// 16 bits, 40 bits of the start's milliseconds, 8 bits of counter that carry over.
#[derive(Debug)]
pub struct RequestIds(AtomicU64);

impl RequestIds {
    pub fn new(member_id: u64, unix_millis: u64) -> RequestIds {
        const MILLIS: u64 = (1 << 40) - 1;
        RequestIds(AtomicU64::new(
            member_id << 48 | (unix_millis & MILLIS) << 8,
        ))
    }

    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

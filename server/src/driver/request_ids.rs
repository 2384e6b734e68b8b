//! Ids for requests.

use std::sync::atomic::{AtomicU64, Ordering};

/// Ids for requests in the log, different from those of other members and of earlier runs: the low
/// 16 bits of the member's id, 40 bits of the start time in milliseconds, and a counter of 8 bits
/// that carries over into the time.
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

//! Ids for requests.

use std::sync::atomic::{AtomicU64, Ordering};

/// Ids for requests in the log, different from other members' and earlier runs': low 16 bits of the
/// member id, 40 bits of the start time in milliseconds, 8 bits of counter, which carries over.
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

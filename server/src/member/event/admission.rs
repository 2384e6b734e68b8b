//! Limits the requests and bytes of client work that this member holds at one time. Above a limit,
//! a new request fails with "too many requests", as in etcd.
//!
//! Bytes count in two phases. While a message is being received, only the bytes that have arrived
//! count, so a client that announces a large message and sends nothing holds nothing. From proposal
//! to answer the whole message counts. Nothing waits between the two phases.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::basics::error::Error;

/// Cheap to clone; clones share the limits and the counters.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    requests: AtomicUsize,
    bytes: AtomicUsize,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub requests: usize,
    /// A single request may exceed this if no other bytes are held.
    pub bytes: usize,
}

impl Admission {
    pub fn new(limits: Limits) -> Admission {
        Admission(Arc::new(Inner {
            limits,
            requests: AtomicUsize::default(),
            bytes: AtomicUsize::default(),
        }))
    }

    /// Admits a request that holds `bytes` until it is answered, or fails with `TooManyRequests`.
    pub fn admit(&self, bytes: usize) -> Result<Permit, Error> {
        self.admit_to(1, bytes)
    }

    /// Admits a request that frees other work. It may use twice the limits, so it still fits when
    /// ordinary requests do not.
    pub fn admit_first(&self, bytes: usize) -> Result<Permit, Error> {
        self.admit_to(2, bytes)
    }

    /// Admits up to `times` the limits.
    fn admit_to(&self, times: usize, bytes: usize) -> Result<Permit, Error> {
        let limits = self.0.limits;
        let mut held = self.receiving();
        held.grow_up_to(times * limits.bytes, bytes)?;
        // Increment first, compare after: of two requests that race for the last slot both may be
        // refused, but never both admitted.
        let permit = Permit(held);
        if self.0.requests.fetch_add(1, Ordering::Relaxed) >= times * limits.requests {
            return Err(Error::TooManyRequests);
        }
        Ok(permit)
    }

    /// Starts counting a message that is still being received.
    pub fn receiving(&self) -> CountedBytes {
        CountedBytes {
            of: Arc::clone(&self.0),
            bytes: 0,
        }
    }

    /// Requests that were admitted and not yet answered.
    pub fn in_flight(&self) -> usize {
        self.0.requests.load(Ordering::Relaxed)
    }

    pub fn held_bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }
}

/// CountedBytes until the request is answered, even if its client has left.
#[derive(Debug)]
pub struct Permit(CountedBytes);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.of.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counted bytes; dropping this releases them.
#[derive(Debug)]
pub struct CountedBytes {
    of: Arc<Inner>,
    bytes: usize,
}

impl CountedBytes {
    /// Adds `bytes`, or fails and keeps the current count if they do not fit.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        self.grow_up_to(self.of.limits.bytes, bytes)
    }

    fn grow_up_to(&mut self, limit: usize, bytes: usize) -> Result<(), Error> {
        let all = self.of.bytes.fetch_add(bytes, Ordering::Relaxed);
        let others = all.saturating_sub(self.bytes);
        self.bytes += bytes;
        if others > 0 && all.saturating_add(bytes) > limit {
            self.of.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.bytes -= bytes;
            return Err(Error::TooManyRequests);
        }
        Ok(())
    }

    pub fn give_back(&mut self) {
        if self.bytes > 0 {
            self.of.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
            self.bytes = 0;
        }
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission() -> Admission {
        Admission::new(Limits {
            requests: 3,
            bytes: 100,
        })
    }

    #[test]
    fn requests_are_counted_until_they_are_answered() {
        let all = admission();
        let permits: Vec<_> = (0..3).map(|_| all.admit(1).unwrap()).collect();
        assert!(all.admit(1).is_err());
        let first = all.admit_first(1).unwrap();
        assert_eq!((all.in_flight(), all.held_bytes()), (4, 4));
        drop((permits, first));
        assert_eq!((all.in_flight(), all.held_bytes()), (0, 0));
    }

    #[test]
    fn bytes_are_weighed_and_one_alone_may_be_too_large() {
        let all = admission();
        let large = all.admit(1000).unwrap();
        assert!(all.admit(1).is_err());
        drop(large);
        let most = all.admit(99).unwrap();
        assert!(all.admit(2).is_err());
        assert!(all.admit_first(2).is_ok());
        drop(most);
        assert_eq!((all.in_flight(), all.held_bytes()), (0, 0));
    }

    #[test]
    fn what_is_received_counts_as_it_comes() {
        let all = admission();
        let (mut one, mut other) = (all.receiving(), all.receiving());
        one.grow(60).unwrap();
        other.grow(40).unwrap();
        assert!(one.grow(1).is_err());
        assert!(all.admit(1).is_err());
        other.give_back();
        one.grow(40).unwrap();
        drop((one, other));
        assert_eq!(all.held_bytes(), 0);
        // A single holder may exceed the limit.
        all.receiving().grow(1000).unwrap();
    }
}

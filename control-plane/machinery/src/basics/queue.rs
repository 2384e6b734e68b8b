//! The work queue of a control loop: each key is queued at most once, with delays and a back-off
//! per key.
//!
//! The caller passes time in as the duration since its start, and asks [`Queue::wake_at`] when to
//! call again. A key in progress is not returned again before [`Queue::done`], so no key is worked
//! on twice at once; a request for it in the meantime is remembered.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The delays of keys that failed: `first`, doubled with each failure in a row, up to `last`.
#[derive(Debug, Clone, Copy)]
pub struct BackOff {
    /// Delay after the first failure.
    pub first: Duration,
    /// The longest delay.
    pub last: Duration,
}

impl BackOff {
    /// The delays of Kubernetes' own controllers.
    pub const LOOPS: BackOff = BackOff {
        first: Duration::from_millis(5),
        last: Duration::from_secs(1000),
    };

    /// The delay after this many failures in a row; zero after none.
    pub fn delay(&self, failures: u32) -> Duration {
        match failures {
            0 => Duration::ZERO,
            n => {
                let factor = 1_u32.checked_shl(n - 1).unwrap_or(u32::MAX);
                self.first.saturating_mul(factor).min(self.last)
            }
        }
    }
}

/// Keys to work on. A key is ready, waiting for its time, in progress, or absent; a key in progress
/// may also wait, or be requested again.
#[derive(Debug)]
pub struct Queue<K> {
    back_off: BackOff,
    /// In the order they became ready; `is_ready` holds the same keys.
    ready: VecDeque<K>,
    is_ready: BTreeSet<K>,
    busy: BTreeSet<K>,
    /// Requested while in progress: ready again after `done`.
    again: BTreeSet<K>,
    /// The earliest time of each waiting key; `by_time` holds the same pairs.
    waiting: BTreeMap<K, Duration>,
    by_time: BTreeSet<(Duration, K)>,
    failures: BTreeMap<K, u32>,
}

impl<K: Ord + Clone> Queue<K> {
    /// An empty queue.
    pub fn new(back_off: BackOff) -> Queue<K> {
        Queue {
            back_off,
            ready: VecDeque::new(),
            is_ready: BTreeSet::new(),
            busy: BTreeSet::new(),
            again: BTreeSet::new(),
            waiting: BTreeMap::new(),
            by_time: BTreeSet::new(),
            failures: BTreeMap::new(),
        }
    }

    /// Makes the key ready now.
    pub fn add(&mut self, key: K) {
        self.stop_waiting(&key);
        if self.busy.contains(&key) {
            self.again.insert(key);
        } else if self.is_ready.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// Makes the key ready at this time, or earlier if it already waits for an earlier time.
    pub fn add_at(&mut self, key: K, at: Duration) {
        let earlier = self.waiting.get(&key).is_some_and(|has| *has <= at);
        if earlier || self.is_ready.contains(&key) {
            return;
        }
        self.stop_waiting(&key);
        self.by_time.insert((at, key.clone()));
        self.waiting.insert(key, at);
    }

    /// Records a failure of the key and queues it again after its back-off, which is returned.
    pub fn add_failed(&mut self, key: K, now: Duration) -> Duration {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        *failures = failures.saturating_add(1);
        let delay = self.back_off.delay(*failures);
        self.add_at(key, now.saturating_add(delay));
        delay
    }

    /// Resets the failures of the key after a success.
    pub fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// The number of failures of the key in a row.
    pub fn failures(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }

    /// The next key to work on; the caller must call [`done`](Self::done) afterwards.
    pub fn next(&mut self, now: Duration) -> Option<K> {
        while let Some((at, key)) = self.by_time.first() {
            if *at > now {
                break;
            }
            let key = key.clone();
            self.add(key);
        }
        let key = self.ready.pop_front()?;
        self.is_ready.remove(&key);
        self.busy.insert(key.clone());
        Some(key)
    }

    /// Ends the work on a key.
    pub fn done(&mut self, key: &K) {
        self.busy.remove(key);
        if self.again.remove(key) {
            self.add(key.clone());
        }
    }

    /// When to call [`next`](Self::next): zero if a key is ready, `None` if no key waits.
    pub fn wake_at(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        self.by_time.first().map(|(at, _)| *at)
    }

    /// The number of keys that are ready, waiting, or requested again.
    pub fn len(&self) -> usize {
        self.ready.len() + self.waiting.len() + self.again.len()
    }

    /// True if no key is ready, waiting, or requested again.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn stop_waiting(&mut self, key: &K) {
        if let Some(at) = self.waiting.remove(key) {
            self.by_time.remove(&(at, key.clone()));
        }
    }
}

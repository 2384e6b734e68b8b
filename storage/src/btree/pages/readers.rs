//! Which units may be rewritten, and which need no second verification: how readers without locks
//! and the one writer agree about pages. Knows neither pages nor files.
//!
//! A generation of readers holds one [`ReaderGuard`], the writer its [`GuardWatch`]. Once the watch
//! says *gone*, everything those readers did happened before: they read nothing any more, and every
//! unit they marked as verified is visible to the writer, which can forget it. A reference count,
//! as `Weak` reports it, is not enough: it is read without any ordering.

#[cfg(all(test, loom))]
mod loom;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Lives as long as anyone may read.
#[derive(Debug)]
pub(crate) struct ReaderGuard(Arc<AtomicBool>);

/// The writer's side of a [`ReaderGuard`].
#[derive(Debug)]
pub(crate) struct GuardWatch(Arc<AtomicBool>);

impl ReaderGuard {
    pub(crate) fn new() -> ReaderGuard {
        ReaderGuard(Arc::new(AtomicBool::new(true)))
    }

    pub(crate) fn watch(&self) -> GuardWatch {
        GuardWatch(self.0.clone())
    }
}

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        // The thread that drops the last reference to the holder has seen what all others did. This
        // store hands that on to whoever sees it.
        self.0.store(false, Ordering::Release);
    }
}

impl GuardWatch {
    pub(crate) fn is_gone(&self) -> bool {
        !self.0.load(Ordering::Acquire)
    }
}

/// One bit per unit: the run that begins there was verified since it was written.
pub(crate) struct VerifiedUnits(Box<[AtomicU64]>);

impl VerifiedUnits {
    pub(crate) fn new(units: u64) -> VerifiedUnits {
        VerifiedUnits((0..units.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    pub(crate) fn contains(&self, unit: u64) -> bool {
        let (word, bit) = self.place(unit);
        // The thread that set the bit read the same bytes; there is nothing else to see.
        word.load(Ordering::Acquire) & bit != 0
    }

    #[inline]
    pub(crate) fn insert(&self, unit: u64) {
        let (word, bit) = self.place(unit);
        word.fetch_or(bit, Ordering::AcqRel);
    }

    /// Call before the units are rewritten, when none of their readers is left. Some units may be
    /// outside.
    pub(crate) fn remove(&self, units: Range<u64>) {
        for unit in units {
            if unit / 64 < self.0.len() as u64 {
                let (word, bit) = self.place(unit);
                word.fetch_and(!bit, Ordering::AcqRel);
            }
        }
    }

    #[inline]
    fn place(&self, unit: u64) -> (&AtomicU64, u64) {
        (&self.0[(unit / 64) as usize], 1 << (unit % 64))
    }
}

impl fmt::Debug for VerifiedUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifiedUnits(of {} units)", self.0.len() * 64)
    }
}

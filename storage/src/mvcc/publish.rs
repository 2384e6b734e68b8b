//! One value that a single writer replaces and any thread reads, without a lock on either side.
//! Knows nothing of the value.
//!
//! A few slots each hold an `Arc` and a count of the readers that are looking into them now;
//! `current` names the slot that readers must use.
//!
//! A reader loads `current` = i, counts itself into slot i, and loads `current` again. Only if it
//! is still i may it clone the value there; otherwise it counts itself out and starts over. The
//! writer touches a slot only while `current` names another one and its count is zero.
//!
//! Why the second load and the two fences are needed:
//! 1. The reader loads `current` = 0 and is suspended before it counts itself in.
//! 2. The writer publishes into slot 1, sees nobody in slot 0 and begins to write there.
//! 3. The reader counts itself into slot 0 and would clone a half-written value. The second load
//!    shows it that `current` has changed.
//!
//! The reader's count and the writer's new `current` are one store each, followed by a load of the
//! other's. Without a full fence between, both loads may miss both stores, and step 3 happens.
//!
//! A reader never waits for the writer. The writer waits only if every other slot has a reader
//! between its two loads; readers leave within a few instructions unless they are descheduled.

#![expect(
    unsafe_code,
    reason = "the slots are shared by a protocol the borrow checker cannot see"
)]

#[cfg(all(test, loom))]
mod loom;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::sync::Arc;

use crate::sync::{AtomicUsize, Ordering, UnsafeCell, fence, yield_now};

/// Two are enough for correctness, and the hardest case for loom. With more, readers that are
/// descheduled in the middle of a clone hardly ever make the writer wait.
const SLOTS: usize = if cfg!(loom) { 2 } else { 8 };

/// Each slot has its own cache lines: readers of one do not slow the writer in the next.
#[repr(align(128))]
struct Slot<T> {
    /// Readers between counting themselves in and out. Those that find `current` elsewhere count,
    /// too, but never touch `value`.
    readers: AtomicUsize,
    value: UnsafeCell<Option<Arc<T>>>,
}

struct Shared<T> {
    slots: [Slot<T>; SLOTS],
    /// Invariant: the named slot holds a value, and is not written while it is named.
    current: AtomicUsize,
}

// SAFETY: `value` is the only field that is not `Sync` by itself. It is written by the one
// `Publisher` alone, and never while a reader may look at it (see `Publisher::vacate`); what
// crosses threads through it is an `Arc<T>`, hence the bounds.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

// SAFETY: owning a `Shared` is owning `Arc<T>`s, which may be dropped on any thread if `T` may be
// shared and sent.
unsafe impl<T: Send + Sync> Send for Shared<T> {}

/// The writer's end. There is one per slot array, and it publishes through `&mut self`.
pub(crate) struct Publisher<T> {
    shared: Arc<Shared<T>>,
}

/// A reader's end.
pub(crate) struct Subscriber<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Publisher<T> {
    pub(crate) fn new(value: Arc<T>) -> Publisher<T> {
        let mut first = Some(value);
        let slots = std::array::from_fn(|_| Slot {
            readers: AtomicUsize::new(0),
            value: UnsafeCell::new(first.take()),
        });
        let current = AtomicUsize::new(0);
        Publisher {
            shared: Arc::new(Shared { slots, current }),
        }
    }

    pub(crate) fn subscribe(&self) -> Subscriber<T> {
        Subscriber {
            shared: self.shared.clone(),
        }
    }

    /// Makes `value` the one that readers take from now on, and drops those before it, except where
    /// a reader is taking one now: the next call drops that one.
    pub(crate) fn publish(&mut self, value: Arc<T>) {
        // Only this method stores `current`, so a relaxed load sees our own last store.
        let current = self.shared.current.load(Ordering::Relaxed);
        let mut value = Some(value);
        let slot = loop {
            let free = (0..SLOTS).find(|&slot| slot != current && self.vacate(slot, &mut value));
            match free {
                Some(slot) => break slot,
                None => yield_now(),
            }
        };
        // Release: a reader that loads this sees the value behind it.
        self.shared.current.store(slot, Ordering::Release);
        for old in (0..SLOTS).filter(|&old| old != slot) {
            self.vacate(old, &mut None);
        }
    }

    /// Replaces the content of `slot`, which must not be the current one, by `value` (and drops
    /// it), unless a reader may be looking at it. Returns whether it did.
    fn vacate(&mut self, slot: usize, value: &mut Option<Arc<T>>) -> bool {
        let slot = &self.shared.slots[slot];
        // Between our last store of `current` and the load of `readers`; pairs with the reader's
        // fence.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the reader's release when it counts itself out, so that its clone
        // has happened before our write.
        if slot.readers.load(Ordering::Acquire) != 0 {
            return false;
        }
        let old = slot.value.with_mut(|place| {
            // SAFETY: nobody else touches `place`. Writers: there is one `Publisher`, borrowed
            // mutably here. Readers: one touches it only if it counts itself in and then, after
            // its fence, finds `current` to be this slot. Ours is not the current slot. A reader
            // whose count we did not see has its fence after ours, so it finds our last store of
            // `current` (another slot), or a later one, made after this write with release. A
            // reader that has counted itself out is done with it, and we acquired that.
            let place = unsafe { &mut *place };
            std::mem::replace(place, value.take())
        });
        drop(old);
        true
    }
}

impl<T> Subscriber<T> {
    /// The newest value published.
    pub(crate) fn load(&self) -> Arc<T> {
        loop {
            // No acquire needed: this is only a hint where to look, the second load decides.
            let slot = self.shared.current.load(Ordering::Relaxed);
            if let Some(value) = self.shared.try_take(slot) {
                return value;
            }
        }
    }
}

impl<T> Shared<T> {
    fn try_take(&self, index: usize) -> Option<Arc<T>> {
        let slot = &self.slots[index];
        slot.readers.fetch_add(1, Ordering::Relaxed);
        // Between our count and the second load; pairs with the writer's fence in `vacate`.
        fence(Ordering::SeqCst);
        // Acquire: pairs with the release in `publish`; the value written before is seen.
        let value = (self.current.load(Ordering::Acquire) == index).then(|| {
            slot.value.with(|place| {
                // SAFETY: we are counted in, and `current` named this slot after that: the writer
                // does not touch the slot until it has seen us count ourselves out (`vacate`).
                // Other readers only read.
                unsafe { &*place }.clone()
            })
        });
        // Release: the clone is over before the writer sees the count fall.
        slot.readers.fetch_sub(1, Ordering::Release);
        value.flatten()
    }
}

impl<T> Clone for Subscriber<T> {
    fn clone(&self) -> Self {
        Subscriber {
            shared: self.shared.clone(),
        }
    }
}

impl<T> fmt::Debug for Publisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Publisher")
    }
}

impl<T> fmt::Debug for Subscriber<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscriber")
    }
}

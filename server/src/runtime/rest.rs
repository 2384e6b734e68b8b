//! Pauses in the work of helper threads. They share the disk with the log, and clients wait for the
//! log's syncs.

use std::thread::sleep;
use std::time::Duration;

use crate::clock::Clock;

/// Longest pause. A step that took longer mostly waited for others.
const REST_MAX: Duration = Duration::from_millis(20);

/// A pause takes this many times as long as the step before it.
pub(super) const CHECKPOINT_REST: u32 = 1;
pub(super) const LOG_REST: u32 = 1;
/// Digests read the whole store, mostly with no client waiting: a quarter of a core is enough.
pub(super) const DIGEST_REST: u32 = 3;

/// Returns a function to call after each step. It sleeps `times` as long as the step took, unless
/// `hurried` returns true.
pub(super) fn rests(
    clock: Clock,
    times: u32,
    hurried: impl Fn() -> bool + Send + Sync + 'static,
) -> impl FnMut() + Send + Sync + 'static {
    let mut began = clock.now();
    move || {
        if !hurried() {
            sleep(((clock.now() - began) * times).min(REST_MAX));
        }
        began = clock.now();
    }
}

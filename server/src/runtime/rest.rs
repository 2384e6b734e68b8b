//! Rests in the work of helper threads. They share the disk with the log, whose syncs clients wait
//! for.

use std::thread::sleep;
use std::time::Duration;

use crate::clock::Clock;

/// A piece that took longer waited for others, most of the time.
const REST_MAX: Duration = Duration::from_millis(20);

/// Rests are so many times as long as the work before them.
pub(super) const CHECKPOINT_REST: u32 = 1;
pub(super) const LOG_REST: u32 = 1;
/// Digests read the whole store and nobody waits for most of them: a quarter of a core.
pub(super) const DIGEST_REST: u32 = 3;

/// To be called after each piece of a work: waits for `times` as long as the piece took, unless
/// `hurried`.
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

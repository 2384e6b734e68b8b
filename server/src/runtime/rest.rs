//! Rests in the work of helper threads. They share the disk with the log, whose syncs clients wait
//! for.

use std::thread::sleep;
use std::time::Duration;

use super::Clock;

/// A piece that took longer waited for others, most of the time.
const REST_MAX: Duration = Duration::from_millis(20);

/// To be called after each piece of a work: waits for as long as the piece took, unless `hurried`.
pub(super) fn rests(
    clock: Clock,
    hurried: impl Fn() -> bool + Send + Sync + 'static,
) -> impl FnMut() + Send + Sync + 'static {
    let mut began = clock.now();
    move || {
        if !hurried() {
            sleep((clock.now() - began).min(REST_MAX));
        }
        began = clock.now();
    }
}

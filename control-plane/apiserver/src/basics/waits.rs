//! How long a request waits for what is not this server's own work: for its turn, and for programs
//! outside. It is no part of how fast this server is.

use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

tokio::task_local! {
    /// What the request of this task has waited so far.
    static WAITED: Cell<Duration>;
}

/// Runs a request; also returns how long it has waited.
pub(crate) async fn of<T>(request: impl Future<Output = T>) -> (T, Duration) {
    let counted = async {
        let result = request.await;
        (result, WAITED.with(Cell::get))
    };
    WAITED.scope(Cell::default(), counted).await
}

/// Waits, as part of a request if this task has one.
pub(crate) async fn wait<T>(other: impl Future<Output = T>) -> T {
    let begin = Instant::now();
    let result = other.await;
    // What this process does by itself is no request.
    let _ = WAITED.try_with(|waited| waited.set(waited.get() + begin.elapsed()));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_knows_what_it_has_waited() {
        const PAUSE: Duration = Duration::from_millis(5);
        let begin = Instant::now();
        let request = async {
            tokio::time::sleep(PAUSE).await;
            wait(tokio::time::sleep(PAUSE)).await;
            wait(tokio::time::sleep(PAUSE)).await;
            7
        };
        let (result, waited) = of(request).await;
        assert_eq!(result, 7);
        assert!(waited >= 2 * PAUSE);
        assert!(begin.elapsed() >= waited + PAUSE);
        // Outside of a request nobody counts.
        wait(tokio::time::sleep(PAUSE)).await;
    }
}

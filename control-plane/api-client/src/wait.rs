//! The timer of a loop that has work at a known time, or none.

use tokio::time::Instant;

/// Waits until a time, or for ever if there is none.
pub async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

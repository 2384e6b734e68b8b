//! The time of a start after a kill, and how times are shown.

use std::time::Duration;

use super::Result;
use super::load::{Load, Shape, local};
use super::subject::Subject;

/// Load before the kill.
const LOADED: Duration = Duration::from_secs(5);

/// Kills the server under load; returns the time from its start to the first read.
pub(super) fn after_kill(subject: &mut Subject, shape: Shape) -> Result<Duration> {
    let url = subject.url();
    subject.block_on(local(async {
        let mut load = Load::start(&url, shape).await?;
        tokio::time::sleep(LOADED).await;
        load.take().await?;
        Ok(())
    }))?;
    // Some requests of the clients are in flight now.
    subject.kill();
    subject.restart()
}

pub(super) fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1000.0
}

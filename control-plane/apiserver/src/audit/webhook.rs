//! Sends batches of events to a webhook, over HTTP or HTTPS, and tries again if that fails.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::webhook::caller::{Caller, PATIENCE, Pauses};

/// How often a batch is sent before its events are lost.
const ATTEMPTS: u32 = 5;
/// Upper bound of an answer, in bytes. What is in it does not matter.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The client of one webhook.
pub(super) struct Sender {
    caller: Caller,
    /// The pause after the first attempt.
    pause: Duration,
}

impl Sender {
    /// Reads a kubeconfig. `pause` is the time before the second attempt.
    pub(super) fn read(path: &Path, pause: Duration) -> Result<Sender, String> {
        let caller = Caller::read(path, PATIENCE)?;
        Ok(Sender { caller, pause })
    }

    /// Sends events, in JSON and without their kind, as one list.
    pub(super) async fn send(&self, events: &[Bytes]) -> Result<(), String> {
        let mut body =
            br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"#.to_vec();
        body.extend_from_slice(b"\"items\":[");
        body.extend_from_slice(&events.join(&b","[..]));
        body.extend_from_slice(b"]}\n");
        let body = Bytes::from(body);
        let mut pauses = Pauses::from(self.pause);
        let mut tried = 1;
        loop {
            match self.call(body.clone()).await {
                Err(why) if tried < ATTEMPTS => {
                    tracing::debug!(why, tried, "audit events are sent again");
                }
                result => return result,
            }
            pauses.next().await;
            tried += 1;
        }
    }

    async fn call(&self, body: Bytes) -> Result<(), String> {
        let posted = self.caller.post(body, ANSWER_BYTES_MAX).await;
        let answer = posted.map_err(|failure| failure.why)?;
        if answer.code.is_success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&answer.body).into_owned();
        Err(format!(
            "the webhook answered {}: {}",
            answer.code,
            why.trim()
        ))
    }
}

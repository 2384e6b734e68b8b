//! When discovery is read again: kinds come and go while the loops run.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api_client::Client;
use machinery::api::{Api as _, Call};
use machinery::object::Object;
use machinery::schema::Kind;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// Delay between two attempts to read the apiserver's discovery.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// How often it is read if nothing says that kinds have come or gone.
const EVERY: Duration = Duration::from_secs(5);
/// The same while the objects that make kinds are watched: another server may serve a new kind
/// though its APIService is as before.
const WATCHED_EVERY: Duration = Duration::from_secs(60);
/// How soon after such a change it is read: many may come together.
const SOON: Duration = Duration::from_millis(500);
/// How long after that it is read once more: discovery may list a new kind a little later.
const AGAIN: Duration = Duration::from_secs(2);

/// True for the kinds of objects that make kinds.
pub(super) fn makes_kinds(kind: &Kind) -> bool {
    matches!(
        (kind.group(), kind.plural()),
        ("apiextensions.k8s.io", "customresourcedefinitions")
            | ("apiregistration.k8s.io", "apiservices")
    )
}

/// Reads discovery. Retries until the apiserver answers.
pub(super) async fn discover(client: &Client, core: bool) -> Object {
    loop {
        match client.call(Call::Discover { core }).await {
            Ok(document) => return document,
            Err(error) => {
                tracing::info!(%error, "waiting for the apiserver");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}

/// Reads the discovery of named groups again and again, as long as somebody wants it: soon after
/// what makes kinds has `changed`, if that `is_watched`.
pub(super) async fn follow(
    client: Client,
    groups: mpsc::Sender<Object>,
    changed: Arc<Notify>,
    is_watched: bool,
) {
    let every = if is_watched { WATCHED_EVERY } else { EVERY };
    let mut next = Next::new(every, Instant::now());
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(next.due) => {}
            () = changed.notified() => {
                next.changed(Instant::now());
                continue;
            }
        }
        match client.call(Call::Discover { core: false }).await {
            Ok(document) => {
                if groups.send(document).await.is_err() {
                    return;
                }
            }
            Err(error) => tracing::info!(%error, "the kinds cannot be read"),
        }
        next.was_read(Instant::now());
    }
}

/// When discovery is read next.
struct Next {
    every: Duration,
    due: Instant,
    /// Something has changed since it was read.
    is_changed: bool,
}

impl Next {
    fn new(every: Duration, now: Instant) -> Next {
        Next {
            every,
            due: now + every,
            is_changed: false,
        }
    }

    fn changed(&mut self, now: Instant) {
        self.is_changed = true;
        // Not put off by each of many changes.
        self.due = self.due.min(now + SOON);
    }

    fn was_read(&mut self, now: Instant) {
        let pause = if std::mem::take(&mut self.is_changed) {
            AGAIN
        } else {
            self.every
        };
        self.due = now + pause;
    }
}

//! The secrets whose tokens are used, so that each says when that was last.

use std::collections::BTreeSet;

use machinery::object;
use machinery::time::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::basics::clock;

/// The label of a secret with the day on which its token was last used.
pub(super) const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";

/// The secrets whose tokens were used on a day that they do not say yet.
#[derive(Default)]
pub(crate) struct Used {
    secrets: Mutex<BTreeSet<(String, String)>>,
    noted: Notify,
}

impl Used {
    /// Waits for such a secret; returns its namespace and name.
    pub(crate) async fn next(&self) -> (String, String) {
        loop {
            if let Some(one) = self.secrets.lock().pop_first() {
                return one;
            }
            self.noted.notified().await;
        }
    }

    /// Writes into a secret that its token was used on the day of this time.
    pub(crate) fn mark(&self, secret: &mut Value, now: Timestamp) {
        let label = ["metadata", "labels", LAST_USED];
        object::set(secret, &label, clock::day(now).into());
    }

    /// Notes that the token of a secret is used now.
    pub(super) fn note(&self, secret: &Value, now: Timestamp) {
        let last = object::text(secret, &["metadata", "labels", LAST_USED]);
        // The clock of another server may be ahead of this one.
        if [now, tomorrow(now)]
            .map(clock::day)
            .iter()
            .any(|day| day == last)
        {
            return;
        }
        let place = (object::namespace(secret), object::name(secret));
        let place = (place.0.to_owned(), place.1.to_owned());
        self.secrets.lock().insert(place);
        self.noted.notify_one();
    }
}

fn tomorrow(now: Timestamp) -> Timestamp {
    Timestamp {
        seconds: now.seconds + 24 * 3600,
        ..now
    }
}

//! Events live for an hour: they are attached to leases of the store, which many of them share.

use machinery::status::Status;
use tokio::sync::Mutex;

use crate::basics::clock;
use crate::storage::store::Store;

/// Lifetime of an event.
const EVENT_SECONDS: i64 = 3600;
/// Time during which new events share a lease.
const SHARED_SECONDS: i64 = 60;
/// Upper bound of the events on a lease.
const SHARED_KEYS_MAX: u32 = 1000;

/// The current lease.
#[derive(Default)]
pub(crate) struct EventLeases(Mutex<Current>);

#[derive(Default)]
struct Current {
    id: i64,
    granted: i64,
    keys: u32,
}

impl EventLeases {
    /// Returns a lease for one more event.
    pub(crate) async fn lease(&self, store: &Store) -> Result<i64, Status> {
        let mut current = self.0.lock().await;
        let now = clock::now().seconds;
        let old = now - current.granted >= SHARED_SECONDS || now < current.granted;
        if current.id == 0 || old || current.keys >= SHARED_KEYS_MAX {
            let id = store.grant(EVENT_SECONDS + SHARED_SECONDS).await?;
            *current = Current {
                id,
                granted: now,
                keys: 0,
            };
        }
        current.keys += 1;
        Ok(current.id)
    }
}

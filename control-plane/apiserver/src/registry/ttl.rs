//! Events live for an hour: they hang on leases of the store, which many of them share.

use machinery::status::Status;
use tokio::sync::Mutex;

use crate::clock;
use crate::storage::store::Store;

/// How long an event lives.
const EVENT_SECONDS: i64 = 3600;
/// For how long new events are hung on the same lease.
const SHARED_SECONDS: i64 = 60;
/// How many of them.
const SHARED_KEYS_MAX: u32 = 1000;

/// The lease that is handed out at present.
#[derive(Default)]
pub(crate) struct EventLeases(Mutex<Current>);

#[derive(Default)]
struct Current {
    id: i64,
    granted: i64,
    keys: u32,
}

impl EventLeases {
    /// A lease for one more event.
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

//! Follows a collection for a loop of the server's own, which looks at all of it after a change.

use std::sync::Arc;

use machinery::status::Status;
use tokio::sync::watch;

use crate::resources::catalogue::Storage;
use crate::storage::cache::Cache;
use crate::storage::interest::Interest;

/// Wakes for every change of a collection, as long as it lives.
pub(crate) struct Following {
    cache: Arc<Cache>,
    interest: Interest,
    changed: watch::Receiver<u64>,
}

impl Following {
    /// Begins now: what changes from here on wakes. Errors call the objects `what`.
    pub(crate) fn begin(
        cache: Arc<Cache>,
        storage: &Storage,
        what: &str,
    ) -> Result<Following, Status> {
        let interest = Interest {
            folder: storage.folder(""),
            field: None,
        };
        match cache.join(&interest, cache.end()) {
            Ok(changed) => Ok(Following {
                cache,
                interest,
                changed,
            }),
            Err(_) => Err(Status::internal(&format!("the {what} changed too fast"))),
        }
    }

    /// Waits for a change since the beginning or the last call.
    pub(crate) async fn changed(&mut self) -> Result<(), Status> {
        let woken = self.changed.changed().await;
        woken.map_err(|_| Status::internal("the watch cache is gone"))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.cache.leave(&self.interest);
    }
}

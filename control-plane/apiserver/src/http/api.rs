//! What all requests share.

use std::sync::Arc;

use machinery::status::Status;
use tokio::sync::watch;

use crate::auth::{Authenticator, Authorizer};
use crate::http::connections::Limits;
use crate::http::slots::Slots;
use crate::registry::Registry;
use crate::resources::catalogue::Storage;
use crate::storage::feed::Feed;
use crate::storage::store::Store;
use crate::storage::stored::Stored;

/// The API as its handlers know it.
#[derive(Clone)]
pub(crate) struct Api(pub(crate) Arc<Core>);

/// The seams that a request passes, and what it reads from and writes to.
pub(crate) struct Core {
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) store: Store,
    pub(crate) feed: Arc<Feed>,
    pub(crate) slots: Slots,
    pub(crate) limits: Limits,
    pub(crate) stopping: watch::Sender<bool>,
}

impl Api {
    /// Returns what was read as an object; the cache's own when it has the same revision.
    pub(crate) fn stored_of(
        &self,
        storage: &'static Storage,
        key: &str,
        kv: &etcd_api::mvccpb::KeyValue,
    ) -> Result<Arc<Stored>, Status> {
        self.0.registry.reader.stored_of(storage, key, kv)
    }
}

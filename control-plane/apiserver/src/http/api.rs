//! The state that all requests share.

use std::sync::Arc;

use tokio::sync::watch;

use crate::aggregation::Aggregator;
use crate::audit;
use crate::http::connections::Limits;
use crate::http::openapi::custom::CustomDocuments;
use crate::http::slots::Slots;
use crate::registry::Registry;
use crate::storage::reader::Reader;

/// The API as its handlers use it.
#[derive(Clone)]
pub(crate) struct Api(pub(crate) Arc<Core>);

pub(crate) struct Core {
    /// Reads and writes objects, and decides about requests.
    pub(crate) registry: Arc<Registry>,
    pub(crate) slots: Slots,
    /// The servers that extend this one.
    pub(crate) aggregator: Arc<Aggregator>,
    pub(crate) custom_documents: CustomDocuments,
    /// Where events about requests go, if anywhere.
    pub(crate) audit: Option<Arc<audit::Log>>,
    pub(crate) limits: Limits,
    pub(crate) stopping: watch::Sender<bool>,
}

impl Api {
    /// Reads the store and the caches.
    pub(crate) fn reader(&self) -> &Reader {
        &self.0.registry.reader
    }
}

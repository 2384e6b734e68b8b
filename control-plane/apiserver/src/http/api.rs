//! The state that all requests share.

use std::sync::Arc;

use tokio::sync::watch;

use crate::audit;
use crate::flow::FlowControl;
use crate::http::aggregation::Aggregator;
use crate::http::discovery;
use crate::http::faults::Faults;
use crate::http::limits::sending::LargeAnswers;
use crate::http::limits::slots::Slots;
use crate::http::limits::{Limits, StoreAnswers, StoreChecks};
use crate::http::openapi::custom::CustomDocuments;
use crate::http::openapi::v2;
use crate::registry::Registry;
use crate::storage::reader::Reader;

/// The API as its handlers use it.
#[derive(Clone)]
pub(crate) struct Api(pub(crate) Arc<Core>);

pub(crate) struct Core {
    /// Reads and writes objects, and decides about requests.
    pub(crate) registry: Arc<Registry>,
    pub(crate) slots: Slots,
    /// Who waits for whom; `None` if only the number of requests is limited.
    pub(crate) flow: Option<FlowControl>,
    /// The room for large answers that clients have not read.
    pub(crate) answers: LargeAnswers,
    /// The servers that extend this one.
    pub(crate) aggregator: Arc<Aggregator>,
    pub(crate) discovery: discovery::Latest,
    pub(crate) custom_documents: CustomDocuments,
    pub(crate) old_document: v2::Latest,
    /// Where events about requests go, if anywhere.
    pub(crate) audit: Option<Arc<audit::Log>>,
    /// Faults on purpose, if there are any.
    pub(crate) faults: Option<Arc<Faults>>,
    pub(crate) limits: Limits,
    pub(crate) store_checks: StoreChecks,
    pub(crate) store_answers: StoreAnswers,
    pub(crate) stopping: watch::Sender<bool>,
}

impl Api {
    /// Reads the store and the caches.
    pub(crate) fn reader(&self) -> &Reader {
        &self.0.registry.reader
    }
}

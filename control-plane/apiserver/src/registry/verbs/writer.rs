//! Who writes where, and how: what all verbs that write are told by a request.

use std::sync::Arc;

use serde_json::Value;

use crate::admission::Warnings;
use crate::audit::Record;
use crate::auth::User;
use crate::registry::Registry;
use crate::resources::catalogue::Resource;

/// A writer: the user, the resource and the namespace of writes.
#[derive(Clone)]
pub(crate) struct Writer<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) user: &'a User,
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: &'a str,
    /// True for a dry run: nothing is stored.
    pub(crate) dry: bool,
    /// What the request asks for besides, as an object such as CreateOptions.
    pub(crate) options: Value,
    /// Present if the request is recorded.
    pub(crate) audit: Option<&'a Record>,
    /// What admission warns the client of.
    pub(crate) warnings: Arc<Warnings>,
    /// The field manager, who owns what the write changes.
    pub(crate) manager: String,
}

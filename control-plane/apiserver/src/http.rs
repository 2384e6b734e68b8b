//! Requests and responses: connections, heads, bodies, media types, and the documents that are not
//! objects. [`crate::registry`] decides what an object may become.

pub(crate) mod aggregation;
pub(crate) mod api;
pub(crate) mod audited;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod connections;
pub(crate) mod delete_options;
pub(crate) mod discovery;
pub(crate) mod fair;
pub(crate) mod faulted;
pub(crate) mod list;
pub(crate) mod media;
pub(crate) mod nonresource;
pub(crate) mod openapi;
pub(crate) mod patch;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod serve;
pub(crate) mod slots;
pub(crate) mod spliced;
pub(crate) mod subresource;
pub(crate) mod table;
pub(crate) mod watch;

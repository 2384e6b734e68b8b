//! Requests and their answers: connections, heads, bodies and media types, and the documents that
//! are no objects. What an object is allowed to become is decided in [`crate::registry`].

pub(crate) mod api;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod connections;
pub(crate) mod delete_options;
pub(crate) mod discovery;
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

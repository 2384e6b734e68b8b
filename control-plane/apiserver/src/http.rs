//! Requests and responses: connections, heads, bodies, media types, and the documents that are not
//! objects. [`crate::registry`] decides what an object may become.

pub(crate) mod aggregation;
pub(crate) mod answer;
pub(crate) mod api;
pub(crate) mod call;
pub(crate) mod discovery;
pub(crate) mod door;
pub mod faults;
mod health;
pub(crate) mod limits;
pub(crate) mod media;
pub(crate) mod metrics;
pub(crate) mod nonresource;
pub(crate) mod openapi;
pub(crate) mod pass;
pub(crate) mod question;

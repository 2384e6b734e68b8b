//! The way of a connection and its requests to the code that answers them: connections, the server
//! of requests, and what stands in front of every request. Nothing here knows kinds or objects.

pub(crate) mod audited;
pub(crate) mod connections;
pub(crate) mod fair;
pub(crate) mod faulted;
mod room;
pub(crate) mod serve;
pub(crate) mod socket;

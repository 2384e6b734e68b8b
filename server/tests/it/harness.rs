//! What the stories need: servers and clusters as child processes, random numbers, HTTP/2 by hand.

pub(crate) mod fleet;
pub(crate) mod minors;
pub(crate) mod name_server;
pub(crate) mod raw_http2;
pub(crate) mod rng;
pub(crate) mod subject;

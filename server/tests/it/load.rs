//! Clients that ask too much, read too slowly or send what no client should.

pub(crate) mod bad_input;
pub(crate) mod large_replies;
pub(crate) mod overload;
pub(crate) mod slow_watch;
pub(crate) mod sockets;

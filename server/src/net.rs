//! Sockets, their TLS, and the threads and file descriptors they use. Knows no application
//! protocol.

pub mod descriptors;
pub(crate) mod rewound;
pub(crate) mod shares;
pub(crate) mod socket;
pub(crate) mod tls;
pub(crate) mod workers;

//! Sockets, their TLS, and the threads and file descriptors they use. Knows no application
//! protocol.

pub mod descriptors;
pub(crate) mod rewound;
pub mod socket;
pub mod tls;
pub mod workers;

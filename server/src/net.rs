//! Sockets, the TLS on them, and the threads and descriptors they take. It knows no protocol.

pub mod descriptors;
pub mod socket;
pub mod tls;
pub mod workers;

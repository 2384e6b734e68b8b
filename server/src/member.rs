//! One member of a cluster: the data directory that it starts from, its actors, the messages
//! between them, its connections to other members, and the driver that carries effects out. The
//! simulation runs all of it but the connections. What clients call does not belong here, and
//! neither do the threads that actors run on.

pub mod applier;
pub(crate) mod cluster;
pub mod data_dir;
pub mod driver;
pub mod event;

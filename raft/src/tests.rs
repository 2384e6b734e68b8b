//! Tests of whole members: a cluster in one thread, driven by hand (`single`) or by chance.

mod cluster;
mod random;
mod single;

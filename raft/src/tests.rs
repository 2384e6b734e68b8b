//! Tests of whole members: a cluster in one thread, driven by hand (`paper`, `single`) or by chance.

mod cluster;
mod paper;
mod random;
mod single;

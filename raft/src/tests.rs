//! Tests of whole members: a cluster in one thread, driven by hand (`paper`, `single`), by text
//! scripts, or by chance.

mod cluster;
mod single;

//! Tests of whole members: a cluster in one thread, driven by hand (`paper`, `single`), (`suspicion`), by text (`script`) or by chance.

mod cluster;
mod paper;
mod random;
mod script;
mod single;
mod suspicion;

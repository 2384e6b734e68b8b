//! Tests of whole members: a cluster in one thread, driven by hand (`paper`, `single`, `suspicion`,
//! `hostile`, `backlog`), by text (`script`) or at random (`random`).

mod backlog;
mod cluster;
mod hostile;
mod paper;
mod random;
mod script;
mod single;
mod suspicion;

//! Tests of whole members: a cluster in one thread, driven by hand (`paper`, `single`, `suspicion`,
//! `hostile`, `backlog`, `feed`), by text (`script`) or at random (`random`).

mod backlog;
mod cluster;
mod feed;
mod hostile;
mod paper;
mod random;
mod script;
mod single;
mod suspicion;

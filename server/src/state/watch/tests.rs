//! Pieces by themselves here; the hub and its streams together in the modules below.

mod index;
mod model;
mod promises;
mod response;
mod rig;

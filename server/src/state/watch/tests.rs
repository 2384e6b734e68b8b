//! Tests of single parts are in this file; tests of the hub with its streams are in the modules.

mod index;
mod large;
mod model;
mod promises;
mod response;
mod rig;

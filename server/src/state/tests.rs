//! Tests of log and store together: power cuts, installed snapshots, and the data directories of
//! earlier versions.

mod frozen;
mod install;
mod power;
mod replace;

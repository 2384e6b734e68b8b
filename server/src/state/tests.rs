//! Tests of entries and of their answers; and of log and store together: power cuts, installed
//! snapshots, and the data directories of earlier versions.

mod answers;
mod frozen;
mod install;
mod power;
mod replace;

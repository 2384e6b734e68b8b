//! Black-box tests: they start the program as a user does and observe it only from outside.
//!
//! `STELE_TEST_PROGRAM=etcd` runs the same tests against etcd, which verifies the tests.
#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test reports, in its helpers too"
)]
#![allow(
    clippy::too_many_lines,
    reason = "a story and its table of cases are read in one piece"
)]

mod beside_etcd;
mod clusters;
mod disks;
mod harness;
mod house;
mod load;
mod usual;

//! Black-box tests: the program is started as a user starts it and seen from outside only.
//!
//! `STELE_TEST_PROGRAM=etcd` runs the same tests against real etcd, which proves the tests.

mod clients;
mod crash;
mod differential;
mod rng;
mod subject;

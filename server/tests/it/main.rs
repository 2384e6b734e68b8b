//! Black-box tests: the program is started as a user starts it and seen from outside only.
//!
//! `STELE_TEST_PROGRAM=etcd` runs the same tests against real etcd, which proves the tests.
#![expect(
    clippy::unwrap_used,
    reason = "a panic is how a test reports, in its helpers too"
)]

mod bad_disk;
mod bad_input;
mod beside;
mod catch_up;
mod chaos;
mod clients;
mod cluster;
mod crash;
mod differential;
mod five;
mod fleet;
mod full_disk;
mod inspect;
mod join_etcd;
mod large_replies;
mod local;
mod members;
mod pages;
mod rng;
mod sealed;
mod slow_watch;
mod snapshot;
mod stopped_leader;
mod subject;
mod tidy;

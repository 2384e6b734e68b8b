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

mod auth;
mod bad_disk;
mod bad_input;
mod beside;
mod catch_up;
mod chaos;
mod clients;
mod cluster;
mod corruption;
mod costs;
mod crash;
mod differential;
mod five;
mod flags;
mod fleet;
mod full_disk;
mod gateway;
mod hostile;
mod inspect;
mod join_etcd;
mod large_replies;
mod layers;
mod lease_calls;
mod licences;
mod local;
mod lost_disk;
mod members;
mod observation;
mod overload;
mod pages;
mod raw_http2;
mod recipes;
mod rng;
mod sealed;
mod slow_watch;
mod snapshot;
mod sockets;
mod spans;
mod stopped_leader;
mod subject;
mod tidy;
mod tls;

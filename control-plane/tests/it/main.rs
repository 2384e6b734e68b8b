//! Stele and the apiserver as processes, tested over plain HTTP and with the real `kubectl`.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "runs processes, and waits for what they do"
)]
#![allow(
    clippy::too_many_lines,
    reason = "a story and its table of cases are read in one piece"
)]

mod admission;
mod foreign;
mod harness;
mod objects;
mod processes;
mod requests;
mod users;

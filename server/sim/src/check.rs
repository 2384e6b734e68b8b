//! The promises, one per file. Each is a plain value that is told what happened and answers
//! whether that may be; none of them looks at the others, or at how the members keep a promise.

pub mod agreement;
pub mod determinism;
pub mod durable_prefix;
pub mod election_safety;
pub mod empty_disks;
pub mod leader_completeness;
pub mod leases;
pub use testkit::linearizability;
pub mod liveness;
pub mod log_matching;
pub mod membership;
pub mod real_time;
pub mod state;
pub mod tokens;
pub mod users;
pub mod watches;

/// The error says what is wrong, in a sentence for people.
pub type Verdict = Result<(), String>;

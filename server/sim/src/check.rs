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

/// 64-bit FNV-1a: enough to tell entries and states of one run apart.
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

pub fn digest_of_entry(entry: &raft::Entry) -> u64 {
    digest(&entry.data) ^ entry.kind as u64
}

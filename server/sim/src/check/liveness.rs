//! When everything works again, the cluster elects a leader, serves at every member, and all
//! members come to the same state.

use super::Verdict;

/// After healing, the first answers have to come within this: some elections with unlucky
/// timeouts, and the longest wait of a client.
pub const SERVES_WITHIN: u64 = 30_000_000_000;

/// What is true of a cluster at some time after it was healed.
#[derive(Clone, Debug, Default)]
pub struct Health {
    pub healed_at: u64,
    pub leader: Option<u64>,
    /// Hosts that have not answered a linearizable read since.
    pub silent: Vec<usize>,
    /// Applied index of each host that is up; all hosts must be.
    pub applied: Vec<Option<u64>>,
}

impl Health {
    pub fn is_well(&self) -> bool {
        let same = self.applied.windows(2).all(|pair| pair[0] == pair[1]);
        self.leader.is_some() && self.silent.is_empty() && same && self.applied[0].is_some()
    }

    pub fn judge(&self, now: u64) -> Verdict {
        if self.is_well() || now < self.healed_at + SERVES_WITHIN {
            return Ok(());
        }
        Err(format!(
            "the cluster was healed {} s ago and does not serve: {self:?}",
            (now - self.healed_at) / 1_000_000_000
        ))
    }
}

//! What was committed in one term is in the log of every leader of a later one (paper, figure 3).

use std::collections::BTreeMap;

use raft::{Index, Term};

use super::Verdict;
use crate::host::shadow::Log;

#[derive(Debug, Default)]
pub struct LeaderCompleteness {
    /// By index: the entry's term, and the earliest term in which anybody took it as committed.
    committed: BTreeMap<Index, (Term, Term)>,
}

impl LeaderCompleteness {
    /// A member whose term is `seen_in` takes the entry at `index` as committed.
    pub fn committed(&mut self, index: Index, term: Term, seen_in: Term) {
        let known = self.committed.entry(index).or_insert((term, seen_in));
        known.1 = known.1.min(seen_in);
    }

    /// Somebody begins to lead `term`, with this log.
    pub fn leads(&self, term: Term, log: &Log) -> Verdict {
        for (index, (entry_term, seen_in)) in &self.committed {
            if *seen_in >= term || *index <= log.base.index {
                continue;
            }
            let has = log.term_at(*index);
            if has != Some(*entry_term) {
                return Err(format!(
                    "the leader of term {term} has {has:?} at {index}, where an entry of term \
                     {entry_term} was committed in term {seen_in}"
                ));
            }
        }
        Ok(())
    }
}

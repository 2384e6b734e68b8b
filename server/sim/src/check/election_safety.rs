//! At most one member leads a term (paper, figure 3).

use std::collections::BTreeMap;

use raft::{NodeId, Term};

use super::Verdict;

#[derive(Debug, Default)]
pub struct ElectionSafety {
    leaders: BTreeMap<Term, NodeId>,
}

impl ElectionSafety {
    /// `id` says that it leads `term`.
    pub fn leads(&mut self, term: Term, id: NodeId) -> Verdict {
        let leader = *self.leaders.entry(term).or_insert(id);
        if leader == id {
            Ok(())
        } else {
            Err(format!("both {leader:x} and {id:x} lead term {term}"))
        }
    }

    pub fn elections(&self) -> usize {
        self.leaders.len()
    }
}

//! At most one member leads a term (paper, figure 3).

use std::collections::BTreeMap;

use raft::{NodeId, Term};

use super::Verdict;

#[derive(Debug, Default)]
pub struct ElectionSafety {
    leaders: BTreeMap<Term, NodeId>,
    /// Terms of clusters that are lost.
    earlier: usize,
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

    /// One member is left, and does not know of all terms.
    pub fn begins_anew(&mut self) {
        self.earlier = self.elections();
        self.leaders.clear();
    }

    pub fn elections(&self) -> usize {
        self.earlier + self.leaders.len()
    }
}

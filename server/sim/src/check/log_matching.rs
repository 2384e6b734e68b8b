//! If two logs hold an entry with the same index and term, they are the same up to there (paper,
//! figure 3). It is enough that equal positions always have equal contents and follow equal
//! positions: the rest is induction.

use std::collections::BTreeMap;

use raft::{Entry, Position, Term};

use super::Verdict;
use crate::digest;

#[derive(Debug, Default)]
pub struct LogMatching {
    /// By position: the term of the entry before, and what the entry is.
    entries: BTreeMap<Position, (Term, u64)>,
}

impl LogMatching {
    /// One member is left. Its next entries may have the positions of some that are lost.
    pub fn begins_anew(&mut self) {
        self.entries.clear();
    }

    /// Somebody puts `entry` into its log, after an entry of term `before`.
    pub fn appends(&mut self, before: Term, entry: &Entry) -> Verdict {
        let is = (before, digest::of_entry(entry));
        let was = *self.entries.entry(entry.position()).or_insert(is);
        if was == is {
            Ok(())
        } else {
            Err(format!(
                "entry {} of term {} follows term {before} with digest {:x} in one log, \
                 term {} with digest {:x} in another",
                entry.index, entry.term, is.1, was.0, was.1
            ))
        }
    }
}

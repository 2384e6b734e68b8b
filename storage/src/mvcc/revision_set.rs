//! A set of revisions, gathered in any order and read in ascending order. Takes two to four bytes
//! for each: sorted runs of differences, which are merged when they are read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::codec::{Reader, put_varint};
use crate::mvcc::Revision;

/// Revisions that are sorted at once: so few that it takes less than a millisecond.
const RUN_LEN: usize = if cfg!(any(test, fuzzing)) { 3 } else { 1 << 14 };

#[derive(Debug, Default)]
pub(super) struct RevisionSet {
    /// Not sorted yet.
    open: Vec<Revision>,
    runs: Vec<Vec<u8>>,
    run_bytes: usize,
    least: Option<Revision>,
}

impl RevisionSet {
    pub(super) fn push(&mut self, revision: Revision) {
        self.least = Some(self.least.map_or(revision, |least| least.min(revision)));
        self.open.push(revision);
        if self.open.len() == RUN_LEN {
            self.close();
        }
    }

    pub(super) fn least(&self) -> Option<Revision> {
        self.least
    }

    /// Bytes of memory, without the run that is not closed.
    pub(super) fn bytes(&self) -> usize {
        self.run_bytes
    }

    pub(super) fn ascending(mut self) -> Ascending {
        self.close();
        let mut runs: Vec<Run> = self.runs.into_iter().map(Run::new).collect();
        let firsts = runs.iter_mut().enumerate();
        let next = firsts.filter_map(|(i, run)| Some(Reverse((run.next()?, i))));
        Ascending {
            next: next.collect(),
            runs,
        }
    }

    fn close(&mut self) {
        self.open.sort_unstable();
        let (mut bytes, mut main) = (Vec::new(), 0);
        for revision in self.open.drain(..) {
            put_varint(&mut bytes, (revision.main - main) as u64);
            put_varint(&mut bytes, revision.sub as u64);
            main = revision.main;
        }
        bytes.shrink_to_fit();
        self.run_bytes += bytes.len();
        self.runs.push(bytes);
    }
}

/// The set in ascending order, each revision once, however often it was gathered.
#[derive(Debug)]
pub(crate) struct Ascending {
    runs: Vec<Run>,
    /// The next revision of each run that has one.
    next: BinaryHeap<Reverse<(Revision, usize)>>,
}

impl Ascending {
    /// Whether the set has `revision`, which is not less than those asked for before.
    pub(super) fn has(&mut self, revision: Revision) -> bool {
        self.pass(|next| next < revision);
        self.least() == Some(revision)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    fn least(&self) -> Option<Revision> {
        self.next.peek().map(|Reverse((least, _))| *least)
    }

    /// Leaves out the first ones for which `is_passed` holds.
    fn pass(&mut self, is_passed: impl Fn(Revision) -> bool) {
        while let Some(mut least) = self.next.peek_mut() {
            let Reverse((next, i)) = *least;
            if !is_passed(next) {
                return;
            }
            match self.runs[i].next() {
                Some(next) => *least = Reverse((next, i)),
                None => drop(PeekMut::pop(least)),
            }
        }
    }
}

impl Iterator for Ascending {
    type Item = Revision;

    fn next(&mut self) -> Option<Revision> {
        let least = self.least()?;
        self.pass(|next| next == least);
        Some(least)
    }
}

#[derive(Debug)]
struct Run {
    bytes: Vec<u8>,
    at: usize,
    main: i64,
}

impl Run {
    fn new(bytes: Vec<u8>) -> Run {
        Run {
            bytes,
            at: 0,
            main: 0,
        }
    }

    fn next(&mut self) -> Option<Revision> {
        let mut reader = Reader::new(&self.bytes[self.at..]);
        if reader.is_empty() {
            return None;
        }
        let mut number = || reader.varint().expect("written by this module") as i64;
        let (more, sub) = (number(), number());
        self.main += more;
        self.at += reader.position();
        let main = self.main;
        Some(Revision { main, sub })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_has_what_was_gathered_and_nothing_else() {
        let at = |n: i64| Revision {
            main: n / 3 + (n / 7) * 1000,
            sub: n % 3,
        };
        // Gathered in another order than they are asked for; a third is left out.
        let gathered = |n: i64| n % 3 != 1;
        let mut set = RevisionSet::default();
        assert_eq!(set.least(), None);
        for n in (5..500).map(|n| (n * 131) % 495 + 5) {
            if gathered(n) {
                set.push(at(n));
            }
        }
        assert_eq!(set.least(), Some(at(5)));
        let mut set = set.ascending();
        let mut asked: Vec<i64> = (0..600).collect();
        asked.sort_by_key(|n| at(*n));
        for n in asked {
            let expected = (5..500).contains(&n) && gathered(n);
            assert_eq!(set.has(at(n)), expected, "{n}");
        }
        assert!(!set.has(at(10_000)));
    }

    #[test]
    fn what_is_gathered_in_any_order_comes_once_and_ascending() {
        let mut state = 7u64;
        for count in 0..200 {
            let (mut rows, mut expected) = (RevisionSet::default(), BTreeSet::new());
            for _ in 0..count {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                let main = (state >> 33) as i64 >> (state >> 60);
                let sub = (state >> 20) as i64 & 3;
                let revision = Revision { main, sub };
                rows.push(revision);
                expected.insert(revision);
            }
            rows.push(Revision::MAX);
            rows.push(Revision::MAX);
            expected.insert(Revision::MAX);
            let mut ascending = rows.ascending();
            let found: Vec<Revision> = ascending.by_ref().collect();
            assert!(found.iter().eq(&expected), "{found:?}");
            assert!(ascending.is_empty());
        }
    }
}

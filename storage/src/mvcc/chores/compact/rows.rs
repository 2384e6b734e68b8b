//! Many revisions in little memory: gathered in any order, handed out in ascending order.
//!
//! Each run is sorted and keeps the differences, which mostly fit into two bytes and a sub-revision
//! of one: ten million rows take some 30 MB, where the revisions take 160.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::vec;

use crate::codec::put_varint;
use crate::mvcc::Revision;

/// Revisions of a run: so few that sorting them takes less than a millisecond.
const RUN_ROWS: usize = if cfg!(any(test, fuzzing)) { 3 } else { 1 << 14 };

#[derive(Debug, Default)]
pub(super) struct Rows {
    unsorted: Vec<Revision>,
    runs: Vec<Vec<u8>>,
    bytes: usize,
}

impl Rows {
    pub(super) fn push(&mut self, revision: Revision) {
        self.unsorted.push(revision);
        if self.unsorted.len() >= RUN_ROWS {
            self.end_run();
        }
    }

    /// Bytes of the sorted runs.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn ascending(mut self) -> Ascending {
        self.end_run();
        let runs = self.runs.into_iter().map(Run::new).collect();
        let mut ascending = Ascending {
            runs,
            next: BinaryHeap::new(),
        };
        for run in 0..ascending.runs.len() {
            ascending.forward(run);
        }
        ascending
    }

    fn end_run(&mut self) {
        self.unsorted.sort_unstable();
        let (mut run, mut main) = (Vec::with_capacity(4 * self.unsorted.len()), 0);
        for revision in self.unsorted.drain(..) {
            put_varint(&mut run, (revision.main - main) as u64);
            put_varint(&mut run, revision.sub as u64);
            main = revision.main;
        }
        run.shrink_to_fit();
        self.bytes += run.len();
        self.runs.push(run);
    }
}

/// Each revision once, however often it was gathered.
#[derive(Debug)]
pub(crate) struct Ascending {
    runs: Vec<Run>,
    /// Of each run that has one.
    next: BinaryHeap<Reverse<(Revision, usize)>>,
}

impl Ascending {
    pub(super) fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    fn forward(&mut self, run: usize) {
        let next = self.runs[run].next();
        self.next.extend(next.map(|next| Reverse((next, run))));
    }
}

impl Iterator for Ascending {
    type Item = Revision;

    fn next(&mut self) -> Option<Revision> {
        let Reverse((least, _)) = *self.next.peek()?;
        while let Some(&Reverse((revision, run))) = self.next.peek()
            && revision == least
        {
            self.next.pop();
            self.forward(run);
        }
        Some(least)
    }
}

#[derive(Debug)]
struct Run {
    bytes: vec::IntoIter<u8>,
    main: i64,
}

impl Run {
    fn new(bytes: Vec<u8>) -> Run {
        let bytes = bytes.into_iter();
        Run { bytes, main: 0 }
    }

    fn next(&mut self) -> Option<Revision> {
        if self.bytes.as_slice().is_empty() {
            return None;
        }
        self.main += self.varint() as i64;
        let (main, sub) = (self.main, self.varint() as i64);
        Some(Revision { main, sub })
    }

    /// These bytes are of this process: they end where they should.
    fn varint(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        for byte in self.bytes.by_ref() {
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_is_gathered_in_any_order_comes_once_and_ascending() {
        let mut state = 7u64;
        for count in 0..200 {
            let (mut rows, mut expected) = (Rows::default(), BTreeSet::new());
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

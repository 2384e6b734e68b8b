//! The hash of the last compaction at some places of history, as far as it was computed. The next
//! hash continues from the last place before which nothing has changed. In a store whose old keys
//! rest, most of history is not read again.
//!
//! A row changes if a later change supersedes it, or if it is removed. A deletion changes, too: the
//! next compaction drops it. Rows above the compacted revision may have older versions beside them,
//! so no place is noted behind them.

use etcd_files::hashkv::HashKv;
use storage::mvcc::{Change, Revision};

/// Most places that are kept.
const PLACES_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Places {
    /// Of the store's content; see [`storage::mvcc::Root::generation`].
    generation: u64,
    compacted: i64,
    /// Ascending.
    places: Vec<Place>,
    /// Rows between two places.
    stride: u64,
    /// Rows hashed so far.
    rows: u64,
    /// No further place is noted.
    is_over: bool,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// The row at which the hash had these values, before that row.
    at: Revision,
    rows: u64,
    hash: u32,
}

impl Places {
    /// No places; none is noted before [`Places::begin`].
    pub(super) fn none() -> Places {
        Places {
            generation: 0,
            compacted: 0,
            places: Vec::new(),
            stride: 1,
            rows: 0,
            is_over: true,
        }
    }

    /// Begins a hash of a state of `generation`, compacted at `compacted`, in which nothing before
    /// `same_before` has changed since the last hash. Returns where it begins. `None`: this is not
    /// known.
    pub(super) fn begin(
        &mut self,
        generation: u64,
        compacted: i64,
        same_before: Option<Revision>,
    ) -> (Revision, HashKv) {
        let same = same_before.filter(|_| self.generation == generation);
        let same = same.unwrap_or_default();
        self.places.retain(|place| place.at <= same);
        self.generation = generation;
        self.compacted = compacted;
        self.is_over = same_before.is_none();
        // It stays noted: the hash may be given up before it reads another row.
        match self.places.last() {
            None => {
                (self.rows, self.stride) = (0, 1);
                (Revision::default(), HashKv::new())
            }
            Some(last) => {
                self.rows = last.rows;
                (last.at, HashKv::resume(last.hash))
            }
        }
    }

    /// `change` is about to be hashed, after everything before it gave `hash`.
    pub(super) fn note(&mut self, change: &Change<'_>, hash: &HashKv) {
        if self.is_over {
            return;
        }
        let Change::Put { revision, .. } = *change else {
            self.is_over = true;
            return;
        };
        if revision.main > self.compacted {
            self.is_over = true;
            return;
        }
        let is_noted = self.places.last().is_some_and(|p| p.rows == self.rows);
        if self.rows.is_multiple_of(self.stride) && !is_noted {
            self.places.push(Place {
                at: revision,
                rows: self.rows,
                hash: hash.value(),
            });
            if self.places.len() > PLACES_MAX {
                self.stride *= 2;
                let stride = self.stride;
                self.places
                    .retain(|place| place.rows.is_multiple_of(stride));
            }
        }
        self.rows += 1;
    }
}

//! What this member does for itself, and the time that it takes.

use std::time::Duration;

use super::text::{Text, Type};
use super::value::Counter;

/// Work for which no client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chore {
    Checkpoint,
    /// The tombstones of deletions of large ranges.
    Deletion,
    /// Hashes of the data, when it is compacted.
    Hash,
    /// The removal of the log's files.
    LogFiles,
    /// The removal of compacted rows.
    Removal,
    /// The return of space to the file system: moves pages to the front of the file.
    SpaceReturn,
    /// Re-encryption after a change of keys.
    Resealing,
}

impl Chore {
    const ALL: [Chore; 7] = [
        Chore::Checkpoint,
        Chore::Deletion,
        Chore::Hash,
        Chore::LogFiles,
        Chore::Removal,
        Chore::SpaceReturn,
        Chore::Resealing,
    ];

    fn label(self) -> &'static str {
        match self {
            Chore::Checkpoint => "checkpoint",
            Chore::Deletion => "deletion",
            Chore::Hash => "hash",
            Chore::LogFiles => "log-files",
            Chore::Removal => "removal",
            Chore::SpaceReturn => "space-return",
            Chore::Resealing => "resealing",
        }
    }
}

/// The work of all chores, without the rests between its pieces.
#[derive(Debug, Default)]
pub(crate) struct Chores([Work; Chore::ALL.len()]);

#[derive(Debug, Default)]
struct Work {
    pieces: Counter,
    nanos: Counter,
}

impl Chores {
    /// A piece of work is done.
    pub(crate) fn worked(&self, chore: Chore, took: Duration) {
        let work = &self.0[chore as usize];
        work.pieces.inc();
        work.nanos.add(took.as_nanos() as u64);
    }

    pub(super) fn write(&self, text: &mut Text) {
        let mut family = text.family(
            "stele_chore_seconds_total",
            Type::Counter,
            "Time that the member's own work took, without its rests.",
        );
        for chore in Chore::ALL {
            let seconds = self.0[chore as usize].nanos.get() as f64 / 1e9;
            family.sample(&[("chore", chore.label())], seconds);
        }
        let mut family = text.family(
            "stele_chore_pieces_total",
            Type::Counter,
            "Pieces of the member's own work. Clients may have to wait for one.",
        );
        for chore in Chore::ALL {
            let pieces = self.0[chore as usize].pieces.get() as f64;
            family.sample(&[("chore", chore.label())], pieces);
        }
    }
}

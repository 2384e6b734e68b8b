//! The cost of calls, by key prefix and by client: requests and bytes, for a bounded number of
//! names. The first names get separate counters; all later names share one.
//!
//! A call looks up its two rows once and then only adds. Lookups take no lock: a name is stored in
//! the first free place at or after its hash, and a row never moves or disappears.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering::Relaxed};

use super::text::{Text, Type};
use super::value::Counter;
use crate::telemetry::prefix;

/// Names with separate counters, in each of the two tables.
const NAMES_MAX: usize = 64;

/// Half of the places stay free, so that a lookup of an absent name ends soon.
const PLACES: usize = 2 * NAMES_MAX;

/// Longer names of clients are truncated.
pub(crate) const CLIENT_BYTES_MAX: usize = 64;

/// The shared row for all names without a row.
const OTHER: &str = "other";

/// The row for keys without a prefix.
const NONE: &str = "none";

/// The kind of work of a call, for its cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Deed {
    Range,
    Put,
    DeleteRange,
    Txn,
    Watch,
    Lease,
    #[default]
    Else,
}

const DEEDS: [&str; 7] = [
    "range",
    "put",
    "delete_range",
    "txn",
    "watch",
    "lease",
    "else",
];

/// Index of a row in a table; indices beyond the places mean the shared row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row(u16);

impl Row {
    pub(crate) const OTHER: Row = Row(u16::MAX);
}

impl Default for Row {
    fn default() -> Row {
        Row::OTHER
    }
}

/// A row that is set once, later than the creation, and then never changes.
#[derive(Debug)]
pub(crate) struct RowCell(AtomicU16);

impl RowCell {
    const UNKNOWN: u16 = u16::MAX - 1;

    pub(crate) fn set(&self, row: Row) {
        self.0.store(row.0, Relaxed);
    }

    pub(crate) fn get(&self) -> Option<Row> {
        let row = self.0.load(Relaxed);
        (row != RowCell::UNKNOWN).then_some(Row(row))
    }
}

impl Default for RowCell {
    fn default() -> RowCell {
        RowCell(AtomicU16::new(RowCell::UNKNOWN))
    }
}

/// The counters of both tables.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    pub(crate) prefixes: Table,
    pub(crate) clients: Table,
}

#[derive(Debug)]
pub(crate) struct Table {
    places: Box<[OnceLock<Named>]>,
    taken: AtomicUsize,
    other: [Cost; DEEDS.len()],
}

#[derive(Debug)]
struct Named {
    name: Box<[u8]>,
    costs: [Cost; DEEDS.len()],
}

#[derive(Debug, Default)]
pub(crate) struct Cost {
    pub(crate) requests: Counter,
    pub(crate) received: Counter,
    pub(crate) sent: Counter,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            places: (0..PLACES).map(|_| OnceLock::new()).collect(),
            taken: AtomicUsize::new(0),
            other: Default::default(),
        }
    }
}

impl Table {
    /// The row of a name; adds one if there is room.
    pub(crate) fn row(&self, name: &[u8]) -> Row {
        let start = crc32c::crc32c(name) as usize;
        for step in 0..PLACES {
            let index = (start + step) % PLACES;
            let place = &self.places[index];
            let found = match place.get() {
                Some(found) => found,
                None if self.taken.load(Relaxed) >= NAMES_MAX => return Row::OTHER,
                None => place.get_or_init(|| {
                    self.taken.fetch_add(1, Relaxed);
                    Named {
                        name: name.into(),
                        costs: Default::default(),
                    }
                }),
            };
            // Another thread may have stored a different name here.
            if *found.name == *name {
                return Row(index as u16);
            }
        }
        Row::OTHER
    }

    pub(crate) fn of(&self, row: Row, deed: Deed) -> &Cost {
        let named = self.places.get(usize::from(row.0));
        match named.and_then(OnceLock::get) {
            Some(named) => &named.costs[deed as usize],
            None => &self.other[deed as usize],
        }
    }

    fn write(&self, names: [&'static str; 3], label: &str, text: &mut Text) {
        let named = self.places.iter().filter_map(OnceLock::get);
        let rows = named.map(|named| (text_of(&named.name), &named.costs));
        let other = std::iter::once((OTHER.to_owned(), &self.other));
        for (name, costs) in rows.chain(other) {
            for (cost, deed) in costs.iter().zip(DEEDS) {
                if cost.requests.get() == 0 {
                    continue;
                }
                let labels = [(label, name.as_str()), ("operation", deed)];
                let counters = [&cost.requests, &cost.received, &cost.sent];
                for ((family, counter), help) in names.iter().zip(counters).zip(HELP) {
                    text.family(family, Type::Counter, help)
                        .sample(&labels, counter.get() as f64);
                }
            }
        }
    }
}

const HELP: [&str; 3] = [
    "Calls begun.",
    "Bytes of messages received.",
    "Bytes of messages sent.",
];

impl Costs {
    pub(super) fn write(&self, text: &mut Text) {
        let prefixes = [
            "stele_prefix_requests_total",
            "stele_prefix_received_bytes_total",
            "stele_prefix_sent_bytes_total",
        ];
        self.prefixes.write(prefixes, "prefix", text);
        let clients = [
            "stele_client_requests_total",
            "stele_client_received_bytes_total",
            "stele_client_sent_bytes_total",
        ];
        self.clients.write(clients, "client", text);
    }
}

/// A name as a label value. Different bytes give different texts.
fn text_of(name: &[u8]) -> String {
    match name {
        [] => NONE.to_owned(),
        name => prefix::shown(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_rows_and_those_that_find_no_room_share_one() {
        let table = Table::default();
        let names: Vec<String> = (0..NAMES_MAX + 9).map(|i| format!("/a/{i}/")).collect();
        let rows: Vec<Row> = names.iter().map(|n| table.row(n.as_bytes())).collect();
        let others = rows.iter().filter(|row| **row == Row::OTHER).count();
        assert_eq!(others, 9);
        for (name, row) in names.iter().zip(&rows) {
            assert_eq!(table.row(name.as_bytes()), *row);
            table.of(*row, Deed::Put).requests.inc();
        }
        let counts = rows
            .iter()
            .map(|row| table.of(*row, Deed::Put).requests.get());
        assert!(
            counts
                .zip(&rows)
                .all(|(n, row)| n == if *row == Row::OTHER { 9 } else { 1 })
        );
    }

    #[test]
    fn rows_are_found_by_many_threads_at_once() {
        let table = Table::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for i in 0..NAMES_MAX as u8 / 2 {
                        let row = table.row(&[i]);
                        table.of(row, Deed::Range).requests.inc();
                    }
                });
            }
        });
        let counts = (0..NAMES_MAX as u8 / 2).map(|i| table.of(table.row(&[i]), Deed::Range));
        assert!(counts.into_iter().all(|cost| cost.requests.get() == 4));
    }
}

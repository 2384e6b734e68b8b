//! The naive history with which [`super::Store`] must agree: every row in a `Vec`, every question
//! answered by a full walk, compaction and hash by etcd's own rule of generations, not by ours.
//! Knows nothing of trees.

pub(crate) mod run;

use std::collections::{BTreeMap, BTreeSet};

use super::{Bucket, Change, Item, KeyRange, Revision};

/// An [`Item`] that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub create_revision: i64,
    pub mod_revision: i64,
    pub version: i64,
    pub lease: i64,
}

impl From<Item<'_>> for Version {
    fn from(item: Item<'_>) -> Version {
        Version {
            key: item.key.to_vec(),
            value: item.value.to_vec(),
            create_revision: item.create_revision,
            mod_revision: item.mod_revision,
            version: item.version,
            lease: item.lease,
        }
    }
}

/// A [`Change`] that owns its bytes; no `put` means a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub revision: Revision,
    pub key: Vec<u8>,
    pub put: Option<Version>,
}

impl From<Change<'_>> for Row {
    fn from(change: Change<'_>) -> Row {
        match change {
            Change::Put { revision, item } => Row {
                revision,
                key: item.key.to_vec(),
                put: Some(item.into()),
            },
            Change::Delete { revision, key } => Row {
                revision,
                key: key.to_vec(),
                put: None,
            },
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// All rows ever written, in order; compaction does not touch them.
    history: Vec<Row>,
    /// The rows that etcd would have on disk: history without what compactions dropped.
    rows: Vec<Row>,
    revision: i64,
    compacted: i64,
    /// The next sub revision once a transaction has changed something, otherwise -1.
    sub: i64,
    side: BTreeMap<(Bucket, Vec<u8>), Vec<u8>>,
}

impl Model {
    pub(crate) fn new() -> Model {
        Model {
            history: Vec::new(),
            rows: Vec::new(),
            revision: 1,
            compacted: -1,
            sub: -1,
            side: BTreeMap::new(),
        }
    }

    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    pub(crate) fn compacted(&self) -> i64 {
        self.compacted
    }

    /// Ends the transaction of the writes since the last call.
    pub(crate) fn end(&mut self) {
        self.sub = -1;
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8], lease: i64) {
        let old = self.live(key, i64::MAX);
        let revision = self.next_revision();
        let version = Version {
            key: key.to_vec(),
            value: value.to_vec(),
            create_revision: old
                .as_ref()
                .map_or(revision.main, |old| old.create_revision),
            mod_revision: revision.main,
            version: old.map_or(1, |old| old.version + 1),
            lease,
        };
        self.push(revision, key, Some(version));
    }

    pub(crate) fn delete_range(&mut self, range: KeyRange<'_>) -> u64 {
        let keys = self.range(range, i64::MAX);
        for version in &keys {
            let revision = self.next_revision();
            self.push(revision, &version.key, None);
        }
        keys.len() as u64
    }

    pub(crate) fn compact(&mut self, revision: i64) {
        self.compacted = revision;
        let kept = self.kept(revision, true);
        self.rows
            .retain(|row| row.revision.main > revision || kept.contains(&row.revision));
    }

    pub(crate) fn set(&mut self, bucket: Bucket, key: &[u8], value: &[u8]) {
        self.side.insert((bucket, key.to_vec()), value.to_vec());
    }

    pub(crate) fn remove(&mut self, bucket: Bucket, key: &[u8]) {
        self.side.remove(&(bucket, key.to_vec()));
    }

    /// The version of `key` live at `at`.
    pub(crate) fn live(&self, key: &[u8], at: i64) -> Option<Version> {
        self.history
            .iter()
            .rev()
            .find(|row| row.key == key && row.revision.main <= at)
            .and_then(|row| row.put.clone())
    }

    pub(crate) fn range(&self, range: KeyRange<'_>, at: i64) -> Vec<Version> {
        let mut newest: BTreeMap<&[u8], &Row> = BTreeMap::new();
        for row in self
            .history
            .iter()
            .take_while(|row| row.revision.main <= at)
        {
            newest.insert(&row.key, row);
        }
        newest
            .into_iter()
            .filter(|(key, _)| range.contains(key))
            .filter_map(|(_, row)| row.put.clone())
            .collect()
    }

    /// The keys attached to a lease, in key order.
    pub(crate) fn attached(&self, lease: i64) -> Vec<Vec<u8>> {
        let live = self.range(KeyRange::ALL, i64::MAX).into_iter();
        live.filter(|version| version.lease == lease)
            .map(|version| version.key)
            .collect()
    }

    pub(crate) fn changes(&self, from: i64, through: i64) -> Vec<Row> {
        self.rows
            .iter()
            .filter(|row| (from..=through).contains(&row.revision.main))
            .cloned()
            .collect()
    }

    pub(crate) fn previous(&self, key: &[u8], before: i64) -> Option<Version> {
        if before - 1 < self.compacted {
            return None;
        }
        self.live(key, before - 1)
    }

    /// etcd's HashKV; [`Model::kept`] explains the rule of generations.
    pub(crate) fn hash_rows(&self, at: i64) -> Vec<Row> {
        let kept = self.kept(at, false);
        self.rows
            .iter()
            .filter(|row| row.revision.main <= at)
            .filter(|row| {
                kept.is_empty()
                    || row.revision.main > self.compacted
                    || kept.contains(&row.revision)
            })
            .filter(|row| row.put.is_some() || row.revision.main != self.compacted)
            .cloned()
            .collect()
    }

    /// A bucket's rows; those of the leases' keys are derived from the live keys.
    pub(crate) fn bucket(&self, bucket: Bucket) -> Vec<(Vec<u8>, Vec<u8>)> {
        if bucket == Bucket::LeaseKeys {
            let mut rows: Vec<_> = self
                .range(KeyRange::ALL, i64::MAX)
                .into_iter()
                .filter(|version| version.lease != 0)
                .map(|version| {
                    let row = [&version.lease.to_be_bytes()[..], &version.key].concat();
                    (row, Vec::new())
                })
                .collect();
            rows.sort();
            return rows;
        }
        let first = (bucket, Vec::new());
        self.side
            .range(first..)
            .take_while(|((of, _), _)| *of == bucket)
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect()
    }

    /// The rows that a compaction at `at` keeps. A key's rows form generations, each ended by a
    /// tombstone; the last one is open. The first generation whose tombstone is not older than `at`
    /// counts, otherwise the last. Of it, the newest row not above `at` is kept. A tombstone that
    /// ends its generation is kept only if `tombstones`.
    fn kept(&self, at: i64, tombstones: bool) -> BTreeSet<Revision> {
        let mut keys: BTreeMap<&[u8], Vec<Vec<Revision>>> = BTreeMap::new();
        for row in &self.rows {
            let generations = keys.entry(&row.key).or_insert_with(|| vec![Vec::new()]);
            let many = generations.len() > 1;
            let last = generations.last_mut().expect("one is always open");
            if row.put.is_some() {
                last.push(row.revision);
            } else if !(many && last.is_empty()) {
                last.push(row.revision);
                generations.push(Vec::new());
            }
        }
        let mut kept = BTreeSet::new();
        for generations in keys.values() {
            let open = generations.len() - 1;
            let which = (0..open)
                .find(|&i| {
                    generations[i]
                        .last()
                        .is_some_and(|tombstone| tombstone.main >= at)
                })
                .unwrap_or(open);
            let Some(newest) = generations[which].iter().rposition(|row| row.main <= at) else {
                continue;
            };
            let is_tombstone = which != open && newest == generations[which].len() - 1;
            if tombstones || !is_tombstone {
                kept.insert(generations[which][newest]);
            }
        }
        kept
    }

    fn next_revision(&mut self) -> Revision {
        if self.sub < 0 {
            self.revision += 1;
        }
        self.sub += 1;
        Revision {
            main: self.revision,
            sub: self.sub,
        }
    }

    fn push(&mut self, revision: Revision, key: &[u8], put: Option<Version>) {
        let row = Row {
            revision,
            key: key.to_vec(),
            put,
        };
        self.history.push(row.clone());
        self.rows.push(row);
    }
}

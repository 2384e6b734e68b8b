//! The one history of changes that the cluster agreed on, read off the members' stores as they
//! apply it. Two members that tell it differently are found out here; watches are held against it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use storage::mvcc::{Change, Root};

use crate::check::Verdict;

/// One change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub key: Vec<u8>,
    /// `None` for a deletion.
    pub value: Option<Vec<u8>>,
    pub create_revision: i64,
    pub version: i64,
    pub lease: i64,
}

#[derive(Debug, Default)]
pub struct Oracle {
    /// Changes in order, by revision.
    history: BTreeMap<i64, Vec<Event>>,
    /// By host: the history has been read up to here.
    read: Vec<i64>,
}

impl Oracle {
    pub fn new(hosts: usize) -> Oracle {
        Oracle {
            history: BTreeMap::new(),
            read: vec![1; hosts],
        }
    }

    pub fn add_host(&mut self) {
        self.read.push(1);
    }

    /// What `host` shows now. Told after each of its turns, it misses nothing but what a
    /// compaction removed while the host was down.
    pub fn reads(&mut self, host: usize, root: &Root) -> Verdict {
        let from = (self.read[host] + 1).max(root.compacted() + 1);
        self.read[host] = root.revision();
        if from > root.revision() {
            return Ok(());
        }
        let mut told: BTreeMap<i64, Vec<Event>> = BTreeMap::new();
        let read = root.changes(from, root.revision(), &mut |change| {
            let (revision, event) = event(&change);
            told.entry(revision).or_default().push(event);
            Ok(ControlFlow::Continue(()))
        });
        read.map_err(|error| format!("the history of host {host} cannot be read: {error}"))?;
        for (revision, events) in told {
            match self.history.get(&revision) {
                None => {
                    self.history.insert(revision, events);
                }
                Some(known) if *known == events => {}
                Some(known) => {
                    return Err(format!(
                        "host {host} has {events:?} at revision {revision}, others {known:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// A process begins: it shows again what it replays. What is new came from its log alone: it was
    /// committed before the crash, and applied nowhere.
    pub fn restarts(&mut self, host: usize, root: &Root) -> Verdict {
        self.read[host] = root.revision().min(self.revision());
        self.reads(host, root)
    }

    pub fn revision(&self) -> i64 {
        self.history.last_key_value().map_or(1, |(last, _)| *last)
    }

    pub fn at(&self, revision: i64) -> &[Event] {
        self.history.get(&revision).map_or(&[], Vec::as_slice)
    }

    /// Revisions in `(after, through]` with their changes.
    pub fn between(&self, after: i64, through: i64) -> impl Iterator<Item = (i64, &[Event])> {
        let range = after + 1..through.max(after) + 1;
        self.history
            .range(range)
            .map(|(revision, events)| (*revision, events.as_slice()))
    }
}

fn event(change: &Change<'_>) -> (i64, Event) {
    match change {
        Change::Put { revision, item } => {
            let event = Event {
                key: item.key.to_vec(),
                value: Some(item.value.to_vec()),
                create_revision: item.create_revision,
                version: item.version,
                lease: item.lease,
            };
            (revision.main, event)
        }
        Change::Delete { revision, key } => {
            let event = Event {
                key: key.to_vec(),
                value: None,
                create_revision: 0,
                version: 0,
                lease: 0,
            };
            (revision.main, event)
        }
    }
}

//! The objects of one collection as last heard of, and the changes that led there.
//!
//! The feed alone writes. Watchers hold a cursor into a ring of changes and fetch what they have
//! not seen: none of them is ever waited for, and one that falls behind the ring is told so.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use machinery::status::Status;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::storage::entry::Entry;

/// The changes a collection remembers: a watcher this far behind starts over.
const CHANGES_MAX: usize = 4096;

/// One change of one object.
pub(crate) struct Change {
    pub(crate) revision: i64,
    /// The object after it; when it was deleted, its last state at the deletion's revision.
    pub(crate) entry: Arc<Entry>,
    /// The object before it.
    pub(crate) before: Option<Arc<Entry>>,
    pub(crate) deleted: bool,
    frame: OnceLock<Bytes>,
}

impl Change {
    pub(crate) fn put(entry: Arc<Entry>, before: Option<Arc<Entry>>) -> Change {
        let revision = entry.revision;
        Change {
            revision,
            entry,
            before,
            deleted: false,
            frame: OnceLock::new(),
        }
    }

    pub(crate) fn delete(before: Arc<Entry>, revision: i64) -> Change {
        let entry = Arc::new(before.at(revision));
        Change {
            revision,
            entry,
            before: Some(before),
            deleted: true,
            frame: OnceLock::new(),
        }
    }

    /// The line that tells watchers of it all who see every object; written once.
    pub(crate) fn frame(&self, write: impl FnOnce(&Change) -> Bytes) -> Bytes {
        self.frame.get_or_init(|| write(self)).clone()
    }
}

/// A watcher's place in the changes of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor(u64);

/// The place is no longer remembered.
pub(crate) struct TooOld;

/// One collection.
pub(crate) struct Cache {
    state: RwLock<State>,
    changed: watch::Sender<u64>,
}

struct State {
    items: BTreeMap<Arc<str>, Arc<Entry>>,
    /// Keys whose newest values are no objects, and why. `items` may have what was there before.
    unreadable: BTreeMap<Arc<str>, String>,
    /// Rising revisions; the last one has number `next - 1`.
    ring: VecDeque<Arc<Change>>,
    next: u64,
    /// Changes after this revision are all in the ring.
    known_after: i64,
    /// Of the last change.
    revision: i64,
}

impl Cache {
    pub(crate) fn new() -> Cache {
        let state = State {
            items: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            ring: VecDeque::new(),
            next: 0,
            known_after: 0,
            revision: 0,
        };
        Cache {
            state: RwLock::new(state),
            changed: watch::Sender::new(0),
        }
    }

    /// Starts over from everything there is at a revision. Watchers see that they missed changes.
    pub(crate) fn reset(&self, items: BTreeMap<Arc<str>, Arc<Entry>>, revision: i64) {
        let mut state = self.state.write();
        state.items = items;
        state.unreadable.clear();
        state.ring.clear();
        // One number is left out: a cursor of before lies behind the ring, even an up-to-date one.
        state.next += 1;
        state.known_after = revision;
        state.revision = revision;
        let next = state.next;
        drop(state);
        self.changed.send_replace(next);
    }

    /// Takes the changes of one message of the store, all at once.
    pub(crate) fn apply(&self, changes: Vec<(Arc<str>, i64, Option<Entry>)>) {
        let mut state = self.state.write();
        for (key, revision, entry) in changes {
            state.apply(key, revision, entry);
        }
        let next = state.next;
        drop(state);
        self.changed.send_replace(next);
    }

    /// The newest value of a key is no object. That it is gone is not said: things would be deleted
    /// on its account.
    pub(crate) fn set_unreadable(&self, key: &str, why: &Status) {
        let mut state = self.state.write();
        state.unreadable.insert(key.into(), why.message.clone());
    }

    /// Whether everything below a folder can be shown. A list without what cannot be read would
    /// say that it is not there.
    pub(crate) fn check(&self, folder: &str) -> Result<(), Status> {
        let state = self.state.read();
        let mut behind = state
            .unreadable
            .range::<str, _>((Bound::Included(folder), Bound::Unbounded));
        match behind.next() {
            Some((key, why)) if key.starts_with(folder) => {
                Err(Status::internal(&format!("unable to decode {key}: {why}")))
            }
            _ => Ok(()),
        }
    }

    /// The object of a key.
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.state.read().items.get(key).cloned()
    }

    /// Everything below a folder in the order of keys, with the place to watch on from and the
    /// revision of the last change.
    pub(crate) fn snapshot(&self, folder: &str) -> (Vec<Arc<Entry>>, Cursor, i64) {
        let state = self.state.read();
        let all = state
            .items
            .range::<str, _>((Bound::Included(folder), Bound::Unbounded));
        let below = all.take_while(|(key, _)| key.starts_with(folder));
        let entries = below.map(|(_, entry)| Arc::clone(entry)).collect();
        (entries, Cursor(state.next), state.revision)
    }

    /// The place behind all changes.
    pub(crate) fn end(&self) -> Cursor {
        Cursor(self.state.read().next)
    }

    /// The place right behind a revision.
    pub(crate) fn after(&self, revision: i64) -> Result<Cursor, TooOld> {
        let state = self.state.read();
        if revision < state.known_after {
            return Err(TooOld);
        }
        let newer = state
            .ring
            .iter()
            .rev()
            .take_while(|change| change.revision > revision);
        Ok(Cursor(state.next - newer.count() as u64))
    }

    /// At most so many changes from a place on, which moves behind them.
    pub(crate) fn changes(
        &self,
        cursor: &mut Cursor,
        most: usize,
    ) -> Result<Vec<Arc<Change>>, TooOld> {
        let state = self.state.read();
        let behind = state.next.saturating_sub(cursor.0);
        if behind > state.ring.len() as u64 {
            return Err(TooOld);
        }
        let first = state.ring.len() - behind as usize;
        let found: Vec<_> = state.ring.iter().skip(first).take(most).cloned().collect();
        cursor.0 += found.len() as u64;
        Ok(found)
    }

    /// How many watch it.
    pub(crate) fn watchers(&self) -> usize {
        self.changed.receiver_count()
    }

    /// Wakes when there are more changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

impl State {
    fn apply(&mut self, key: Arc<str>, revision: i64, entry: Option<Entry>) {
        self.unreadable.remove(&key);
        let change = match entry {
            Some(entry) => {
                let entry = Arc::new(entry);
                let before = self.items.insert(key, Arc::clone(&entry));
                Change::put(entry, before)
            }
            None => match self.items.remove(&*key) {
                Some(before) => Change::delete(before, revision),
                None => return,
            },
        };
        if self.ring.len() == CHANGES_MAX
            && let Some(oldest) = self.ring.pop_front()
        {
            self.known_after = oldest.revision;
        }
        self.ring.push_back(Arc::new(change));
        self.next += 1;
        self.revision = revision;
    }
}
